"""The exact offset map of one partition: the ledger's runs, in order, answering for every position they cover."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from sparkmirror.ledger import Run

__all__ = ["OffsetMap"]


class OffsetMap:
    """Upstream to downstream. Runs never overlap upstream: where the ledger states a stretch twice, both say the same."""

    def __init__(self, runs: Iterable[Run]) -> None:
        self._runs: list[Run] = []
        for run in sorted(runs):
            self._add(run)
        self._starts = [run.upstream for run in self._runs]

    def _add(self, run: Run) -> None:
        if self._runs:
            last = self._runs[-1]
            known = last.upstream + last.length - run.upstream
            if known >= run.length:
                return
            if known > 0:
                run = Run(run.upstream + known, run.downstream + known, run.length - known)
            if (last.upstream + last.length, last.downstream + last.length) == (run.upstream, run.downstream):
                self._runs[-1] = Run(last.upstream, last.downstream, last.length + run.length)
                return
        self._runs.append(run)

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs, joined where they touch."""
        return tuple(self._runs)

    def covers(self, upstream: int) -> bool:
        """Whether the record at this upstream offset was copied."""
        index = bisect_right(self._starts, upstream) - 1
        return index >= 0 and upstream < self._runs[index].upstream + self._runs[index].length

    def downstream(self, upstream: int) -> int | None:
        """Where a reader at this upstream offset goes on: its record, else the next one that was copied; None past all."""
        index = bisect_right(self._starts, upstream) - 1
        if index >= 0:
            run = self._runs[index]
            if upstream < run.upstream + run.length:
                return run.downstream + upstream - run.upstream
        if index + 1 < len(self._runs):
            return self._runs[index + 1].downstream
        return None

    def end_before(self, upstream: int) -> int | None:
        """The downstream offset behind the last record that was copied from below this upstream offset; None if none was."""
        index = bisect_right(self._starts, upstream - 1) - 1
        if index < 0:
            return None
        run = self._runs[index]
        return run.downstream + min(run.length, upstream - run.upstream)

    def upstream(self, downstream: int) -> int | None:
        """The upstream offset of the record at this downstream offset; None if no run holds it."""
        for run in self._runs:
            if run.downstream <= downstream < run.downstream + run.length:
                return run.upstream + downstream - run.downstream
        return None
