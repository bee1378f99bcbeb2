"""How partitions stand on both clusters, as a move is judged by it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sparkmirror.clusters import EARLIEST, LATEST, list_offsets
from sparkmirror.driver.flow_context import FlowContext
from sparkmirror.driver.takeover import settled_end
from sparkmirror.ledger import CopyState, TopicIncarnation, copied_before
from sparkmirror.model import TopicPartition
from sparkmirror.status.flow_status import MirroredTopic


def copy_states(
    context: FlowContext, topics: Mapping[str, MirroredTopic], partitions: Sequence[TopicPartition]
) -> list[CopyState]:
    """One for each partition, in their order."""
    starts = list_offsets(context.source, partitions, timestamp=EARLIEST)
    ends = list_offsets(context.source, partitions, timestamp=LATEST, read_committed=context.read_committed)
    present = context.target.view({topics[partition.topic].remote for partition in partitions})
    found = []
    for partition in partitions:
        topic = topics[partition.topic]
        history = context.ledger.view.of(partition)
        newest, at, target = history.newest, history.position(), TopicPartition(topic.remote, partition.partition)
        is_there = present.leader(target) is not None
        found.append(
            CopyState(
                partition=partition,
                position=at,
                was=newest.topic_incarnation if newest is not None else None,
                now=incarnation_of(topic),
                log_start=starts[partition][0],
                log_end=ends[partition][0],
                target_end=settled_end(context.finder, partition, target) if is_there else 0,
                is_open=newest is not None and not history.is_closed,
                copied_before=copied_before(history, starts[partition][0] if at is None else at.upstream),
            )
        )
    return found


def incarnation_of(topic: MirroredTopic) -> TopicIncarnation:
    """The topic ids on both sides as they are now."""
    return TopicIncarnation(topic.source_topic_id, topic.target_topic_id)
