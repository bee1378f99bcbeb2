"""Short reads of many partitions of one cluster: many partitions in a request, small fetches, a bounded cache.

Reads without a group and creates no topic. Positions that lie in the same batches share one read.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b

from sparkmirror.clusters import (
    FETCH_API,
    FETCH_BY_NAME,
    ClusterClient,
    FetchedPartition,
    FetchFrom,
    FetchLimits,
    encode_fetch,
    name_of,
    parse_fetch,
)
from sparkmirror.clusters.probing import LEADER_MOVING, probe_times
from sparkmirror.errors import BrokerRefused, ClusterError, ConnectionLost, CorruptBatch
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.proof.values import Budget, RecordAsk, RecordRange, Seen, WalkLimits
from sparkmirror.wire import error_codes as codes
from sparkmirror.wire import first_batch_size, read_batches
from sparkmirror.wire.outgoing import AbortedTransactions
from sparkmirror.wire.record_batch import read_rows

FIRST_BYTES = 32 << 10  # of one partition; more once its batches have shown to be larger
BATCH_BYTES_MAX = 64 << 20
REQUEST_BYTES = 4 << 20
CACHE_BYTES_MAX = 24 << 20
ROW_BYTES = 150  # of memory for a row, beside its content
REQUEST_TIMEOUT_S = 30.0
ATTEMPTS_MAX = 25  # a partition that brings nothing new so many times has trouble
PAUSE_S = 0.2
MOVED = LEADER_MOVING | {codes.UNKNOWN_TOPIC_OR_PARTITION, codes.THROTTLING_QUOTA_EXCEEDED}

Row = tuple[int, int, bytes, bool]  # offset, timestamp, tail, whether the log stamped the time


@dataclass(slots=True)
class _Chunk:
    """Everything visible from `start` to before `next_offset`."""

    start: int
    next_offset: int
    rows: list[Row]
    is_end: bool
    has_holes: bool
    size: int


class RecordReader:
    """One side of the proof. For one thread at a time; close it."""

    def __init__(self, client: ClusterClient, limits: WalkLimits, *, read_committed: bool = False) -> None:
        self.forbidden: set[str] = set()  # topics that we may not read
        self._client, self._limits = client, limits
        self._isolation = int(read_committed)
        self._chunks: OrderedDict[tuple[TopicPartition, int], _Chunk] = OrderedDict()
        self._starts: dict[TopicPartition, list[int]] = {}
        self._cached = 0
        self._sizes: dict[TopicPartition, int] = {}
        self._budgets: dict[TopicPartition, Budget] = {}

    def close(self) -> None:
        """Drops what was read."""
        self._chunks.clear()
        self._starts.clear()
        self._cached = 0

    def answer(self, asks: Mapping[int, tuple[TopicPartition, RecordAsk]]) -> Iterator[tuple[int, RecordRange]]:
        """Every ask, answered in the order that is cheapest."""
        pending: dict[TopicPartition, list[tuple[int, int]]] = {}
        timed: dict[TopicPartition, list[tuple[int, int]]] = {}
        for number, (partition, ask) in asks.items():
            refused = self._refusal(partition, ask)
            if refused is not None:
                yield number, refused
            elif ask.timestamp is not None:
                timed.setdefault(partition, []).append((ask.timestamp, number))
            else:
                pending.setdefault(partition, []).append((ask.offset, number))
        while timed:
            yield from self._by_time(timed, asks)
        for wanted in pending.values():
            wanted.sort(reverse=True)  # the next one is the last
        attempts = dict.fromkeys(pending, 0)
        while pending:
            yield from self._from_cache(pending, asks)
            if pending:
                yield from self._fetch_some(pending, attempts, asks)

    def _refusal(self, partition: TopicPartition, ask: RecordAsk) -> RecordRange | None:
        if partition.topic in self.forbidden:
            return RecordRange((), ask.offset, trouble=f"needs Read on topic {partition.topic} of {self._client.alias}")
        if ask.is_walk:
            budget = self._budgets.setdefault(partition, Budget(self._limits))
            if budget.is_spent:
                spent = f"the budget of {self._limits.records} records for {partition} is spent"
                return RecordRange((), ask.offset, trouble=spent)
        return None

    def _by_time(
        self, timed: dict[TopicPartition, list[tuple[int, int]]], asks: Mapping[int, tuple[TopicPartition, RecordAsk]]
    ) -> Iterator[tuple[int, RecordRange]]:
        """One time of each partition; a request cannot ask for two."""
        wanted = {partition: waiting[-1][0] for partition, waiting in timed.items()}
        trouble, found = "", dict[TopicPartition, int]()
        try:
            found = probe_times(self._client, wanted)
        except ClusterError as error:
            trouble = error.message
        for partition, time_ms in wanted.items():
            rest = [entry for entry in timed[partition] if entry[0] != time_ms]
            for _, number in (entry for entry in timed[partition] if entry[0] == time_ms):
                yield number, RecordRange((), found.get(partition, asks[number][1].offset), trouble=trouble)
            if rest:
                timed[partition] = rest
            else:
                del timed[partition]

    # --- the cache ---------------------------------------------------------------------------------------------

    def _from_cache(
        self, pending: dict[TopicPartition, list[tuple[int, int]]], asks: Mapping[int, tuple[TopicPartition, RecordAsk]]
    ) -> Iterator[tuple[int, RecordRange]]:
        for partition in list(pending):
            wanted, missed = pending[partition], []
            while wanted:
                offset, number = wanted.pop()
                chunk = self._covering(partition, offset)
                if chunk is None:
                    missed.append((offset, number))
                else:
                    yield number, self._cut(partition, chunk, asks[number][1])
            if missed:
                pending[partition] = missed[::-1]
            else:
                del pending[partition]

    def _covering(self, partition: TopicPartition, offset: int) -> _Chunk | None:
        starts = self._starts.get(partition, [])
        at = bisect_left(starts, offset + 1) - 1
        if at < 0:
            return None
        chunk = self._chunks[partition, starts[at]]
        if offset >= chunk.next_offset:
            return None
        self._chunks.move_to_end((partition, chunk.start))
        return chunk

    def _keep(self, partition: TopicPartition, chunk: _Chunk) -> None:
        starts = self._starts.setdefault(partition, [])
        at = bisect_left(starts, chunk.start)
        if at < len(starts) and starts[at] == chunk.start:
            self._cached -= self._chunks[partition, chunk.start].size
        else:
            starts.insert(at, chunk.start)
        self._chunks[partition, chunk.start] = chunk
        self._chunks.move_to_end((partition, chunk.start))
        self._cached += chunk.size
        while self._cached > CACHE_BYTES_MAX and len(self._chunks) > 1:
            (place, start), oldest = self._chunks.popitem(last=False)
            self._starts[place].remove(start)
            self._cached -= oldest.size

    def _cut(self, partition: TopicPartition, chunk: _Chunk, ask: RecordAsk) -> RecordRange:
        at = bisect_left(chunk.rows, (ask.offset,))
        rows = chunk.rows[at : at + ask.count]
        if ask.is_walk:
            self._budgets[partition].charge(max(len(rows), 1), sum(len(row[2]) for row in rows))
        seen = tuple(Seen(offset, time, blake2b(tail, digest_size=16).digest(), own) for offset, time, tail, own in rows)
        if at + ask.count < len(chunk.rows):
            return RecordRange(seen, rows[-1][0] + 1 if rows else ask.offset, has_holes=chunk.has_holes)
        return RecordRange(seen, chunk.next_offset, is_end=chunk.is_end, has_holes=chunk.has_holes)

    # --- fetching ----------------------------------------------------------------------------------------------

    def _fetch_some(
        self,
        pending: dict[TopicPartition, list[tuple[int, int]]],
        attempts: dict[TopicPartition, int],
        asks: Mapping[int, tuple[TopicPartition, RecordAsk]],
    ) -> Iterator[tuple[int, RecordRange]]:
        """One request: the next offset of as many partitions as fit."""
        first = next(iter(pending))
        try:
            leaders = self._client.leaders.known(pending)
            node, size = self._client.leaders.of(first), self._sizes.get(first, FIRST_BYTES)
            places = [
                partition
                for partition in pending
                if leaders.get(partition) == node and self._sizes.get(partition, FIRST_BYTES) == size
            ][: max(REQUEST_BYTES // size, 1)]
            wanted = {partition: pending[partition][-1][0] for partition in places}
            frame, found = self._fetch(node, wanted, size)
        except ClusterError as error:
            self._client.leaders.forget()
            attempts[first] += 1
            if attempts[first] >= ATTEMPTS_MAX or isinstance(error, BrokerRefused):
                yield from self._give_up(pending, first, error.message)
            return
        for part in found:
            partition = TopicPartition(str(part.topic), part.partition)
            attempts[partition] += 1
            trouble = self._take(partition, wanted[partition], frame, part, size)
            if trouble or attempts[partition] >= ATTEMPTS_MAX:
                yield from self._give_up(pending, partition, trouble or f"{partition} cannot be read at {wanted[partition]}")
            elif part.error:  # the leader moved
                time.sleep(PAUSE_S)
            else:
                yield from self._served(pending, partition, part, asks, attempts)

    def _served(
        self,
        pending: dict[TopicPartition, list[tuple[int, int]]],
        partition: TopicPartition,
        part: FetchedPartition,
        asks: Mapping[int, tuple[TopicPartition, RecordAsk]],
        attempts: dict[TopicPartition, int],
    ) -> Iterator[tuple[int, RecordRange]]:
        """What the answer settles: asks inside what was read, and asks at the end of the log."""
        rest = []
        for offset, number in pending.pop(partition):
            chunk = self._covering(partition, offset)
            if chunk is not None:
                attempts[partition] = 0
                yield number, self._cut(partition, chunk, asks[number][1])
            elif offset >= self._end_of(part):
                attempts[partition] = 0
                yield number, RecordRange((), offset, is_end=True)
            else:
                rest.append((offset, number))
        if rest:
            pending[partition] = rest

    def _end_of(self, part: FetchedPartition) -> int:
        return part.last_stable if self._isolation else part.high_watermark

    def _give_up(
        self, pending: dict[TopicPartition, list[tuple[int, int]]], partition: TopicPartition, trouble: str
    ) -> Iterator[tuple[int, RecordRange]]:
        for offset, number in pending.pop(partition, []):
            yield number, RecordRange((), offset, trouble=trouble)

    def _take(self, partition: TopicPartition, offset: int, frame: bytearray, part: FetchedPartition, size: int) -> str:
        """Keeps what one partition's part of an answer brought; what is wrong with it, if anything is."""
        if part.error == codes.TOPIC_AUTHORIZATION_FAILED:
            self.forbidden.add(partition.topic)
            return f"needs Read on topic {partition.topic} of {self._client.alias}"
        if part.error == codes.OFFSET_OUT_OF_RANGE:
            return f"{self._client.alias} holds no offset {offset} of {partition} any more"
        if part.error in MOVED:
            self._client.leaders.forget()
            return ""
        if part.error:
            return f"{partition} on {self._client.alias}: {name_of(part.error)}"
        try:
            chunk = self._decode(offset, frame, part)
        except CorruptBatch as error:
            return f"{partition} on {self._client.alias}: {error.message}"
        if chunk is not None:
            self._keep(partition, chunk)
        elif part.end > part.start:
            needed = first_batch_size(memoryview(frame), part.start, part.end) or size * 2
            self._sizes[partition] = max(_rounded(needed), size * 2)
            if needed > BATCH_BYTES_MAX:
                return f"{partition} on {self._client.alias}: a batch of {needed} bytes"
        return ""

    def _decode(self, offset: int, frame: bytearray, part: FetchedPartition) -> _Chunk | None:
        batches = [b for b in read_batches(memoryview(frame), part.start, part.end) if b.last_offset >= offset]
        if not batches:
            return None
        aborted = AbortedTransactions(part.aborted or []) if self._isolation else None
        rows: list[Row] = []
        for batch in batches:
            is_dropped = aborted is not None and aborted.drops(batch)
            if not is_dropped and not batch.is_control:
                own = batch.is_log_append_time
                rows += ((at, time, tail, own) for at, time, tail in read_rows(batch))
        next_offset = batches[-1].last_offset + 1
        size = sum(len(row[2]) for row in rows) + ROW_BYTES * len(rows)
        start = min(offset, batches[0].base_offset)
        has_holes = len(rows) != next_offset - start
        return _Chunk(start, next_offset, rows, next_offset >= self._end_of(part), has_holes, size)

    def _fetch(
        self, node: int, wanted: Mapping[TopicPartition, int], size: int
    ) -> tuple[bytearray, list[FetchedPartition]]:
        topics: dict[bytes | str, list[FetchFrom]] = {}
        for partition, offset in wanted.items():
            topics.setdefault(partition.topic, []).append(FetchFrom(partition.partition, offset))
        body = encode_fetch(topics, FetchLimits(0, 0, max(REQUEST_BYTES, size), size, self._isolation))
        frame, at = self._client.talk(
            node, lambda c: c.exchange(FETCH_API, FETCH_BY_NAME, [body], timeout_s=REQUEST_TIMEOUT_S)
        )
        try:
            return frame, parse_fetch(frame, at, by_id=False).partitions
        except (ValueError, IndexError) as error:
            raise ConnectionLost(f"{self._client.alias}: unreadable fetch answer: {error}") from error


def _rounded(size: int) -> int:
    """Few different sizes, so that many partitions share a request."""
    return 1 << (size - 1).bit_length()
