"""Records of a batch as columns, and back: for whoever looks into them in bulk. Nothing here knows Arrow."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sparkmirror.errors import CorruptBatch
from sparkmirror.wire.codecs import DECOMPRESSED_BYTES_MAX, NONE
from sparkmirror.wire.record_batch import (
    HEADER_BYTES,
    NO_PRODUCER,
    BatchView,
    Producer,
    packed_records,
    read_rows,
    seal_batch,
)
from sparkmirror.wire.tails import Headers, read_tail

_NO_HEADERS: Headers = ()
_TIMESTAMP_MAX = (1 << 63) - (1 << 15)  # above it a lapse may go round


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
    if view.codec == NONE and view.base_offset >= start and view.last_offset < end and not view.is_log_append_time:
        found = Columns()
        if _read_plain(view, found):
            for kept, more in zip(_lists(into), _lists(found), strict=True):
                kept += more
            return
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


def _lists(columns: Columns) -> tuple[list[Any], ...]:
    return columns.offsets, columns.timestamps, columns.keys, columns.values, columns.headers


def _read_plain(view: BatchView, into: Columns) -> bool:
    """The records of a batch in which every number takes one or two bytes and no record has headers, in one loop.

    False for anything else, damage too: then the careful reader says what is there.
    """
    data = bytes(view.raw[HEADER_BYTES:])
    offsets, timestamps, keys, values = into.offsets, into.timestamps, into.keys, into.values
    base_offset, base_timestamp = view.base_offset, view.base_timestamp
    position, previous = 0, -1
    try:
        for _ in range(view.count):
            number = data[position]
            if number >= 0x80:
                position += 1
                if data[position] >= 0x80:
                    return False
                number = number & 0x7F | data[position] << 7
            stop = position + 1 + (number >> 1)
            if number & 1 or data[position + 1]:
                return False
            position += 2
            lapse = data[position]
            if lapse >= 0x80:
                lapse, position = _two_bytes(data, position)
            position += 1
            delta = data[position]
            if delta >= 0x80:
                delta, position = _two_bytes(data, position)
            position += 1
            number = data[position]
            if number >= 0x80:
                number, position = _two_bytes(data, position)
            position += 1
            if number == 1:
                keys.append(None)
            elif number & 1:
                return False
            else:
                keys.append(data[position : position + (number >> 1)])
                position += number >> 1
            number = data[position]
            if number >= 0x80:
                position += 1
                if data[position] >= 0x80:
                    return False
                number = number & 0x7F | data[position] << 7
            position += 1
            if number == 1:
                values.append(None)
            elif number & 1:
                return False
            else:
                values.append(data[position : position + (number >> 1)])
                position += number >> 1
            if delta & 1 or delta >> 1 <= previous or position + 1 != stop or data[position]:
                return False
            previous = delta >> 1
            offsets.append(base_offset + previous)
            timestamps.append(base_timestamp + (lapse >> 1 ^ -(lapse & 1)))
            position = stop
    except IndexError:
        return False
    if position != len(data) or previous > view.last_offset_delta or abs(base_timestamp) >= _TIMESTAMP_MAX:
        return False
    into.headers = [_NO_HEADERS] * len(offsets)
    return True


def _two_bytes(data: bytes, position: int) -> tuple[int, int]:
    """A number of two bytes and the place of its last; one of more is not for this reader."""
    following = data[position + 1]
    if following >= 0x80:
        raise IndexError
    return data[position] & 0x7F | following << 7, position + 1


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
