"""Messages of format 0 and 1 (Kafka before 0.11), read as records. They are never written.

```
offset int64 | size int32 | crc32 uint32 | magic int8 | attributes int8 | timestamp int64 (format 1) | key | value
```
Key and value: int32 length, -1 = null. Attributes: bits 0-2 codec, bit 3 log append time. The CRC (zlib's) covers
everything from the magic on. A compressed message is a wrapper: its value holds the inner messages. The wrapper's
offset is that of its *last* inner message; inner offsets are absolute in format 0, relative in format 1.
Format 0 knows no time: the timestamp is -1.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from sparkmirror.errors import CorruptBatch
from sparkmirror.wire.codecs import LZ4, NONE, ZSTD, decompress, mend_lz4_header
from sparkmirror.wire.record import Record

NO_TIMESTAMP = -1

_ENTRY = struct.Struct(">qiIbb")
_ENTRY_OVERHEAD = 12
_SIZE_MIN = (14, 22)
_LOG_APPEND_TIME = 0x08
_OFFSET_MAX = (1 << 63) - 1


class OldMessage(NamedTuple):
    """The records of one outer message, the codec it came in, and the position after it."""

    records: list[Record]
    codec: int
    end: int


class _Entry(NamedTuple):
    offset: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    end: int


def read_old_message(buffer: memoryview, start: int, end: int, *, limit: int) -> OldMessage:
    """The message at `start`, which must lie whole before `end`; CorruptBatch when it is damaged."""
    outer = _read_entry(buffer, start, end)
    codec = outer.attributes & 0x07
    if codec == NONE:
        records = [Record(outer.offset, outer.timestamp, outer.key, outer.value)]
    else:
        records = _unwrap(outer, codec, limit)
    _require_order(records, outer.offset)
    return OldMessage(records, codec, outer.end)


def _unwrap(outer: _Entry, codec: int, limit: int) -> list[Record]:
    if codec == ZSTD or outer.value is None:
        raise CorruptBatch(f"message of format {outer.magic} with codec {codec} cannot be read", offset=outer.offset)
    value = mend_lz4_header(outer.value) if codec == LZ4 and outer.magic == 0 else outer.value
    inner = list(_read_entries(memoryview(decompress(codec, value, limit=limit)), outer))
    if not inner:
        raise CorruptBatch("compressed message holds no messages", offset=outer.offset)
    shift = outer.offset - inner[-1].offset if outer.magic == 1 else 0
    append_time = outer.timestamp if outer.attributes & _LOG_APPEND_TIME else None
    return [
        Record(entry.offset + shift, entry.timestamp if append_time is None else append_time, entry.key, entry.value)
        for entry in inner
    ]


def _read_entries(data: memoryview, outer: _Entry) -> Iterator[_Entry]:
    position = 0
    while position < len(data):
        entry = _read_entry(data, position, len(data))
        if entry.attributes & 0x07 or entry.magic != outer.magic:
            raise CorruptBatch("inner message is compressed or of another format", offset=outer.offset)
        yield entry
        position = entry.end


def _require_order(records: list[Record], offset: int) -> None:
    previous = -1
    for record in records:
        if not previous < record.offset <= _OFFSET_MAX:
            raise CorruptBatch(f"message offset {record.offset} does not follow {previous}", offset=offset)
        previous = record.offset


def _read_entry(buffer: memoryview, start: int, end: int) -> _Entry:
    if end - start < _ENTRY.size:
        raise CorruptBatch(f"message is cut off at byte {end}")
    offset, size, crc, magic, attributes = _ENTRY.unpack_from(buffer, start)
    stop = start + _ENTRY_OVERHEAD + size
    if magic not in (0, 1) or size < _SIZE_MIN[magic] or stop > end:
        raise CorruptBatch(f"message of format {magic} claims {size} bytes", offset=offset)
    if zlib.crc32(buffer[start + 16 : stop]) != crc:
        raise CorruptBatch("message fails its checksum", offset=offset)
    position = start + _ENTRY.size
    timestamp = NO_TIMESTAMP
    if magic == 1:
        (timestamp,) = struct.unpack_from(">q", buffer, position)
        position += 8
    key, position = _read_bytes(buffer, position, stop, offset)
    value, position = _read_bytes(buffer, position, stop, offset)
    if position != stop:
        raise CorruptBatch(f"message has {stop - position} bytes after its value", offset=offset)
    return _Entry(offset, magic, attributes, timestamp, key, value, stop)


def _read_bytes(buffer: memoryview, position: int, stop: int, offset: int) -> tuple[bytes | None, int]:
    if stop - position < 4:
        raise CorruptBatch("message is cut off before a length", offset=offset)
    (length,) = struct.unpack_from(">i", buffer, position)
    position += 4
    if length == -1:
        return None, position
    if length < 0 or length > stop - position:
        raise CorruptBatch(f"message field claims {length} of {stop - position} bytes", offset=offset)
    return bytes(buffer[position : position + length]), position + length
