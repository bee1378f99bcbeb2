"""Record batches of format 2 (Kafka 0.11 and later): the gate that every fetched byte passes, and the batch writer.

```
at  field                  at  field                     at  field
 0  base offset    int64   21  attributes        int16   43  producer id     int64
 8  length         int32   23  last offset delta int32   51  producer epoch  int16
12  leader epoch   int32   27  base timestamp    int64   53  base sequence   int32
16  magic          int8    35  max timestamp     int64   57  record count    int32
17  crc32c         uint32                                61  records, compressed as a whole
```
`length` counts from byte 12, the CRC covers byte 21 to the end. Base offset and leader epoch lie outside the CRC.
Attributes: 0x07 codec, 0x08 log append time (every record has the max timestamp), 0x10 transactional, 0x20 control,
0x40 delete horizon (KIP-534: the base timestamp field holds it, and the deltas are relative to it all the same).

A record: varint length | int8 attributes | varlong timestamp delta | varint offset delta | its tail.
The tail: varint key length, key | varint value length, value | varint header count, (name, value)… ; -1 = null.
The tail does not depend on the batch around it, so moving a record into another batch copies its tail as it is.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from crc32c import crc32c

from sparkmirror.errors import CorruptBatch
from sparkmirror.wire.codecs import DECOMPRESSED_BYTES_MAX, NONE, compress, decompress
from sparkmirror.wire.old_formats import read_old_message
from sparkmirror.wire.record import Record
from sparkmirror.wire.tails import Headers, quick_varint, read_tail, tail_parts
from sparkmirror.wire.varint import encode_varlong, read_varint, read_varlong, wrap_int64

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES = 61
CRC_AT = 17
CRC_FROM = 21
ATTRIBUTE_CODEC = 0x07
ATTRIBUTE_LOG_APPEND_TIME = 0x08
ATTRIBUTE_TRANSACTIONAL = 0x10
ATTRIBUTE_CONTROL = 0x20

_LENGTH_FROM = 12  # the length field counts the bytes from here
_LENGTH_MIN = 49
_OLD_LENGTH_MIN = 14
_MAGIC_AT = 16
# An offset plus the largest last offset delta must stay a 64-bit number.
_BASE_OFFSET_MAX = (1 << 63) - (1 << 31)
_RECORD_BYTES_MIN = 6
_INT31 = 1 << 31
_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1
# A marker has a key of 4 bytes and a value of 6; later versions may add fields, but not this many.
_CONTROL_BYTES_MAX = 64 * 1024
# Old messages come one by one; this many bytes of them become one batch.
_OLD_RUN_BYTES_MAX = 512 * 1024

# (upstream offset, timestamp, tail bytes): a record on its way into another batch.
Row = tuple[int, int, bytes]


class BatchView(NamedTuple):
    """One batch in a fetch buffer: its header's fields as they were read, and where its bytes lie.

    A tuple, because it is made once per batch and unpacking the header already makes one.
    """

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # shadows tuple.count, which nobody calls on a batch
    buffer: memoryview
    start: int

    @property
    def last_offset(self) -> int:
        """The last offset that the batch covers, whether or not a record is left there."""
        return self.base_offset + self.last_offset_delta

    @property
    def size(self) -> int:
        """Bytes of the whole batch, as the target's max.message.bytes counts them."""
        return self.length + _LENGTH_FROM

    @property
    def raw(self) -> memoryview:
        """The whole batch; writable when the fetch buffer is."""
        return self.buffer[self.start : self.start + self.length + _LENGTH_FROM]

    @property
    def codec(self) -> int:
        """The compression of the records."""
        return self.attributes & ATTRIBUTE_CODEC

    @property
    def is_control(self) -> bool:
        """Whether this is a transaction marker or another record of the broker's own."""
        return bool(self.attributes & ATTRIBUTE_CONTROL)

    @property
    def is_transactional(self) -> bool:
        """Whether the records belong to a transaction."""
        return bool(self.attributes & ATTRIBUTE_TRANSACTIONAL)

    @property
    def is_log_append_time(self) -> bool:
        """Whether every record has the batch's max timestamp."""
        return bool(self.attributes & ATTRIBUTE_LOG_APPEND_TIME)

    @property
    def is_dense(self) -> bool:
        """Whether every offset of the range still has its record."""
        return self.count == self.last_offset_delta + 1


class Producer(NamedTuple):
    """The producer fields of a batch header."""

    producer_id: int
    producer_epoch: int
    base_sequence: int


NO_PRODUCER = Producer(-1, -1, -1)


def read_batches(buffer: memoryview, start: int, end: int, *, verify_crc: bool = True) -> list[BatchView]:
    """The whole and sound batches between the two positions.

    A batch cut off by `end` is normal and ends the list. CorruptBatch when the *first* batch is damaged; damage further
    on ends the list before it, so that good batches are copied first and the next fetch begins at the bad one.
    """
    buffer = memoryview(buffer)
    end = min(end, len(buffer))
    views: list[BatchView] = []
    position = start
    unpack_from, new, kind = HEADER.unpack_from, tuple.__new__, BatchView
    while end - position >= HEADER_BYTES:
        fields = unpack_from(buffer, position)
        base, length, _, magic, crc, _, delta, _, _, _, _, _, count = fields
        stop = position + _LENGTH_FROM + length
        if (
            magic == 2
            and length >= _LENGTH_MIN
            and stop <= end
            and 0 <= count <= delta + 1
            and delta >= 0
            and 0 <= base <= _BASE_OFFSET_MAX
            and (not verify_crc or crc32c(buffer[position + CRC_FROM : stop]) == crc)
        ):
            views.append(new(kind, fields + (buffer, position)))  # noqa: RUF005  # unpacking makes a list first
            position = stop
            continue
        try:
            found = _judge_odd_batch(buffer, position, end)
        except CorruptBatch:
            if views:
                return views
            raise
        if found is None:
            return views
        view, position = found
        views.append(view)
    views += _read_short_tail(buffer, position, end, bool(views))
    return views


def _read_short_tail(buffer: memoryview, position: int, end: int, after_others: bool) -> list[BatchView]:
    """Batches in fewer bytes than a header: only old messages are that short."""
    views: list[BatchView] = []
    try:
        while position < end:
            found = _judge_odd_batch(buffer, position, end)
            if found is None:
                break
            view, position = found
            views.append(view)
    except CorruptBatch:
        if not views and not after_others:
            raise
    return views


def first_batch_size(buffer: memoryview, start: int, end: int) -> int | None:
    """Bytes that the first batch needs, by its own claim; None when not even the claim is there.

    An empty `read_batches` and a size larger than `end - start` say that the fetch was too small for one batch.
    """
    if end - start < _LENGTH_FROM:
        return None
    offset, length = struct.unpack_from(">qi", buffer, start)
    if length < _OLD_LENGTH_MIN:
        raise CorruptBatch(f"batch claims a length of {length} bytes, at least {_LENGTH_MIN} expected", offset=offset)
    return int(length) + _LENGTH_FROM


def _judge_odd_batch(buffer: memoryview, position: int, end: int) -> tuple[BatchView, int] | None:
    """None for a cut-off tail, the converted batch for an old format, CorruptBatch for anything else."""
    if end - position <= _MAGIC_AT:
        return None
    offset, length = struct.unpack_from(">qi", buffer, position)
    magic = buffer[position + _MAGIC_AT]
    if length < (_OLD_LENGTH_MIN if magic < 2 else _LENGTH_MIN):
        raise CorruptBatch(f"batch claims a length of {length} bytes, at least {_LENGTH_MIN} expected", offset=offset)
    if length > end - position - _LENGTH_FROM:
        return None
    if magic < 2:
        return _convert_old_messages(buffer, position, end)
    if magic > 2:
        raise CorruptBatch(f"batch of unknown format {magic}, 2 expected", offset=offset)
    fields = HEADER.unpack_from(buffer, position)
    count, span = fields[12], fields[6] + 1
    if not 0 <= offset <= _BASE_OFFSET_MAX or span < 1 or not 0 <= count <= span:
        raise CorruptBatch(f"batch at offset {offset} claims {count} records in {span} offsets", offset=offset)
    raise CorruptBatch(f"batch at offset {offset} of {length + _LENGTH_FROM} bytes fails its checksum", offset=offset)


def _convert_old_messages(buffer: memoryview, position: int, end: int) -> tuple[BatchView, int]:
    """The old messages from here as one batch of format 2, and the position after them.

    A compressed message is one batch; plain ones are gathered while their offsets follow each other.
    """
    message = read_old_message(buffer, position, end, limit=DECOMPRESSED_BYTES_MAX)
    records = list(message.records)
    stop = message.end
    while message.codec == NONE and stop - position < _OLD_RUN_BYTES_MAX and _is_whole_old_message(buffer, stop, end):
        try:
            following = read_old_message(buffer, stop, end, limit=DECOMPRESSED_BYTES_MAX)
        except CorruptBatch:
            break
        if following.codec != NONE or following.records[0].offset != records[-1].offset + 1:
            break
        records += following.records
        stop = following.end
    batch = memoryview(build_sparse_batch(records, codec=message.codec))
    return BatchView._make((*HEADER.unpack_from(batch, 0), batch, 0)), stop


def _is_whole_old_message(buffer: memoryview, position: int, end: int) -> bool:
    if end - position <= _MAGIC_AT or buffer[position + _MAGIC_AT] > 1:
        return False
    (length,) = struct.unpack_from(">i", buffer, position + 8)
    return bool(_OLD_LENGTH_MIN <= length <= end - position - _LENGTH_FROM)


def read_rows(view: BatchView, *, limit: int = DECOMPRESSED_BYTES_MAX) -> list[Row]:
    """Every record as (offset, timestamp, tail); CorruptBatch with the batch's offset when the records are damaged."""
    try:
        return _split_records(view, decompress(view.codec, view.raw[HEADER_BYTES:], limit=limit))
    except (CorruptBatch, IndexError) as error:
        reason = "a record is cut off" if isinstance(error, IndexError) else error.message
        raise CorruptBatch(f"batch at offset {view.base_offset}: {reason}", offset=view.base_offset) from error


def _split_records(view: BatchView, data: bytes) -> list[Row]:
    base_offset, base_timestamp, delta_max = view.base_offset, view.base_timestamp, view.last_offset_delta
    append_time = view.max_timestamp if view.is_log_append_time else None
    rows: list[Row] = []
    position, end, previous = 0, len(data), -1
    for _ in range(view.count):
        # Nearly all three numbers are one or two bytes long and read in place; the bounded reader is for the others.
        # A position beyond the data raises IndexError, which the caller knows as a cut-off record.
        number = data[position]
        if number >= 0x80 and (following := data[position + 1]) < 0x80:
            number, position = number & 0x7F | following << 7, position + 1
        if number >= 0x80 and data[position] >= 0x80:
            size, position = read_varint(data, position, end)
        else:
            size, position = number >> 1 ^ -(number & 1), position + 1
        stop = position + size
        if size < _RECORD_BYTES_MIN or stop > end:
            raise CorruptBatch(f"a record claims {size} of {end - position} bytes")
        position += 1
        number = data[position]
        if number >= 0x80 and (following := data[position + 1]) < 0x80:
            number, position = number & 0x7F | following << 7, position + 1
        if number >= 0x80 and data[position] >= 0x80:
            delta_ms, position = read_varlong(data, position, stop)
        else:
            delta_ms, position = number >> 1 ^ -(number & 1), position + 1
        number = data[position]
        if number >= 0x80 and (following := data[position + 1]) < 0x80:
            number, position = number & 0x7F | following << 7, position + 1
        if number >= 0x80 and data[position] >= 0x80:
            delta, position = read_varint(data, position, stop)
        else:
            delta, position = number >> 1 ^ -(number & 1), position + 1
        if not previous < delta <= delta_max or position >= stop:
            raise CorruptBatch(f"a record has offset delta {delta} after {previous}, with {stop - position} bytes left")
        timestamp = base_timestamp + delta_ms if append_time is None else append_time
        if not _INT64_MIN <= timestamp <= _INT64_MAX:
            timestamp = wrap_int64(timestamp)
        rows.append((base_offset + delta, timestamp, data[position:stop]))
        position, previous = stop, delta
    if position != end:
        raise CorruptBatch(f"{end - position} bytes follow the last record")
    return rows


def read_records(view: BatchView, *, limit: int = DECOMPRESSED_BYTES_MAX) -> Iterator[Record]:
    """The records of the batch, decompressed up to `limit` bytes."""
    for offset, timestamp, tail in read_rows(view, limit=limit):
        try:
            key, value, headers = read_tail(tail)
            yield Record(offset, timestamp, key, value, tuple(headers))
        except CorruptBatch as error:
            raise CorruptBatch(f"record at offset {offset}: {error.message}", offset=offset) from error


def control_type(view: BatchView) -> Literal["commit", "abort"] | None:
    """What a transaction marker says; None for every other batch."""
    if not view.is_control or not view.count:
        return None
    key = next(read_records(view, limit=_CONTROL_BYTES_MAX)).key
    if key is None or len(key) < 4:
        raise CorruptBatch("control record without a type", offset=view.base_offset)
    _version, kind = struct.unpack_from(">hh", key)
    return "abort" if kind == 0 else "commit" if kind == 1 else None


def build_batch(
    records: Sequence[Record],
    *,
    codec: int = NONE,
    base_offset: int = 0,
    producer: Producer = NO_PRODUCER,
    attributes: int = 0,
) -> bytearray:
    """A complete batch with the records at consecutive offsets from `base_offset`; their own offsets are not used."""
    deltas = range(len(records))
    return _build(records, deltas, base_offset, attributes & ~ATTRIBUTE_CODEC | codec, producer)


def build_sparse_batch(
    records: Sequence[Record],
    *,
    codec: int = NONE,
    producer: Producer = NO_PRODUCER,
    attributes: int = 0,
) -> bytearray:
    """A complete batch with every record at its own offset, as a compacted log holds it."""
    base_offset = records[0].offset
    deltas = [record.offset - base_offset for record in records]
    return _build(records, deltas, base_offset, attributes & ~ATTRIBUTE_CODEC | codec, producer)


def _build(
    records: Sequence[Record], deltas: Sequence[int], base_offset: int, attributes: int, producer: Producer
) -> bytearray:
    rows = ((delta, r.timestamp, r.key, r.value, r.headers) for r, delta in zip(records, deltas, strict=True))
    times = records[0].timestamp, max(record.timestamp for record in records)
    packed = packed_records(rows, times[0])
    return seal_batch(packed, base_offset, attributes, deltas[-1], times, producer, len(records))


def packed_records(
    rows: Iterable[tuple[int, int, bytes | None, bytes | None, Headers]], base_timestamp: int
) -> bytes:
    """Records (offset delta, timestamp, key, value, headers) as they lie in a batch."""
    parts: list[bytes] = []
    for delta, timestamp, key, value, headers in rows:
        lapse = timestamp - base_timestamp
        lapsed = quick_varint(lapse) if -1 <= lapse < _INT31 else encode_varlong(wrap_int64(lapse))
        place = quick_varint(delta)
        if key is None and value is not None and not headers:
            # The most common record, in pieces that are copied once: no key, a value, no headers.
            length = quick_varint(len(value))
            size = 3 + len(lapsed) + len(place) + len(length) + len(value)
            parts += (quick_varint(size), b"\0", lapsed, place, b"\1", length, value, b"\0")
            continue
        body = b"".join((b"\0", lapsed, place, *tail_parts(key, value, headers)))
        parts += (quick_varint(len(body)), body)
    return b"".join(parts)


def seal_batch(
    packed: bytes,
    base_offset: int,
    attributes: int,
    last_delta: int,
    times: tuple[int, int],
    producer: Producer,
    count: int,
) -> bytearray:
    """Header, and records compressed as the attributes say; `times` are the first and the latest timestamp."""
    batch = bytearray(HEADER_BYTES) + compress(attributes & ATTRIBUTE_CODEC, packed)
    length = len(batch) - _LENGTH_FROM
    HEADER.pack_into(batch, 0, base_offset, length, -1, 2, 0, attributes, last_delta, *times, *producer, count)
    struct.pack_into(">I", batch, CRC_AT, crc32c(memoryview(batch)[CRC_FROM:]))
    return batch
