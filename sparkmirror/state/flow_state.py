"""What both clusters say of one flow, whoever runs it: MirrorMaker 2 or sparkmirror. Reads, and changes nothing.

Each part is read when it is first needed, once. A part that was read is in `known` with the time; one that could not be
read is in `unknown` with the reason and the right that it takes, and never stops the others. Something that is missing alone
(one group, one topic) is a note. Order matters where clusters move on: whoever compares commits with ends reads the commits
first, so that growth cannot fake a position past the end.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeVar

from sparkmirror.clusters import (
    ClusterClient,
    ClusterView,
    GroupOffsets,
    ListedGroup,
    committed_offsets,
    list_groups,
    partition_ends,
    read_range,
    refusal,
)
from sparkmirror.clusters.client import PATIENCE, Patience
from sparkmirror.clusters.probing import PartitionEnds, is_allowed_to_list_all, probe_ends
from sparkmirror.config import FlowSettings
from sparkmirror.errors import BrokerRefused, ClusterError, ClusterUnreachable, ConnectionLost, CorruptBatch
from sparkmirror.model import Side, TopicPartition
from sparkmirror.state.internal_topics import (
    CheckpointTable,
    ForeignRecord,
    LedgerTable,
    PositionTable,
    RecordList,
    SyncTable,
    Table,
)
from sparkmirror.state.parts import Part, Unknown
from sparkmirror.topology import ReplicationPolicy, ledger_topic, offset_syncs_topic, policy_for
from sparkmirror.wire import Record, read_records

__all__ = ["CopyPosition", "FlowState", "Note", "NoteKind", "Notes", "now_ms", "read_to_high_watermark"]

T = TypeVar("T")
D = TypeVar("D")
A = TypeVar("A", bound=Table)
GROUP_AUTHORIZATION_FAILED = 30
NO_RIGHTS = frozenset({29, 30, 31, 53, 65})
UNKNOWN_TOPIC = 3
NOTES_MAX = 200  # ten thousand groups without rights are not ten thousand notes
FOREIGN_NOTES_MAX = 20  # per partition of an internal topic; the rest is counted
A_BROKER = "a broker that answers"

NoteKind = Literal["unreachable", "refused", "missing", "malformed"]


@dataclass(frozen=True, slots=True)
class Note:
    """Something that was not read as it should have been: what, why, the right that it takes, and which topic or group."""

    kind: NoteKind
    cluster: str
    message: str
    needs: str = ""
    topic: str = ""
    group: str = ""

    @property
    def is_incomplete(self) -> bool:
        """Whether something stays unknown because of it."""
        return self.kind in ("unreachable", "refused")


class Notes(list[Note]):
    """What was noted, each once; those beyond a limit are only counted, by kind and cluster."""

    def __init__(self, notes: Iterable[Note] = ()) -> None:
        super().__init__(notes)
        self.omitted: Counter[tuple[NoteKind, str]] = Counter()

    def add(self, note: Note) -> None:
        """One more."""
        if note in self:
            return
        if len(self) < NOTES_MAX:
            self.append(note)
        else:
            self.omitted[note.kind, note.cluster] += 1

    @property
    def left_out(self) -> int:
        """How many were only counted."""
        return self.omitted.total()

    def rest(self) -> list[Note]:
        """One note for each kind and cluster of which some were only counted."""
        found = self.omitted.items()
        return [Note(kind, alias, f"cluster {alias}: {count} more notes ({kind})") for (kind, alias), count in found]

    @property
    def is_complete(self) -> bool:
        """Whether everything that was asked for is known."""
        return not self.left_out and not any(note.is_incomplete for note in self)


@dataclass(frozen=True, slots=True)
class CopyPosition:
    """How far the copy of a partition has come: the next upstream offset, who says so, and since when that is known."""

    next_upstream_offset: int
    basis: Literal["ledger", "mm2"]
    time_ms: int | None


class FlowState:
    """One flow. For one thread at a time; close it."""

    def __init__(self, flow: FlowSettings, patience: Patience = PATIENCE) -> None:
        self.flow = flow
        self.policy: ReplicationPolicy = policy_for(flow)
        self.clients: dict[Side, ClusterClient] = {
            "source": ClusterClient(flow.source, patience),
            "target": ClusterClient(flow.target, patience),
        }
        self.notes = Notes()
        self.known: dict[str, int] = {}  # when each part was read
        self.unknown: dict[str, Unknown] = {}
        self._down: set[Side] = set()  # clusters that are not asked any more
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
        return self._once(Part.topics(side), side, lambda client: client.view(None))

    def has_topic(self, side: Side, topic: str) -> bool:
        """Whether the cluster shows the topic."""
        view = self.topics(side)
        found = view.topics.get(topic) if view is not None else None
        return found is not None and not found.error

    def ends(self, side: Side, partitions: Collection[TopicPartition]) -> dict[TopicPartition, PartitionEnds]:
        """Ends of partitions, read now; each says for itself if it has none."""
        found = self.ask(Part.ends(side), side, lambda client: probe_ends(client, partitions), {})
        for partition, ends in found.items():
            if ends.error in NO_RIGHTS:
                needs = f"Describe on topic {partition.topic}"
                self._refuse(side, f"ends of {partition}", ends.error, needs, topic=partition.topic)
        return found

    def groups(self, side: Side) -> dict[str, ListedGroup]:
        """Every group that we may see, with its state; the part is unknown if that may not be all."""

        def look(client: ClusterClient) -> dict[str, ListedGroup]:
            found = {group.name: group for group in list_groups(client)}
            if not found and not is_allowed_to_list_all(client):
                needs = "Describe on the cluster, or on its groups"
                note = self._refuse(side, "no group is shown", GROUP_AUTHORIZATION_FAILED, needs)
                self.unknown[Part.groups(side)] = Unknown(note.message, needs)
            return found

        return self._once(Part.groups(side), side, look) or {}

    def commits(self, side: Side, groups: Collection[str]) -> dict[str, GroupOffsets]:
        """What groups have committed, read now; a group that may not be read carries its error and a note."""
        if not groups:
            return {}
        found = self.ask(Part.commits(side), side, lambda client: committed_offsets(client, groups), {})
        for group, offsets in found.items():
            if offsets.error:
                needs = f"Describe on group {group}"
                self._refuse(side, f"commits of group {group}", offsets.error, needs, group=group)
        return found

    # --- internal topics ---------------------------------------------------------------------------------------

    def positions(self) -> PositionTable:
        """MirrorMaker 2's stored positions: the keys of its source connector in the Connect offsets topic."""
        table = PositionTable(self.flow.name.source)
        return self.table(Part.POSITIONS, "target", self.flow.offset_storage_topic, table) or table

    def ledger(self) -> LedgerTable | None:
        """sparkmirror's ledger, None if there is none or it cannot be read."""
        return self.table(Part.LEDGER, "target", ledger_topic(self.flow.name.source), LedgerTable())

    def syncs(self) -> SyncTable:
        """Offset syncs: the newest of each source partition, and what MirrorMaker 2 remembers of the others."""
        table = SyncTable()
        return self.table(Part.SYNCS, self.flow.syncs_side, self.syncs_topic, table) or table

    def checkpoints(self) -> CheckpointTable:
        """The newest checkpoint of each group and remote partition."""
        table = CheckpointTable()
        return self.table(Part.CHECKPOINTS, "target", self.checkpoints_topic, table) or table

    @property
    def syncs_topic(self) -> str:
        """The topic of offset syncs, by policy and place."""
        return offset_syncs_topic(self.flow, self.policy)

    @property
    def checkpoints_topic(self) -> str:
        """The topic of checkpoints."""
        return self.policy.checkpoints_topic(self.flow.name.source)

    def copy_position(self, partition: TopicPartition) -> CopyPosition | None:
        """How far the copy of a source partition has come, by whoever came further; None if nobody says."""
        ledger, stored = self.ledger(), self.positions().of(partition)
        history = ledger.history(partition) if ledger is not None else None
        position = history.position() if history is not None else None
        ours, theirs = None, None
        if position is not None and ledger is not None:
            ours = CopyPosition(position.upstream, "ledger", ledger.times.get(partition))
        if stored is not None and stored.last_offset is not None:
            theirs = CopyPosition(stored.last_offset + 1, "mm2", stored.time_ms)
        if ours is None or theirs is None:
            return ours or theirs
        return theirs if theirs.next_upstream_offset > ours.next_upstream_offset else ours

    def mapped_partition(self, partition: TopicPartition) -> TopicPartition:
        """The partition of the target that stands for one of the source; a topic that came from the target goes back to it.

        As MirrorMaker 2 does for checkpoints: `B.orders` on A is `orders` on B, not `A.B.orders`, which never exists.
        """
        policy, name = self.policy, self.flow.name
        if policy.topic_source(partition.topic) == name.target:
            return TopicPartition(policy.original_topic(partition.topic), partition.partition)
        return TopicPartition(policy.format_remote_topic(name.source, partition.topic), partition.partition)

    # --- asking ------------------------------------------------------------------------------------------------

    def ask(self, part: str, side: Side, look: Callable[[ClusterClient], T], default: D) -> T | D:
        """What one cluster answers, or `default` and an unknown part. A cluster that does not answer is not asked again."""
        client = self.clients[side]
        if side in self._down:
            self.unknown[part] = Unknown(f"cluster {client.alias} does not answer", A_BROKER)
            return default
        try:
            if side not in self._reached:
                client.view(())  # without retries: whether a cluster is there is known at once
                self._reached.add(side)
            found = look(client)
        except (ClusterUnreachable, ConnectionLost) as error:
            if not self._answers(client):  # one broker that is lost is not the cluster
                self._down.add(side)
            self._fail(part, "unreachable", client, error.message, A_BROKER)
        except ClusterError as error:
            needs = error.needs if isinstance(error, BrokerRefused) else ""
            self._fail(part, "refused", client, f"{part}: {error.message}", needs or error.hint)
        else:
            self.known[part] = now_ms()
            return found
        return default

    def _answers(self, client: ClusterClient) -> bool:
        try:
            client.view(())
        except ClusterError:
            return False
        return True

    def _fail(self, part: str, kind: NoteKind, client: ClusterClient, message: str, needs: str) -> None:
        self.unknown[part] = Unknown(message.removeprefix(f"{part}: "), needs)
        self.notes.add(Note(kind, client.alias, message, "" if kind == "unreachable" else needs))

    def _once(self, part: str, side: Side, look: Callable[[ClusterClient], T]) -> T | None:
        if part not in self._kept:
            self._kept[part] = self.ask(part, side, look, None)
        return self._kept[part]  # type: ignore[return-value]  # what the same part was given before

    def table(self, part: str, side: Side, topic: str, table: A) -> A | None:
        """An internal topic, read once into a table; None if it does not exist or cannot be read."""
        return self._once(part, side, lambda client: self._read(part, side, topic, table))

    def records(self, part: str, side: Side, topic: str) -> list[Record]:
        """Every record of a small internal topic; none if it does not exist or cannot be read."""
        table = self.table(part, side, topic, RecordList())
        return [] if table is None else table.records

    def _read(self, part: str, side: Side, topic: str, table: A) -> A | None:
        # Asked for by name: among all topics, one that we may not see would just not be there.
        client = self.clients[side]
        found = client.view([topic]).topics.get(topic)
        if found is None or found.error == UNKNOWN_TOPIC:
            self.notes.add(Note("missing", client.alias, f"{part}: topic {topic} does not exist on {client.alias}"))
            return None
        if found.error:
            needs = f"Describe and Read on topic {topic}"
            note = self._refuse(side, f"{part}: topic {topic}", found.error, needs)
            self.unknown[part] = Unknown(note.message, needs)
            return None
        for index in sorted(found.leaders):
            self._read_partition(client, TopicPartition(topic, index), table)
        return table

    def _read_partition(self, client: ClusterClient, place: TopicPartition, table: Table) -> None:
        foreign: list[ForeignRecord] = []
        count = 0
        for record in read_to_high_watermark(client, place):
            found = table.take(place, record)
            if found is not None:
                count += 1
                if len(foreign) < FOREIGN_NOTES_MAX:
                    foreign.append(found)
        for found in foreign:
            self.notes.add(Note("malformed", client.alias, f"{found.place} offset {found.offset}: {found.reason}"))
        if count > len(foreign):
            self.notes.add(Note("malformed", client.alias, f"{place}: {count - len(foreign)} more foreign records"))

    def _refuse(self, side: Side, what: str, code: int, needs: str, *, topic: str = "", group: str = "") -> Note:
        client = self.clients[side]
        right = needs if code in NO_RIGHTS else ""
        message = f"cluster {client.alias}: {what}: {refusal(code, client.who, needs)}"
        note = Note("refused", client.alias, message, right, topic, group)
        self.notes.add(note)
        return note


def read_to_high_watermark(client: ClusterClient, partition: TopicPartition) -> Iterator[Record]:
    """Every record up to the high watermark seen at the start: a reader does not wait for replicas that are missing.

    A batch that cannot be read is one record without key and value, which no table takes.
    """
    high_watermark, _, _, first = partition_ends(client, partition)
    for batch in read_range(client, partition, first, high_watermark, read_committed=False, is_whole=False):
        try:
            yield from read_records(batch)
        except CorruptBatch:
            yield Record(batch.base_offset, -1, None, None)


def now_ms() -> int:
    """Wall time."""
    return int(time.time() * 1000)
