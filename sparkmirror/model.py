"""Frozen values shared by every package: names and positions, no behaviour beyond their own text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

Side = Literal["source", "target"]  # of a flow


class TopicPartition(NamedTuple):
    """One partition of one topic on one cluster. A tuple: many thousands are hashed and compared."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, order=True)
class FlowName:
    """One source→target direction, by the aliases of the configuration file."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """MM2's statement that one record has this upstream and this downstream offset."""

    partition: TopicPartition
    upstream_offset: int
    downstream_offset: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """MM2's record for one group and one remote partition; both offsets are the next to read."""

    group: str
    partition: TopicPartition
    upstream_offset: int
    downstream_offset: int
    metadata: str


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """MM2's heartbeat of one flow; `timestamp_ms` is wall time at the writer."""

    source: str
    target: str
    timestamp_ms: int


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class Acl:
    """A right on topics: who, from which host, may or may not do what. Words as Kafka's `kafka-acls` prints them.

    `topic` is a name or the start of names, as `pattern` says; a LITERAL `*` means every topic.
    """

    topic: str
    pattern: Literal["LITERAL", "PREFIXED"] = "LITERAL"
    principal: str
    host: str = "*"
    operation: str
    permission: Literal["ALLOW", "DENY"] = "ALLOW"

    def __str__(self) -> str:
        topics = f"topic {self.topic}" if self.pattern == "LITERAL" else f"topics that start with {self.topic}"
        return f"{self.permission} {self.operation} on {topics} for {self.principal} from host {self.host}"


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One effective setting of a topic; `source` is Kafka's number (1 topic, 2/3/7 dynamic broker, 4 static, 5 default)."""

    name: str
    value: str | None
    source: int
    is_read_only: bool
    is_sensitive: bool
