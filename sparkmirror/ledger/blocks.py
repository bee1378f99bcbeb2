"""The runs of one receipt, packed: a source of small transactions has a run for each of them, millions in a week."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sparkmirror.ledger.records import Run

__all__ = ["Block"]

_FIELDS = 3


@dataclass(frozen=True, slots=True)
class Block:
    """Runs in order, 24 bytes each, and the sequence number behind the last record of them."""

    packed: array[int]
    sequence: int

    @classmethod
    def of(cls, runs: Iterable[Run], sequence: int) -> Block:
        """At least one run."""
        return cls(array("q", [number for run in runs for number in run]), sequence)

    def __len__(self) -> int:
        return len(self.packed) // _FIELDS

    def __iter__(self) -> Iterator[Run]:
        numbers = iter(self.packed)
        return map(Run, numbers, numbers, numbers)

    @property
    def downstream(self) -> int:
        """Where its first record lies."""
        return self.packed[1]

    @property
    def end(self) -> int:
        """The upstream offset behind its last record."""
        return self.packed[-3] + self.packed[-1]
