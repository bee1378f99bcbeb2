"""Records of a batch as columns, and back: for whoever looks into them in bulk. Nothing here knows Arrow."""

from __future__ import annotations

from dataclasses import dataclass, field

from sparkmirror.errors import CorruptBatch
from sparkmirror.wire.codecs import DECOMPRESSED_BYTES_MAX, NONE
from sparkmirror.wire.record_batch import NO_PRODUCER, BatchView, Producer, packed_records, read_rows, seal_batch
from sparkmirror.wire.tails import Headers, read_tail

__all__ = ["Columns", "build_column_batch", "read_columns"]


@dataclass(slots=True)
class Columns:
    """The same number of entries in each list; timestamps in ms."""

    offsets: list[int] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    headers: list[Headers] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.offsets)


def read_columns(view: BatchView, into: Columns, *, start: int, end: int, limit: int = DECOMPRESSED_BYTES_MAX) -> None:
    """Appends the records of a batch at offsets from `start` up to `end`, the latter not included."""
    for offset, timestamp, tail in read_rows(view, limit=limit):
        if offset < start or offset >= end:
            continue
        try:
            key, value, headers = read_tail(tail)
        except CorruptBatch as error:
            raise CorruptBatch(f"record at offset {offset}: {error.message}", offset=offset) from error
        into.offsets.append(offset)
        into.timestamps.append(timestamp)
        into.keys.append(key)
        into.values.append(value)
        into.headers.append(headers)


def build_column_batch(
    columns: Columns, start: int, end: int, *, codec: int = NONE, producer: Producer = NO_PRODUCER
) -> bytearray:
    """The rows from `start` up to `end` as one batch at consecutive offsets; their own offsets are not used."""
    timestamps, count = columns.timestamps[start:end], end - start
    rows = zip(
        range(count), timestamps, columns.keys[start:end], columns.values[start:end], columns.headers[start:end], strict=True
    )
    times = timestamps[0], max(timestamps)
    return seal_batch(packed_records(rows, times[0]), 0, codec, count - 1, times, producer, count)
