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
["gap", topic, partition, attempt, start]       upstream offsets from `start` on that will not be copied, by somebody's word
["intent", topic, partition, attempt]           the record lane: what a task is about to append where; see lane.py
["routed", topic, partition, attempt, start, target topic, target partition]   runs in a partition that is not the copy's own
["slot", number, incarnation]                   a slot's sign of life, each second
["stop", number, incarnation]                   the driver asks a slot to end
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sparkmirror.errors import ReplicationError
from sparkmirror.ledger.runs import Run, Runs
from sparkmirror.model import TopicPartition

__all__ = [
    "NOBODY",
    "RECORD_LANE",
    "SEQUENCE_MODULUS",
    "Attempt",
    "Closed",
    "Gap",
    "Intent",
    "IntentTarget",
    "LedgerRecord",
    "Life",
    "Open",
    "Owner",
    "Position",
    "Receipt",
    "Release",
    "Routed",
    "SlotBeat",
    "SlotStop",
    "Started",
    "State",
    "Void",
    "decode",
    "decode_key",
    "encode",
    "tombstone",
]

SEQUENCE_MODULUS = 1 << 31
NOBODY = -1  # the slot of an attempt that no slot is given: a move
RECORD_LANE = -2  # the slot of an attempt whose records pass a transform: tasks of a query write it, each a stretch


class Attempt(NamedTuple):
    """One slot's right to write one partition. Totally ordered.

    `generation` counts changes of the flow's producer id, because a new id starts at epoch 0 again (R11, R12).
    """

    generation: int
    producer_epoch: int
    number: int


class Position(NamedTuple):
    """Next upstream offset to read, next downstream offset expected, next sequence number."""

    upstream: int
    downstream: int
    sequence: int


class Life(NamedTuple):
    """Which topics of their names these are, on both sides: offsets of one life say nothing in another."""

    source_topic_id: str
    target_topic_id: str


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that owns the flow; `beat` changes while it lives."""

    generation: int
    first_epoch: int
    producer_id: int
    producer_epoch: int
    name: str
    beat: int
    producer_ids: tuple[int, ...]
    released: bool = False


@dataclass(frozen=True, slots=True)
class Open:
    """The driver's order to copy one partition from `position` on; or a move, which is closed in the same moment."""

    partition: TopicPartition
    attempt: Attempt
    previous: Attempt | None
    slot: int
    incarnation: int
    target_topic: str
    producer_id: int
    producer_epoch: int
    position: Position
    source_topic_id: str
    target_topic_id: str
    read_committed: bool
    shared: bool
    fenced: bool
    source_compacts: bool
    source_leader_epoch: int = -1
    until: int | None = None
    move: str = ""  # "on", "behind" or "anew" if it is one: see moving.py

    @property
    def life(self) -> Life:
        """Which topics were meant."""
        return Life(self.source_topic_id, self.target_topic_id)

    @property
    def is_move(self) -> bool:
        """Whether nothing is copied by it: it only says where the next attempt begins."""
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
    source_leader_epoch: int
    records: int
    record_bytes: int
    runs: Sequence[Run]
    source_end: int = -1
    newest_timestamp: int = -1
    is_final: bool = False  # written with closed, under a key of its own: no late receipt of the attempt can replace it


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
        """The partition cannot go on, by this error."""
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
    downstream: int


@dataclass(frozen=True, slots=True)
class Gap:
    """The offsets from `upstream` up to `until`, not included, were given up in this life of the source topic."""

    partition: TopicPartition
    attempt: Attempt
    upstream: int
    until: int
    reason: str
    time_ms: int
    source_topic_id: str

    @property
    def length(self) -> int:
        """How many offsets; some of them may never have held a record."""
        return self.until - self.upstream


class IntentTarget(NamedTuple):
    """Where a task is about to append: from which offset on to look for it, its first sequence number there, and the
    upstream stretches (start, length) whose records it appends, in order."""

    target: TopicPartition
    downstream: int
    sequence: int
    stretches: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Intent:
    """A task of the record lane is about to append what it made of the upstream offsets from `upstream` up to `until`.

    Everything before `upstream` is done. The producer is the task's process; whoever fences it makes sure of its silence.
    """

    partition: TopicPartition
    attempt: Attempt
    upstream: int
    until: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    targets: tuple[IntentTarget, ...]


@dataclass(frozen=True, slots=True)
class Routed:
    """Records of a source partition that lie in another partition of the target than its copy."""

    partition: TopicPartition
    attempt: Attempt
    target: TopicPartition
    source_topic_id: str
    runs: Sequence[Run]


@dataclass(frozen=True, slots=True)
class SlotBeat:
    """A slot lives."""

    slot: int
    incarnation: int
    beat: int
    process: str
    resident_bytes: int


@dataclass(frozen=True, slots=True)
class SlotStop:
    """The driver wants the slot to end."""

    slot: int
    incarnation: int


LedgerRecord = (
    Owner | Open | Started | Receipt | Closed | State | Release | Void | Gap | Intent | Routed | SlotBeat | SlotStop
)

Json = Any


def _dump(value: Json) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def tombstone(kind: str, partition: TopicPartition, attempt: Attempt, *more: int | str) -> tuple[bytes, None]:
    """The key that removes a record of an old attempt, and no value."""
    return _dump([kind, partition.topic, partition.partition, list(attempt), *more]), None


def encode(record: LedgerRecord) -> tuple[bytes, bytes]:
    """Key and value of one ledger record."""
    key, value = _ENCODERS[type(record)](record)
    return _dump(key), _dump(value)


def _key(kind: str, record: Any) -> list[Json]:
    return [kind, record.partition.topic, record.partition.partition, list(record.attempt)]


def _encode_owner(r: Owner) -> tuple[Json, Json]:
    return ["owner", r.generation, r.first_epoch], {
        "id": r.producer_id,
        "epoch": r.producer_epoch,
        "name": r.name,
        "beat": r.beat,
        "ids": list(r.producer_ids),
        "released": r.released,
    }


def _encode_open(r: Open) -> tuple[Json, Json]:
    return _key("open", r), {
        "previous": list(r.previous) if r.previous is not None else None,
        "slot": r.slot,
        "incarnation": r.incarnation,
        "target": r.target_topic,
        "id": r.producer_id,
        "epoch": r.producer_epoch,
        "at": list(r.position),
        "source id": r.source_topic_id,
        "target id": r.target_topic_id,
        "read committed": r.read_committed,
        "shared": r.shared,
        "fenced": r.fenced,
        "source compacts": r.source_compacts,
        "source leader epoch": r.source_leader_epoch,
        "until": r.until,
        **({"move": r.move} if r.move else {}),
    }


def _encode_receipt(r: Receipt) -> tuple[Json, Json]:
    start = r.runs[0].upstream if r.runs else -1
    return [*_key("receipt", r), start, *([1] if r.is_final else [])], {
        "at": list(r.position),
        "source leader epoch": r.source_leader_epoch,
        "records": r.records,
        "bytes": r.record_bytes,
        "runs": _delta(r.runs),
        "source end": r.source_end,
        "newest": r.newest_timestamp,
    }


def _state_more(r: State) -> dict[str, Json]:
    return {name: value for name, value in (("hint", r.hint), ("detail", r.detail)) if value}


def _encode_gap(r: Gap) -> tuple[Json, Json]:
    value = {"until": r.until, "reason": r.reason, "time": r.time_ms, "source id": r.source_topic_id}
    return [*_key("gap", r), r.upstream], value


def _encode_intent(r: Intent) -> tuple[Json, Json]:
    targets = [[*t.target, t.downstream, t.sequence, [n for part in t.stretches for n in part]] for t in r.targets]
    by = [r.transactional_id, r.producer_id, r.producer_epoch]
    return _key("intent", r), {"from": r.upstream, "until": r.until, "by": by, "targets": targets}


def _encode_routed(r: Routed) -> tuple[Json, Json]:
    return [*_key("routed", r), r.runs[0].upstream, *r.target], {"source id": r.source_topic_id, "runs": _delta(r.runs)}


def _encode_slot(r: SlotBeat) -> tuple[Json, Json]:
    return ["slot", r.slot, r.incarnation], {"beat": r.beat, "process": r.process, "rss": r.resident_bytes}


_ENCODERS: dict[type, Any] = {
    Owner: _encode_owner,
    Open: _encode_open,
    Started: lambda r: (_key("started", r), {"process": r.process}),
    Receipt: _encode_receipt,
    Closed: lambda r: (_key("closed", r), {"at": list(r.position)}),
    State: lambda r: (_key("state", r), {"state": r.state, "code": r.code, "reason": r.reason} | _state_more(r)),
    Release: lambda r: (_key("release", r), {}),
    Void: lambda r: (_key("void", r), {"downstream": r.downstream}),
    Gap: _encode_gap,
    Intent: _encode_intent,
    Routed: _encode_routed,
    SlotBeat: _encode_slot,
    SlotStop: lambda r: (["stop", r.slot, r.incarnation], {}),
}


def _delta(runs: Iterable[Run]) -> list[int]:
    """Runs as one flat list: each run's distance from the end of the one before, on both sides, and its length."""
    flat: list[int] = []
    upstream = downstream = 0
    for run in runs:
        flat += (run.upstream - upstream, run.downstream - downstream, run.length)
        upstream, downstream = run.upstream + run.length, run.downstream + run.length
    return flat


def _undelta(flat: list[int]) -> Runs:
    def told() -> Iterator[Run]:
        upstream = downstream = 0
        for at in range(0, len(flat), 3):
            run = Run(_whole(upstream + flat[at]), _whole(downstream + flat[at + 1]), _whole(flat[at + 2], 1))
            yield run
            upstream, downstream = run.upstream + run.length, run.downstream + run.length

    return Runs(told())


def decode(key: bytes, value: bytes) -> LedgerRecord:
    """The record behind a key and a value. Raises ValueError for anything that is not one of ours."""
    try:
        k, v = json.loads(key), json.loads(value)
        return _DECODERS[k[0]](k, v)  # type: ignore[no-any-return]
    except (KeyError, IndexError, TypeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"no ledger record: {key[:80]!r}: {error!r}") from error


def decode_key(key: bytes) -> tuple[str, TopicPartition, Attempt, int]:
    """Kind, partition, attempt and block start (−1 without one) of a partition's key. Raises ValueError for others."""
    try:
        k = json.loads(key)
        partition, attempt = _place(k)
        return k[0], partition, attempt, _whole(k[4], -1) if len(k) > 4 else -1
    except (KeyError, IndexError, TypeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"no ledger key: {key[:80]!r}: {error!r}") from error


def _whole(value: Json, least: int = 0) -> int:
    """The value if it is such a number: one that is none would stop whoever reckons with it much later."""
    if type(value) is not int or value < least:
        raise TypeError(f"{value!r} where a number from {least} on must stand")
    return value


def _text(value: Json) -> str:
    if type(value) is not str:
        raise TypeError(f"{value!r} where a text must stand")
    return value


def _place(k: Json) -> tuple[TopicPartition, Attempt]:
    return TopicPartition(_text(k[1]), _whole(k[2])), _attempt(k[3])


def _attempt(value: Json) -> Attempt:
    return Attempt(*map(_whole, value))


def _position(value: Json) -> Position:
    return Position(*map(_whole, value))


def _decode_owner(k: Json, v: Json) -> Owner:
    return Owner(
        generation=_whole(k[1]),
        first_epoch=_whole(k[2]),
        producer_id=_whole(v["id"]),
        producer_epoch=_whole(v["epoch"]),
        name=_text(v["name"]),
        beat=_whole(v["beat"]),
        producer_ids=tuple(map(_whole, v["ids"])),
        released=v["released"] is True,
    )


def _decode_open(k: Json, v: Json) -> Open:
    partition, attempt = _place(k)
    return Open(
        partition=partition,
        attempt=attempt,
        previous=_attempt(v["previous"]) if v["previous"] is not None else None,
        slot=_whole(v["slot"], RECORD_LANE),
        incarnation=_whole(v["incarnation"], NOBODY),
        target_topic=_text(v["target"]),
        producer_id=_whole(v["id"]),
        producer_epoch=_whole(v["epoch"]),
        position=_position(v["at"]),
        source_topic_id=_text(v["source id"]),
        target_topic_id=_text(v["target id"]),
        read_committed=v["read committed"] is True,
        shared=v["shared"] is True,
        fenced=v["fenced"] is True,
        source_compacts=v["source compacts"] is True,
        source_leader_epoch=_whole(v["source leader epoch"], -1),
        until=_whole(v["until"]) if v["until"] is not None else None,
        move=_text(v.get("move", "")),
    )


def _decode_receipt(k: Json, v: Json) -> Receipt:
    partition, attempt = _place(k)
    return Receipt(
        partition,
        attempt,
        _position(v["at"]),
        _whole(v["source leader epoch"], -1),
        _whole(v["records"]),
        _whole(v["bytes"]),
        _undelta(v["runs"]),
        _whole(v["source end"], -1),
        _whole(v["newest"], -1),
        len(k) > 5,
    )


def _decode_intent(k: Json, v: Json) -> Intent:
    transactional_id, producer_id, epoch = v["by"]
    return Intent(
        *_place(k),
        _whole(v["from"]),
        _whole(v["until"]),
        _text(transactional_id),
        _whole(producer_id),
        _whole(epoch),
        tuple(_decode_target(*told) for told in v["targets"]),
    )


def _decode_target(topic: Json, partition: Json, downstream: Json, sequence: Json, flat: Json) -> IntentTarget:
    stretches = tuple((_whole(flat[at]), _whole(flat[at + 1], 1)) for at in range(0, len(flat), 2))
    return IntentTarget(TopicPartition(_text(topic), _whole(partition)), _whole(downstream), _whole(sequence), stretches)


def _decode_routed(k: Json, v: Json) -> Routed:
    partition, attempt = _place(k)
    target = TopicPartition(_text(k[5]), _whole(k[6]))
    runs = _undelta(v["runs"])
    if not runs:
        raise TypeError("no run where at least one must stand")
    return Routed(partition, attempt, target, _text(v["source id"]), runs)


_DECODERS: dict[str, Any] = {
    "owner": _decode_owner,
    "open": _decode_open,
    "started": lambda k, v: Started(*_place(k), _text(v["process"])),
    "receipt": _decode_receipt,
    "closed": lambda k, v: Closed(*_place(k), _position(v["at"])),
    "state": lambda k, v: State(
        *_place(k),
        *(_text(v[name]) for name in ("state", "code", "reason")),
        *(_text(v.get(name, "")) for name in ("hint", "detail")),
    ),
    "release": lambda k, v: Release(*_place(k)),
    "void": lambda k, v: Void(*_place(k), _whole(v["downstream"])),
    "gap": lambda k, v: Gap(
        *_place(k), _whole(k[4]), _whole(v["until"]), _text(v["reason"]), _whole(v["time"]), _text(v["source id"])
    ),
    "intent": _decode_intent,
    "routed": _decode_routed,
    "slot": lambda k, v: SlotBeat(_whole(k[1]), _whole(k[2]), _whole(v["beat"]), _text(v["process"]), _whole(v["rss"])),
    "stop": lambda k, v: SlotStop(_whole(k[1]), _whole(k[2])),
}
