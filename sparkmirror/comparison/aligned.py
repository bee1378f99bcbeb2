"""Compares a range by what its records hold, for copies of which nobody wrote where each record lies: MirrorMaker 2's.

MirrorMaker 2 keeps the order and leaves out only what a reader does not get. So both sides are read in step; where they
differ, the nearest place from which they agree again says what is missing, extra or changed before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest

from sparkmirror.comparison.contents import ANY_TIME, Cell, PlacePair, are_equal, judge
from sparkmirror.comparison.exact import UNSETTLED_MAX, key_digest
from sparkmirror.comparison.logs import ContentDigest, Recent, Side
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
from sparkmirror.wire.tails import read_tail

CHUNK = 4096
# How far the two sides are searched for a place from which they agree again: a MirrorMaker 2 that was killed copies up to
# offset.flush.interval.ms again. Bounded in bytes too.
WINDOWS = (64, 4096, 65_536)
WINDOW_BYTES_MAX = 48 << 20
AGREE = 3  # records in a row that must be the same: one alone may be the same by chance
ROW_BYTES = 150
MATCHED_MAX = 512  # records between two places that agree that are matched with each other one by one
CANDIDATES_MAX = 64  # of one content: a topic may hold the same record over and over


class _Window:
    """The next records of one side, as many as are wanted."""

    def __init__(self, side: Side, digest: ContentDigest | None = None) -> None:
        self.entries: list[Entry] = []
        self._side, self._digest, self._size = side, digest, 0

    @property
    def is_over(self) -> bool:
        """Whether nothing comes after the entries."""
        return self._side.peek() is None

    def fill(self, count: int) -> bool:
        """Reads on until there are so many; False if the bytes do not allow it."""
        while len(self.entries) < count and (batch := self._side.peek()) is not None:
            if self._size > WINDOW_BYTES_MAX:
                return False
            self._side.take()
            entries = self._side.entries(batch)
            if self._digest is not None:
                if self._side.is_whole(batch):
                    self._digest.add(batch)
                else:
                    self._digest.add_entries(entries)
            elif batch.is_log_append_time:
                entries = [(offset, ANY_TIME, tail) for offset, _, tail in entries]
            self._size += sum(len(entry[2]) for entry in entries) + ROW_BYTES * len(entries)
            self.entries += entries
        return True

    def drop(self, count: int) -> list[Entry]:
        """Takes the first entries away."""
        gone, self.entries = self.entries[:count], self.entries[count:]
        self._size -= sum(len(entry[2]) for entry in gone) + ROW_BYTES * len(gone)
        return gone


class AlignedComparison:
    """One range, once."""

    def __init__(self, wanted: ComparedRange, source: Stream, target: Stream, earlier: Earlier = nothing) -> None:
        self.findings = Findings()
        self._range = wanted
        self._sides = (
            Side(source, wanted.start, wanted.end, self.findings), Side(target, wanted.target_start, wanted.target_end)
        )  # fmt: skip
        self._digest, self._recent = ContentDigest(), Recent(earlier)
        self._source, self._target = _Window(self._sides[0], self._digest), _Window(self._sides[1])
        self._is_begun, self._is_behind = wanted.is_anchored, False
        self._at = wanted.start, wanted.target_start

    def run(self) -> Findings:
        """Compares to the end of the range, or to where the sides do not come together again."""
        while not self.findings.is_full and not self.findings.reason:
            self._source.fill(CHUNK)
            self._target.fill(CHUNK)
            if self._is_behind or (not self._source.entries and not self._target.entries):
                break
            self._take_equal()
            if self._source.entries or self._target.entries:
                self._resume()
        if self.findings.is_full:
            self.findings.reason = f"{self.findings.differences} differences"
        self.findings.verified_to = self._at
        self.findings.digest = self._digest.hex()
        return self.findings

    def _take_equal(self) -> None:
        """Takes the records that agree from the front of both windows."""
        source, target = self._source.entries, self._target.entries
        count = min(len(source), len(target))
        agreed = count
        if [entry[1:] for entry in source[:count]] != [entry[1:] for entry in target[:count]]:
            agreed = next((i for i in range(count) if not _agree(source[i], target[i])), count)
        if not agreed:
            return
        self.findings.records += agreed
        self.findings.timestamps_left_out += sum(entry[1] is ANY_TIME for entry in target[:agreed])
        self._at = source[agreed - 1][0] + 1, target[agreed - 1][0] + 1
        self._recent.add(self._source.drop(agreed))
        self._target.drop(agreed)
        self._is_begun = True

    def _resume(self) -> None:
        """Both fronts differ, or one side is at its end: finds where they agree again, and judges what lies before."""
        if not (self._source.entries and self._target.entries):
            short = self._target if self._source.entries else self._source
            if short.is_over:
                self._take_lag()
                self._judge(len(self._source.entries), len(self._target.entries))
            return
        for size in WINDOWS:
            is_allowed = self._source.fill(size) and self._target.fill(size)
            is_whole = self._source.is_over and self._target.is_over
            ends = len(self._source.entries), len(self._target.entries)
            found = _nearest(self._source.entries[:size], self._target.entries[:size], ends if is_whole else None)
            if found is not None:
                self._judge(*found)
                return
            if is_whole and max(ends) <= size:
                self._judge(*ends)
                return
            if not is_allowed:
                break
        upstream, downstream = self._source.entries[0][0], self._target.entries[0][0]
        if not (self._range.source_compacts or self._range.target_compacts):
            detail = "nothing after it agrees again"
            self.findings.differs(Difference(DifferenceKind.CHANGED, upstream, downstream, detail=detail))
        self.findings.reason = f"from upstream offset {upstream} and downstream offset {downstream} on nothing agrees"

    def _take_lag(self) -> None:
        """Nothing follows on the target: what need not be copied yet is no difference."""
        late = next((at for at, entry in enumerate(self._source.entries) if entry[0] >= self._range.lag_from), None)
        if late is not None:
            self.findings.lag = self._range.end - self._source.entries[late][0]  # not read: there may be a day of it
            self._source.entries, self._is_behind = self._source.entries[:late], True

    def _judge(self, ours: int, theirs: int) -> None:
        """The first so many entries of both sides have no equal in their place."""
        source = [Cell(*entry) for entry in self._source.drop(ours)]
        target = [Cell(*entry) for entry in self._target.drop(theirs)]
        if source and target:
            self._at = source[-1].offset + 1, target[-1].offset + 1
        if not self._is_begun:
            source, target = self._without_head(source, target)
            self._is_begun = True
        earlier = self._recent.before(None)
        pairs = [pair for pair in _paired(source, target) if not self._is_explained(pair, earlier)]
        judge(pairs, earlier, self.findings)
        self._recent.add(list(source))

    def _without_head(self, source: list[Cell], target: list[Cell]) -> tuple[list[Cell], list[Cell]]:
        """What one side alone holds before the first common record: the other deleted it, or the copy began there."""
        if self._sides[0].first > 0 and target:
            self.findings.explain(Why.SOURCE_DELETED, len(target))
            target = []
        if self._sides[1].first > 0 and source:
            self.findings.explain(Why.TARGET_DELETED, len(source))
            source = []
        return source, target

    def _is_explained(self, pair: PlacePair, earlier: Sequence[Cell]) -> bool:
        """Whether one side alone holds the record, and may."""
        source, target = pair
        if source is not None and target is not None:
            return False
        if source is not None:
            return self._is_missing_explained(source)
        assert target is not None
        if not self._range.source_compacts or any(are_equal(cell, target) for cell in earlier):
            return False
        self.findings.explain(Why.SOURCE_COMPACTED)
        return True

    def _is_missing_explained(self, source: Cell) -> bool:
        if not self._range.target_compacts:
            return False
        key, value, _ = read_tail(source.tail)
        if value is None:
            self.findings.explain(Why.TARGET_COMPACTED)
            return True
        if key is None or len(self.findings.unsettled) >= UNSETTLED_MAX:
            return False
        self.findings.unsettled.append((source.offset, -1, key_digest(key)))
        return True


def _paired(source: Sequence[Cell], target: Sequence[Cell]) -> Iterator[PlacePair]:
    """Which records belong together: in order if there are as many on both sides, else so that most are equal."""
    if len(source) == len(target):
        yield from (PlacePair(*both) for both in zip(source, target, strict=True))
        return
    steps = [("replace", 0, len(source), 0, len(target))]
    if max(len(source), len(target)) <= MATCHED_MAX:
        ours, theirs = [cell.tail for cell in source], [cell.tail for cell in target]
        steps = list(SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes())
    for _, left, left_end, right, right_end in steps:
        yield from (PlacePair(*both) for both in zip_longest(source[left:left_end], target[right:right_end]))


def _agree(source: Entry, target: Entry) -> bool:
    return target[1] in (ANY_TIME, source[1]) and source[2] == target[2]


def _nearest(
    source: Sequence[Entry], target: Sequence[Entry], ends: tuple[int, int] | None
) -> tuple[int, int] | None:
    """How many entries to leave out on each side, the fewest together, so that the following ones agree.

    With `ends` nothing comes after so many entries of each side, and agreeing up to there is enough.
    """
    places: dict[bytes, list[int]] = {}
    for j, entry in enumerate(target):
        places.setdefault(entry[2], []).append(j)
    best: tuple[int, int] | None = None
    for i, entry in enumerate(source):
        if best is not None and i >= sum(best):
            break
        for j in places.get(entry[2], ())[:CANDIDATES_MAX]:
            if best is not None and i + j >= sum(best):
                break
            if (i or j) and _agree_from(source, target, i, j, ends):
                best = (i, j)
                break
    return best


def _agree_from(
    source: Sequence[Entry], target: Sequence[Entry], i: int, j: int, ends: tuple[int, int] | None
) -> bool:
    for step in range(AGREE):
        left, right = i + step, j + step
        if left >= len(source) or right >= len(target):
            return ends is not None and (left, right) == ends
        if not _agree(source[left], target[right]):
            return False
    return True
