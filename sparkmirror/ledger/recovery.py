"""Find out what the settled log holds, then resume. Used by a task in doubt and by the driver after a fence.

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
from sparkmirror.ledger.records import SEQUENCE_MODULUS, Position
from sparkmirror.ledger.runs import Run
from sparkmirror.model import TopicPartition
from sparkmirror.wire import BatchView, PackLimits, Record, pack, read_batches, read_records

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
    last_copy: tuple[int, int, int] | None = None  # where the last record below the position lies, its id and epoch
    foreign_below: bool = False  # the operator accepted foreign records between that record and the position


@dataclass(slots=True)
class Found:
    """Everything up to `position` is in the settled log; `runs` is what was found beyond the baseline."""

    position: Position
    runs: list[Run] = field(default_factory=list)
    marker_last: bool = False
    fenced: bool = False  # a marker of a later epoch lies behind the last record that the baseline's writer wrote
    source_leader_epoch: int = -1  # of the upstream records that were found beyond the baseline; −1 if there are none


@dataclass(frozen=True, slots=True)
class Truncated:
    """The target lost what lay at and above `log_end`."""

    log_end: int


def find_out(base: Baseline) -> Generator[Ask, object, Found | Truncated]:
    """Where the copy really ends."""
    ends = yield from _settled()
    if ends.log_end < base.position.downstream:
        return Truncated(ends.log_end)
    at = max(base.position.downstream, ends.log_start)
    walk = _Walk(base, may_have_holes=base.target_compacts or at > base.position.downstream)
    lost = yield from _lost_below(base, ends, walk)
    if lost is not None:
        return Truncated(lost)
    while at < ends.log_end:
        batches = yield AskTarget(at)
        assert isinstance(batches, list)
        if not batches:
            yield AskPause(SETTLE_PAUSE_S)
            now = yield AskEnds()
            assert isinstance(now, Ends)
            if now.log_end < ends.log_end or now.log_start > at:
                return (yield from find_out(base))  # the log lost its end, or its beginning, while it was read
            continue
        for batch in batches:
            if batch.base_offset >= ends.log_end:
                at = ends.log_end  # what lay before it was compacted away
                break
            if batch.last_offset >= at:
                yield from walk.batch(batch)
                at = batch.last_offset + 1
    walk.end(ends)
    return walk.found


def _lost_below(base: Baseline, ends: Ends, walk: _Walk) -> Generator[Ask, object, int | None]:
    """Where the log begins to differ from what was proven, looked for from the last copy on; None if it does not.

    An unclean election takes proven records away; a fence marker, or a batch of ours that the new leader has no state to
    refuse, then takes their place. The log is as long as before, or longer, and yet not whole (L19).
    """
    if base.sequenced_by is None:
        return None
    top = base.position.downstream - 1
    at = max(base.last_copy[0] if base.last_copy is not None else top, ends.log_start)
    own_from = own_after = -1
    while at <= top:
        batches = yield AskTarget(at)
        assert isinstance(batches, list)
        wanted = [batch for batch in batches if batch.last_offset >= at and batch.base_offset <= top]
        for batch in wanted:
            if batch.last_offset > top or _is_misplaced(base, batch):
                return int(batch.base_offset)
            walk.note_fence(batch)
            if not batch.is_control and base.sequenced_by == (batch.producer_id, batch.producer_epoch):
                own_from = batch.base_offset if own_from < 0 else own_from
                own_after = (batch.base_sequence + batch.last_offset - batch.base_offset + 1) % SEQUENCE_MODULUS
        if not wanted:
            break  # compacted away
        at = wanted[-1].last_offset + 1
    return own_from if own_from >= 0 and own_after != base.position.sequence else None


def _is_misplaced(base: Baseline, batch: BatchView) -> bool:
    """Whether this batch cannot be where it is, if everything below the position is as it was proven."""
    writer = (batch.producer_id, batch.producer_epoch)
    if base.last_copy is None:
        return False
    last, *copied_by = base.last_copy
    if batch.base_offset <= last <= batch.last_offset:
        return batch.is_control or (copied_by[0] >= 0 and writer != tuple(copied_by))
    # Above the last copy there are only markers, and copies whose upstream record was compacted away.
    is_explained = batch.is_control or base.source_compacts or base.foreign_below
    return not is_explained and writer != base.sequenced_by


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
    """Target and source side by side, record by record.

    Records that the target's own cleaner or retention took leave a hole in its offsets and sequences. While the source
    keeps everything, each of them is exactly one source record. When the source compacts too, some of them are gone there
    as well: a hole then only says how many source records may be passed over until the next partner.
    """

    def __init__(self, base: Baseline, *, may_have_holes: bool) -> None:
        self.base = base
        self.found = Found(base.position)
        self._may_have_holes = may_have_holes
        self._source = _SourceTail(base)
        self._next_offset = base.position.downstream
        self._may_skip = 0

    def batch(self, batch: BatchView) -> Generator[Ask, object, None]:
        """Accounts for one batch of the target."""
        is_ours = self.base.producer_ids is None or batch.producer_id in self.base.producer_ids
        # A marker alone is harmless: it may be the fence of this flow under an id that has expired since (R11).
        if not is_ours and not self.base.shared and not batch.is_control:
            raise self._stranger(batch)
        self.note_fence(batch)
        gap = batch.base_offset - self._next_offset
        self._next_offset = batch.last_offset + 1
        if batch.is_control or not is_ours:
            self.found.marker_last = is_ours
            return
        if self._is_of_successor(batch):
            raise self._stranger(batch)
        self.found.marker_last = False
        is_sequenced = self.base.sequenced_by == (batch.producer_id, batch.producer_epoch)
        if is_sequenced:
            hole = self._hole(batch, gap)
            # Where a marker is gone too, it is not known which of the offsets was its.
            yield from self._pass_hole(hole, batch.base_offset - gap if hole == gap else None)
        at = max(batch.base_offset, self.base.position.downstream)
        for record in read_records(batch):
            if record.offset >= at:
                yield from self._pass_hole(record.offset - at, at)
                yield from self._pair(record)
                at = record.offset + 1
        yield from self._pass_hole(batch.last_offset + 1 - at, at)
        if is_sequenced:
            # Compaction may have taken records out of the batch; its offset range still shows how many it had (R14).
            after = batch.base_sequence + batch.last_offset - batch.base_offset + 1
            self.found.position = self.found.position._replace(sequence=after % SEQUENCE_MODULUS)

    def _is_of_successor(self, batch: BatchView) -> bool:
        """Whether a later attempt wrote it: then the caller was superseded, and must not count it as its own."""
        if self.base.sequenced_by is None:
            return False
        producer_id, epoch = self.base.sequenced_by
        return batch.producer_id == producer_id and batch.producer_epoch > epoch

    def note_fence(self, batch: BatchView) -> None:
        """Whether, after this batch, the baseline's writer is kept out by the log itself."""
        writer = (batch.producer_id, batch.producer_epoch)
        if self.base.sequenced_by is None or batch.producer_id not in (self.base.producer_ids or ()):
            return
        producer_id, epoch = self.base.sequenced_by
        if batch.is_control:
            self.found.fenced = self.found.fenced or batch.producer_id != producer_id or batch.producer_epoch > epoch
        elif writer == self.base.sequenced_by:
            self.found.fenced = False

    def end(self, ends: Ends) -> None:
        """The log was read to its end."""
        base = self.base
        is_blind = ends.log_start > base.position.downstream and self.found.position.sequence == base.position.sequence
        if is_blind and base.sequenced_by is not None:
            raise ContentDiffers(
                f"{base.target}: offsets {base.position.downstream} to {ends.log_start - 1} were deleted before it was "
                f"proven what they held"
            )
        self.found.position = self.found.position._replace(downstream=ends.log_end)

    def _hole(self, batch: BatchView, gap: int) -> int:
        """Sequence numbers missing before this batch: compaction or retention took them, or the order is broken."""
        hole = (batch.base_sequence - self.found.position.sequence) % SEQUENCE_MODULUS
        # What was once written has left its offsets behind (R14). A hole without them was never written.
        if hole and (not self._may_have_holes or hole > gap):
            raise OrderBroken(
                f"{self.base.target}: batch at {batch.base_offset} has sequence {batch.base_sequence}, "
                f"expected {self.found.position.sequence}: {hole} records were never written before it"
            )
        return hole

    def _pass_hole(self, count: int, at: int | None) -> Generator[Ask, object, None]:
        """Accounts for records that were copied and are gone since; `at` is the offset of the first, if it is known."""
        if self.base.source_compacts:
            self._may_skip += count
            return
        for number in range(count):
            pair = yield from self._source.next()
            if pair is None:
                raise self._differs(f"{count} records are missing before {self._next_offset}, more than", None)
            if at is not None:
                extend_runs(self.found.runs, pair[0], at + number, 1)
        if count:
            self._move()

    def _pair(self, record: Record) -> Generator[Ask, object, None]:
        pair = yield from self._source.peek()
        skipped = 0
        while pair is not None and not _same(pair[1], record, timestamps=self.base.compare_timestamps):
            if skipped == self._may_skip:
                break
            skipped += 1
            pair = yield from self._source.peek(skipped)
        else:
            if pair is not None:
                self._may_skip -= skipped
                for _ in range(skipped + 1):
                    yield from self._source.next()
                extend_runs(self.found.runs, pair[0], record.offset, 1)
                self._move()
                return
        if not self.base.source_compacts:
            raise self._differs(f"the record at {record.offset} is not the one at", pair)
        # Its upstream record was compacted away since: it keeps its place, without a partner (L9).

    def _move(self) -> None:
        self.found.position = self.found.position._replace(upstream=self._source.upstream)
        self.found.source_leader_epoch = self._source.leader_epoch

    def _differs(self, what: str, pair: tuple[int, Record] | None) -> ContentDiffers:
        at = "the end of the source" if pair is None else f"source offset {pair[0]}"
        return ContentDiffers(
            f"{self.base.target}: {what} {at} of {self.base.partition}; "
            f"the copy was proven up to {self.base.position.downstream}"
        )

    def _stranger(self, batch: BatchView) -> TargetHasStranger:
        return TargetHasStranger(
            f"{self.base.target}: offsets {batch.base_offset} to {batch.last_offset} were written by producer "
            f"{batch.producer_id} in epoch {batch.producer_epoch}, which is not the one that copies here"
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
        self._epochs: deque[tuple[int, int]] = deque()  # where batches begin, and their leader epochs
        self._ended = False

    @property
    def leader_epoch(self) -> int:
        """The newest leader epoch of what was read up to the next record; that epoch reaches at least so far."""
        while len(self._epochs) > 1 and self._epochs[1][0] <= self.upstream:
            self._epochs.popleft()
        return self._epochs[0][1] if self._epochs else -1

    def peek(self, ahead: int = 0) -> Generator[Ask, object, tuple[int, Record] | None]:
        """The next pair of upstream offset and record, or one further on; None at the end."""
        while len(self._ready) <= ahead and not self._ended:
            chunk = yield AskSource(self._read_from)
            assert isinstance(chunk, SourceChunk)
            if chunk.log_start > self._read_from and not self._base.source_compacts:
                raise SourceOffsetLost(
                    f"{self._base.partition}: wanted upstream offset {self._read_from} to verify what was copied, "
                    f"but the source log starts at {chunk.log_start}"
                )
            self._take(chunk)
        return self._ready[ahead] if len(self._ready) > ahead else None

    def _take(self, chunk: SourceChunk) -> None:
        if not chunk.batches:
            self._ended = True
            return
        self._epochs.extend((batch.base_offset, batch.leader_epoch) for batch in chunk.batches)
        packed = pack(
            chunk.batches, from_offset=self._read_from, until_offset=None, aborted=chunk.aborted, limits=READ_LIMITS
        )
        for outgoing in packed.outgoing_batches:
            view = read_batches(memoryview(outgoing.buffer), 0, len(outgoing.buffer), verify_crc=False)[0]
            self._ready.extend(zip(_offsets(outgoing.pieces), read_records(view), strict=True))
        if packed.stopped is not None and not packed.outgoing_batches:
            raise packed.stopped
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
