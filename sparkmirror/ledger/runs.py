"""Stretches of records that lie at consecutive offsets on both sides, packed.

A source of small transactions has a run for each of them, millions in a week: 24 bytes each, where a tuple takes 160.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, overload

__all__ = ["Run", "Runs"]

_FIELDS = 3


class Run(NamedTuple):
    """`length` records that lie at consecutive offsets on both sides."""

    upstream: int
    downstream: int
    length: int


class Runs(Sequence[Run]):
    """Runs that do not change any more."""

    __slots__ = ("_packed",)

    def __init__(self, runs: Iterable[Run] = ()) -> None:
        self._packed = array("q")
        for run in runs:
            self._packed.extend(run)

    def __len__(self) -> int:
        return len(self._packed) // _FIELDS

    @overload
    def __getitem__(self, index: int) -> Run: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Run, ...]: ...

    def __getitem__(self, index: int | slice) -> Run | tuple[Run, ...]:
        if isinstance(index, slice):
            return tuple(self[at] for at in range(*index.indices(len(self))))
        at = _FIELDS * (index if index >= 0 else len(self) + index)
        packed = self._packed
        return Run(packed[at], packed[at + 1], packed[at + 2])

    def __iter__(self) -> Iterator[Run]:
        numbers = iter(self._packed)
        return map(Run, numbers, numbers, numbers)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Runs):
            return self._packed == other._packed
        return isinstance(other, Sequence) and len(other) == len(self) and all(map(Run.__eq__, self, other))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Runs({list(self)})"
