"""The ledger's records: what is written to the compacted topic on the target, and read back as values.

The ledger is the only channel between driver and tasks, and the only state besides MM2's own topics. One partition, so
its order is total. Keys and values are JSON, so that an operator can read them with Kafka's console consumer.

key                                             value
["owner", generation, epoch]                    who owns the flow, its producer ids, a beat each 5 s; `released` when it left
["open", topic, partition, attempt]             the driver gives an attempt to a slot
["started", topic, partition, attempt]          the task took it; written before its first byte
["receipt", topic, partition, attempt, start]   proven copy, cumulative; `start` is where its block of runs begins
    … with a 1 at the end                        the last receipt, beside closed
["closed", topic, partition, attempt]           the attempt ended quietly; only this proves an end
["state", topic, partition, attempt]            what a partition does or why it stopped
["release", topic, partition, attempt]          the driver asks the task to close
["void", topic, partition, attempt]             the target lost what lies at and above `downstream`
["gap", topic, partition, attempt, start]       upstream offsets from `start` on that the operator accepted as not copied
["intent", topic, partition, attempt]           transform query: what a task is about to append where; see intents.py
["routed", topic, partition, attempt, start, target topic, target partition]   runs in a partition that is not the copy's own
["slot", number, incarnation]                   a slot's heartbeat, each second
["stop", number, incarnation]                   the driver asks a slot to end
["request", id]                                 what somebody outside asks of the owner
["answer", id, generation, epoch]               what that owner made of it; written with what it changed, in one batch
["ends", topic, chunk]                          where the source's partitions ended when the owner last saw them change
["topic", topic]                                a topic that the owner copies or is about to copy, and where to
["wish", connector, topic, partition]           what somebody wants paused or stopped until it is resumed; null: all of them
["failover"]                                    the flow was failed over: nobody copies it
["stored", topic, chunk]                        partitions whose position lies in MirrorMaker 2's offsets topic of this id
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec

from sparkmirror.errors import ReplicationError
from sparkmirror.ledger.flow_records import (
    CopiedTopic,
    Failover,
    OwnerAnswer,
    OwnerRequest,
    RunSettings,
    SourceEnds,
    StoredPositions,
    Whole,
    WholeOrUnknown,
    Wish,
)
from sparkmirror.ledger.runs import Run, Runs
from sparkmirror.model import TopicPartition

SEQUENCE_MODULUS = 1 << 31
CHUNK = 100  # partitions of a topic that share one record of ends or of stored positions
NOBODY = -1  # the slot of an attempt that is assigned to no slot: a move
TRANSFORM_QUERY = -2  # the slot of an attempt whose records pass a transform: tasks of a query write it, each a range

Length = Annotated[int, msgspec.Meta(ge=1)]
if TYPE_CHECKING:
    RunSequence = Sequence[Run]
else:
    RunSequence = Runs  # what `decode` makes


class Attempt(NamedTuple):
    """One slot's right to write one partition. Totally ordered.

    `generation` counts changes of the flow's producer id, because a new id starts at epoch 0 again (R11, R12).
    """

    generation: Whole
    producer_epoch: Whole
    number: Whole


class Position(NamedTuple):
    """Next upstream offset to read, next downstream offset expected, next sequence number."""

    upstream: Whole
    downstream: Whole
    sequence: Whole


class TopicIncarnation(NamedTuple):
    """The topic ids on both sides: offsets of one incarnation mean nothing in another."""

    source_topic_id: str
    target_topic_id: str


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that owns the flow; `beat` changes while it runs.

    The cluster ids say which clusters the aliases meant. `source_seen_ms` is when the source last answered: until then
    the records of its ends are all that there was. `since_ms` is when it began to own the flow, `url` where it answers over
    HTTP.
    """

    generation: Whole
    first_epoch: Whole
    producer_id: Whole
    producer_epoch: Whole
    name: str
    beat: Whole
    producer_ids: tuple[Whole, ...]
    released: bool = False
    source_cluster_id: str = ""
    target_cluster_id: str = ""
    source_seen_ms: WholeOrUnknown = -1
    since_ms: WholeOrUnknown = -1
    url: str = ""


@dataclass(frozen=True, slots=True)
class Open:
    """The driver's order to copy one partition from `position` on; or a move, which is closed in the same moment."""

    partition: TopicPartition
    attempt: Attempt
    previous: Attempt | None
    slot: Annotated[int, msgspec.Meta(ge=TRANSFORM_QUERY)]
    incarnation: Annotated[int, msgspec.Meta(ge=NOBODY)]
    target_topic: str
    producer_id: Whole
    producer_epoch: Whole
    position: Position
    source_topic_id: str
    target_topic_id: str
    read_committed: bool
    shared: bool
    fenced: bool
    source_compacts: bool
    source_leader_epoch: WholeOrUnknown = -1
    until: Whole | None = None
    move: str = ""  # "on", "behind" or "anew" if it is one: see moving.py

    @property
    def topic_incarnation(self) -> TopicIncarnation:
        """Which topics were meant."""
        return TopicIncarnation(self.source_topic_id, self.target_topic_id)

    @property
    def is_move(self) -> bool:
        """Whether it copies nothing and only sets where the next attempt starts."""
        return self.move != ""


@dataclass(frozen=True, slots=True)
class Started:
    """A task took the attempt."""

    partition: TopicPartition
    attempt: Attempt
    process: str


@dataclass(frozen=True, slots=True)
class Receipt:
    """What an attempt has proven; `runs` is its newest block, `records` its total since the open."""

    partition: TopicPartition
    attempt: Attempt
    position: Position
    source_leader_epoch: WholeOrUnknown
    records: Whole
    record_bytes: Whole
    runs: RunSequence
    source_end: WholeOrUnknown = -1
    newest_timestamp: WholeOrUnknown = -1
    is_final: bool = False  # written with closed, under a key of its own: no late receipt of the attempt can replace it
    read_ms: WholeOrUnknown = -1  # when the record with the newest timestamp was read from the source


@dataclass(frozen=True, slots=True)
class Closed:
    """The attempt ended with nothing in flight."""

    partition: TopicPartition
    attempt: Attempt
    position: Position


@dataclass(frozen=True, slots=True)
class State:
    """A partition's condition as its task sees it: "copying", "waiting", "stopped" or "lost" (the driver must recover)."""

    partition: TopicPartition
    attempt: Attempt
    state: str
    code: str
    reason: str
    hint: str = ""  # what to do about it
    detail: str = ""  # of the code, such as what the target refused

    @classmethod
    def stopped(cls, partition: TopicPartition, attempt: Attempt, error: ReplicationError) -> State:
        """The partition stopped with this error."""
        return cls(partition, attempt, "stopped", error.code, error.message, error.hint, error.detail)

    @property
    def text(self) -> str:
        """The reason, with what to do about it."""
        return f"{self.reason} ({self.hint})" if self.hint else self.reason


@dataclass(frozen=True, slots=True)
class Release:
    """The driver wants the attempt closed."""

    partition: TopicPartition
    attempt: Attempt


@dataclass(frozen=True, slots=True)
class Void:
    """The target was truncated: everything at and above `downstream` is gone."""

    partition: TopicPartition
    attempt: Attempt
    downstream: Whole


@dataclass(frozen=True, slots=True)
class Gap:
    """The offsets from `upstream` up to `until`, not included, were given up in this incarnation of the source topic."""

    partition: TopicPartition
    attempt: Attempt
    upstream: Whole
    until: Whole
    reason: str
    time_ms: Whole
    source_topic_id: str

    @property
    def length(self) -> int:
        """How many offsets; some of them may never have held a record."""
        return self.until - self.upstream


class IntentTarget(NamedTuple):
    """Where a task is about to append: from which offset on to look for it, its first sequence number there, and the
    upstream ranges (start, length) whose records it appends, in order."""

    target: TopicPartition
    downstream: Whole
    sequence: Whole
    ranges: tuple[tuple[Whole, Length], ...]


@dataclass(frozen=True, slots=True)
class Intent:
    """A task of the transform query is about to append what it made of the upstream offsets from `upstream` up to `until`.

    Everything before `upstream` is done. The producer is the task's process; whoever fences it makes sure of its silence.
    """

    partition: TopicPartition
    attempt: Attempt
    upstream: Whole
    until: Whole
    transactional_id: str
    producer_id: Whole
    producer_epoch: Whole
    targets: tuple[IntentTarget, ...]


@dataclass(frozen=True, slots=True)
class Routed:
    """Records of a source partition that lie in another partition of the target than its copy."""

    partition: TopicPartition
    attempt: Attempt
    target: TopicPartition
    source_topic_id: str
    runs: RunSequence


@dataclass(frozen=True, slots=True)
class SlotBeat:
    """A slot is alive."""

    slot: Whole
    incarnation: Whole
    beat: Whole
    process: str
    resident_bytes: Whole


@dataclass(frozen=True, slots=True)
class SlotStop:
    """The driver wants the slot to end."""

    slot: Whole
    incarnation: Whole


LedgerRecord = (
    Owner | Open | Started | Receipt | Closed | State | Release | Void | Gap | Intent | Routed | SlotBeat | SlotStop
    | OwnerRequest | OwnerAnswer | SourceEnds | StoredPositions | CopiedTopic | Wish | RunSettings | Failover
)  # fmt: skip

_KINDS: dict[str, type[LedgerRecord]] = {
    "owner": Owner,
    "open": Open,
    "started": Started,
    "receipt": Receipt,
    "closed": Closed,
    "state": State,
    "release": Release,
    "void": Void,
    "gap": Gap,
    "intent": Intent,
    "routed": Routed,
    "slot": SlotBeat,
    "stop": SlotStop,
    "request": OwnerRequest,
    "answer": OwnerAnswer,
    "ends": SourceEnds,
    "stored": StoredPositions,
    "topic": CopiedTopic,
    "wish": Wish,
    "settings": RunSettings,
    "failover": Failover,
}
# Fields that have a shorter name in the value. Every other field has its own; the values' fields have the classes' order.
_NAMES = {
    "producer_id": "id",
    "producer_epoch": "epoch",
    "producer_ids": "ids",
    "target_topic": "target",
    "position": "at",
    "source_topic_id": "source id",
    "target_topic_id": "target id",
    "read_committed": "read committed",
    "source_compacts": "source compacts",
    "source_leader_epoch": "source leader epoch",
    "record_bytes": "bytes",
    "source_end": "source end",
    "newest_timestamp": "newest",
    "read_ms": "read",
    "time_ms": "time",
    "resident_bytes": "rss",
    "source_cluster_id": "source cluster",
    "target_cluster_id": "target cluster",
    "source_seen_ms": "source seen",
    "since_ms": "since",
    "expires_ms": "expires",
    "offsets_topic_id": "offsets topic id",
    "request_id": "request",
    "changed_ms": "changed",
}
_FIELDS = {short: name for name, short in _NAMES.items()}
_IN_KEY = {"partition", "attempt", "is_final"}
_KEY_FIELDS: dict[type, set[str]] = {
    Owner: {"generation", "first_epoch"},
    Gap: _IN_KEY | {"upstream"},
    Routed: _IN_KEY | {"target"},
    SlotBeat: {"slot", "incarnation"},
    SlotStop: {"slot", "incarnation"},
    OwnerRequest: {"id"},
    OwnerAnswer: {"id", "generation", "producer_epoch"},
    SourceEnds: {"topic", "chunk"},
    StoredPositions: {"topic", "chunk"},
    CopiedTopic: {"topic"},
    Wish: {"connector", "topic", "partition"},
    RunSettings: set(),
    Failover: set(),
}
# Left out of the value while they say nothing, so that records of older versions keep their bytes.
_UNLESS_EMPTY: dict[type, set[str]] = {
    Owner: {"source cluster", "target cluster", "source seen", "since", "url"},
    Receipt: {"read"},
    State: {"hint", "detail"},
    OwnerRequest: {"topic", "partition", "arguments", "command"},
    OwnerAnswer: {"detail"},
    StoredPositions: {"ends"},
    RunSettings: {"changed", "error", "refused"},
    Failover: {"command", "detail"},
}
_EMPTY: tuple[Any, ...] = ("", -1, {}, ())
_VALUE_FIELDS = {
    kind: [(_NAMES.get(f.name, f.name), f.name) for f in fields(kind) if f.name not in _KEY_FIELDS.get(kind, _IN_KEY)]
    for kind in _KINDS.values()
}
_KIND_OF = {record: kind for kind, record in _KINDS.items()}
_REFUSED = (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError)


def tombstone(kind: str, partition: TopicPartition, attempt: Attempt, *more: int | str) -> tuple[bytes, None]:
    """The key that removes a record of an old attempt, and no value."""
    return msgspec.json.encode([kind, *partition, attempt, *more]), None


def encode(record: LedgerRecord) -> tuple[bytes, bytes]:
    """Key and value of one ledger record."""
    key: list[Any] = [_KIND_OF[type(record)]]
    value: dict[str, Any] = {short: getattr(record, name) for short, name in _VALUE_FIELDS[type(record)]}
    match record:
        case Owner():
            key += (record.generation, record.first_epoch)
        case SlotBeat() | SlotStop():
            key += (record.slot, record.incarnation)
        case OwnerRequest():
            key.append(record.id)
        case OwnerAnswer():  # each owner's own: the ledger's cleaner must not prefer a former owner's late one
            key += (record.id, record.generation, record.producer_epoch)
        case SourceEnds() | StoredPositions():
            key += (record.topic, record.chunk)
        case CopiedTopic():
            key.append(record.topic)
        case Wish():
            key += (record.connector, record.topic or None, None if record.partition < 0 else record.partition)
        case RunSettings() | Failover():
            pass  # one for the flow
        case _:
            key += (*record.partition, record.attempt)
    optional = _UNLESS_EMPTY.get(type(record))
    if optional:
        value = {name: item for name, item in value.items() if name not in optional or item not in _EMPTY}
    match record:
        case Open(move=""):
            del value["move"]
        case Receipt(runs=runs):
            key += (runs[0].upstream if runs else -1, *([1] if record.is_final else []))
            value["runs"] = _delta(runs)
        case Gap():
            key.append(record.upstream)
        case Intent():
            by = [record.transactional_id, record.producer_id, record.producer_epoch]
            targets = [
                [*t.target, t.downstream, t.sequence, [n for part in t.ranges for n in part]] for t in record.targets
            ]
            value = {"from": record.upstream, "until": record.until, "by": by, "targets": targets}
        case Routed(runs=runs):
            key += (runs[0].upstream, *record.target)
            value["runs"] = _delta(runs)
    return msgspec.json.encode(key), msgspec.json.encode(value)


def decode(key: bytes, value: bytes) -> LedgerRecord:
    """The record behind a key and a value. Raises ValueError for anything that is not one of ours."""
    try:
        k, v = msgspec.json.decode(key), msgspec.json.decode(value)
        kind = _KINDS[k[0]]
        return msgspec.convert({_FIELDS.get(name, name): item for name, item in v.items()} | _of_key(kind, k, v), kind)
    except _REFUSED as error:
        raise ValueError(f"no ledger record: {key[:80]!r}: {error!r}, found {value[:200]!r}") from error


def _of_key(kind: type[LedgerRecord], k: Any, v: Any) -> dict[str, Any]:
    """The fields of the key, and those that the value holds in another form than the record."""
    if kind is Owner:
        return {"generation": k[1], "first_epoch": k[2]}
    if kind in (SlotBeat, SlotStop):
        return {"slot": k[1], "incarnation": k[2]}
    if kind is OwnerRequest:
        return {"id": k[1]}
    if kind is OwnerAnswer:
        return {"id": k[1], "generation": k[2], "producer_epoch": k[3]}
    if kind in (SourceEnds, StoredPositions):
        return {"topic": k[1], "chunk": k[2]}
    if kind is CopiedTopic:
        return {"topic": k[1]}
    if kind is Wish:
        return {"connector": k[1], "topic": k[2] or "", "partition": -1 if k[3] is None else k[3]}
    if kind in (RunSettings, Failover):
        return {}
    partition, attempt = _place(k)
    found: dict[str, Any] = {"partition": partition, "attempt": attempt}
    if kind is Receipt:
        found |= {"runs": _undelta(v["runs"]), "is_final": len(k) > 5}
    elif kind is Gap:
        found["upstream"] = k[4]
    elif kind is Intent:
        found |= dict(zip(("transactional_id", "producer_id", "producer_epoch"), v["by"], strict=True))
        found |= {"upstream": v["from"], "targets": [_target(*target) for target in v["targets"]]}
    elif kind is Routed:
        found |= {"target": _partition(k[5:7]), "runs": _undelta(v["runs"], 1)}
    return found


def decode_key(key: bytes) -> tuple[str, TopicPartition, Attempt, int]:
    """Kind, partition, attempt and block start (−1 without one) of a partition's key. Raises ValueError for others."""
    try:
        k = msgspec.json.decode(key)
        return k[0], *_place(k), msgspec.convert(k[4] if len(k) > 4 else -1, WholeOrUnknown)
    except _REFUSED as error:
        raise ValueError(f"no ledger key: {key[:80]!r}: {error!r}") from error


def removed(kind: str, *names: int | str | None) -> tuple[bytes, None]:
    """The key that removes a record of the flow itself, such as a request, and no value."""
    return msgspec.json.encode([kind, *names]), None


_OF_FLOW = (OwnerRequest, OwnerAnswer, SourceEnds, StoredPositions, CopiedTopic, Wish, RunSettings, Failover)


def decode_flow_key(key: bytes) -> tuple[str, tuple[str | int, ...]] | None:
    """Kind and names of the key of a request, an answer, ends, stored positions, a topic or a wish; None for others."""
    try:
        k = msgspec.json.decode(key)
        kind = _KINDS[k[0]]
        names = _of_key(kind, k, {}) if kind in _OF_FLOW else None
        return None if names is None else (k[0], tuple(names.values()))
    except _REFUSED as error:
        raise ValueError(f"no ledger key: {key[:80]!r}: {error!r}") from error


def _place(k: Any) -> tuple[TopicPartition, Attempt]:
    return _partition(k[1:3]), msgspec.convert(k[3], Attempt)


def _partition(pair: Any) -> TopicPartition:
    return TopicPartition(*msgspec.convert(pair, tuple[str, Whole]))


def _target(topic: Any, partition: Any, downstream: Any, sequence: Any, flat: Any) -> tuple[Any, ...]:
    return _partition((topic, partition)), downstream, sequence, list(zip(flat[::2], flat[1::2], strict=True))


def _delta(runs: Iterable[Run]) -> list[int]:
    """Runs as one flat list: each run's distance from the end of the one before, on both sides, and its length."""
    flat: list[int] = []
    upstream = downstream = 0
    for run in runs:
        flat += (run.upstream - upstream, run.downstream - downstream, run.length)
        upstream, downstream = run.upstream + run.length, run.downstream + run.length
    return flat


def _undelta(flat: list[int], least: int = 0) -> Runs:
    def read() -> Iterator[Run]:
        upstream = downstream = 0
        numbers = iter(msgspec.convert(flat, list[int]))
        for between, below, length in zip(numbers, numbers, numbers, strict=True):
            upstream, downstream = upstream + between, downstream + below
            if upstream < 0 or downstream < 0 or length < 1:
                raise ValueError(f"expected offsets from 0 on and a length from 1 on, found {upstream, downstream, length}")
            yield Run(upstream, downstream, length)
            upstream, downstream = upstream + length, downstream + length

    runs = Runs(read())
    if len(runs) < least:
        raise ValueError(f"expected at least {least} run, found none")
    return runs
