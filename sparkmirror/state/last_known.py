"""What the target remembers of a source that does not answer: partitions, their ends, and when the source was last seen."""

from __future__ import annotations

from sparkmirror.ledger import SourceEnd
from sparkmirror.model import TopicPartition
from sparkmirror.state.flow_state import FlowState, mapped_partition
from sparkmirror.state.parts import Part


def last_source_ends(state: FlowState) -> dict[TopicPartition, SourceEnd]:
    """Where the source's partitions ended when the mirror last saw them, each with the time; those that the ledger names."""
    ledger = state.ledger()
    return {} if ledger is None else ledger.source_ends()


def source_seen_ms(state: FlowState) -> int | None:
    """When the source was last seen: by us, else by the mirror as its ledger says; None if nobody says."""
    by_us = state.reader.known.get(Part.SOURCE)
    if by_us is not None:
        return by_us
    ledger = state.ledger()
    times = [] if ledger is None else [ledger.view.source_seen_ms, *(end.time_ms for end in ledger.source_ends().values())]
    return max((at for at in times if at >= 0), default=None)


def recorded_partitions(state: FlowState) -> list[TopicPartition]:
    """The source partitions that ledger and positions name: what the flow copies, as far as the target knows."""
    ledger, positions = state.ledger(), state.positions()
    found = {partition for partition in positions.partitions() if positions.of(partition) is not None}
    if ledger is not None:
        found |= {partition for partition, history in ledger.view.partitions.items() if history.newest is not None}
        found |= ledger.view.source_ends.keys()
    return sorted(found)


def recorded_sources(state: FlowState) -> dict[TopicPartition, TopicPartition]:
    """The same by their partitions on the target."""
    return {mapped_partition(state.flow, state.policy, place): place for place in recorded_partitions(state)}
