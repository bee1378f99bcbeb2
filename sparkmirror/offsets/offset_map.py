"""The exact offset map of one partition: the ledger's runs, in order, answering for every position they cover."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator

from sparkmirror.ledger import Run

__all__ = ["OffsetMap"]


class OffsetMap:
    """Upstream to downstream. Runs never overlap upstream: where the ledger states a stretch twice, both say the same."""

    def __init__(self, runs: Iterable[Run]) -> None:
        self._starts, self._downstreams, self._lengths = array("q"), array("q"), array("q")
        for run in _in_order(runs):
            self._add(run)

    def _add(self, run: Run) -> None:
        if self._starts:
            last = self._run(-1)
            known = last.upstream + last.length - run.upstream
            if known >= run.length:
                return
            if known > 0:
                run = Run(run.upstream + known, run.downstream + known, run.length - known)
            if (last.upstream + last.length, last.downstream + last.length) == (run.upstream, run.downstream):
                self._lengths[-1] += run.length
                return
        self._starts.append(run.upstream)
        self._downstreams.append(run.downstream)
        self._lengths.append(run.length)

    def _run(self, index: int) -> Run:
        return Run(self._starts[index], self._downstreams[index], self._lengths[index])

    @property
    def first(self) -> Run | None:
        """The run that begins the copy."""
        return self._run(0) if self._starts else None

    def runs(self) -> Iterator[Run]:
        """The runs, joined where they touch."""
        return map(Run, self._starts, self._downstreams, self._lengths)

    def covers(self, upstream: int) -> bool:
        """Whether the record at this upstream offset was copied."""
        index = bisect_right(self._starts, upstream) - 1
        return index >= 0 and upstream < self._starts[index] + self._lengths[index]

    def downstream(self, upstream: int) -> int | None:
        """Where a reader at this upstream offset goes on: its record, else the next one that was copied; None past all."""
        index = bisect_right(self._starts, upstream) - 1
        if index >= 0:
            run = self._run(index)
            if upstream < run.upstream + run.length:
                return run.downstream + upstream - run.upstream
        if index + 1 < len(self._starts):
            return self._downstreams[index + 1]
        return None

    def end_before(self, upstream: int) -> int | None:
        """The downstream offset behind the last record that was copied from below this upstream offset; None if none was."""
        index = bisect_right(self._starts, upstream - 1) - 1
        if index < 0:
            return None
        run = self._run(index)
        return run.downstream + min(run.length, upstream - run.upstream)

    def upstream(self, downstream: int) -> int | None:
        """The upstream offset of the record at this downstream offset; None if no run holds it."""
        for run in self.runs():
            if run.downstream <= downstream < run.downstream + run.length:
                return run.upstream + downstream - run.downstream
        return None


def _in_order(runs: Iterable[Run]) -> Iterable[Run]:
    """By upstream offset. They mostly are: only where an attempt states older ones again, or begins further back, not."""
    packed = array("q")
    is_sorted, last = True, -1
    for run in runs:
        is_sorted = is_sorted and run.upstream >= last
        last = run.upstream
        packed.extend(run)
    numbers = iter(packed)
    found = map(Run, numbers, numbers, numbers)
    return found if is_sorted else sorted(found)
