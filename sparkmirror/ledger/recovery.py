"""Find out what the settled log holds, then go on. Used by a task in doubt and by the driver after a fence.

A generator that asks for what it needs and is resumed with the answer; whoever drives it (a slot's event loop, the
driver, the simulator) does the I/O. It streams: neither tail is ever held whole.

What the end of the log means: a client sees the high watermark, not the end. Records that a dead writer sent may lie on
the leader, unreplicated, and become visible later (D1). So the log is read only when both are equal under one leader epoch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field

from sparkmirror.errors import ContentDiffers, OrderBroken, SourceOffsetLost, TargetHasStranger
from sparkmirror.ledger.partition import extend_runs
from sparkmirror.ledger.records import SEQUENCE_MODULUS, Position, Run
from sparkmirror.model import TopicPartition
from sparkmirror.wire import BatchView, PackLimits, Record, pack, read_batches, read_records

__all__ = [
    "Ask",
    "AskEnds",
    "AskPause",
    "AskSource",
    "AskTarget",
    "Baseline",
    "Ends",
    "Found",
    "SourceChunk",
    "Truncated",
    "find_out",
]

SETTLE_PAUSE_S = 0.05
RECORD_BYTES_MAX = 1 << 30
READ_LIMITS = PackLimits(
    batch_bytes_max=RECORD_BYTES_MAX, merge_below_bytes=0, merge_to_bytes=0, decompressed_bytes_max=RECORD_BYTES_MAX
)


@dataclass(frozen=True, slots=True)
class AskEnds:
    """Wants `Ends` of the target partition."""


@dataclass(frozen=True, slots=True)
class AskTarget:
    """Wants the target's batches from `offset` on, as a list of BatchView (uncommitted, control batches included)."""

    offset: int


@dataclass(frozen=True, slots=True)
class AskSource:
    """Wants a `SourceChunk` from `offset` on, at the isolation of the open."""

    offset: int


@dataclass(frozen=True, slots=True)
class AskPause:
    """Wants to be resumed after this long."""

    seconds: float


Ask = AskEnds | AskTarget | AskSource | AskPause


@dataclass(frozen=True, slots=True)
class Ends:
    """High watermark, log end on the leader, leader epoch, log start."""

    high_watermark: int
    log_end: int
    leader_epoch: int
    log_start: int


@dataclass(frozen=True, slots=True)
class SourceChunk:
    """Batches of the source, the aborted transactions of this answer, and the log start."""

    batches: Sequence[BatchView]
    aborted: Sequence[tuple[int, int]] | None
    log_start: int


@dataclass(frozen=True, slots=True)
class Baseline:
    """From where to read, and whose batches are ours."""

    partition: TopicPartition
    target: TopicPartition
    position: Position
    producer_ids: frozenset[int] | None  # None: whoever wrote there before us (a MirrorMaker 2 that was stopped)
    sequenced_by: tuple[int, int] | None  # (id, epoch) whose sequence numbers continue at position.sequence
    shared: bool
    source_compacts: bool
    target_compacts: bool
    compare_timestamps: bool


@dataclass(slots=True)
class Found:
    """Everything up to `position` is in the settled log; `runs` is what was found beyond the baseline."""

    position: Position
    runs: list[Run] = field(default_factory=list)
    marker_last: bool = False


@dataclass(frozen=True, slots=True)
class Truncated:
    """The target lost what lay at and above `log_end`."""

    log_end: int


def find_out(base: Baseline) -> Generator[Ask, object, Found | Truncated]:
    """Where the copy really stands."""
    ends = yield from _settled()
    if ends.log_end < base.position.downstream:
        return Truncated(ends.log_end)
    at = max(base.position.downstream, ends.log_start)
    walk = _Walk(base, may_have_holes=base.target_compacts or at > base.position.downstream)
    while at < ends.log_end:
        batches = yield AskTarget(at)
        assert isinstance(batches, list)
        if not batches:
            yield AskPause(SETTLE_PAUSE_S)
            continue
        for batch in batches:
            if batch.last_offset < at or batch.base_offset >= ends.log_end:
                continue
            yield from walk.batch(batch)
            at = batch.last_offset + 1
    walk.found.position = walk.found.position._replace(downstream=ends.log_end)
    return walk.found


def _settled() -> Generator[Ask, object, Ends]:
    while True:
        before = yield AskEnds()
        assert isinstance(before, Ends)
        if before.high_watermark == before.log_end:
            after = yield AskEnds()
            if after == before:
                return before
        yield AskPause(SETTLE_PAUSE_S)


class _Walk:
    """Target and source side by side, record by record."""

    def __init__(self, base: Baseline, *, may_have_holes: bool) -> None:
        self.base = base
        self.found = Found(base.position)
        self._may_have_holes = may_have_holes
        self._source = _SourceTail(base)

    def batch(self, batch: BatchView) -> Generator[Ask, object, None]:
        """Accounts for one batch of the target."""
        is_ours = self.base.producer_ids is None or batch.producer_id in self.base.producer_ids
        if not is_ours and not self.base.shared:
            raise self._stranger(batch)
        if batch.is_control or not is_ours:
            self.found.marker_last = is_ours
            return
        self.found.marker_last = False
        is_sequenced = self.base.sequenced_by == (batch.producer_id, batch.producer_epoch)
        if is_sequenced:
            yield from self._pass_hole(self._hole(batch))
        for record in read_records(batch):
            if record.offset >= self.base.position.downstream:
                yield from self._pair(record)
        if is_sequenced:
            # Compaction may have taken records out of the batch; its offset range still tells how many it had (R14).
            after = batch.base_sequence + batch.last_offset - batch.base_offset + 1
            self.found.position = self.found.position._replace(sequence=after % SEQUENCE_MODULUS)

    def _hole(self, batch: BatchView) -> int:
        """Sequence numbers missing before this batch: compaction or retention took them, or the order is broken."""
        hole = (batch.base_sequence - self.found.position.sequence) % SEQUENCE_MODULUS
        if hole and not self._may_have_holes:
            raise OrderBroken(
                f"{self.base.target}: batch at {batch.base_offset} has sequence {batch.base_sequence}, "
                f"expected {self.found.position.sequence}: {hole} records were never written before it"
            )
        return hole

    def _pass_hole(self, count: int) -> Generator[Ask, object, None]:
        for _ in range(count):
            pair = yield from self._source.next()
            if pair is None:
                return
        self.found.position = self.found.position._replace(upstream=self._source.upstream)

    def _pair(self, record: Record) -> Generator[Ask, object, None]:
        pair = yield from self._source.peek()
        if pair is not None and _same(pair[1], record, timestamps=self.base.compare_timestamps):
            yield from self._source.next()
            extend_runs(self.found.runs, pair[0], record.offset, 1)
            self.found.position = self.found.position._replace(upstream=self._source.upstream)
            return
        if self.base.source_compacts:
            return  # its upstream record was compacted away since: it keeps its place, without a partner (L9)
        at = "the end of the source" if pair is None else f"source offset {pair[0]}"
        raise ContentDiffers(
            f"{self.base.target}: the record at {record.offset} is not the one at {at} of {self.base.partition}; "
            f"the copy was proven up to {self.base.position.downstream}",
            hint="compare both records; to accept the target as it is, set the position by hand",
        )

    def _stranger(self, batch: BatchView) -> TargetHasStranger:
        return TargetHasStranger(
            f"{self.base.target}: offsets {batch.base_offset} to {batch.last_offset} were written by producer "
            f"{batch.producer_id}, which is none of this flow's",
            hint="stop the other writer; if it is meant to share the topic, use another remote topic",
        )


def _same(left: Record, right: Record, *, timestamps: bool) -> bool:
    return (
        left.key == right.key
        and left.value == right.value
        and left.headers == right.headers
        and (not timestamps or left.timestamp == right.timestamp)
    )


class _SourceTail:
    """The source's wanted records from the baseline on, fetched as they are needed."""

    def __init__(self, base: Baseline) -> None:
        self._base = base
        self.upstream = base.position.upstream
        self._read_from = base.position.upstream
        self._ready: deque[tuple[int, Record]] = deque()
        self._ended = False

    def peek(self) -> Generator[Ask, object, tuple[int, Record] | None]:
        """The next pair of upstream offset and record, or None at the end."""
        while not self._ready and not self._ended:
            chunk = yield AskSource(self._read_from)
            assert isinstance(chunk, SourceChunk)
            if chunk.log_start > self._read_from and not self._base.source_compacts:
                raise SourceOffsetLost(
                    f"{self._base.partition}: wanted upstream offset {self._read_from} to verify what was copied, "
                    f"but the source log starts at {chunk.log_start}"
                )
            self._take(chunk)
        return self._ready[0] if self._ready else None

    def _take(self, chunk: SourceChunk) -> None:
        if not chunk.batches:
            self._ended = True
            return
        packed = pack(
            chunk.batches, from_offset=self._read_from, until_offset=None, aborted=chunk.aborted, limits=READ_LIMITS
        )
        for parcel in packed.parcels:
            view = read_batches(memoryview(parcel.buffer), 0, len(parcel.buffer), verify_crc=False)[0]
            self._ready.extend(zip(_offsets(parcel.pieces), read_records(view), strict=True))
        self._read_from = packed.next_upstream

    def next(self) -> Generator[Ask, object, tuple[int, Record] | None]:
        """Takes the next pair."""
        pair = yield from self.peek()
        if pair is not None:
            self._ready.popleft()
            self.upstream = self._ready[0][0] if self._ready else max(self._read_from, pair[0] + 1)
        return pair


def _offsets(pieces: Sequence[tuple[int, int]]) -> Iterator[int]:
    for first, length in pieces:
        yield from range(first, first + length)
