"""Bytes made to hurt: every one is refused with a clear error, or read; none hangs, grows or escapes the error tree."""

from __future__ import annotations

import struct
import tracemalloc

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkmirror.errors import CorruptBatch
from sparkmirror.wire import (
    PackLimits,
    Record,
    build_batch,
    build_sparse_batch,
    compress,
    control_type,
    decompress,
    first_batch_size,
    pack,
    read_batches,
    read_records,
)
from sparkmirror.wire.varint import encode_varint

LIMITS = PackLimits(1 << 20, 1 << 14, 1 << 19, 1 << 20, splice_below_bytes=1 << 14)
RECORDS = [
    Record(0, 1_700_000_000_000, b"key", b"value", ((b"name", b"content"), (b"name", None))),
    Record(1, 1_700_000_000_009, None, None),
    Record(2, 1_700_000_000_001, b"", b"x" * 100),
]


def resealed(batch: bytearray) -> bytearray:
    """The batch with a checksum that fits, so that only the other checks stand in the way."""
    struct.pack_into(">I", batch, 17, crc32c(bytes(batch[21:])))
    return batch


def with_body(body: bytes, *, count: int = 1, delta: int = 0, codec: int = 0) -> bytearray:
    """A sound header around the given record bytes."""
    batch = build_batch([Record(0, 0, b"", b"")])[:61] + body
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">hi", batch, 21, codec, delta)
    struct.pack_into(">i", batch, 57, count)
    return resealed(batch)


def exercise(data: bytes | bytearray) -> list[Record]:
    """Everything that the data path would do with the bytes; only CorruptBatch may come out."""
    buffer = memoryview(bytearray(data))
    views = read_batches(buffer, 0, len(buffer))
    found: list[Record] = []
    for start in (0, 1):
        result = pack(views, from_offset=start, until_offset=None, aborted=[(1, 0)], limits=LIMITS)
        assert result.next_upstream >= start
    for view in views:
        control_type(view)
        found += read_records(view, limit=1 << 20)
    return found


def refused(data: bytes | bytearray) -> bool:
    try:
        exercise(data)
    except CorruptBatch:
        return True
    return False


@pytest.mark.parametrize("codec", range(5))
def test_any_flipped_byte_behind_the_checksum_field_is_noticed(codec: int) -> None:
    batch = build_batch(RECORDS, codec=codec)
    for at in range(16, len(batch)):
        bad = bytearray(batch)
        bad[at] ^= 0x41
        assert refused(bad), at


@pytest.mark.parametrize("value", [-(1 << 31), -12, -1, 0, 1, 13, 14, 48])
def test_length_below_a_header_is_refused_and_does_not_hang(value: int) -> None:
    batch = build_batch(RECORDS)
    struct.pack_into(">i", batch, 8, value)
    with pytest.raises(CorruptBatch):
        read_batches(memoryview(batch), 0, len(batch))
    if value < 14:
        with pytest.raises(CorruptBatch):
            first_batch_size(memoryview(batch), 0, len(batch))


@pytest.mark.parametrize("step", [-1, 1])
def test_length_off_by_one_is_refused_or_a_cut_off_tail(step: int) -> None:
    batch = build_batch(RECORDS)
    struct.pack_into(">i", batch, 8, len(batch) - 12 + step)
    if step > 0:
        assert read_batches(memoryview(batch), 0, len(batch)) == []
    else:
        with pytest.raises(CorruptBatch):
            exercise(batch)


@pytest.mark.parametrize(
    ("at", "form", "value"),
    [
        (0, ">q", -1),
        (0, ">q", (1 << 63) - 1),
        (16, ">b", 3),
        (16, ">b", -1),
        (23, ">i", -1),
        (23, ">i", 1),
        (57, ">i", -1),
        (57, ">i", 2),
        (57, ">i", 4),
        (57, ">i", (1 << 31) - 1),
        (21, ">h", 5),
        (21, ">h", 7),
    ],
)
def test_header_field_off_by_one_is_refused_under_a_sound_checksum(at: int, form: str, value: int) -> None:
    batch = build_batch(RECORDS)
    struct.pack_into(form, batch, at, value)
    assert refused(resealed(batch))


def test_wild_count_in_a_wild_range_costs_nothing() -> None:
    batch = build_batch(RECORDS)
    struct.pack_into(">i", batch, 23, (1 << 31) - 1)
    struct.pack_into(">i", batch, 57, (1 << 31) - 1)
    assert refused(resealed(batch))


def test_every_byte_of_the_records_off_by_one_is_refused_or_read() -> None:
    batch = build_batch(RECORDS)
    for at in range(61, len(batch)):
        for step in (1, 0x7F, 0x80, 0xFF):
            bad = bytearray(batch)
            bad[at] = bad[at] + step & 0xFF
            refused(resealed(bad))


TAIL = b"\x00\x00\x00"
WILD_BODIES = {
    "negative record length": b"\x01" + b"\x00" * 10,
    "endless record length": b"\xff" * 12,
    "record length too large": encode_varint(1 << 30) + b"\x00\x00\x00" + TAIL,
    "record too short": encode_varint(5) + b"\x00\x00\x00\x00\x00",
    "negative offset delta": encode_varint(6) + b"\x00\x00\x01" + TAIL,
    "offset delta beyond the range": encode_varint(6) + b"\x00\x00\x02" + TAIL,
    "endless timestamp delta": encode_varint(20) + b"\x00" + b"\xff" * 19,
    "deltas fill the record": encode_varint(6) + b"\x00\x80\x80\x80\x00\x00",
    "key length -2": encode_varint(6) + b"\x00\x00\x00\x03\x00\x00",
    "key beyond the record": encode_varint(6) + b"\x00\x00\x00\x7e\x00\x00",
    "value length -2": encode_varint(6) + b"\x00\x00\x00\x00\x03\x00",
    "negative header count": encode_varint(6) + b"\x00\x00\x00\x00\x00\x01",
    "wild header count": encode_varint(10) + b"\x00\x00\x00\x00\x00\xfe\xff\xff\xff\x0f",
    "header without a name": encode_varint(8) + b"\x00\x00\x00\x00\x00\x02\x01\x00",
    "header cut off": encode_varint(7) + b"\x00\x00\x00\x00\x00\x02\x00",
    "bytes after the headers": encode_varint(7) + b"\x00\x00\x00" + TAIL + b"\x00",
    "bytes after the last record": encode_varint(6) + b"\x00\x00\x00" + TAIL + b"\x00",
    "nothing": b"",
}


@pytest.mark.parametrize("name", WILD_BODIES)
def test_wild_record_is_refused(name: str) -> None:
    assert refused(with_body(WILD_BODIES[name]))


@pytest.mark.parametrize("second", [0, 1])
def test_offsets_that_do_not_ascend_are_refused(second: int) -> None:
    body = encode_varint(6) + b"\x00\x00\x02" + TAIL + encode_varint(6) + b"\x00\x00" + encode_varint(second) + TAIL
    assert refused(with_body(body, count=2, delta=5))


def test_control_record_without_a_type_is_refused() -> None:
    batch = build_sparse_batch([Record(0, 0, b"\x00", b"")], attributes=0x20)
    assert refused(batch)


@pytest.mark.parametrize("codec", range(1, 5))
def test_bomb_is_refused_with_little_memory(codec: int) -> None:
    bomb = compress(codec, bytes(64 << 20))
    batch = with_body(bomb, codec=codec)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatch, match="limit"):
            list(read_records(read_batches(memoryview(batch), 0, len(batch))[0], limit=1 << 20))
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()


def test_claimed_sizes_beyond_the_limit_are_not_believed() -> None:
    snappy = b"\xff\xff\xff\xff\x0f" + b"\x00"
    zstd = bytes.fromhex("28b52ffd") + b"\xe0" + struct.pack("<Q", 1 << 60) + b"\x01\x00\x00"
    for codec, data in ((2, snappy), (4, zstd)):
        with pytest.raises(CorruptBatch):
            decompress(codec, data, limit=1 << 20)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=150), st.sampled_from([0, 1, 2, 3]))
def test_random_bytes_are_refused_or_read(data: bytes, magic: int) -> None:
    refused(data)
    refused(data[:16] + bytes([magic]) + data[17:])
    first = struct.pack(">qi", 0, max(0, len(data) - 12))
    refused(first + data[12:16] + bytes([magic]) + data[17:])


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=100), st.integers(0, 7), st.integers(0, 5))
def test_random_records_under_a_sound_header_are_refused_or_read(body: bytes, codec: int, count: int) -> None:
    refused(with_body(body, codec=codec, count=count, delta=max(0, count - 1)))


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 4), st.data())
def test_damaged_compression_is_refused_or_read(codec: int, data: st.DataObject) -> None:
    packed = bytearray(compress(codec, bytes(range(256)) * 4))
    for _ in range(data.draw(st.integers(1, 4))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    try:
        assert len(decompress(codec, packed, limit=1 << 16)) <= 1 << 16
    except CorruptBatch as error:
        assert error.message
