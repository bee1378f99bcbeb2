"""Proves that two offsets mean the same record, by reading a few of both logs. Pure: yields requests, gets records.

The next record at the upstream position is compared with the next one at the downstream position, with up to four that
follow; where a position is at its log's end, the records before it are compared instead. Where they differ, the target's
record is looked for on the source: where the map says it is, else along the log, within a budget.

Left out of the comparison: batch checksums (MirrorMaker 2 makes other batches), and times that the target's log stamped.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeVar

from sparkmirror.offsets.proof.values import OffsetBounds, Pair, Proof, RecordAsk, RecordRange, Result, Seen, Side

T = TypeVar("T")
Asking = Generator[RecordAsk, RecordRange, T]

WINDOW = 5  # records that are compared, so that one repeated record does not fool us
ENOUGH = 3  # with fewer of them behind the positions, those before are compared too
WALK = 500  # records of one step along a log
# How far back the last visible record is looked for: markers of transactions and holes of compaction lie between.
STEPS_BACK = (WINDOW, 64, 1_024)


class _Unanswered(Exception):
    """A log gave no answer, or the budget is spent; never leaves this module."""


class _Likeness(Enum):
    """How far two runs of records are copies of each other."""

    NONE = 0
    FIRST = 1  # only the first of them
    WHOLE = 2

    def __bool__(self) -> bool:
        return self is not _Likeness.NONE


@dataclass(frozen=True, slots=True)
class _Located:
    """The upstream position that one of the target means."""

    offset: int
    is_certain: bool


def same_record(source: Seen, target: Seen) -> bool:
    """Whether one is a copy of the other. A source without times (−1) has them stamped on the way."""
    if source.fingerprint != target.fingerprint:
        return False
    return target.is_append_time or source.timestamp in (-1, target.timestamp)


def prove(pair: Pair) -> Asking[Proof]:
    """Whether the downstream position is right, proven by the records."""
    proving = _Proving(pair)
    if pair.downstream > pair.target_end:
        return proving.proof("beyond end", records=pair.downstream - pair.target_end)
    if pair.upstream > pair.source_end:
        return proving.unproven(f"the source position lies past the source's end {pair.source_end}")
    if pair.upstream < pair.source_first:
        return proving.unproven(f"the source deleted the record at its position, its log starts at {pair.source_first}")
    try:
        return (yield from proving.compare())
    except _Unanswered as refused:
        return proving.unproven(str(refused))


class _Proving:
    """One running proof. A reader whose position the target deleted resumes at the first record that is left."""

    def __init__(self, pair: Pair) -> None:
        self._pair = pair
        self._at = max(pair.downstream, pair.target_first)
        self._has_holes = pair.is_compacted

    def compare(self) -> Asking[Proof]:
        """The records at both positions, and what follows from them."""
        ours = yield from self._window("source", self._pair.upstream)
        theirs = yield from self._window("target", self._at)
        if self._likeness(ours, theirs):
            return (yield from self._confirm(ours, theirs))
        if theirs:
            found = yield from self._locate(theirs)
            return (yield from self._measure(found, ours))
        return (yield from self._compare_ends(ours))

    def _confirm(self, ours: Sequence[Seen], theirs: Sequence[Seen]) -> Asking[Proof]:
        """The records behind both positions are alike; with few of them, those before must be, too."""
        shared = min(len(ours), len(theirs))
        is_certain = self._likeness(ours, theirs) is _Likeness.WHOLE and not _is_monotonous(ours[:shared])
        if shared < ENOUGH:
            before = yield from self._before("source", self._pair.upstream)
            there = yield from self._before("target", self._at)
            likeness = self._likeness(before[::-1], there[::-1])
            is_varied = not _is_monotonous([*before, *ours[:shared]])
            is_certain = not (before and there) or (likeness is _Likeness.WHOLE and is_varied)
        return self.proof("exact", is_certain=is_certain)

    def _compare_ends(self, ours: Sequence[Seen]) -> Asking[Proof]:
        """Nothing lies behind the target position: what counts is the last record before it."""
        there = yield from self._before("target", self._at)
        if not there and not ours and self._pair.is_empty:
            return self.proof("exact")  # whatever comes next is read on either side
        if not there:
            return self.unproven("the target holds no record to compare with")
        before = yield from self._before("source", self._pair.upstream)
        likeness = self._likeness(before[::-1], there[::-1])
        if likeness:
            return self.proof("exact", is_certain=likeness is _Likeness.WHOLE and not _is_monotonous(before))
        last = yield from self._locate(there[-1:])
        return (yield from self._measure(_Located(last.offset + 1, last.is_certain), ours))

    # --- finding a record of the target on the source ----------------------------------------------------------

    def _locate(self, theirs: Sequence[Seen]) -> Asking[_Located]:
        """Where the first of these records of the target lies on the source."""
        if _is_monotonous(theirs):
            raise _Unanswered("the records there are all alike")
        bounds, first = self._pair.bounds(theirs[0].offset), self._pair.source_first
        if bounds is not None:
            guessed = yield from self._window("source", max(bounds.guess, first), len(theirs))
            if self._likeness(guessed, theirs) is _Likeness.WHOLE:
                return _Located(guessed[0].offset, True)
            found = yield from self._walk(bounds, theirs)
            if found is None and bounds.low > first:  # a map that leads astray must not hide what lies before
                found = yield from self._walk(OffsetBounds(first, first, bounds.low), theirs)
        else:
            start = yield from self._start_by_time(theirs[0])
            found = yield from self._walk(OffsetBounds(start, start, None), theirs)
        if found is None:
            raise _Unanswered(self._not_found(theirs[0].offset))
        return found

    def _start_by_time(self, record: Seen) -> Asking[int]:
        """Where a walk begins if nothing is known: a copy cannot lie before the first record of its time."""
        first = self._pair.source_first
        if record.is_append_time or record.timestamp < 0:
            return first
        found = yield RecordAsk("source", first, 0, timestamp=record.timestamp)
        _require(found)
        return max(found.next_offset, first)

    def _walk(self, bounds: OffsetBounds, theirs: Sequence[Seen]) -> Asking[_Located | None]:
        """Looks for a run of records along the source; raises when the budget ends before the log does."""
        at = max(bounds.low, self._pair.source_first)
        tail: list[Seen] = []
        likely: _Located | None = None
        while bounds.high is None or (tail[0].offset if tail else at) < bounds.high:
            found_range = yield RecordAsk("source", at, WALK, is_walk=True)
            if found_range.trouble and likely is not None:
                return likely
            _require(found_range)
            tail = [*tail, *found_range.records]
            is_last = found_range.is_end or found_range.next_offset <= at
            whole = len(tail) if is_last else max(len(tail) - len(theirs) + 1, 0)
            for start in range(whole):
                likeness = self._likeness(tail[start : start + len(theirs)], theirs)
                if likeness is _Likeness.WHOLE:
                    return _Located(tail[start].offset, True)
                if likeness and likely is None:
                    likely = _Located(tail[start].offset, False)
            if is_last:
                return likely
            tail, at = tail[whole:], found_range.next_offset
        return likely

    def _not_found(self, offset: int) -> str:
        why = "compaction or retention" if self._pair.is_compacted else "retention"
        why += " removed it there, another producer wrote it, or it was changed on the way"
        return f"the target's record at offset {offset} was not found on the source: {why}"

    # --- counting ------------------------------------------------------------------------------------------------

    def _measure(self, found: _Located, ours: Sequence[Seen]) -> Asking[Proof]:
        """The downstream position means this upstream one: how many records lie between it and the group's own?"""
        pair, is_certain, means = self._pair, found.is_certain, found.offset
        distance = pair.upstream - means
        if distance == 0:
            return self.proof("exact", is_certain=is_certain)
        result: Result = "behind" if distance > 0 else "ahead"
        there = self._at + distance
        if not self._has_holes and pair.target_first <= there <= pair.target_end:
            matching = yield from self._window("target", there)
            is_end = not ours and not matching and there == pair.target_end
            is_same = is_end or self._likeness(ours, matching) is _Likeness.WHOLE
            if is_same and not self._has_holes:  # as many on both sides, and no hole was seen on either
                proof = self.proof(result, records=abs(distance), is_certain=is_certain)
                return replace(proof, means=means, wanted=there)
        count = yield from self._count(min(means, pair.upstream), max(means, pair.upstream))
        if count == 0:
            return self.proof("exact", is_certain=is_certain)
        records = abs(distance) if count is None else count
        proof = self.proof(result, records=records, is_counted=count is not None, is_certain=is_certain)
        return replace(proof, means=means)

    def _count(self, start: int, stop: int) -> Asking[int | None]:
        """Visible records of the source between two offsets; None if the budget does not reach."""
        count, at = 0, start
        while at < stop:
            found_range = yield RecordAsk("source", at, WALK, is_walk=True)
            if found_range.trouble:
                return None
            count += sum(record.offset < stop for record in found_range.records)
            if found_range.is_end or found_range.next_offset <= at:
                break
            at = found_range.next_offset
        return count

    # --- reading -------------------------------------------------------------------------------------------------

    def _window(self, side: Side, offset: int, count: int = WINDOW) -> Asking[list[Seen]]:
        """The next records at a position, fewer at the end of the log."""
        found: list[Seen] = []
        at = offset
        while len(found) < count:
            found_range = yield RecordAsk(side, at, count - len(found))
            _require(found_range)
            self._has_holes = self._has_holes or found_range.has_holes
            found += found_range.records
            if found_range.is_end or found_range.next_offset <= at:
                break
            at = found_range.next_offset
        return found[:count]

    def _before(self, side: Side, offset: int) -> Asking[list[Seen]]:
        """The last records before a position."""
        first = self._pair.source_first if side == "source" else self._pair.target_first
        for back in STEPS_BACK:
            at = max(offset - back, first)
            found: list[Seen] = []
            while at < offset:
                found_range = yield RecordAsk(side, at, back)
                _require(found_range)
                self._has_holes = self._has_holes or found_range.has_holes
                found += [record for record in found_range.records if record.offset < offset]
                if found_range.is_end or found_range.next_offset <= at:
                    break
                at = found_range.next_offset
            if found or offset - back <= first:
                return found[-WINDOW:]
        return []

    def _likeness(self, ours: Sequence[Seen], theirs: Sequence[Seen]) -> _Likeness:
        """Compares as many as both have. In a compacted log other records may follow on each side: the first one decides."""
        if not ours or not theirs or not same_record(ours[0], theirs[0]):
            return _Likeness.NONE
        if all(same_record(a, b) for a, b in zip(ours, theirs, strict=False)):
            return _Likeness.WHOLE
        return _Likeness.WHOLE if self._pair.is_compacted and not theirs[0].is_append_time else _Likeness.FIRST

    # --- results -------------------------------------------------------------------------------------------------

    def proof(
        self, result: Result, *, records: int | None = None, is_counted: bool = True, is_certain: bool = True
    ) -> Proof:
        """The answer, with a note if the target deleted the position."""
        pair, is_exact = self._pair, result == "exact"
        is_deleted = pair.downstream < pair.target_first
        return Proof(
            result=result,
            upstream=pair.upstream,
            downstream=pair.downstream,
            records=records,
            is_counted=is_counted,
            is_certain=is_certain,
            reason=f"the target deleted the record at its position, its log starts at {pair.target_first}" * is_deleted,
            means=pair.upstream if is_exact else None,
            wanted=self._at if is_exact else None,
        )

    def unproven(self, reason: str) -> Proof:
        """No answer, and why."""
        return Proof(
            result="unproven", upstream=self._pair.upstream, downstream=self._pair.downstream, reason=reason
        )


def _require(found_range: RecordRange) -> None:
    if found_range.trouble:
        raise _Unanswered(found_range.trouble)


def _is_monotonous(records: Sequence[Seen]) -> bool:
    """Whether there are several and all the same, times included: then any of their places would look right."""
    return len(records) > 1 and len({(record.timestamp, record.fingerprint) for record in records}) == 1
