"""Files that hold positions: what `export` writes, and what is saved for `undo` before anything is changed. Pure.

JSON with a schema number. A key or value that is UTF-8 text is kept as text, another one in base64 under `key_base64` or
`value_base64`; a null value is a tombstone, or no record at all. `positions` hold the newest record of a key in each
partition of the offsets topic that has one, so that each can be written back to where it was.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from sparkmirror.errors import MoveRefused
from sparkmirror.model import TopicPartition

SCHEMA = 1  # raised when a field changes its meaning or is removed, not when one is added
Kind = Literal["export", "undo"]
KINDS: dict[Kind, str] = {"export": "sparkmirror offsets export", "undo": "sparkmirror offsets undo"}

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SavedRecord:
    """A record of an internal topic, to be written back as it was."""

    place: TopicPartition
    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True)
class SavedCommit:
    """What a group had committed on the target."""

    group: str
    partition: TopicPartition
    offset: int
    metadata: str


@dataclass(frozen=True, slots=True)
class LedgerPosition:
    """Where sparkmirror's ledger says that a partition resumes, on both sides."""

    partition: TopicPartition
    upstream: int
    downstream: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The state of one flow's positions. `topic_ids` are those of the copies on the target.

    Only for undo: `ledger_keys` are the ledger's records to be deleted; `syncs`, `checkpoints` and `commits` are what
    `--with-target` takes away.
    """

    kind: Kind
    flow: str
    connector: str
    time: str
    command: str = ""
    positions: tuple[SavedRecord, ...] = ()
    ledger: tuple[LedgerPosition, ...] = ()
    ledger_keys: tuple[bytes, ...] = ()
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    with_target: bool = False
    syncs: tuple[SavedRecord, ...] = ()
    checkpoints: tuple[SavedRecord, ...] = ()
    commits: tuple[SavedCommit, ...] = ()

    def to_json(self) -> str:
        """The file's text."""
        content: Json = {
            "schema": SCHEMA,
            "kind": KINDS[self.kind],
            "flow": self.flow,
            "connector": self.connector,
            "time": self.time,
            "command": self.command,
            "positions": [_record_json(record) for record in self.positions],
            "ledger": [
                _place_json(p.partition) | {"upstream": p.upstream, "downstream": p.downstream} for p in self.ledger
            ],
            "topic_ids": dict(self.topic_ids),
        }
        if self.kind == "undo":
            content |= {
                "ledger_keys": [key.decode() for key in self.ledger_keys],
                "with_target": self.with_target,
                "syncs": [_record_json(record) for record in self.syncs],
                "checkpoints": [_record_json(record) for record in self.checkpoints],
                "commits": [
                    {"group": c.group} | _place_json(c.partition) | {"offset": c.offset, "metadata": c.metadata}
                    for c in self.commits
                ],
            }
        return msgspec.json.format(msgspec.json.encode(content), indent=1).decode() + "\n"


def read_snapshot(text: str, path: str) -> Snapshot:
    """The snapshot in a file's text; raises MoveRefused with what is wrong in it."""
    try:
        content = msgspec.json.decode(text)
    except (ValueError, RecursionError) as error:
        raise MoveRefused(f"{path} is no JSON: {error}") from error
    if not isinstance(content, dict) or content.get("kind") not in KINDS.values():
        raise MoveRefused(f"{path} is neither a file of `offsets export` nor an undo file")
    if content.get("schema") != SCHEMA:
        raise MoveRefused(f"{path}: expected schema {SCHEMA}, found {content.get('schema')}")
    try:
        return msgspec.convert(content | _values(content), Snapshot)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise MoveRefused(f"{path} is damaged: {type(error).__name__} {error}") from error


class _Lists(msgspec.Struct):
    """What a file has in another form than the snapshot."""

    positions: list[Json]
    ledger: list[Json] = []
    syncs: list[Json] = []
    checkpoints: list[Json] = []
    commits: list[Json] = []
    ledger_keys: list[str] = []


def _values(content: Json) -> Json:
    lists = msgspec.convert(content, _Lists)
    return {
        "kind": next(kind for kind, text in KINDS.items() if text == content["kind"]),
        "positions": list(map(_read_record, lists.positions)),
        "ledger": [_with_place(item, "partition") for item in lists.ledger],
        "ledger_keys": [key.encode() for key in lists.ledger_keys],
        "syncs": list(map(_read_record, lists.syncs)),
        "checkpoints": list(map(_read_record, lists.checkpoints)),
        "commits": [_with_place(item, "partition") for item in lists.commits],
    }


def _record_json(record: SavedRecord) -> Json:
    value: Json = {"value": None} if record.value is None else _bytes_json("value", record.value)
    return _place_json(record.place) | _bytes_json("key", record.key) | value


def _place_json(place: TopicPartition) -> Json:
    return {"topic": place.topic, "partition": place.partition}


def _bytes_json(name: str, data: bytes) -> Json:
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


def _read_record(content: Json) -> Json:
    return _with_place(content, "place") | {name: _read_bytes(content, name) for name in ("key", "value")}


def _with_place(content: Json, name: str) -> Json:
    return content | {name: (content["topic"], content["partition"])}


def _read_bytes(content: Json, name: str) -> bytes | None:
    if f"{name}_base64" in content:
        return base64.b64decode(content[f"{name}_base64"], validate=True)
    return None if content[name] is None else content[name].encode()
