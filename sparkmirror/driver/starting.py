"""Where copying a partition starts when this process opens it for the first time."""

from __future__ import annotations

import time
from collections.abc import Mapping

from sparkmirror.clusters import DEBUG_REPLICA, EARLIEST, LATEST, list_offsets
from sparkmirror.config.parsing import parse_reset
from sparkmirror.driver.flow_context import FlowContext
from sparkmirror.driver.takeover import walk_from_sync
from sparkmirror.errors import NoStartingPoint
from sparkmirror.ledger import Position, Ready
from sparkmirror.model import TopicPartition
from sparkmirror.state import PositionTable, SyncTable, read_settled


class StartingPoints:
    """The ledger's word, else MM2's position, else `auto.offset.reset`."""

    def __init__(self, context: FlowContext) -> None:
        self._context = context
        flow, place = context.flow, context.place
        syncs = context.source if flow.syncs_side == "source" else context.target
        # Read once, at the start: from then on the positions are our own.
        self._positions, self._syncs = PositionTable(flow.name.source), SyncTable()
        for client, topic, table in (
            (context.target, place.offsets_topic, self._positions),
            (syncs, place.syncs_topic, self._syncs),
        ):
            context.status.notes += read_settled(client, topic, table).report()

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
        reset = parse_reset(self._context.flow.consumer.get("auto.offset.reset", "earliest"))
        if reset == "none":
            for partition in partitions:
                self._context.stop_partition(
                    partition,
                    NoStartingPoint(
                        f"{partition}: no position is known and auto.offset.reset is none",
                        hint=f"write {self._context.flow.name.source}.consumer.auto.offset.reset = earliest or latest",
                    ),
                )
            return {}
        if isinstance(reset, float):
            starts = self._starts(partitions, int(time.time() * 1000 - reset * 1000))
            none_since = [partition for partition, offset in starts.items() if offset < 0]
            starts |= self._starts(none_since, LATEST)
        else:
            starts = self._starts(partitions, LATEST if reset == "latest" else EARLIEST)
        return {p: Ready(Position(offset, ends[p], 0), None, False, 0) for p, offset in starts.items()}

    def _starts(self, partitions: list[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        context = self._context
        found = list_offsets(context.source, partitions, timestamp=timestamp, read_committed=context.read_committed)
        return {partition: offset for partition, (offset, _) in found.items()}

    def _target_ends(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Log ends on the leaders; the slot makes sure that they are settled before it writes."""
        topics = self._context.topics
        remote = {TopicPartition(topics[p.topic].remote, p.partition): p for p in partitions}
        found = list_offsets(self._context.target, list(remote), timestamp=LATEST, replica=DEBUG_REPLICA)
        return {remote[target]: offset for target, (offset, _) in found.items()}
