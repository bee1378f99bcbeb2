"""MM2's own records, derived from receipts and never ahead of them: source positions and offset syncs.

A position says the *last* copied offset, under MM2's exact key bytes and partition, so that MM2 resumes at the next one.
What could not be written stays to be written.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sparkmirror import failpoints
from sparkmirror.clusters import ClusterClient, append_records
from sparkmirror.driver.flow_ledger import ensure_compacted_topic
from sparkmirror.ledger import Receipt
from sparkmirror.model import OffsetSync, TopicPartition
from sparkmirror.offsets import SyncPairs
from sparkmirror.wire import connect_partition, encode_connect_offset, encode_offset_sync, source_key

if TYPE_CHECKING:
    from sparkmirror.driver.flow_context import FlowContext

# The connector name of dedicated MM2, the first element of its keys.
CONNECTOR = "MirrorSourceConnector"


class Recorder:
    """Collects what receipts say and writes it in MM2's form."""

    def __init__(
        self,
        *,
        source_alias: str,
        target: ClusterClient,
        offsets_topic: str,
        offsets_partitions: int,
        syncs: ClusterClient | None,
        syncs_topic: str,
        lag_max: int,
    ) -> None:
        self._alias = source_alias
        self._target = target
        self._offsets_topic = offsets_topic
        self._offsets_partitions = offsets_partitions
        self._syncs = syncs
        self._syncs_topic = syncs_topic
        self._pairs = SyncPairs(lag_max)
        self._positions: dict[TopicPartition, int] = {}
        self._taken_back: set[TopicPartition] = set()

    @classmethod
    def of(cls, context: FlowContext) -> Recorder:
        """The recorder of one flow; creates the topic of offset syncs unless it is there."""
        flow, place = context.flow, context.place
        syncs = None
        if flow.emit_offset_syncs_enabled:
            syncs = context.source if flow.syncs_side == "source" else context.target
            ensure_compacted_topic(syncs, place.syncs_topic, 1, flow.offset_syncs_topic_replication_factor)
        return cls(
            source_alias=flow.name.source,
            target=context.target,
            offsets_topic=place.offsets_topic,
            offsets_partitions=context.target.view([place.offsets_topic]).topics[place.offsets_topic].partitions,
            syncs=syncs,
            syncs_topic=place.syncs_topic,
            lag_max=flow.offset_lag_max,
        )

    def take(self, receipt: Receipt) -> None:
        """Notes a valid receipt; taking it twice changes nothing."""
        self._positions[receipt.partition] = receipt.position.upstream - 1
        if self._syncs is not None:
            for run in receipt.runs:
                self._pairs.take(receipt.partition, run)

    def move(self, partition: TopicPartition, next_upstream: int) -> None:
        """The copy goes on there; a position that would say that nothing was copied is taken back."""
        self._positions[partition] = next_upstream - 1
        self._taken_back.add(partition)

    def restart(self, partition: TopicPartition, next_downstream: int) -> None:
        """What syncs said of the partition belongs to topics that are no more.

        Readers forget older syncs when one goes back upstream. This one lies before every record: a position that no later
        sync covers goes to where the new copy begins.
        """
        if self._syncs is not None:
            self._pairs.restart(OffsetSync(partition, -1, next_downstream - 1))

    def write_syncs(self) -> None:
        """Writes the syncs that are due; they stay due until they are in the topic."""
        due = self._pairs.due
        if self._syncs is not None and due:
            entries = [encode_offset_sync(sync) for sync in due]
            append_records(self._syncs, TopicPartition(self._syncs_topic, 0), entries, int(time.time() * 1000))
            self._pairs.written(len(due))

    def flush(self) -> None:
        """Writes positions and the delayed syncs too."""
        self._pairs.promote()
        self.write_syncs()
        positions = dict(self._positions)
        if failpoints.ARMED and positions:
            failpoints.point("record.midway")
        grouped: dict[int, list[tuple[bytes, bytes | None]]] = {}
        for partition, last in positions.items():
            if last < 0 and partition not in self._taken_back:
                continue
            key = source_key(CONNECTOR, self._alias, partition)
            place = connect_partition(key, self._offsets_partitions)
            grouped.setdefault(place, []).append((key, encode_connect_offset(last) if last >= 0 else None))
        now_ms = int(time.time() * 1000)
        for place, entries in grouped.items():
            append_records(self._target, TopicPartition(self._offsets_topic, place), entries, now_ms)
        for partition, last in positions.items():
            if self._positions.get(partition) == last:
                del self._positions[partition]
                self._taken_back.discard(partition)
        if failpoints.ARMED and positions:
            failpoints.point("record.done")
