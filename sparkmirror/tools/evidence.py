"""What both clusters say of one flow, whoever runs it: MirrorMaker 2 or sparkmirror. Reads, and changes nothing.

Each question is asked when it is needed and answered once, with the time at which it was read. One that cannot be answered
becomes a note with the right that it takes and an answer that says less; it never ends the others. Order matters where
clusters move on: whoever compares commits with ends reads the commits first, so that growth cannot fake a position past
the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

from sparkmirror.clusters import (
    ClusterClient,
    ClusterView,
    GroupOffsets,
    ListedGroup,
    committed_offsets,
    is_right_missing,
    list_groups,
    name_of,
    partition_ends,
    read_raw,
)
from sparkmirror.clusters.client import PATIENCE, Patience
from sparkmirror.clusters.probing import PartitionEnds, is_allowed_to_list_all, probe_ends
from sparkmirror.config import FlowSettings
from sparkmirror.errors import BrokerRefused, ClusterError, ClusterUnreachable, ConnectionLost, CorruptBatch
from sparkmirror.ledger import LedgerView
from sparkmirror.model import TopicPartition
from sparkmirror.tools.standing_records import CheckpointTable, MalformedRecord, PositionTable, SyncTable
from sparkmirror.topology import ReplicationPolicy, ledger_topic, policy_for
from sparkmirror.wire import Record, read_records
from sparkmirror.wire.error_codes import OFFSET_NOT_AVAILABLE, UNKNOWN_TOPIC_OR_PARTITION

__all__ = [
    "CopyPosition",
    "FlowEvidence",
    "LedgerEvidence",
    "Note",
    "NoteKind",
    "Notes",
    "Side",
    "copy_position",
    "has_topic",
    "mapped_partition",
    "now_ms",
    "read_to_mark",
]

T = TypeVar("T")
Side = Literal["source", "target"]
PAUSE_S, IDLE_MAX = 0.05, 100  # a reader that gets nothing for five seconds gives up
NOTES_MAX = 200  # ten thousand groups without rights are not ten thousand notes
MALFORMED_TOLD_MAX = 20  # notes per internal topic; the rest is counted

NoteKind = Literal["unreachable", "refused", "missing", "malformed"]


@dataclass(frozen=True, slots=True)
class Note:
    """Something that was not read as it should have been: where, what, and the right that it takes if that is missing."""

    kind: NoteKind
    cluster: str
    message: str
    needs: str = ""

    @property
    def is_incomplete(self) -> bool:
        """Whether a question stayed open because of it."""
        return self.kind in ("unreachable", "refused")


class Notes(list[Note]):
    """What was noted, each once; those beyond a limit are only counted."""

    left_out = 0

    def add(self, note: Note) -> None:
        """One more."""
        if note in self:
            return
        if len(self) < NOTES_MAX:
            self.append(note)
        else:
            self.left_out += 1

    @property
    def is_complete(self) -> bool:
        """Whether every question was answered."""
        return not self.left_out and not any(note.is_incomplete for note in self)


@dataclass(frozen=True, slots=True)
class CopyPosition:
    """How far the copy of a partition has come: the next upstream offset, on whose word, and since when that is known."""

    next_upstream_offset: int
    basis: Literal["ledger", "mm2"]
    time_ms: int | None


@dataclass(slots=True)
class LedgerEvidence:
    """sparkmirror's own ledger of the flow."""

    view: LedgerView
    read_at_ms: int
    times: dict[TopicPartition, int] = field(default_factory=dict)  # of the last record of each partition


class FlowEvidence:
    """One flow, asked question by question. For one thread at a time; close it."""

    def __init__(self, flow: FlowSettings, patience: Patience = PATIENCE) -> None:
        self.flow = flow
        self.policy: ReplicationPolicy = policy_for(flow)
        self.clients: dict[Side, ClusterClient] = {
            "source": ClusterClient(flow.source, patience, any_release=True),
            "target": ClusterClient(flow.target, patience, any_release=True),
        }
        self.notes = Notes()
        self.times: dict[str, int] = {}  # when each question was answered, by its name
        self._down: set[Side] = set()
        self._reached: set[Side] = set()
        self._kept: dict[str, object] = {}

    def close(self) -> None:
        """Drops the connections."""
        for client in self.clients.values():
            client.close()

    def is_up(self, side: Side) -> bool:
        """Whether the cluster answers; one that did not is not asked again."""
        self.topics(side)
        return side not in self._down

    # --- clusters ----------------------------------------------------------------------------------------------

    def topics(self, side: Side) -> ClusterView | None:
        """Every topic that we may see, None if the cluster does not answer."""
        return self._once(f"topics of {side}", side, lambda: self.clients[side].view(None))

    def ends(self, side: Side, partitions: Collection[TopicPartition]) -> dict[TopicPartition, PartitionEnds]:
        """Ends of partitions, read now; each says for itself if it has none."""
        found = self._ask(f"ends of {side}", side, lambda: probe_ends(self.clients[side], partitions)) or {}
        for partition, ends in found.items():
            if is_right_missing(ends.error):
                self._refuse(side, f"ends of {partition}", ends.error, f"Describe on topic {partition.topic}")
        return found

    def groups(self, side: Side) -> dict[str, ListedGroup]:
        """Every group that we may see, with its state; a note if that may not be all."""
        name = f"groups of {side}"
        is_first = name not in self._kept
        found = self._once(name, side, lambda: {g.name: g for g in list_groups(self.clients[side])}) or {}
        if is_first and not found and side not in self._down:
            self._ask(f"rights on {side}", side, lambda: self._note_hidden_groups(side))
        return found

    def _note_hidden_groups(self, side: Side) -> None:
        if not is_allowed_to_list_all(self.clients[side]):
            self._refuse(side, "no group is shown", 30, "Describe on the cluster, or on its groups")

    def commits(self, side: Side, groups: Collection[str]) -> dict[str, GroupOffsets]:
        """What groups have committed, read now; a group that may not be read carries its error and a note."""
        found = self._ask(f"commits on {side}", side, lambda: committed_offsets(self.clients[side], groups)) or {}
        for group, offsets in found.items():
            if offsets.error:
                self._refuse(side, f"commits of group {group}", offsets.error, f"Describe on group {group}")
        return found

    # --- what the mirror keeps ---------------------------------------------------------------------------------

    def positions(self) -> PositionTable:
        """MirrorMaker 2's stored positions: each key of its source connector in the Connect offsets topic."""
        table = PositionTable(self.flow.name.source)
        return self._read("positions", "target", self.flow.offset_storage_topic, table.take, lambda: table) or table

    def ledger(self) -> LedgerEvidence | None:
        """sparkmirror's ledger, None if there is none."""
        found = LedgerEvidence(LedgerView(), now_ms())

        def take(place: TopicPartition, record: Record) -> MalformedRecord | None:
            before = found.view.malformed
            told = found.view.read(record.key if record.key is not None else b"", record.value)
            partition = getattr(told, "partition", None)
            if partition is not None:
                found.times[partition] = record.timestamp
            is_bad = found.view.malformed > before
            return MalformedRecord(place, record.offset, "no record of a ledger") if is_bad else None

        return self._read("ledger", "target", ledger_topic(self.flow.name.source), take, lambda: found)

    def syncs(self) -> SyncTable:
        """Offset syncs: the newest of each source partition with its time, and what MM2 would remember of the others."""
        side: Side = "source" if self.flow.offset_syncs_topic_location == "source" else "target"
        table = SyncTable()
        return self._read("offset syncs", side, self.syncs_topic, table.take, lambda: table) or table

    def checkpoints(self) -> CheckpointTable:
        """The newest checkpoint of each group and remote partition."""
        table = CheckpointTable()
        return self._read("checkpoints", "target", self.checkpoints_topic, table.take, lambda: table) or table

    @property
    def syncs_topic(self) -> str:
        """The topic of offset syncs, by policy and place."""
        name = self.flow.name
        return self.policy.offset_syncs_topic(
            name.target if self.flow.offset_syncs_topic_location == "source" else name.source
        )

    @property
    def checkpoints_topic(self) -> str:
        """The topic of checkpoints."""
        return self.policy.checkpoints_topic(self.flow.name.source)

    # --- asking ------------------------------------------------------------------------------------------------

    def _once(self, name: str, side: Side, look: Callable[[], T]) -> T | None:
        if name not in self._kept:
            self._kept[name] = self._ask(name, side, look)
        return self._kept[name]  # type: ignore[return-value]  # what the same name was given before

    def _ask(self, name: str, side: Side, look: Callable[[], T]) -> T | None:
        """The answer, or None and a note; a cluster of which no broker answers is not asked again."""
        if side in self._down:
            return None
        try:
            if side not in self._reached:
                self.clients[side].view(())  # not tried again: whether a cluster is there is told at once
                self._reached.add(side)
            found = look()
        except (ClusterUnreachable, ConnectionLost) as error:
            self._down.add(side)
            self.notes.add(Note("unreachable", self.clients[side].alias, error.message))
        except BrokerRefused as error:
            self.notes.add(Note("refused", self.clients[side].alias, f"{name}: {error.message}"))
        except ClusterError as error:
            self.notes.add(Note("unreachable", self.clients[side].alias, f"{name}: {error.message}"))
        else:
            self.times[name] = now_ms()
            return found
        return None

    def _read(
        self,
        name: str,
        side: Side,
        topic: str,
        take: Callable[[TopicPartition, Record], MalformedRecord | None],
        result: Callable[[], T],
    ) -> T | None:
        """Reads an internal topic once, record by record; what is no record of it is noted with its offset."""

        def look() -> T | None:
            # Asked for by name: among all topics, one that we may not see would just not be there.
            found = self.clients[side].view([topic]).topics.get(topic)
            if found is None or found.error == UNKNOWN_TOPIC_OR_PARTITION:
                alias = self.clients[side].alias
                self.notes.add(Note("missing", alias, f"{name}: topic {topic} does not exist on {alias}"))
                return None
            if found.error:
                self._refuse(side, f"{name}: topic {topic}", found.error, f"Describe and Read on topic {topic}")
                return None
            for index in sorted(found.leaders):
                self._read_partition(side, TopicPartition(topic, index), take)
            return result()

        return self._once(name, side, look)

    def _read_partition(
        self, side: Side, place: TopicPartition, take: Callable[[TopicPartition, Record], MalformedRecord | None]
    ) -> None:
        malformed = 0
        for record in read_to_mark(self.clients[side], place):
            bad = take(place, record)
            if bad is not None:
                malformed += 1
                if malformed <= MALFORMED_TOLD_MAX:
                    told = f"{bad.place} offset {bad.offset}: {bad.reason}"
                    self.notes.add(Note("malformed", self.clients[side].alias, told))
        if malformed > MALFORMED_TOLD_MAX:
            rest = f"{place}: {malformed - MALFORMED_TOLD_MAX} more records that are none of its own"
            self.notes.add(Note("malformed", self.clients[side].alias, rest))

    def _refuse(self, side: Side, what: str, code: int, needs: str) -> None:
        alias = self.clients[side].alias
        right = needs if is_right_missing(code) else ""
        self.notes.add(Note("refused", alias, f"cluster {alias}: {what}: {name_of(code)}", right))


def has_topic(evidence: FlowEvidence, side: Side, topic: str) -> bool:
    """Whether the cluster shows the topic."""
    view = evidence.topics(side)
    found = view.topics.get(topic) if view is not None else None
    return found is not None and not found.error


def copy_position(evidence: FlowEvidence, partition: TopicPartition) -> CopyPosition | None:
    """How far the copy of a source partition has come, by whoever came further; None if nobody says."""
    ledger, stored = evidence.ledger(), evidence.positions().of(partition)
    history = ledger.view.partitions.get(partition) if ledger is not None else None
    position = history.position() if history is not None else None
    ours = None
    if position is not None and ledger is not None:
        ours = CopyPosition(position.upstream, "ledger", ledger.times.get(partition))
    theirs = None if stored is None else CopyPosition(stored.last_offset + 1, "mm2", stored.time_ms)
    if ours is None or theirs is None:
        return ours or theirs
    return theirs if theirs.next_upstream_offset > ours.next_upstream_offset else ours


def mapped_partition(flow: FlowSettings, policy: ReplicationPolicy, partition: TopicPartition) -> TopicPartition:
    """The partition of the target that stands for one of the source; a topic that came from the target goes back to it.

    As MirrorMaker 2 does for checkpoints: `B.orders` on A is `orders` on B, not `A.B.orders`, which never exists.
    """
    if policy.topic_source(partition.topic) == flow.name.target:
        return TopicPartition(policy.original_topic(partition.topic), partition.partition)
    return TopicPartition(policy.format_remote_topic(flow.name.source, partition.topic), partition.partition)


def read_to_mark(client: ClusterClient, partition: TopicPartition) -> Iterator[Record]:
    """Every record up to the high watermark seen at the start: nobody waits for replicas that are missing.

    A batch that cannot be read is passed over with its offsets.
    """
    high_watermark, _, _, at = partition_ends(client, partition)
    idle = 0
    while at < high_watermark:
        read = read_raw(client, partition, at)
        for batch in read.batches:
            if not batch.is_control:
                try:
                    yield from (record for record in read_records(batch) if record.offset >= at)
                except CorruptBatch:
                    yield replace(_UNREADABLE, offset=batch.base_offset)
            at = batch.last_offset + 1
            idle = 0
        if not read.batches:
            idle += 1
            if idle > IDLE_MAX:
                client.check(OFFSET_NOT_AVAILABLE, f"{partition} at offset {at}")
            time.sleep(PAUSE_S)
            _, _, _, first = partition_ends(client, partition)  # the log may have been cut meanwhile
            at = max(at, first)


_UNREADABLE = Record(0, -1, None, None)


def now_ms() -> int:
    """Wall time."""
    return int(time.time() * 1000)

