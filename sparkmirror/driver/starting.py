"""Where copying a partition starts when this process opens it for the first time."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from sparkmirror.clusters import DEBUG_REPLICA, EARLIEST, LATEST, list_offsets
from sparkmirror.config.parsing import parse_reset
from sparkmirror.driver.flow_context import FlowContext
from sparkmirror.driver.takeover import walk_from_sync
from sparkmirror.errors import NoStartingPoint
from sparkmirror.ledger import Position, Ready
from sparkmirror.model import TopicPartition
from sparkmirror.state import PositionTable, SyncTable, read_settled


def no_starting_point(partition: TopicPartition, source_alias: str) -> NoStartingPoint:
    """What stops a partition of which nothing is known where `auto.offset.reset` is none."""
    return NoStartingPoint(
        f"{partition}: no position is known and auto.offset.reset is none",
        hint=f"write {source_alias}.consumer.auto.offset.reset = earliest or latest",
    )


class StartingPoints:
    """The ledger's word, else MM2's position, else `auto.offset.reset`."""

    def __init__(self, context: FlowContext, positions: PositionTable) -> None:
        # Both are read once, at the start: from then on positions and syncs are our own.
        self._context, self._positions, self._syncs = context, positions, SyncTable()
        syncs = context.source if context.flow.syncs_side == "source" else context.target
        context.status.notes += read_settled(syncs, context.place.syncs_topic, self._syncs).report()

    def stored(self, partition: TopicPartition) -> int | None:
        """The last offset that MirrorMaker 2 says it copied when this process started."""
        return self._positions.last_offset(partition)

    def find(
        self,
        partitions: list[TopicPartition],
        known: Mapping[TopicPartition, Ready],
    ) -> tuple[dict[TopicPartition, Ready], list[str]]:
        """Starting points that differ from what the ledger says, and notes for the user."""
        context = self._context
        ends = self._target_ends(partitions)
        points: dict[TopicPartition, Ready] = {}
        notes: list[str] = []
        fresh: list[TopicPartition] = []
        for partition in partitions:
            ready = known.get(partition)
            if self._was_mm2_here(partition, ready, ends[partition]):
                inherited = walk_from_sync(
                    context.finder,
                    context.topics[partition.topic],
                    partition,
                    self._syncs.sync_of(partition),
                    stored=self._positions.last_offset(partition),
                    read_committed=context.read_committed,
                )
                points[partition] = Ready(inherited.position, ready.previous if ready else None, False, 0)
                if inherited.note:
                    notes.append(inherited.note)
            elif ready is None:
                fresh.append(partition)
        points.update(self._fresh(fresh, ends))
        return points, notes

    def _was_mm2_here(self, partition: TopicPartition, ready: Ready | None, target_end: int) -> bool:
        """Whether MM2 wrote after whatever the ledger knows: a later position, or a later sync with a longer target."""
        stored, sync = self._positions.last_offset(partition), self._syncs.sync_of(partition)
        if ready is None:
            return stored is not None or (sync is not None and sync.downstream_offset < target_end)
        if stored is not None and stored + 1 > ready.position.upstream:
            return True
        is_later = sync is not None and sync.downstream_offset >= ready.position.downstream
        return is_later and target_end > ready.position.downstream

    def _fresh(self, partitions: list[TopicPartition], ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, Ready]:
        """By `auto.offset.reset`; `none` stops partitions of which nothing is known."""
        starts = reset_offsets(self._context, partitions)
        return {p: Ready(Position(offset, ends[p], 0), None, False, 0) for p, offset in starts.items()}

    def _target_ends(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Log ends on the leaders; the slot makes sure that they are settled before it writes."""
        topics = self._context.topics
        remote = {TopicPartition(topics[p.topic].remote, p.partition): p for p in partitions}
        found = list_offsets(self._context.target, list(remote), timestamp=LATEST, replica=DEBUG_REPLICA)
        return {remote[target]: offset for target, (offset, _) in found.items()}


def reset_offsets(context: FlowContext, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    """Where `auto.offset.reset` says to start; `none` stops the partitions."""
    reset = parse_reset(context.flow.consumer.get("auto.offset.reset", "earliest"))
    if reset == "none":
        for partition in partitions:
            context.stop_partition(partition, no_starting_point(partition, context.flow.name.source))
        return {}
    if not isinstance(reset, float):
        return _starts(context, partitions, LATEST if reset == "latest" else EARLIEST)
    starts = _starts(context, partitions, int(time.time() * 1000 - reset * 1000))
    none_since = [partition for partition, offset in starts.items() if offset < 0]
    return starts | _starts(context, none_since, LATEST)


def _starts(context: FlowContext, partitions: Sequence[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
    found = list_offsets(context.source, partitions, timestamp=timestamp, read_committed=context.read_committed)
    return {partition: offset for partition, (offset, _) in found.items()}
