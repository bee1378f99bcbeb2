"""MM2's own records, derived from receipts and never ahead of them: source positions and offset syncs.

A position says the *last* copied offset, under MM2's exact key bytes and partition, so that MM2 resumes at the next one.
What could not be written stays to be written.
"""

from __future__ import annotations

import time

from sparkmirror.clusters import ClusterClient, append_records
from sparkmirror.ledger import Receipt
from sparkmirror.model import TopicPartition
from sparkmirror.offsets import SyncPairs
from sparkmirror.wire import connect_partition, encode_connect_offset, encode_offset_sync, source_key

__all__ = ["CONNECTOR", "Recorder"]

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

    def take(self, receipt: Receipt) -> None:
        """Notes a valid receipt; taking it twice changes nothing."""
        self._positions[receipt.partition] = receipt.position.upstream - 1
        if self._syncs is not None:
            for run in receipt.runs:
                self._pairs.take(receipt.partition, run)

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
        grouped: dict[int, list[tuple[bytes, bytes | None]]] = {}
        for partition, last in positions.items():
            if last < 0:
                continue
            key = source_key(CONNECTOR, self._alias, partition)
            place = connect_partition(key, self._offsets_partitions)
            grouped.setdefault(place, []).append((key, encode_connect_offset(last)))
        now_ms = int(time.time() * 1000)
        for place, entries in grouped.items():
            append_records(self._target, TopicPartition(self._offsets_topic, place), entries, now_ms)
        for partition, last in positions.items():
            if self._positions.get(partition) == last:
                del self._positions[partition]
