"""Which topics and partitions a request to move positions means, as both clusters have them now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sparkmirror.clusters import ClusterClient
from sparkmirror.config import FlowSettings
from sparkmirror.control import TopicPlan
from sparkmirror.errors import MoveRefused
from sparkmirror.model import TopicPartition
from sparkmirror.positions.requests import MoveRequest
from sparkmirror.status import MirroredTopic
from sparkmirror.topology import Action


@dataclass(frozen=True, slots=True)
class NamedTopics:
    """The topics that are meant, those to be created on the target, and notes on those that are left out."""

    found: Mapping[str, MirroredTopic]
    created: tuple[str, ...]
    notes: tuple[str, ...]


def named_topics(
    flow: FlowSettings, clients: tuple[ClusterClient, ClusterClient], request: MoveRequest
) -> NamedTopics:
    """The topics as they are on both sides now."""
    source, target = (client.view(None) for client in clients)
    wanted = _wanted_names(request)
    plan = TopicPlan(flow, source, target, wanted)
    notes = []
    if wanted is not None:
        _refuse_not_copied(flow, plan, wanted)
    found: dict[str, MirroredTopic] = {}
    created = []
    for change in plan.changes:
        if change.action is Action.STOP:
            if wanted is not None:
                raise MoveRefused(f"{flow.name}: topic {change.topic}: {change.reason}")
            notes.append(f"topic {change.topic} is left out: {change.reason}")
            continue
        there = target.topics.get(change.remote)
        is_there = there is not None and not there.error
        if not is_there:
            created.append(change.remote)
        found[change.topic] = MirroredTopic(
            topic=change.topic,
            remote=change.remote,
            partitions=change.partitions,
            source_topic_id=source.topics[change.topic].topic_id.hex(),
            target_topic_id=there.topic_id.hex() if there is not None and is_there else "",
            source_compacts=False,
            target_compacts=False,
            target_log_append_time=False,
        )
    return NamedTopics(found, tuple(created), tuple(notes))


def _wanted_names(request: MoveRequest) -> set[str] | None:
    if request.entries is not None:
        return {partition.topic for partition in request.entries}
    return None if request.topic is None else {request.topic}


def _refuse_not_copied(flow: FlowSettings, plan: TopicPlan, wanted: Iterable[str]) -> None:
    decisions = {decision.topic: decision for decision in plan.decisions}
    for name in sorted(wanted):
        if name not in decisions:
            raise MoveRefused(f"{flow.name}: cluster {flow.name.source} has no topic {name} that could be copied")
        if not decisions[name].replicated:
            raise MoveRefused(f"{flow.name}: topic {name} is not copied: {decisions[name].reason}")


def partitions_of(topics: Mapping[str, MirroredTopic], request: MoveRequest) -> list[TopicPartition]:
    """The partitions that are meant; raises MoveRefused for one that is not there."""
    everything = [TopicPartition(t.topic, index) for t in topics.values() for index in range(t.partitions)]
    if request.entries is not None:
        unknown = sorted(set(request.entries) - set(everything))
        if unknown:
            raise MoveRefused(f"{unknown[0]}: topic {unknown[0].topic} has {topics[unknown[0].topic].partitions} partitions")
        return sorted(request.entries)
    if request.partition is None:
        return everything
    [topic] = topics.values()
    if not 0 <= request.partition < topic.partitions:
        raise MoveRefused(f"topic {topic.topic} has partitions 0 to {topic.partitions - 1}, found {request.partition}")
    return [TopicPartition(topic.topic, request.partition)]
