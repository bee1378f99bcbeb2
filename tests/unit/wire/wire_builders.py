"""Builders of batches and a naive reader of outgoing batches, for the wire tests."""

from __future__ import annotations

import struct

from crc32c import crc32c
from hypothesis import strategies as st

from sparkmirror.wire import (
    BatchView,
    OutgoingBatch,
    PackLimits,
    Producer,
    Record,
    build_batch,
    build_sparse_batch,
    read_batches,
    read_records,
    stamp,
)
from sparkmirror.wire.record_batch import ATTRIBUTE_CONTROL, ATTRIBUTE_TRANSACTIONAL

NOW = 1_700_000_000_000
Content = tuple[int, bytes | None, bytes | None, tuple[tuple[bytes, bytes | None], ...]]


def limits(**changes: object) -> PackLimits:
    """Limits under which nothing is small and nothing too large, with changes."""
    fields: dict[str, object] = {
        "batch_bytes_max": 1 << 20,
        "merge_below_bytes": 0,
        "merge_to_bytes": 1 << 19,
        "decompressed_bytes_max": 1 << 24,
    }
    changes.setdefault("splice_below_bytes", changes.get("merge_below_bytes", 0))
    return PackLimits(**(fields | changes))  # type: ignore[arg-type]  # a test's own keyword arguments


def a_record(offset: int = 0, **changes: object) -> Record:
    """A record with everything in it."""
    fields: dict[str, object] = {"timestamp": NOW + offset, "key": b"k%d" % offset, "value": b"v%d" % offset}
    return Record(offset, **(fields | changes))  # type: ignore[arg-type]  # a test's own keyword arguments


def a_batch(
    *offsets: int, codec: int = 0, attributes: int = 0, producer_id: int = -1, value: bytes = b"v"
) -> bytearray:
    """A batch with one small record at each offset."""
    records = [a_record(offset, value=value) for offset in offsets]
    return build_sparse_batch(records, codec=codec, attributes=attributes, producer=Producer(producer_id, 0, 0))


def a_marker(offset: int, producer_id: int, kind: str) -> bytearray:
    """A transaction marker, as the broker writes it."""
    key = struct.pack(">hh", 0, {"abort": 0, "commit": 1}[kind])
    attributes = ATTRIBUTE_CONTROL | ATTRIBUTE_TRANSACTIONAL
    record = Record(offset, NOW, key, struct.pack(">hi", 0, 0))
    return build_sparse_batch([record], attributes=attributes, producer=Producer(producer_id, 0, -1))


def an_emptied_batch(base_offset: int, span: int) -> bytearray:
    """A batch whose records compaction has all removed."""
    batch = build_batch([a_record(base_offset)], base_offset=base_offset)[:61]
    return mended(batch, length=49, last_offset_delta=span - 1, count=0)


HEADER_FIELDS = {
    "base_offset": (0, ">q"),
    "length": (8, ">i"),
    "magic": (16, ">b"),
    "attributes": (21, ">h"),
    "last_offset_delta": (23, ">i"),
    "base_timestamp": (27, ">q"),
    "max_timestamp": (35, ">q"),
    "count": (57, ">i"),
}


def mended(batch: bytearray, **fields: int) -> bytearray:
    """The batch with other header fields and a CRC that fits them."""
    for name, value in fields.items():
        at, form = HEADER_FIELDS[name]
        struct.pack_into(form, batch, at, value)
    struct.pack_into(">I", batch, 17, crc32c(bytes(batch[21:])))
    return batch


def views_of(*batches: bytes | bytearray) -> list[BatchView]:
    """The batches as one fetch response holds them."""
    buffer = bytearray(b"".join(batches))
    return read_batches(memoryview(buffer), 0, len(buffer))


def content_of(record: Record) -> Content:
    """Everything of a record that must arrive; the offset is the target's own."""
    return record.timestamp, record.key, record.value, record.headers


def opened(outgoing: OutgoingBatch) -> list[tuple[int, Content]]:
    """(upstream offset, content) of an outgoing batch's records, after the checks that a broker would make."""
    stamp(outgoing.buffer, 7, 3, 11)
    [view] = read_batches(memoryview(outgoing.buffer), 0, len(outgoing.buffer))
    assert (view.base_offset, view.leader_epoch, view.attributes & ~7) == (0, -1, 0)
    assert (view.producer_id, view.producer_epoch, view.base_sequence) == (7, 3, 11)
    assert view.is_dense and view.count == outgoing.count and view.size == len(outgoing.buffer)
    records = list(read_records(view))
    assert [record.offset for record in records] == list(range(outgoing.count))
    assert max(record.timestamp for record in records) == view.max_timestamp == outgoing.max_timestamp
    upstream = [first + step for first, length in outgoing.pieces for step in range(length)]
    assert len(upstream) == outgoing.count and upstream == sorted(set(upstream))
    assert outgoing.next_upstream > upstream[-1]
    return list(zip(upstream, map(content_of, records), strict=True))


def opened_all(outgoing_batches: list[OutgoingBatch]) -> list[tuple[int, Content]]:
    """The records of all outgoing batches in order."""
    return [row for outgoing in outgoing_batches for row in opened(outgoing)]


short_bytes = st.binary(max_size=20)
maybe_bytes = st.none() | short_bytes
timestamps = st.integers(NOW - 100_000, NOW + 100_000) | st.integers(-(1 << 63), (1 << 63) - 1)
headers = st.lists(st.tuples(short_bytes, maybe_bytes), max_size=3).map(tuple)
records = st.builds(Record, st.just(0), timestamps, maybe_bytes, maybe_bytes, headers)
codecs = st.integers(0, 4)
