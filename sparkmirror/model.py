"""Frozen values shared by every package: names and positions, no behaviour beyond their own text."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Checkpoint", "FlowName", "Heartbeat", "OffsetSync", "TopicPartition"]


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """One partition of one topic on one cluster."""

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
    """MM2's sign of life of one flow; `timestamp_ms` is wall time at the writer."""

    source: str
    target: str
    timestamp_ms: int
