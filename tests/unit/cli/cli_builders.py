"""Statuses and plans made for tests of the command line."""

from __future__ import annotations

from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.status import FlowStatus, PartitionStatus

__all__ = ["a_flow", "a_partition"]


def a_partition(name: str = "orders", number: int = 0, state: str = "copying", **fields: object) -> PartitionStatus:
    """One whose next upstream offset is known; its source's end only if it is given."""
    return PartitionStatus(TopicPartition(name, number), state, **{"next_upstream": 0, **fields})  # type: ignore[arg-type]


def a_flow(*partitions: PartitionStatus, state: str = "running", **fields: object) -> FlowStatus:
    return FlowStatus(
        FlowName("A", "B"), state, partitions={p.partition: p for p in partitions}, **fields  # type: ignore[arg-type]
    )
