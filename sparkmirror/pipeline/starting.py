"""Where copying a partition starts when this process opens it for the first time."""

from __future__ import annotations

from collections.abc import Mapping

from sparkmirror.clusters import EARLIEST, LATEST, ClusterClient, list_offsets
from sparkmirror.config import FlowSettings
from sparkmirror.ledger import Position, Ready
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.status import MirroredTopic
from sparkmirror.pipeline.takeover import BlockingFinder, read_positions, read_syncs, walk_from_sync

__all__ = ["StartingPoints"]

DEBUG_REPLICA = -2


class StartingPoints:
    """The ledger's word, else MM2's position, else `auto.offset.reset`."""

    def __init__(
        self,
        flow: FlowSettings,
        source: ClusterClient,
        target: ClusterClient,
        offsets_topic: str,
        syncs_client: ClusterClient,
        syncs_topic: str,
        finder: BlockingFinder,
    ) -> None:
        self._flow, self._source, self._target, self._finder = flow, source, target, finder
        self._read_committed = flow.consumer.get("isolation.level") == "read_committed"
        # Read once, at the start: from then on the positions are our own.
        self._positions = read_positions(target, offsets_topic, flow.name.source)
        self._syncs = read_syncs(syncs_client, syncs_topic)

    def find(
        self,
        partitions: list[TopicPartition],
        known: Mapping[TopicPartition, Ready],
        topics: Mapping[str, MirroredTopic],
    ) -> tuple[dict[TopicPartition, Ready], list[str]]:
        """Starting points that differ from what the ledger says, and notes for the user."""
        ends = self._target_ends(partitions, topics)
        points: dict[TopicPartition, Ready] = {}
        notes: list[str] = []
        fresh: list[TopicPartition] = []
        for partition in partitions:
            ready = known.get(partition)
            if self._was_mm2_here(partition, ready, ends[partition]):
                inherited = walk_from_sync(
                    self._finder,
                    topics[partition.topic],
                    partition,
                    self._syncs.get(partition),
                    stored=self._positions.get(partition),
                    read_committed=self._read_committed,
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
        stored, sync = self._positions.get(partition), self._syncs.get(partition)
        if ready is None:
            return stored is not None or (sync is not None and sync.downstream_offset < target_end)
        if stored is not None and stored + 1 > ready.position.upstream:
            return True
        is_later = sync is not None and sync.downstream_offset >= ready.position.downstream
        return is_later and target_end > ready.position.downstream

    def _fresh(self, partitions: list[TopicPartition], ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, Ready]:
        reset = self._flow.consumer.get("auto.offset.reset", "earliest")
        timestamp = LATEST if reset == "latest" else EARLIEST
        starts = list_offsets(self._source, partitions, timestamp=timestamp, read_committed=self._read_committed)
        return {p: Ready(Position(offset, ends[p], 0), None, False, 0) for p, (offset, _) in starts.items()}

    def _target_ends(
        self, partitions: list[TopicPartition], topics: Mapping[str, MirroredTopic]
    ) -> dict[TopicPartition, int]:
        """Log ends on the leaders; the slot makes sure that they are settled before it writes."""
        remote = {TopicPartition(topics[p.topic].remote, p.partition): p for p in partitions}
        found = list_offsets(self._target, list(remote), timestamp=LATEST, replica=DEBUG_REPLICA)
        return {remote[target]: offset for target, (offset, _) in found.items()}
