"""What the ledger remembers of MirrorMaker 2's positions, kept in step with the offsets topic: see `ledger/stored.py`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sparkmirror.clusters import EARLIEST, LATEST, ClusterClient, TopicView, list_offsets
from sparkmirror.config import FlowSettings
from sparkmirror.driver.flow_ledger import FlowLedger, ensure_compacted_topic
from sparkmirror.ledger import (
    OffsetsTopic,
    Removal,
    StoredPositions,
    anchor_record,
    find_removed,
    is_same_topic,
    name_records,
)
from sparkmirror.model import TopicPartition
from sparkmirror.state import PositionTable, read_settled, tombstones
from sparkmirror.wire.error_codes import UNKNOWN_TOPIC_OR_PARTITION


@dataclass(frozen=True, slots=True)
class OffsetsRead:
    """The offsets topic as it was read at the start, what was removed from it, and the foreign records in it."""

    table: PositionTable
    removal: Removal
    report: list[str]


class PositionMemory:
    """The names and the anchor of one flow; only the flow's owner writes them."""

    def __init__(self, flow: FlowSettings, target: ClusterClient, ledger: FlowLedger) -> None:
        self.topic = flow.offset_storage_topic
        self._flow, self._target, self._ledger = flow, target, ledger
        self._names: set[TopicPartition] = set()
        self._id, self._ends = "", tuple[int, ...]()

    @property
    def partitions(self) -> int:
        """How many partitions the offsets topic has."""
        return len(self._ends)

    def read(self) -> OffsetsRead:
        """Reads the offsets topic, finds what was removed from it, and remembers what is in it."""
        view = self._ledger.view
        while True:
            found = self._present()
            table = PositionTable(self._flow.name.source)
            foreign = read_settled(self._target, self.topic, table)
            topic = offsets_topic(self._target, found, table)
            if self._present().topic_id == found.topic_id:
                break
        copied = {partition for partition, history in view.partitions.items() if history.newest is not None}
        removal = find_removed(view.stored, topic, copied)
        # A removed position keeps its name until its partition has restarted: whatever dies before, it is found again.
        self._names = {*topic.stored, *removal.removed}
        self._id, self._ends = topic.topic_id, topic.ends
        self._write(name_records(view.stored, self._names, self._id))
        self._anchor()
        return OffsetsRead(table, removal, foreign.report())

    def remember(self, partitions: Collection[TopicPartition]) -> None:
        """These have a position; to be called once it is acked."""
        if not self._names.issuperset(partitions):
            self._rename(self._names | set(partitions))
            self._anchor()

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """These may have none from now on; to be called before it is taken back."""
        if not self._names.isdisjoint(partitions):
            self._rename(self._names - set(partitions))

    def is_lost(self, kept: Collection[TopicPartition]) -> bool:
        """Whether the offsets topic was deleted, replaced or cut since it was last looked at, while the flow runs.

        It is there again afterwards, and everything in it is forgotten but the names of `kept`.
        """
        found = self._present()
        ends = self._present_ends(found)
        is_same = is_same_topic(found.topic_id.hex(), self._id)
        is_lost = not is_same or any(now < was for was, now in zip(self._ends, ends, strict=False))
        self._ends = ends
        if not is_lost:
            return False
        self._id, self._names = found.topic_id.hex(), set(kept)
        if is_same:
            self._rename(self._names)
        self._anchor()
        self._rename(self._names)
        return True

    def _present_ends(self, found: TopicView) -> tuple[int, ...]:
        """Where its partitions end; the last known end where nobody leads one, which must not hold up the others."""
        places = [TopicPartition(found.name, index) for index, leader in found.leaders.items() if leader.node >= 0]
        ends = list_offsets(self._target, places, timestamp=LATEST)
        known = dict(enumerate(self._ends))
        return tuple(
            ends[place][0] if (place := TopicPartition(found.name, index)) in ends else known.get(index, 0)
            for index in range(found.partitions)
        )

    def _present(self) -> TopicView:
        """The offsets topic, created if it is not there."""

        def look() -> TopicView | None:
            found = self._target.view([self.topic]).topics.get(self.topic)
            if found is None or found.error == UNKNOWN_TOPIC_OR_PARTITION:
                return None
            self._target.check(found.error, f"topic {self.topic}", f"Describe on topic {self.topic}")
            return found

        flow = self._flow
        while (found := self._target.retry(look)) is None:
            ensure_compacted_topic(
                self._target, self.topic, flow.offset_storage_partitions, flow.offset_storage_replication_factor
            )
        return found

    def _rename(self, names: set[TopicPartition]) -> None:
        self._write(name_records(self._ledger.view.stored, names, self._id))
        self._names = names

    def _anchor(self) -> None:
        anchor = anchor_record(self._id, self._ends)
        if self._ledger.view.stored.get((anchor.topic, anchor.chunk)) != anchor:
            self._write([anchor])

    def _write(self, records: list[StoredPositions]) -> None:
        self._ledger.append(records)
        for record in records:
            self._ledger.view.apply(record)


def offsets_topic(client: ClusterClient, found: TopicView, table: PositionTable) -> OffsetsTopic:
    """The offsets topic as the ledger is compared with it."""
    taken_back = tombstones(table)
    return OffsetsTopic(
        topic_id=found.topic_id.hex(),
        starts=_ends(client, found, EARLIEST),
        ends=_ends(client, found, LATEST),
        stored=frozenset(table.partitions()) - taken_back,
        tombstones=taken_back,
    )


def _ends(client: ClusterClient, found: TopicView, timestamp: int) -> tuple[int, ...]:
    places = [TopicPartition(found.name, index) for index in range(found.partitions)]
    offsets = list_offsets(client, places, timestamp=timestamp)
    return tuple(offsets[place][0] for place in places)
