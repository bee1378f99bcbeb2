"""Compares a range whose offset map is exact: each record of the source has one place on the target.

Batches that were copied as they are are compared as bytes. Where a batch was merged, rebuilt or differs, its records are
compared one by one, each at its place.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from hashlib import blake2b

from sparkmirror.comparison.contents import ANY_TIME, Cell, PlacePair, are_equal, judge
from sparkmirror.comparison.logs import ContentDigest, Recent, Side, have_equal_bytes
from sparkmirror.comparison.values import (
    ComparedRange,
    Difference,
    DifferenceKind,
    Earlier,
    Entry,
    Findings,
    Stream,
    Why,
    nothing,
)
from sparkmirror.ledger import Run
from sparkmirror.wire import BatchView
from sparkmirror.wire.tails import read_tail

# Differing places that follow each other are judged together, up to so many.
PAIRS_MAX = 256
# Lost keys of one range that are looked up later on; a range holds less than this unless nearly all of it was compacted.
UNSETTLED_MAX = 200_000
KEY_DIGEST_BYTES = 8


class Places:
    """Where the records of a range belong on the target, and back."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs = list(runs)
        self._starts = [run.upstream for run in runs]
        self._targets = [run.downstream for run in runs]

    def run_at(self, upstream: int) -> Run | None:
        """The run that holds an upstream offset."""
        at = bisect_right(self._starts, upstream) - 1
        return self._runs[at] if at >= 0 and upstream < self._runs[at].end else None

    def upstream(self, downstream: int) -> int | None:
        """The upstream offset whose record belongs at a downstream offset."""
        at = bisect_right(self._targets, downstream) - 1
        if at < 0:
            return None
        distance = downstream - self._targets[at]
        return self._starts[at] + distance if distance < self._runs[at].length else None


class ExactComparison:
    """One range, once."""

    def __init__(self, wanted: ComparedRange, source: Stream, target: Stream, earlier: Earlier = nothing) -> None:
        assert wanted.runs is not None
        self.findings = Findings()
        self._range, self._places = wanted, Places(wanted.runs)
        self._source = Side(source, wanted.start, wanted.end, self.findings)
        self._target = Side(target, wanted.target_start, wanted.target_end)
        self._digest, self._recent = ContentDigest(), Recent(earlier)
        self._left: list[Entry] = []  # of the target, read and not compared yet
        self._group: list[PlacePair] = []

    def run(self) -> Findings:
        """Compares to the end of the range, or until there are so many differences that more say nothing."""
        while not self.findings.is_full and (batch := self._source.take()) is not None:
            if not self._compare_bytes(batch):
                self._compare_records(batch)
        if self.findings.is_full:
            self.findings.reason = f"{self.findings.differences} differences"
        else:
            self._compare_entries([], self._range.target_end)
        self._close_group()
        self.findings.digest = self._digest.hex()
        return self.findings

    def _compare_bytes(self, source: BatchView) -> bool:
        """Whether the next batch of the target is this one, in its place."""
        if self._left or not self._source.is_whole(source):
            return False
        run, target = self._places.run_at(source.base_offset), self._target.peek()
        if run is None or target is None or source.last_offset >= run.end:
            return False
        place = run.downstream + source.base_offset - run.upstream
        if target.base_offset != place or not self._target.is_whole(target) or not have_equal_bytes(source, target):
            return False
        self._target.take()
        self._close_group()
        self._digest.add(source)
        self._recent.add(source)
        self.findings.records += source.count
        if target.is_log_append_time:
            self.findings.timestamps_left_out += source.count
        return True

    def _compare_records(self, batch: BatchView) -> None:
        entries = self._source.entries(batch)
        if self._source.is_whole(batch):
            self._digest.add(batch)
        else:
            self._digest.add_entries(entries)
        placed: list[Entry] = []
        run: Run | None = None
        for entry in entries:
            upstream = entry[0]
            if run is None or not run.upstream <= upstream < run.end:
                run = self._places.run_at(upstream)
            if run is None:
                self._has_no_place(upstream)
            else:
                placed.append((upstream - run.upstream + run.downstream, entry[1], entry[2]))
        self._recent.add(entries)
        if placed:
            self._compare_entries(placed, placed[-1][0] + 1)

    def _has_no_place(self, upstream: int) -> None:
        if _holds(self._range.gaps, upstream):
            self.findings.explain(Why.ACCEPTED_GAP)
            return
        self._close_group()
        detail = "the ledger has no place for it"
        self.findings.differs(Difference(DifferenceKind.MISSING, upstream, None, detail=detail))

    def _compare_entries(self, source: list[Entry], until: int) -> None:
        """Compares records of the source, already at their places, with what the target holds below `until`."""
        while (batch := self._target.peek()) is not None and batch.base_offset < until:
            self._target.take()
            entries = self._target.entries(batch)
            if batch.is_log_append_time:
                entries = [(offset, ANY_TIME, tail) for offset, _, tail in entries]
            self._left += entries
            if self.findings.is_full:
                return
            if not source and len(self._left) > PAIRS_MAX:
                self._merge([], self._left)
                self._left = []
        at = bisect_right(self._left, until - 1, key=_offset)
        target, self._left = self._left[:at], self._left[at:]
        if source == target:
            if source:
                self._close_group()
            self.findings.records += len(source)
        else:
            self._merge(source, target)

    def _merge(self, source: list[Entry], target: list[Entry]) -> None:
        left, right = len(source), len(target)
        i = j = 0
        while i < left or j < right:
            if i < left and (j == right or source[i][0] < target[j][0]):
                self._lacks(Cell(*source[i]))
                i += 1
            elif i == left or target[j][0] < source[i][0]:
                self._has_more(Cell(*target[j]))
                j += 1
            else:
                self._meet(Cell(*source[i]), Cell(*target[j]))
                i, j = i + 1, j + 1

    def _meet(self, source: Cell, target: Cell) -> None:
        if are_equal(source, target):
            self._close_group()
            self.findings.records += 1
            if target.timestamp is ANY_TIME:
                self.findings.timestamps_left_out += 1
        else:
            self._differ(source, target)

    def _lacks(self, source: Cell) -> None:
        """A record of the source, at its place on the target, where nothing lies."""
        if source.offset < self._target.first:
            self.findings.explain(Why.TARGET_DELETED)
        elif self._range.target_compacts:
            self._lost_by_compaction(source)
        else:
            self._differ(source, None)

    def _lost_by_compaction(self, source: Cell) -> None:
        """Compaction takes records only if a later one has their key; that is looked up when the ranges are read."""
        key, value, _ = read_tail(source.tail)
        upstream = self._places.upstream(source.offset)
        assert upstream is not None
        if value is None:  # a tombstone goes after delete.retention.ms
            self.findings.explain(Why.TARGET_COMPACTED)
        elif key is None or len(self.findings.unsettled) >= UNSETTLED_MAX:
            self._differ(source, None)
        else:
            self.findings.unsettled.append((upstream, source.offset, key_digest(key)))

    def _has_more(self, target: Cell) -> None:
        """A record of the target in whose place the source has none."""
        upstream = self._places.upstream(target.offset)
        if upstream is None:
            if _holds(self._range.replaced, target.offset):
                self.findings.explain(Why.COPIED_AGAIN)
            elif _holds(self._range.passed, target.offset):
                self.findings.explain(Why.PASSED_OVER)
            else:
                self._differ(None, target)
        elif upstream < self._source.first:
            self.findings.explain(Why.SOURCE_DELETED)
        elif self._range.source_compacts:
            self.findings.explain(Why.SOURCE_COMPACTED)
        else:
            self._differ(None, target)

    def _differ(self, source: Cell | None, target: Cell | None) -> None:
        if source is not None:  # it was moved to its place on the target, and is named by its own offset
            upstream = self._places.upstream(source.offset)
            assert upstream is not None
            source = source._replace(offset=upstream)
        self._group.append(PlacePair(source, target))
        if len(self._group) >= PAIRS_MAX:
            self._close_group()

    def _close_group(self) -> None:
        if self._group:
            first = next((pair.source.offset for pair in self._group if pair.source is not None), None)
            judge(self._group, self._recent.before(first), self.findings)
            self._group = []


def _holds(ranges: Sequence[tuple[int, int]], offset: int) -> bool:
    return any(start <= offset < until for start, until in ranges)


def _offset(entry: Entry) -> int:
    return entry[0]


def key_digest(key: bytes) -> bytes:
    """A key in a few bytes: two keys of one partition with the same digest are not to be expected."""
    return blake2b(key, digest_size=KEY_DIGEST_BYTES).digest()
