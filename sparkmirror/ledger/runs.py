"""Ranges of records that lie at consecutive offsets on both sides, packed.

A source of small transactions has a run for each of them, millions in a week. Each begins right behind the one before, or
a marker further: as distances they take 3 bytes, where three offsets take 24 and a tuple 160.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, overload

_FIELDS = 3


class Run(NamedTuple):
    """`length` records that lie at consecutive offsets on both sides."""

    upstream: int
    downstream: int
    length: int

    @property
    def end(self) -> int:
        """The upstream offset behind its last record."""
        return self.upstream + self.length


class Runs(Sequence[Run]):
    """Runs that do not change any more: the first and the last as they are, the others as distances from one to the next."""

    __slots__ = ("_distances", "_ends")

    def __init__(self, runs: Iterable[Run] = ()) -> None:
        self._ends = array("q")
        distances: list[int] = []
        run = None
        upstream = downstream = 0
        for run in runs:
            if self._ends:
                distances += (run.upstream - upstream, run.downstream - downstream, run.length)
            else:
                self._ends.extend(run)
            upstream, downstream = run.upstream + run.length, run.downstream + run.length
        self._ends.extend(run or ())
        self._distances = _narrow(distances)

    @property
    def is_in_order(self) -> bool:
        """Whether each run lies behind the one before on the source."""
        return min(self._distances[::_FIELDS], default=0) >= 0

    def __len__(self) -> int:
        return len(self._distances) // _FIELDS + 1 if self._ends else 0

    @overload
    def __getitem__(self, index: int) -> Run: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Run, ...]: ...

    def __getitem__(self, index: int | slice) -> Run | tuple[Run, ...]:
        if self._ends and index == 0:
            return Run(*self._ends[:_FIELDS])
        if self._ends and index == -1:
            return Run(*self._ends[_FIELDS:])
        return tuple(self)[index]

    def __iter__(self) -> Iterator[Run]:
        if not self._ends:
            return
        first = self[0]
        yield first
        upstream, downstream = first.upstream + first.length, first.downstream + first.length
        numbers = iter(self._distances)
        for between, below, length in zip(numbers, numbers, numbers, strict=True):
            upstream += between
            downstream += below
            yield Run(upstream, downstream, length)
            upstream += length
            downstream += length

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Runs):
            return (self._ends, self._distances) == (other._ends, other._distances)
        return isinstance(other, Sequence) and len(other) == len(self) and all(map(Run.__eq__, self, other))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Runs({list(self)})"


def _narrow(numbers: list[int]) -> array[int]:
    """In as few bytes each as all of them fit."""
    low, high = min(numbers, default=0), max(numbers, default=0)
    for code, bits in (("b", 7), ("h", 15), ("i", 31)):
        if -(1 << bits) <= low and high < 1 << bits:
            return array(code, numbers)
    return array("q", numbers)
