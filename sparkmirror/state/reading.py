"""Asks both clusters of a flow: a part that is not answered becomes unknown, with the reason, and never stops the others."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeVar

from sparkmirror.clusters import ClusterClient, partition_ends, read_range, refusal
from sparkmirror.clusters.rights import is_right_missing
from sparkmirror.errors import BrokerRefused, ClusterError, ClusterUnreachable, ConnectionLost, CorruptBatch, LoginRefused
from sparkmirror.model import Side, TopicPartition
from sparkmirror.state.internal_topics import ForeignRecord, RecordList, Table
from sparkmirror.state.parts import Outage, Unknown
from sparkmirror.wire import Record, read_records
from sparkmirror.wire.error_codes import UNKNOWN_TOPIC_OR_PARTITION

T = TypeVar("T")
D = TypeVar("D")
A = TypeVar("A", bound=Table)
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

    def fields(self) -> dict[str, str]:
        """As JSON documents have it."""
        return {"kind": self.kind, "cluster": self.cluster, "message": self.message, "needs": self.needs}

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


class ClusterReader:
    """Both clusters of one flow. For one thread at a time; close it.

    A part that was read is in `known` with the time; one that could not be read is in `unknown` with the reason.
    """

    def __init__(self, clients: dict[Side, ClusterClient]) -> None:
        self.clients = clients
        self.notes = Notes()
        self.known: dict[str, int] = {}
        self.unknown: dict[str, Unknown] = {}
        self.outages: dict[Side, Outage] = {}  # clusters that are not asked any more, and why
        self._reached: set[Side] = set()
        self._kept: dict[str, object] = {}

    def close(self) -> None:
        """Drops the connections."""
        for client in self.clients.values():
            client.close()

    def is_up(self, side: Side) -> bool:
        """Whether the cluster answered so far."""
        return side not in self.outages

    def ask(self, part: str, side: Side, look: Callable[[ClusterClient], T], default: D) -> T | D:
        """What one cluster answers, or `default` and an unknown part. A cluster that does not answer is not asked again."""
        client = self.clients[side]
        if not self._reach(side):
            outage = self.outages[side]
            is_brief = outage.is_login or outage.needs == A_BROKER  # a note has the whole message
            self.unknown[part] = Unknown(outage.words if is_brief else outage.message, outage.needs)
            return default
        try:
            found = look(client)
        except (ClusterUnreachable, ConnectionLost) as error:
            self._reached.discard(side)  # one broker that is lost is not the cluster: it is asked whether it is there
            self._fail(part, "unreachable", client, error.message, A_BROKER)
        except ClusterError as error:
            self._fail(part, "refused", client, f"{part}: {error.message}", needs_of(error))
        else:
            self.known[part] = now_ms()
            return found
        return default

    def _reach(self, side: Side) -> bool:
        """Whether the cluster answers us; asked once, without retries, and noted once if it does not."""
        client = self.clients[side]
        if side in self._reached or side in self.outages:
            return side in self._reached
        try:
            client.view(())
        except (ClusterUnreachable, ConnectionLost) as error:
            self.outages[side] = Outage(client.alias, error.message, A_BROKER)
            self.notes.add(Note("unreachable", client.alias, error.message))
        except ClusterError as error:
            self.outages[side] = Outage(client.alias, error.message, needs_of(error), isinstance(error, LoginRefused))
            self.notes.add(Note("refused", client.alias, error.message, needs_of(error)))
        else:
            self._reached.add(side)
        return side in self._reached

    def _fail(self, part: str, kind: NoteKind, client: ClusterClient, message: str, needs: str) -> None:
        self.unknown[part] = Unknown(message.removeprefix(f"{part}: "), needs)
        self.notes.add(Note(kind, client.alias, message, "" if kind == "unreachable" else needs))

    def once(self, part: str, side: Side, look: Callable[[ClusterClient], T]) -> T | None:
        """What one cluster answers, asked only once; None if it does not."""
        if part not in self._kept:
            self._kept[part] = self.ask(part, side, look, None)
        return self._kept[part]  # type: ignore[return-value]  # what the same part was given before

    def table(self, part: str, side: Side, topic: str, table: A, *, may_be_absent: bool = False) -> A | None:
        """An internal topic, read once; None if it cannot be read or does not exist, which is a note unless it may be."""
        return self.once(part, side, lambda client: self._read(part, side, topic, table, may_be_absent=may_be_absent))

    def records(self, part: str, side: Side, topic: str) -> list[Record]:
        """Every record of a small internal topic; none if it does not exist or cannot be read."""
        table = self.table(part, side, topic, RecordList())
        return [] if table is None else table.records

    def _read(self, part: str, side: Side, topic: str, table: A, *, may_be_absent: bool) -> A | None:
        # Asked for by name: among all topics, one that we may not see would just not be there.
        client = self.clients[side]
        found = client.view([topic]).topics.get(topic)
        if found is None or found.error == UNKNOWN_TOPIC_OR_PARTITION:
            if not may_be_absent:
                self.notes.add(Note("missing", client.alias, f"{part}: topic {topic} does not exist on {client.alias}"))
            return None
        if found.error:
            needs = f"Describe and Read on topic {topic}"
            note = self.refuse(side, f"{part}: topic {topic}", found.error, needs)
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

    def refuse(self, side: Side, what: str, code: int, needs: str, *, topic: str = "", group: str = "") -> Note:
        """Notes that a broker refused something, with the right that it takes."""
        client = self.clients[side]
        right = needs if is_right_missing(code) else ""
        message = f"cluster {client.alias}: {what}: {refusal(code, client.who, needs)}"
        note = Note("refused", client.alias, message, right, topic, group)
        self.notes.add(note)
        return note


def needs_of(error: ClusterError) -> str:
    """The right that a refusal names, else what to do about it."""
    return (error.needs if isinstance(error, BrokerRefused) else "") or error.hint


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
