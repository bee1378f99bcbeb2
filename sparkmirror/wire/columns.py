"""Records of a batch as columns, and back: for whoever looks into them in bulk. Nothing here knows Arrow."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from crc32c import crc32c

from sparkmirror.errors import CorruptBatch
from sparkmirror.wire.codecs import DECOMPRESSED_BYTES_MAX, NONE, compress
from sparkmirror.wire.record_batch import (
    CRC_AT,
    CRC_FROM,
    HEADER,
    HEADER_BYTES,
    LENGTH_FROM,
    NO_PRODUCER,
    BatchView,
    Producer,
    read_rows,
)
from sparkmirror.wire.varint import encode_varint, encode_varlong, read_varint, wrap_int64

__all__ = ["Columns", "Headers", "build_column_batch", "read_columns"]

Headers = Sequence[tuple[bytes, bytes | None]]

_NO_HEADERS: Headers = ()
# Lengths up to some KB, -1 and small deltas are most of what is written: looked up, not computed.
_VARINTS = [encode_varint(number) for number in range(-1, 4096)]
_VARINTS_MAX = len(_VARINTS) - 2
_NULL = _VARINTS[0]


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
            key, at = _read_field(tail, 0)
            value, at = _read_field(tail, at)
            # A record without headers ends here with one zero byte.
            headers = _NO_HEADERS if tail[at] == 0 and at + 1 == len(tail) else _read_headers(tail, at)
        except (CorruptBatch, IndexError) as error:
            reason = "it is cut off" if isinstance(error, IndexError) else error.message
            raise CorruptBatch(f"record at offset {offset}: {reason}", offset=offset) from error
        into.offsets.append(offset)
        into.timestamps.append(timestamp)
        into.keys.append(key)
        into.values.append(value)
        into.headers.append(headers)


def _read_field(tail: bytes, at: int) -> tuple[bytes | None, int]:
    number = tail[at]
    if number < 0x80:
        at += 1
    elif (following := tail[at + 1]) < 0x80:
        number, at = number & 0x7F | following << 7, at + 2
    else:
        size, at = read_varint(tail, at, len(tail))
        return _slice(tail, at, size)
    return _slice(tail, at, number >> 1 ^ -(number & 1))


def _slice(tail: bytes, at: int, size: int) -> tuple[bytes | None, int]:
    if size == -1:
        return None, at
    if size < 0 or size > len(tail) - at:
        raise CorruptBatch(f"a field claims {size} of {len(tail) - at} bytes")
    return tail[at : at + size], at + size


def _read_headers(tail: bytes, at: int) -> Headers:
    count, at = read_varint(tail, at, len(tail))
    # Each header takes two bytes at least, so a wild count is seen before it is counted.
    if count < 0 or count > len(tail) - at:
        raise CorruptBatch(f"{count} headers in {len(tail) - at} bytes")
    headers = []
    for _ in range(count):
        name, at = _read_field(tail, at)
        if name is None:
            raise CorruptBatch("a header has no name")
        value, at = _read_field(tail, at)
        headers.append((name, value))
    if at != len(tail):
        raise CorruptBatch(f"{len(tail) - at} bytes follow the headers")
    return headers


def build_column_batch(
    columns: Columns, start: int, end: int, *, codec: int = NONE, producer: Producer = NO_PRODUCER
) -> bytearray:
    """The rows from `start` up to `end` as one batch at consecutive offsets; their own offsets are not used."""
    timestamps = columns.timestamps[start:end]
    base, latest = timestamps[0], max(timestamps)
    parts: list[bytes] = []
    rows = zip(
        timestamps, columns.keys[start:end], columns.values[start:end], columns.headers[start:end], strict=True
    )
    for delta, (timestamp, key, value, headers) in enumerate(rows):
        lapse = timestamp - base
        body = b"".join(
            (
                b"\0",
                _varint(lapse) if -1 <= lapse <= _VARINTS_MAX else encode_varlong(wrap_int64(lapse)),
                _varint(delta),
                *((_NULL,) if key is None else (_varint(len(key)), key)),
                *((_NULL,) if value is None else (_varint(len(value)), value)),
                _header_bytes(headers) if headers else b"\0",
            )
        )
        parts += (_varint(len(body)), body)
    batch = bytearray(HEADER_BYTES) + compress(codec, b"".join(parts))
    count = end - start
    HEADER.pack_into(batch, 0, 0, len(batch) - LENGTH_FROM, -1, 2, 0, codec, count - 1, base, latest, *producer, count)
    struct.pack_into(">I", batch, CRC_AT, crc32c(memoryview(batch)[CRC_FROM:]))
    return batch


def _varint(number: int) -> bytes:
    return _VARINTS[number + 1] if number <= _VARINTS_MAX else encode_varint(number)


def _header_bytes(headers: Headers) -> bytes:
    parts = [_varint(len(headers))]
    for name, value in headers:
        parts += (_varint(len(name)), name)
        parts += (_NULL,) if value is None else (_varint(len(value)), value)
    return b"".join(parts)
