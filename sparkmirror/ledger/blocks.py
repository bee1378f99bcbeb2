"""A part of an attempt's runs, as one receipt holds them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sparkmirror.ledger.records import Attempt
from sparkmirror.ledger.runs import Run, Runs


@dataclass(frozen=True, slots=True)
class Block:
    """At least one run, and the sequence number behind the last record of them."""

    runs: Runs
    sequence: int

    @classmethod
    def of(cls, runs: Iterable[Run], sequence: int) -> Block:
        """Runs that were read are packed already."""
        return cls(runs if isinstance(runs, Runs) else Runs(runs), sequence)

    def __len__(self) -> int:
        return len(self.runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self.runs)

    @property
    def downstream(self) -> int:
        """Where its first record lies."""
        return self.runs[0].downstream

    @property
    def end(self) -> int:
        """The upstream offset behind its last record."""
        return self.runs[-1].end


def block_starts(blocks: Iterable[tuple[Attempt, int]], attempt: Attempt) -> list[int]:
    """The upstream offsets at which the blocks of an attempt's runs begin, in order."""
    return sorted(start for known, start in blocks if known == attempt)
