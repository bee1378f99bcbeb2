"""One partition: batches as they were sent, with offsets, and what the leader remembers of producers."""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import dataclass, field

import crc32c
from kafka.record import MemoryRecords

__all__ = ["FakeLog", "control_batch"]

# base offset, length, leader epoch, magic, CRC, attributes, last offset delta, first and largest timestamp, producer id,
# producer epoch, base sequence, count
HEADER = struct.Struct(">qiibIhiqqqhii")
MAGIC, CRC_FROM, LENGTH_FROM = 2, 21, 12
TRANSACTIONAL, CONTROL = 0x10, 0x20
REMEMBERED_BATCHES = 5  # of each producer, as real brokers remember them
SEQUENCES = 1 << 31
OFFSET_OUT_OF_RANGE, CORRUPT_MESSAGE, OUT_OF_ORDER_SEQUENCE, INVALID_PRODUCER_EPOCH = 1, 2, 45, 47
MAX_TIMESTAMP, EARLIEST, LATEST = -3, -2, -1


@dataclass
class Producer:
    """What the leader knows of one producer."""

    epoch: int
    last_sequence: int = -1
    last_timestamp: int = -1
    batches: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=REMEMBERED_BATCHES))
    transaction_start: int = -1


@dataclass
class FakeLog:
    """The log of one partition."""

    start: int = 0
    end: int = 0
    batches: list[tuple[int, bytes]] = field(default_factory=list)  # last offset and bytes
    producers: dict[int, Producer] = field(default_factory=dict)
    aborted: list[tuple[int, int, int]] = field(default_factory=list)  # producer id, first and last offset

    @property
    def stable_end(self) -> int:
        """Below it no transaction is open."""
        return min([p.transaction_start for p in self.producers.values() if p.transaction_start >= 0], default=self.end)

    def append(self, raw: bytes) -> tuple[int, int]:
        """(error code, base offset) of one batch."""
        head = HEADER.unpack_from(raw) if len(raw) >= HEADER.size else None
        if head is None or head[3] != MAGIC or head[1] + LENGTH_FROM != len(raw) or crc32c.crc32c(raw[CRC_FROM:]) != head[4]:
            return CORRUPT_MESSAGE, -1
        _, length, _, _, _, attributes, delta, _, newest, producer_id, epoch, sequence, _ = head
        if producer_id >= 0:
            error, known = self._check(producer_id, epoch, sequence, delta)
            if error or known is not None:
                return error, -1 if known is None else known
        base = self.end
        self.batches.append((base + delta, struct.pack(">qii", base, length, 0) + raw[16:]))
        self.end = base + delta + 1
        if producer_id >= 0:
            self._remember(producer_id, epoch, sequence, delta, newest, base, bool(attributes & TRANSACTIONAL))
        return 0, base

    def _check(self, producer_id: int, epoch: int, sequence: int, delta: int) -> tuple[int, int | None]:
        """An error code, and where the batch lies if it was appended before."""
        producer = self.producers.get(producer_id)
        if producer is None:
            return 0, None
        if epoch < producer.epoch:
            return INVALID_PRODUCER_EPOCH, None
        if epoch > producer.epoch:
            return (OUT_OF_ORDER_SEQUENCE if sequence else 0), None
        for first, last, base in producer.batches:
            if (first, last) == (sequence, (sequence + delta) % SEQUENCES):
                return 0, base
        is_next = producer.last_sequence < 0 or sequence == (producer.last_sequence + 1) % SEQUENCES
        return (0 if is_next else OUT_OF_ORDER_SEQUENCE), None

    def _remember(
        self, producer_id: int, epoch: int, sequence: int, delta: int, newest: int, base: int, is_transactional: bool
    ) -> None:
        producer = self.producers.get(producer_id)
        if producer is None or producer.epoch != epoch:
            start = -1 if producer is None else producer.transaction_start
            producer = self.producers[producer_id] = Producer(epoch, transaction_start=start)
        producer.last_sequence, producer.last_timestamp = (sequence + delta) % SEQUENCES, newest
        producer.batches.append((sequence, producer.last_sequence, base))
        if is_transactional and producer.transaction_start < 0:
            producer.transaction_start = base

    def end_transaction(self, producer_id: int, epoch: int, *, commit: bool, now_ms: int) -> None:
        """Writes the marker."""
        producer = self.producers.get(producer_id)
        began = -1 if producer is None else producer.transaction_start
        if began >= 0 and not commit:
            self.aborted.append((producer_id, began, self.end))
        self.batches.append((self.end, control_batch(self.end, producer_id, epoch, commit=commit, now_ms=now_ms)))
        self.end += 1
        if producer is None or producer.epoch != epoch:
            producer = self.producers[producer_id] = Producer(epoch)
        producer.transaction_start, producer.last_timestamp = -1, now_ms

    def read(self, offset: int, bytes_max: int, *, end: int) -> bytes:
        """Bytes from the batch with `offset` on, cut where there is no more room, but the first batch whole."""
        found = [raw for last, raw in self.batches if last >= offset and int.from_bytes(raw[:8], "big") < end]
        return b"".join(found)[: max(bytes_max, len(found[0]))] if found else b""

    def aborted_between(self, offset: int, end: int) -> list[tuple[int, int]]:
        """(producer id, first offset) of the aborted transactions that a reader of this range must know."""
        return [(producer_id, first) for producer_id, first, last in self.aborted if last >= offset and first < end]

    def find(self, timestamp: int, *, read_committed: bool) -> tuple[int, int]:
        """(offset, timestamp) as ListOffsets answers, (-1, -1) where there is none."""
        if timestamp == EARLIEST:
            return self.start, -1
        if timestamp == LATEST:
            return (self.stable_end if read_committed else self.end), -1
        times = [
            (record.offset, record.timestamp)
            for _, raw in self.batches
            if not HEADER.unpack_from(raw)[5] & CONTROL
            for batch in MemoryRecords(raw)
            for record in batch
            if record.offset >= self.start
        ]
        if timestamp == MAX_TIMESTAMP:
            return max(times, key=lambda found: (found[1], -found[0]), default=(-1, -1))
        return next((found for found in times if found[1] >= timestamp), (-1, -1))

    def delete_to(self, offset: int) -> int:
        """Moves the log's start; returns the error code."""
        wanted = self.end if offset == -1 else offset
        if not 0 <= wanted <= self.end:
            return OFFSET_OUT_OF_RANGE
        self.start = max(self.start, wanted)
        self.batches = [(last, raw) for last, raw in self.batches if last >= self.start]
        return 0


def control_batch(offset: int, producer_id: int, epoch: int, *, commit: bool, now_ms: int) -> bytes:
    """The marker that ends a transaction."""
    body = b"\0\0\0" + b"\x08" + struct.pack(">hh", 0, int(commit)) + b"\x0c" + struct.pack(">hi", 0, 0) + b"\0"
    record = bytes([len(body) * 2]) + body
    rest = struct.pack(">hiqqqhii", TRANSACTIONAL | CONTROL, 0, now_ms, now_ms, producer_id, epoch, -1, 1) + record
    length = HEADER.size - LENGTH_FROM + len(record)
    return struct.pack(">qiibI", offset, length, 0, MAGIC, crc32c.crc32c(rest)) + rest
