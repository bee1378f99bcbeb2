"""Cuts what is to be compared of a partition into ranges: by the exact map, or between records found on both sides."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from sparkmirror.comparison import ComparedRange
from sparkmirror.ledger import PartitionHistory, Run, Runs
from sparkmirror.offsets import OffsetMap
from sparkmirror.verification.anchors import AGREE, Log, find_place
from sparkmirror.verification.memory import Stretch


class Point(NamedTuple):
    """An offset of the source and the one of the target that belongs to it."""

    upstream: int
    downstream: int


@dataclass(frozen=True, slots=True)
class Span:
    """What of a partition is to be compared in one way; `range` has what all of its ranges share."""

    start: Point
    end: Point
    range: ComparedRange

    def between(self, start: Point, end: Point) -> ComparedRange:
        """One range of it."""
        made = replace(
            self.range, start=start.upstream, end=end.upstream, target_start=start.downstream, target_end=end.downstream
        )
        return replace(
            made,
            is_anchored=self.range.is_anchored or start != self.start,
            is_tail=self.range.is_tail and end == self.end,
        )


def unverified(span: Span, known: Sequence[Stretch]) -> Iterator[tuple[Point, Point]]:
    """What of a span is not among the ranges that were verified before."""
    at, end = span.start, span.end
    for first, last, target_first, target_last in sorted(known):
        if first >= end.upstream:
            break
        if last < at.upstream or target_last < at.downstream:
            continue
        if first > at.upstream:
            yield at, Point(first, target_first)
        at = Point(last, target_last)
    if at.upstream < end.upstream or at.downstream < end.downstream:
        yield at, end


def still_holds(known: Stretch, offset_map: OffsetMap) -> bool:
    """Whether a verified range is what the map says now: a partition that was reset is copied again further down."""
    first, last, target_first, target_last = known
    begins, ends = offset_map.downstream(first), offset_map.end_before(last)
    return (begins is None or begins >= target_first) and (ends is None or ends <= target_last)


def cut_exact(
    span: Span, offset_map: OffsetMap, pieces: Sequence[tuple[Point, Point]], step: int
) -> Iterator[ComparedRange]:
    """The pieces in ranges of at most so many offsets, each with its part of the map."""
    borders: list[tuple[Point, Point]] = []
    for start, end in pieces:
        at = start
        while end.upstream - at.upstream > step:
            upstream = at.upstream + step
            place = offset_map.downstream(upstream)
            border = Point(upstream, end.downstream if place is None else place)
            borders.append((at, border))
            at = border
        borders.append((at, end))
    runs = _clipped(offset_map.runs(), borders)
    for (start, end), own in zip(borders, runs, strict=True):
        yield replace(span.between(start, end), runs=own)


def _clipped(runs: Iterator[Run], borders: Sequence[tuple[Point, Point]]) -> Iterator[Runs]:
    """The runs of each range; both in order, and read once."""
    run = next(runs, None)
    for start, end in borders:
        own: list[Run] = []
        while run is not None and run.upstream < end.upstream:
            first, last = max(run.upstream, start.upstream), min(run.end, end.upstream)
            if first < last:
                own.append(Run(first, run.downstream + first - run.upstream, last - first))
            if run.end > end.upstream:
                break
            run = next(runs, None)
        yield Runs(own)


def cut_by_contents(
    span: Span, pieces: Sequence[tuple[Point, Point]], step: int, source: Log, target: Log
) -> Iterator[ComparedRange]:
    """The pieces in ranges of about so many records; where the same records are not found on both sides, it is not cut."""
    for start, end in pieces:
        at = start
        for downstream in range(start.downstream + step, end.downstream - step // 2, step):
            rows = target.some(downstream, AGREE)
            upstream = find_place(rows, source, at.upstream + downstream - at.downstream) if rows else None
            if upstream is not None and at.upstream < upstream < end.upstream:
                border = Point(upstream, rows[0][0])
                yield span.between(at, border)
                at = border
        yield span.between(at, end)


def replaced_copies(history: PartitionHistory) -> tuple[tuple[int, int], ...]:
    """Ranges of the target that hold older copies, from before a move back: what counts now lies further down."""
    newest = history.newest
    if newest is None or not any(order.is_move for order in history.opens.values()):
        return ()
    topics = newest.topic_incarnation
    found = sorted(
        (run.downstream, run.downstream + run.length)
        for (attempt, _), block in history.blocks.items()
        if attempt in history.opens and history.opens[attempt].topic_incarnation == topics
        for run in block.runs
    )
    joined: list[tuple[int, int]] = []
    for start, end in found:
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return tuple(joined)


def passed_over(history: PartitionHistory) -> tuple[tuple[int, int], ...]:
    """Ranges of the target that others wrote and a move forward left behind: what came home after a failover."""
    opens, runs, found = history.counted(), list(history.runs()), []
    for gap in history.accepted_gaps():
        order = opens[gap.attempt]
        end = order.position.downstream
        start = max((run.downstream + run.length for run in runs if run.downstream < end), default=0)
        if order.is_move and start < end:
            found.append((start, end))
    return tuple(found)


def records_below(offset_map: OffsetMap, upstream: int) -> int:
    """How many records of the map lie below an upstream offset."""
    return sum(min(run.end, upstream) - run.upstream for run in offset_map.runs() if run.upstream < upstream)


def first_upstream_at(offset_map: OffsetMap, downstream: int) -> int:
    """The first upstream offset whose record lies at a downstream offset or after it; behind the last one if none does."""
    runs = list(offset_map.runs())
    at = bisect_left(runs, downstream, key=lambda run: run.downstream + run.length - 1)
    if at == len(runs):
        return runs[-1].end if runs else 0
    run = runs[at]
    return run.upstream + max(downstream - run.downstream, 0)
