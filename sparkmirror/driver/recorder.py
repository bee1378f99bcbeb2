"""MM2's own records, derived from receipts and never ahead of them: source positions and offset syncs.

A position says the *last* copied offset, under MM2's exact key bytes and partition, so that MM2 resumes at the next one.
What could not be written stays to be written. The ledger remembers which partitions have a position (`PositionMemory`).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from sparkmirror import failpoints
from sparkmirror.clusters import ClusterClient, append_records
from sparkmirror.driver.flow_ledger import ensure_compacted_topic
from sparkmirror.driver.moves.position_memory import PositionMemory
from sparkmirror.ledger import LedgerView, Receipt
from sparkmirror.model import OffsetSync, TopicPartition
from sparkmirror.offsets import SyncPairs
from sparkmirror.wire import connect_partition, encode_connect_offset, encode_offset_sync, source_key
from sparkmirror.wire.error_codes import UNKNOWN_TOPIC_OR_PARTITION

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
        memory: PositionMemory,
        view: LedgerView,
        syncs: ClusterClient | None,
        syncs_topic: str,
        lag_max: int,
        syncs_factor: int,
        note: Callable[[str], None],
    ) -> None:
        self.memory = memory
        self.held: set[TopicPartition] = set()  # without a position, because somebody removed it: none is written
        self._alias = source_alias
        self._target = target
        self._view = view
        self._note = note
        self._syncs = syncs
        self._syncs_topic = syncs_topic
        self._syncs_factor = syncs_factor
        self._syncs_id: bytes | None = None
        self._pairs = SyncPairs(lag_max)
        self._positions: dict[TopicPartition, int] = {}
        self._taken_back: set[TopicPartition] = set()

    @classmethod
    def of(cls, context: FlowContext) -> Recorder:
        """The recorder of one flow; creates the topic of offset syncs unless it is there."""
        flow, place = context.flow, context.place
        recorder = cls(
            source_alias=flow.name.source,
            target=context.target,
            memory=PositionMemory(flow, context.target, context.ledger),
            view=context.ledger.view,
            syncs=_syncs_client(context),
            syncs_topic=place.syncs_topic,
            lag_max=flow.offset_lag_max,
            syncs_factor=flow.offset_syncs_topic_replication_factor,
            note=context.status.notes.append,
        )
        recorder.look_at_syncs()
        return recorder

    def renew(self, context: FlowContext) -> None:
        """Goes on with the settings that the flow has now."""
        flow, was_off = context.flow, self._syncs is None
        self._syncs_factor = flow.offset_syncs_topic_replication_factor
        self._pairs.lag_max = flow.offset_lag_max
        self._syncs = _syncs_client(context)
        if was_off and self._syncs is not None:
            self._pairs.forget()
            self._syncs_id = None
            self.look_at_syncs()

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

    def put_back(self, partitions: Iterable[TopicPartition]) -> None:
        """Writes the positions of these again, as the ledger has them."""
        for partition in partitions:
            position = self._view.of(partition).position()
            if position is not None and position.upstream > 0:
                self._positions.setdefault(partition, position.upstream - 1)

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """What is still to be written of these is of a copy that does not count any more."""
        for partition in partitions:
            self._positions.pop(partition, None)

    def restart(self, partition: TopicPartition, next_downstream: int) -> None:
        """What syncs said of the partition belongs to topics that are no more.

        Readers forget older syncs when one goes back upstream. This one lies before every record: a position that no later
        sync covers goes to where the new copy begins.
        """
        if self._syncs is not None:
            self._pairs.restart(OffsetSync(partition, -1, next_downstream - 1))

    def look_at_syncs(self) -> None:
        """Creates the topic of offset syncs if it is gone; then what the ledger says of every partition is due in it."""
        client, topic = self._syncs, self._syncs_topic
        if client is None:
            return
        found = client.view([topic]).topics.get(topic)
        is_first = self._syncs_id is None
        is_gone = found is None or found.error == UNKNOWN_TOPIC_OR_PARTITION or (is_first and found.error != 0)
        if is_gone:
            ensure_compacted_topic(client, topic, 1, self._syncs_factor, "offset-syncs.topic.replication.factor")
            found = client.view([topic]).topics.get(topic)
        if found is None or found.error:
            return  # whoever writes hears why
        if is_gone or (not is_first and self._syncs_id != found.topic_id):
            self._pairs.forget()
            for partition, history in self._view.partitions.items():
                for runs in deque(history.run_blocks(), maxlen=1):
                    self._pairs.take(partition, runs[-1])
        self._syncs_id = found.topic_id

    def write_syncs(self) -> None:
        """Writes the syncs that are due; they stay due until they are in the topic."""
        if self._pairs.due:
            self.look_at_syncs()
        due = self._pairs.due
        if self._syncs is not None and due:
            entries = [encode_offset_sync(sync) for sync in due]
            append_records(self._syncs, TopicPartition(self._syncs_topic, 0), entries, int(time.time() * 1000))
            self._pairs.written(len(due))

    def flush(self) -> None:
        """Writes positions and the delayed syncs too; positions also while the cluster of the syncs does not answer."""
        if self.memory.is_lost(self.held):
            self._note(
                f"{self.memory.topic} was deleted or lost records while the flow runs; its positions are written again"
            )
            self.put_back([p for p, history in self._view.partitions.items() if history.newest and p not in self.held])
        try:
            self._flush_syncs()
        finally:
            self._flush_positions()

    def _flush_syncs(self) -> None:
        self.look_at_syncs()
        self._pairs.promote()
        self.write_syncs()

    def _flush_positions(self) -> None:
        positions = {p: last for p, last in self._positions.items() if p not in self.held}
        if failpoints.ARMED and positions:
            failpoints.point("record.midway")
        self.memory.forget([p for p, last in positions.items() if last < 0 and p in self._taken_back])
        if failpoints.ARMED and positions:
            failpoints.point("record.forgotten")
        self._write(positions)
        if failpoints.ARMED and positions:
            failpoints.point("record.written")
        self.memory.remember([p for p, last in positions.items() if last >= 0])
        for partition, last in positions.items():
            if self._positions.get(partition) == last:
                del self._positions[partition]
                self._taken_back.discard(partition)
        if failpoints.ARMED and positions:
            failpoints.point("record.done")

    def _write(self, positions: Mapping[TopicPartition, int]) -> None:
        """Positions in MM2's own bytes; a tombstone for one that is taken back."""
        grouped: dict[int, list[tuple[bytes, bytes | None]]] = {}
        for partition, last in positions.items():
            if last < 0 and partition not in self._taken_back:
                continue
            key = source_key(CONNECTOR, self._alias, partition)
            place = connect_partition(key, self.memory.partitions)
            grouped.setdefault(place, []).append((key, encode_connect_offset(last) if last >= 0 else None))
        now_ms = int(time.time() * 1000)
        for place, entries in grouped.items():
            append_records(self._target, TopicPartition(self.memory.topic, place), entries, now_ms)


def _syncs_client(context: FlowContext) -> ClusterClient | None:
    """Where offset syncs go; None if none are written."""
    if not context.flow.emit_offset_syncs_enabled:
        return None
    return context.source if context.flow.syncs_side == "source" else context.target
