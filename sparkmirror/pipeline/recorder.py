"""MM2's own records, derived from receipts and never ahead of them: source positions and offset syncs.

A position says the *last* copied offset, under MM2's exact key bytes and partition, so that MM2 resumes at the next one.
An offset sync is a true pair of one record. MM2 writes one each `offset.lag.max` records and at every break; here one is
written at every break and at least at every flush, which its readers understand the same way (spec §4.5, §16).
"""

from __future__ import annotations

import time

from sparkmirror.clusters import ClusterClient, append_records
from sparkmirror.ledger import Receipt, Run
from sparkmirror.model import OffsetSync, TopicPartition
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
        self._lag_max = lag_max
        self._positions: dict[TopicPartition, int] = {}
        self._delayed: dict[TopicPartition, OffsetSync] = {}
        self._pending: list[OffsetSync] = []
        self._synced: dict[TopicPartition, OffsetSync] = {}

    def take(self, receipt: Receipt) -> None:
        """Notes a valid receipt; taking it twice changes nothing."""
        partition = receipt.partition
        self._positions[partition] = receipt.position.upstream - 1
        if self._syncs is None or not receipt.runs:
            return
        for run in receipt.runs:
            self._take_run(partition, run)

    def _take_run(self, partition: TopicPartition, run: Run) -> None:
        last = self._synced.get(partition)
        first_pair = OffsetSync(partition, run.upstream, run.downstream)
        last_pair = OffsetSync(partition, run.upstream + run.length - 1, run.downstream + run.length - 1)
        if last is not None and last.downstream_offset >= last_pair.downstream_offset:
            return
        if last is None or last.downstream_offset < run.downstream:
            self._emit(first_pair)  # a break in the difference: readers must learn of it (§4.5)
            last = first_pair
        if last_pair.downstream_offset - last.downstream_offset > self._lag_max:
            self._emit(last_pair)
        elif last_pair != last:
            self._delayed[partition] = last_pair

    def _emit(self, sync: OffsetSync) -> None:
        self._pending.append(sync)
        self._synced[sync.partition] = sync
        self._delayed.pop(sync.partition, None)

    def write_syncs(self) -> None:
        """Writes the syncs that are due."""
        if self._syncs is not None and self._pending:
            due, self._pending = self._pending, []
            entries = [encode_offset_sync(sync) for sync in due]
            append_records(self._syncs, TopicPartition(self._syncs_topic, 0), entries, int(time.time() * 1000))

    def flush(self) -> None:
        """Writes positions and the delayed syncs too."""
        for sync in list(self._delayed.values()):
            self._emit(sync)
        self.write_syncs()
        positions, self._positions = self._positions, {}
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
