"""The exact offset map of one partition: the ledger's runs, in order, answering for every position they cover.

The runs stay packed, as the ledger has them, and are unpacked on lookup: a map of millions takes a few bytes for
each, costs next to nothing to make, and a look at it unpacks one block.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from sparkmirror.ledger import Run, Runs

# Unpacked blocks that are kept for the next look: groups are mostly where they were a moment ago.
UNPACKED_MAX = 8


class OffsetMap:
    """Upstream to downstream. Runs never overlap upstream: where the ledger states a range twice, both are the same."""

    def __init__(self, runs: Iterable[Run]) -> None:
        packed = Runs(_joined(sorted(runs)))
        self._take([packed] if packed else [])

    def _take(self, blocks: Iterable[Runs]) -> None:
        self._parts = _side_by_side(blocks)
        self._starts = array("q", [part.first.upstream for part in self._parts])
        self._unpacked: dict[int, _Unpacked] = {}

    @classmethod
    def of_blocks(cls, blocks: Iterable[Runs]) -> OffsetMap:
        """Of the ledger's blocks, in any order."""
        made = cls(())
        made._take(block if block.is_in_order else Runs(_joined(sorted(block))) for block in blocks)
        return made

    def _part(self, index: int) -> _Unpacked:
        found = self._unpacked.get(index)
        if found is None:
            if len(self._unpacked) >= UNPACKED_MAX:
                self._unpacked.clear()
            found = self._unpacked[index] = _Unpacked(self._parts[index].runs())
        return found

    def _at_or_before(self, upstream: int) -> tuple[Run | None, int]:
        """The run that begins there or last before, and the downstream offset of the next one (−1: there is none)."""
        index = bisect_right(self._starts, upstream) - 1
        following = self._parts[index + 1].first.downstream if index + 1 < len(self._parts) else -1
        if index < 0:
            return None, following
        part = self._part(index)
        at = bisect_right(part.starts, upstream) - 1
        return part.run(at), part.downstreams[at + 1] if at + 1 < len(part.starts) else following

    @property
    def first(self) -> Run | None:
        """The run that begins the copy."""
        return next(self.runs(), None)

    def runs(self) -> Iterator[Run]:
        """The runs, joined where they touch."""
        return _joined(run for part in self._parts for run in part.runs())

    def covers(self, upstream: int) -> bool:
        """Whether the record at this upstream offset was copied."""
        run, _ = self._at_or_before(upstream)
        return run is not None and upstream < run.end

    def downstream(self, upstream: int) -> int | None:
        """Where a reader at this upstream offset resumes: its record, else the next one that was copied; None past all."""
        run, following = self._at_or_before(upstream)
        if run is not None and upstream < run.end:
            return run.downstream + upstream - run.upstream
        return following if following >= 0 else None

    def end_before(self, upstream: int) -> int | None:
        """The downstream offset behind the last record that was copied from below this upstream offset; None if none was."""
        run, _ = self._at_or_before(upstream - 1)
        return None if run is None else run.downstream + min(run.length, upstream - run.upstream)

    def upstream(self, downstream: int) -> int | None:
        """The upstream offset of the record at this downstream offset; None if no run holds it."""
        for run in self.runs():
            if run.downstream <= downstream < run.downstream + run.length:
                return run.upstream + downstream - run.downstream
        return None


@dataclass(slots=True)
class _Part:
    """Blocks that overlap, almost always one, and the run that reaches furthest."""

    blocks: list[Runs]
    last: Run
    first: Run = field(init=False)

    def __post_init__(self) -> None:
        self.first = self.blocks[0][0]

    def take(self, block: Runs) -> bool:
        """Whether the block was merged, because it covers the same range."""
        begins, ends = block[0], block[-1]
        # A block begins with the last run of the one before, which may have grown since (M4).
        is_grown = begins[:2] == self.last[:2] and begins.length >= self.last.length
        if begins.upstream >= self.last.end or is_grown:
            return False
        self.blocks.append(block)
        self.last = max(self.last, ends, key=lambda run: run.end)
        return True

    def runs(self) -> Iterator[Run]:
        """In order, none of them overlapping another."""
        if len(self.blocks) == 1:
            return iter(self.blocks[0])
        return _joined(sorted(run for block in self.blocks for run in block))


class _Unpacked:
    """The runs of one part, side by side."""

    __slots__ = ("downstreams", "lengths", "starts")

    def __init__(self, runs: Iterable[Run]) -> None:
        self.starts, self.downstreams, self.lengths = array("q"), array("q"), array("q")
        for upstream, downstream, length in runs:
            self.starts.append(upstream)
            self.downstreams.append(downstream)
            self.lengths.append(length)

    def run(self, at: int) -> Run:
        return Run(self.starts[at], self.downstreams[at], self.lengths[at])


def _side_by_side(blocks: Iterable[Runs]) -> list[_Part]:
    """By upstream offset. Only where an attempt states older runs again, or begins further back, do they overlap."""
    parts: list[_Part] = []
    for block in sorted(blocks, key=lambda block: block[0]):
        if not parts or not parts[-1].take(block):
            parts.append(_Part([block], block[-1]))
    return parts


def _joined(runs: Iterable[Run]) -> Iterator[Run]:
    """Runs in order, each upstream offset once, as long as they can be."""
    last: Run | None = None
    for run in runs:
        if last is None:
            last = run
            continue
        known = last.end - run.upstream
        if known >= run.length:
            continue
        if known > 0:
            run = Run(run.upstream + known, run.downstream + known, run.length - known)
        if (last.end, last.downstream + last.length) == (run.upstream, run.downstream):
            last = Run(last.upstream, last.downstream, last.length + run.length)
        else:
            yield last
            last = run
    if last is not None:
        yield last
