"""Where a group was last seen by its checkpoints, for when its commits cannot be read.

A checkpoint holds the group's position on the source and the offset from which it resumes on the target. Both programs never
write one that skips a record: what it says is right or too early, for its own position and for every later one.
"""

from __future__ import annotations

from collections.abc import Collection

from sparkmirror.model import Side, TopicPartition
from sparkmirror.offsets import Checkpoints, TimedCheckpoint
from sparkmirror.offsets.proof.proving import Asking
from sparkmirror.offsets.proof.values import RecordAsk
from sparkmirror.state import FlowState

WALK = 500  # records of one step


def origins_of(state: FlowState, remotes: Collection[TopicPartition]) -> dict[TopicPartition, TopicPartition]:
    """The partitions of the source whose checkpoints name these: by the ledger, else by the names."""
    name, policy, ledger = state.flow.name, state.policy, state.ledger()
    histories = ledger.view.partitions if ledger is not None else {}
    known = {part.target: source for source, history in histories.items() for part in history.routed.values()}
    for source, history in histories.items():
        if history.newest is not None:
            known[TopicPartition(history.newest.target_topic, source.partition)] = source
    found = {}
    for remote in remotes:
        upstream = policy.upstream_topic(remote.topic) if policy.topic_source(remote.topic) == name.source else None
        # What came from the target goes back to it: B.orders on A has checkpoints for orders on B.
        topic = upstream if upstream is not None else policy.format_remote_topic(name.target, remote.topic)
        found[remote] = known.get(remote, TopicPartition(topic, remote.partition))
    return found


def nearest_checkpoint(checkpoints: Checkpoints, remote: TopicPartition, upstream: int) -> TimedCheckpoint | None:
    """The checkpoint of any group that leads furthest without leading past an upstream offset."""
    found = [point for group in checkpoints.groups() if (point := checkpoints.at(group, remote)) is not None]
    return max((p for p in found if p.upstream <= upstream), key=lambda p: p.downstream, default=None)


def count_between(side: Side, start: int, end: int) -> Asking[int | None]:
    """How many visible records lie from `start` to before `end`; None if they cannot all be read."""
    count, at = 0, start
    while at < end:
        found = yield RecordAsk(side, at, WALK, is_walk=True)
        if found.trouble:
            return None
        count += sum(record.offset < end for record in found.records)
        if found.is_end or found.next_offset <= at:
            break
        at = found.next_offset
    return count
