"""Which offset syncs MM2's readers need of what was copied: true pairs of one record, in upstream order.

A break in the difference of both offsets is emitted at once, the end of a range when more than `offset.lag.max` records
have passed, and the rest at the next flush (spec §4.5). MM2 writes a pair each `offset.lag.max + 1` records; its readers
keep at most 64 of them, their distances doubling with age. So of a long range the pairs at such distances from its end
are written, a dozen instead of thousands, and a reader knows as much.
"""

from __future__ import annotations

from sparkmirror.ledger import Run
from sparkmirror.model import OffsetSync, TopicPartition


class SyncPairs:
    """Takes runs of receipts, gives pairs; taking a run twice changes nothing."""

    def __init__(self, lag_max: int) -> None:
        self.lag_max = lag_max
        self._end: dict[TopicPartition, OffsetSync] = {}  # of what was taken
        self._last: dict[TopicPartition, OffsetSync] = {}  # of what was due or is
        self._delayed: dict[TopicPartition, OffsetSync] = {}
        self._due: list[OffsetSync] = []

    @property
    def due(self) -> tuple[OffsetSync, ...]:
        """What is to be written, oldest first; it stays until `written` says that it was (L23)."""
        return tuple(self._due)

    def written(self, count: int) -> None:
        """The first so many of what was due are in the topic."""
        del self._due[:count]

    def take(self, partition: TopicPartition, run: Run) -> None:
        """A range that was copied."""
        first = OffsetSync(partition, run.upstream, run.downstream)
        last = _moved(first, run.length - 1)
        end = self._end.get(partition)
        if end is not None and end.downstream_offset >= last.downstream_offset:
            return
        self._end[partition] = last
        if end is None or not _goes_on(end, first):
            self._emit(first)
        known = self._last[partition]
        distance = last.downstream_offset - known.downstream_offset
        if distance > max(self.lag_max, 0):
            self._emit_range(last, distance)
        elif distance:
            self._delayed[partition] = last

    def _emit_range(self, last: OffsetSync, distance: int) -> None:
        """Pairs at doubling distances from the end, oldest first: readers take one that goes back for a new beginning."""
        steps, step = [], max(self.lag_max, 1)
        while step < distance:
            steps.append(step)
            step *= 2
        for back in reversed(steps):
            self._emit(_moved(last, -back))
        self._emit(last)

    def restart(self, first: OffsetSync) -> None:
        """Drops every pair; a sync that goes back shows this to readers."""
        for known in (self._end, self._last, self._delayed):
            known.pop(first.partition, None)
        self._due = [sync for sync in self._due if sync.partition != first.partition]
        self._due.append(first)

    def forget(self) -> None:
        """Nothing is in the topic any more: every pair is to be written again."""
        for known in (self._end, self._last, self._delayed):
            known.clear()
        self._due.clear()

    def promote(self) -> None:
        """A flush: what waited for more records is due now."""
        for sync in list(self._delayed.values()):
            self._emit(sync)

    def _emit(self, sync: OffsetSync) -> None:
        self._due.append(sync)
        self._last[sync.partition] = sync
        self._delayed.pop(sync.partition, None)


def _goes_on(end: OffsetSync, first: OffsetSync) -> bool:
    """Whether a run that begins here overlaps or touches what ended there, with the same difference of offsets."""
    step = first.downstream_offset - end.downstream_offset
    return step <= 1 and first.upstream_offset - end.upstream_offset == step


def _moved(sync: OffsetSync, by: int) -> OffsetSync:
    return OffsetSync(sync.partition, sync.upstream_offset + by, sync.downstream_offset + by)
