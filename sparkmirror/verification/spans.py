"""Which parts of one partition are compared by the ledger and which by their records, and what needs no comparing.

```
source   deleted | copied by MirrorMaker 2 | by sparkmirror, by its ledger | by MirrorMaker 2 again | lag
```
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from sparkmirror.clusters import name_of
from sparkmirror.clusters.probing import PartitionEnds
from sparkmirror.comparison import ComparedRange, Why
from sparkmirror.ledger import PartitionHistory, Runs
from sparkmirror.model import TopicPartition
from sparkmirror.offsets import OffsetMap
from sparkmirror.state import SyncPair
from sparkmirror.verification.anchors import AGREE, Log, find_place
from sparkmirror.verification.memory import Stretch
from sparkmirror.verification.ranges import (
    Point,
    Span,
    first_upstream_at,
    passed_over,
    records_below,
    replaced_copies,
    still_holds,
    unverified,
)


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """What both clusters say of one partition; `source_end` is what a reader of the flow's isolation gets."""

    source: TopicPartition
    target: TopicPartition
    ids: tuple[str, str]
    source_ends: PartitionEnds
    target_ends: PartitionEnds
    history: PartitionHistory | None
    offset_map: OffsetMap | None
    mm2_next: int | None  # the next upstream offset by MirrorMaker 2's position
    first_sync: SyncPair | None
    source_compacts: bool
    target_compacts: bool


@dataclass(slots=True)
class PartitionPlan:
    """One partition: its ranges, what is known before anything is read, and why a part of it is not compared."""

    source: TopicPartition
    target: TopicPartition
    ids: tuple[str, str]
    ranges: list[ComparedRange] = field(default_factory=list)
    known: list[Stretch] = field(default_factory=list)  # verified by an earlier run, and not read again
    explained: Counter[Why] = field(default_factory=Counter)
    unread: list[str] = field(default_factory=list)
    is_lost: bool = False  # what was copied is not on the target any more
    sampled_out: int = 0
    copied_end: int = 0  # the upstream offset behind the last record that the ledger says is copied
    spans: list[tuple[Span, OffsetMap | None]] = field(default_factory=list)

    @property
    def pieces(self) -> list[tuple[Span, OffsetMap | None, list[tuple[Point, Point]]]]:
        """Each span with what of it was not verified before."""
        return [(span, places, list(unverified(span, self.known))) for span, places in self.spans]


class SpanPlanner:
    """One partition, once. `logs` opens both sides, for those who must look at records to plan."""

    def __init__(self, facts: PartitionFacts, logs: Callable[[], tuple[Log, Log]]) -> None:
        self._facts, self._logs = facts, logs
        self._plan = PartitionPlan(facts.source, facts.target, facts.ids)
        self._shared = ComparedRange(
            facts.source, facts.target, 0, 0, 0, 0,
            source_compacts=facts.source_compacts, target_compacts=facts.target_compacts,
        )  # fmt: skip

    def plan(self, since: int | None, known: tuple[Stretch, ...]) -> PartitionPlan:
        """Its spans; with `since` only from this upstream offset on."""
        facts, plan = self._facts, self._plan
        for side, ends in (("source", facts.source_ends), ("target", facts.target_ends)):
            if not ends.is_known:
                plan.unread.append(f"the {side} does not give its offsets: {name_of(ends.error)}")
                return plan
        newest = facts.history.newest if facts.history is not None else None
        if newest is not None and newest.topic_incarnation != facts.ids:
            which = "source" if newest.source_topic_id != facts.ids[0] else "target"
            plan.unread.append(f"the {which} topic was re-created since it was copied")
            plan.is_lost = which == "target"
            return plan
        offset_map = facts.offset_map
        if offset_map is not None and offset_map.first is not None:
            self._by_ledger(offset_map)
            plan.known = [stretch for stretch in known if self._is_kept(stretch, offset_map)]
        else:
            self._by_contents(self._start(), self._end(), is_anchored=False, is_tail=True)
            plan.known = list(known)
        if since is not None:
            self._from(since)
        return plan

    def _is_kept(self, known: Stretch, offset_map: OffsetMap) -> bool:
        spans = [span for span, places in self._plan.spans if places is not None]
        is_exact = any(span.start.upstream < known[1] and known[0] < span.end.upstream for span in spans)
        return not is_exact or still_holds(known, offset_map)

    # --- by the ledger -------------------------------------------------------------------------------------------

    def _by_ledger(self, offset_map: OffsetMap) -> None:
        facts, plan, history = self._facts, self._plan, self._facts.history
        assert history is not None and offset_map.first is not None
        position = history.position()
        assert position is not None
        gaps = tuple((gap.upstream, gap.until) for gap in history.accepted_gaps())
        replaced = replaced_copies(history)
        shared = replace(self._shared, gaps=gaps, replaced=replaced, passed=passed_over(history), runs=Runs())
        source_first, target_first = facts.source_ends.first, facts.target_ends.first
        first = offset_map.first
        start = max(first.upstream, source_first)
        plan.explained[Why.SOURCE_DELETED] += records_below(offset_map, source_first)
        kept = first_upstream_at(offset_map, target_first) if target_first > first.downstream else first.upstream
        plan.explained[Why.TARGET_DELETED] += max(
            records_below(offset_map, kept) - records_below(offset_map, start), 0
        )
        start = max(start, kept)
        is_newest = facts.mm2_next is not None and facts.mm2_next > position.upstream
        is_closed = history.is_closed and not is_newest
        end = Point(position.upstream, facts.target_ends.end if is_closed else position.downstream)
        begin = Point(min(start, end.upstream), self._downstream(offset_map, start, end))
        self._head(Point(first.upstream, first.downstream), replaced, gaps)
        if begin.upstream < end.upstream or begin.downstream < end.downstream:
            plan.spans.append((Span(begin, end, replace(shared, is_tail=is_closed)), offset_map))
        plan.copied_end = end.upstream
        if is_newest:
            # A live MirrorMaker 2 has copied more than its stored position says.
            self._by_contents(Point(*position[:2]), self._end(), is_anchored=True, is_tail=True)

    def _downstream(self, offset_map: OffsetMap, upstream: int, end: Point) -> int:
        found = offset_map.downstream(upstream)
        return min(max(end.downstream if found is None else found, self._facts.target_ends.first), end.downstream)

    def _head(self, first: Point, replaced: tuple[tuple[int, int], ...], gaps: tuple[tuple[int, int], ...]) -> None:
        """What lies before the ledger's first record: MirrorMaker 2's copy, or nothing."""
        facts, plan = self._facts, self._plan
        source_first, target_first = facts.source_ends.first, facts.target_ends.first
        is_replaced = any(start < first.downstream for start, _ in replaced)
        if target_first < first.downstream and source_first < first.upstream and not is_replaced:
            self._by_contents(self._start(), first, is_anchored=False, is_tail=False)
        elif source_first < first.upstream:
            given_up = sum(min(until, first.upstream) - start for start, until in gaps if start < first.upstream)
            plan.explained[Why.ACCEPTED_GAP] += given_up
            plan.explained[Why.BEFORE_COPY] += max(first.upstream - source_first - given_up, 0)
        elif target_first < first.downstream:
            why = Why.COPIED_AGAIN if is_replaced else Why.SOURCE_DELETED
            plan.explained[why] += first.downstream - target_first

    # --- by contents ---------------------------------------------------------------------------------------------

    def _start(self) -> Point:
        return Point(self._facts.source_ends.first, self._facts.target_ends.first)

    def _end(self) -> Point:
        return Point(self._facts.source_ends.end, self._facts.target_ends.end)

    def _by_contents(self, start: Point, end: Point, *, is_anchored: bool, is_tail: bool) -> None:
        facts = self._facts
        if start.downstream >= end.downstream:
            return  # nothing of it is on the target
        if not is_anchored:
            start, is_anchored = self._anchored(start, end)
        lag_from = end.upstream if not is_tail else facts.mm2_next or 0
        shared = replace(self._shared, is_anchored=is_anchored, lag_from=lag_from, is_tail=is_tail)
        self._plan.spans.append((Span(start, end, shared), None))

    def _anchored(self, start: Point, end: Point) -> tuple[Point, bool]:
        """Where the first record of the target lies on the source, if it was not simply the first of both."""
        sync, first = self._facts.first_sync, start
        if start.upstream == start.downstream == 0 and (sync is None or sync.upstream == sync.downstream):
            return start, True
        source, target = self._logs()
        rows = target.some(start.downstream, AGREE)
        if not rows:
            return start, False
        guess = start.upstream if sync is None else max(sync.upstream - (sync.downstream - rows[0][0]), start.upstream)
        for near in dict.fromkeys((guess, start.upstream)):
            upstream = find_place(rows, source, near)
            if upstream is not None and upstream < end.upstream:
                why = Why.TARGET_DELETED if self._facts.target_ends.first > 0 else Why.BEFORE_COPY
                self._plan.explained[why] += upstream - first.upstream
                return Point(upstream, rows[0][0]), True
        return start, False

    # --- only from a time on -------------------------------------------------------------------------------------

    def _from(self, since: int) -> None:
        """Leaves out what lies before an upstream offset."""
        kept = []
        for span, places in self._plan.spans:
            if span.end.upstream <= since:
                continue
            start = span.start
            if places is not None and start.upstream < since:
                start = Point(since, self._downstream(places, since, span.end))
            elif start.upstream < since:
                start = self._place_of(since, start)
            kept.append((replace(span, start=start), places))
        self._plan.spans = kept
        self._plan.explained.clear()

    def _place_of(self, upstream: int, start: Point) -> Point:
        """Where a record of the source lies on the target; where it is not found, from the start of the span."""
        source, target = self._logs()
        rows = source.some(upstream, AGREE)
        guess = start.downstream + upstream - start.upstream
        downstream = find_place(rows, target, guess) if rows else None
        return start if downstream is None else Point(rows[0][0], downstream)
