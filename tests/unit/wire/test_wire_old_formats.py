"""Message sets of format 0 and 1."""

from __future__ import annotations

import struct
import zlib

import pytest
from wire_builders import NOW, a_batch, limits, opened_all, views_of

from sparkmirror.errors import CorruptBatch
from sparkmirror.wire import Record, compress, pack, read_records


def a_message(
    offset: int, magic: int, key: bytes | None, value: bytes | None, *, attributes: int = 0, timestamp: int = NOW
) -> bytes:
    body = struct.pack(">bb", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"")
    for part in (key, value):
        body += struct.pack(">i", -1 if part is None else len(part)) + (part or b"")
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def a_wrapper(offset: int, magic: int, codec: int, *inner: bytes, attributes: int = 0) -> bytes:
    value = compress(codec, b"".join(inner))
    return a_message(offset, magic, None, value, attributes=codec | attributes, timestamp=NOW + 5)


def records_of(*messages: bytes | bytearray) -> list[Record]:
    return [record for view in views_of(*messages) for record in read_records(view)]


def test_plain_messages_are_read_with_the_time_their_format_has() -> None:
    assert records_of(a_message(3, 0, b"k", b"v"), a_message(4, 1, None, b""), a_message(9, 1, b"", None)) == [
        Record(3, -1, b"k", b"v"),
        Record(4, NOW, None, b""),
        Record(9, NOW, b"", None),
    ]


@pytest.mark.parametrize("codec", [1, 2, 3])
def test_inner_offsets_are_relative_in_format_1_and_absolute_in_format_0(codec: int) -> None:
    relative = a_wrapper(105, 1, codec, a_message(0, 1, b"a", b"1"), a_message(2, 1, b"b", b"2"))
    absolute = a_wrapper(207, 0, codec, a_message(206, 0, b"c", b"3"), a_message(207, 0, b"d", b"4"))
    found = records_of(relative, absolute)
    assert [(record.offset, record.timestamp) for record in found] == [(103, NOW), (105, NOW), (206, -1), (207, -1)]
    assert [view.codec for view in views_of(relative, absolute)] == [codec, codec]


def test_log_append_time_of_the_wrapper_holds_for_its_inner_messages() -> None:
    [record] = records_of(a_wrapper(5, 1, 1, a_message(0, 1, b"a", b"1"), attributes=0x08))
    assert record.timestamp == NOW + 5


def test_lz4_of_format_0_is_read_in_spite_of_its_wrong_header_checksum() -> None:
    frame = bytearray(compress(3, a_message(7, 0, b"k", b"v")))
    frame[6] ^= 0xFF
    assert records_of(a_message(7, 0, None, bytes(frame), attributes=3)) == [Record(7, -1, b"k", b"v")]


def test_neighbouring_plain_messages_become_one_batch() -> None:
    views = views_of(*[a_message(offset, 1, b"k", b"v") for offset in (0, 1, 2, 5, 6)], a_batch(7))
    assert [(view.base_offset, view.count) for view in views] == [(0, 3), (5, 2), (7, 1)]


def test_cut_off_message_ends_the_list() -> None:
    assert len(records_of(a_message(0, 1, b"k", b"v"), a_message(1, 1, b"k", b"v")[:-1])) == 1
    assert records_of(a_message(0, 0, None, None)[:20]) == []


def test_smallest_message_is_read() -> None:
    assert records_of(a_message(0, 0, None, None)) == [Record(0, -1, None, None)]


def test_pack_carries_old_messages_into_batches_of_the_new_format() -> None:
    wrapper = a_wrapper(12, 1, 1, a_message(0, 1, b"a", b"1"), a_message(2, 1, b"b", b"2"))
    packed = pack(
        views_of(a_message(8, 0, b"z", b"0"), wrapper), from_offset=8, until_offset=None, aborted=None, limits=limits()
    )
    assert [(offset, content[0], content[1]) for offset, content in opened_all(packed.outgoing_batches)] == [
        (8, -1, b"z"),
        (10, NOW, b"a"),
        (12, NOW, b"b"),
    ]
    assert packed.next_upstream == 13 and packed.stopped is None


@pytest.mark.parametrize(
    "message",
    [
        a_message(0, 1, b"k", b"v")[:-1] + b"x",
        a_wrapper(5, 1, 1),
        a_wrapper(5, 1, 1, a_wrapper(5, 1, 1, a_message(0, 1, b"k", b"v"))),
        a_wrapper(5, 1, 1, a_message(0, 0, b"k", b"v")),
        a_wrapper(1, 1, 1, a_message(0, 1, b"k", b"v"), a_message(4, 1, b"k", b"v")),
        a_wrapper(5, 0, 1, a_message(5, 0, b"k", b"v"), a_message(4, 0, b"k", b"v")),
        a_message(5, 1, None, None, attributes=1),
        a_message(5, 1, None, b"not gzip", attributes=1),
        a_message(5, 1, None, compress(4, a_message(0, 1, b"k", b"v")), attributes=4),
        a_message(-1, 1, b"k", b"v"),
    ],
    ids=["crc", "empty", "nested", "mixed", "negative", "disordered", "null", "no-gzip", "zstd", "offset"],
)
def test_damaged_message_is_refused(message: bytes) -> None:
    with pytest.raises(CorruptBatch):
        records_of(message)
