"""The source: a log with transactions, gaps and, for some topics, a cleaner at work while it is copied."""

from __future__ import annotations

import random
from dataclasses import dataclass

from sparkmirror.ledger import SourceChunk
from sparkmirror.wire import Producer, Record, build_batch, build_sparse_batch, read_batches

__all__ = ["SourcePartition"]


@dataclass(slots=True)
class _Batch:
    base: int
    last: int
    records: list[Record]
    producer_id: int  # −1: not transactional
    control: str
    raw: bytes

    def render(self) -> None:
        if not self.records:
            self.raw = b""
            return
        attributes = 0x10 if self.producer_id >= 0 else 0
        producer = Producer(self.producer_id, 0, 0 if self.producer_id >= 0 else -1)
        self.raw = bytes(build_sparse_batch(self.records, producer=producer, attributes=attributes))


class SourcePartition:
    """One partition of the source. Every value names its own offset, so the judge knows each copy."""

    def __init__(self, rng: random.Random, *, compacts: bool, transactional: bool) -> None:
        self.rng = rng
        self.compacts = compacts
        self.transactional = transactional
        self.batches: list[_Batch] = []
        self.end = 0
        self.log_start = 0
        self.aborted: list[tuple[int, int, int]] = []  # (id, first offset, offset of the marker)
        self._open: dict[int, int] = {}  # id → first offset
        self._values: dict[int, Record] = {}
        self._dropped: set[int] = set()

    # --- writing -------------------------------------------------------------------------------------------------

    def append(self, count: int) -> None:
        """Some records, in some batches, perhaps in a transaction."""
        rng = self.rng
        if count and rng.random() < 0.3:
            self.end += rng.randint(1, 3)  # a gap, as transactions or the cleaner leave it
        while count > 0:
            size = min(count, rng.randint(1, 5))
            count -= size
            if self.transactional and rng.random() < 0.6:
                self._append_transactional(size)
            else:
                self._append(size, -1)

    def _append(self, size: int, producer_id: int) -> None:
        records = []
        for at in range(self.end, self.end + size):
            key = b"k%d" % self.rng.randrange(6)
            record = Record(at, 1000 + at, key, b"u%d" % at, ())
            records.append(record)
            self._values[at] = record
        batch = _Batch(self.end, self.end + size - 1, records, producer_id, "", b"")
        batch.render()
        self.batches.append(batch)
        self.end += size

    def _append_transactional(self, size: int) -> None:
        producer_id = self.rng.choice((901, 902))
        self._open.setdefault(producer_id, self.end)
        self._append(size, producer_id)
        if self.rng.random() < 0.5:
            self.end_transaction(producer_id, commit=self.rng.random() < 0.5)

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """A marker."""
        first = self._open.pop(producer_id, None)
        if first is None:
            return
        if not commit:
            self.aborted.append((producer_id, first, self.end))
            for batch in self.batches:
                if batch.producer_id == producer_id and batch.base >= first:
                    self._dropped.update(record.offset for record in batch.records)
        kind = b"\x00\x00\x00\x01" if commit else b"\x00\x00\x00\x00"
        record = Record(self.end, 0, kind, b"\x00" * 6)
        raw = build_batch([record], base_offset=self.end, producer=Producer(producer_id, 0, -1), attributes=0x30)
        self.batches.append(_Batch(self.end, self.end, [], producer_id, "commit" if commit else "abort", bytes(raw)))
        self.end += 1

    def end_transactions(self) -> None:
        """No transaction is left open."""
        for producer_id in list(self._open):
            self.end_transaction(producer_id, commit=True)

    def compact(self) -> None:
        """The cleaner, up to some point below the last batch and below any open transaction."""
        if not self.compacts or len(self.batches) < 2:
            return
        limit = self.rng.randint(0, min(self.batches[-1].base, self.last_stable))
        last: dict[bytes | None, int] = {}
        for batch in self.batches:
            if batch.last < limit:
                last.update((r.key, r.offset) for r in batch.records if r.offset not in self._dropped)
        for batch in self.batches:
            if batch.last < limit and not batch.control:
                kept = [r for r in batch.records if last.get(r.key) == r.offset]
                if len(kept) < len(batch.records):
                    batch.records = kept
                    batch.render()

    # --- reading -------------------------------------------------------------------------------------------------

    @property
    def last_stable(self) -> int:
        """Up to where a read_committed reader sees."""
        return min(self._open.values(), default=self.end)

    def limit(self, read_committed: bool) -> int:
        """The end, as this reader sees it."""
        return self.last_stable if read_committed else self.end

    def fetch(self, offset: int, *, read_committed: bool, batches_max: int) -> SourceChunk:
        """What one fetch returns; its buffer is its own, as in a real answer."""
        limit = self.limit(read_committed)
        found = [b for b in self.batches if b.last >= offset and b.last < limit and b.raw][:batches_max]
        joined = bytearray().join(b.raw for b in found)
        views = read_batches(memoryview(joined), 0, len(joined))
        if not read_committed:
            return SourceChunk(views, None, self.log_start)
        top = found[-1].last if found else offset
        aborted = [(i, first) for i, first, last in self.aborted if last >= offset and first <= top]
        return SourceChunk(views, aborted, self.log_start)

    # --- for the judge -------------------------------------------------------------------------------------------

    def record(self, offset: int) -> Record:
        """What was once written there."""
        return self._values[offset]

    def wanted(self, read_committed: bool) -> list[int]:
        """Every offset ever written that is to be copied, in order."""
        limit = self.limit(read_committed)
        return [o for o in sorted(self._values) if o < limit and not (read_committed and o in self._dropped)]

    def survivors(self, read_committed: bool) -> list[int]:
        """Those that are still there."""
        there = {record.offset for batch in self.batches for record in batch.records}
        return [offset for offset in self.wanted(read_committed) if offset in there]
