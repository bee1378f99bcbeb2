"""The mirror's own topics: how they are made, what odd keys they hold, and the newest heartbeats."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sparkmirror.clusters.cluster_info import TopicDetail, newest_times
from sparkmirror.config import FlowSettings
from sparkmirror.model import TopicPartition
from sparkmirror.state import (
    CheckpointTable,
    FlowState,
    Part,
    PositionTable,
    SyncTable,
)
from sparkmirror.state.facts import ClusterFacts, HeartbeatTimes, InternalTopic, OddKey
from sparkmirror.topology import ReplicationPolicy, TopicDecision, ledger_topic, offset_syncs_topic
from sparkmirror.wire import connect_partition

ODD_MAX = 200  # keys of one kind; the rest would say the same


def internal_names(flow: FlowSettings, policy: ReplicationPolicy) -> dict[str, list[str]]:
    """Names of all internal topics of the flow, by side."""
    found: dict[str, list[str]] = {"source": [], "target": []}
    for topic in _wanted(flow, policy, ""):
        found[flow.syncs_side if topic.what == "offset syncs" else "target"].append(topic.name)
    return found


def _wanted(flow: FlowSettings, policy: ReplicationPolicy, program: str) -> Iterator[InternalTopic]:
    source, target = flow.name.source, flow.name.target
    is_ours, is_mm2 = program != "mm2", program != "sparkmirror"
    positions = flow.offset_storage_replication_factor

    def made(
        name: str, what: str, is_wanted: bool, partitions: int | None, factor: int, cluster: str = target
    ) -> InternalTopic:
        return InternalTopic(name, cluster, what, is_wanted, partitions, factor)

    yield made(ledger_topic(source), "what is proven to be copied", is_ours, 1, positions)
    yield made(flow.offset_storage_topic, "positions", True, None, positions)
    if is_mm2:
        yield made(flow.config_storage_topic, "settings of connectors", True, 1, flow.config_storage_replication_factor)
        yield made(flow.status_storage_topic, "states of connectors", True, None, flow.status_storage_replication_factor)
    if flow.emit_offset_syncs_enabled:
        factor = flow.offset_syncs_topic_replication_factor
        place = source if flow.syncs_side == "source" else target
        yield made(offset_syncs_topic(flow, policy), "offset syncs", True, 1, factor, place)
    if flow.emit_checkpoints_enabled:
        yield made(policy.checkpoints_topic(source), "checkpoints", True, 1, flow.checkpoints_topic_replication_factor)
    if flow.emit_heartbeats_enabled:
        yield made(policy.heartbeats_topic, "heartbeats", True, 1, flow.heartbeats_topic_replication_factor)


def internal_topics_of(
    flow: FlowSettings,
    policy: ReplicationPolicy,
    program: str,
    clusters: Mapping[str, ClusterFacts],
    details: Mapping[str, Mapping[str, TopicDetail]],
) -> tuple[InternalTopic, ...]:
    """Each internal topic as it should be and as it is; clusters and details by alias."""
    found = []
    for topic in _wanted(flow, policy, program):
        cluster, detail = clusters[topic.cluster], details[topic.cluster].get(topic.name)
        is_there = cluster.has(topic.name)
        found.append(
            InternalTopic(
                name=topic.name,
                cluster=topic.cluster,
                what=topic.what,
                is_wanted=topic.is_wanted,
                partitions=topic.partitions,
                replication_factor=max(topic.replication_factor, 1),
                found_partitions=cluster.partitions(topic.name) if is_there else None,
                found_replicas=None if detail is None else detail.replicas,
                in_sync_replicas=None if detail is None else detail.in_sync,
                policy=cluster.setting(topic.name, "cleanup.policy"),
                min_in_sync=cluster.number(topic.name, "min.insync.replicas"),
            )
        )
    return tuple(found)


# --- keys ------------------------------------------------------------------------------------------------------


def odd_keys_of(
    source: ClusterFacts,
    positions: PositionTable,
    partitions: int,
    syncs: tuple[str, SyncTable],
    checkpoints: tuple[str, CheckpointTable],
    groups: Mapping[str, object] | None,
) -> tuple[OddKey, ...]:
    """Keys of what does not exist, or where no reader reads them. `partitions` is of the topic of positions."""
    found = [*_odd_positions(source, positions, partitions)]
    gone = sorted({p.topic for p in syncs[1].newest if not source.has(p.topic)})
    if gone:
        words = f"{len(gone)} topics that are not on {source.alias} have offset syncs: {', '.join(gone[:3])}"
        found.append(OddKey("orphan sync", TopicPartition(syncs[0], 0), gone[0], words, topic=gone[0]))
    lone = sorted(group for group in checkpoints[1].last.groups() if groups is not None and group not in groups)
    if lone:
        words = f"{len(lone)} groups that are not on {source.alias} have checkpoints: {', '.join(lone[:3])}"
        found.append(OddKey("orphan checkpoint", TopicPartition(checkpoints[0], 0), lone[0], words, group=lone[0]))
    return tuple(found)


def _odd_positions(source: ClusterFacts, positions: PositionTable, partitions: int) -> Iterator[OddKey]:
    message: set[str] = set()
    for partition in positions.partitions():
        places = [stored for stored in positions.records_of(partition) if stored.last_offset is not None]
        if not places:
            continue
        key, topic, newest = places[0].key, partition.topic, places[0]
        text = key.decode("utf-8", "replace")
        expected = connect_partition(key, partitions) if partitions > 0 else -1
        if len(places) > 1:
            words = f"the position of {partition} is in partitions " + ", ".join(
                str(stored.place.partition) for stored in places
            )
            yield OddKey("doubled", newest.place, text, words, newest.time_ms, topic)
        elif newest.place.partition != expected and partitions > 0:
            words = (
                f"the position of {partition} lies in partition {newest.place.partition}, expected {expected}: a "
                "reset that is written to the expected one will not hold"
            )
            yield OddKey("misplaced", newest.place, text, words, newest.time_ms, topic)
        if source.view is not None and not source.has(topic) and topic not in message and len(message) < ODD_MAX:
            message.add(topic)
            words = f"topic {topic} is not on {source.alias}, its position is kept: "
            words += "created again, it would be copied from there on"
            yield OddKey("orphan position", newest.place, text, words, newest.time_ms, topic)


# --- heartbeats ------------------------------------------------------------------------------------------------


def gather_heartbeats(
    state: FlowState, decisions: tuple[TopicDecision, ...], target: ClusterFacts
) -> HeartbeatTimes | None:
    """The newest heartbeat on the source and the newest copy; None where heartbeats are not this flow's business."""
    flow, policy = state.flow, state.policy
    decision = next((d for d in decisions if d.topic == policy.heartbeats_topic and d.replicated), None)
    if decision is None or not flow.heartbeats_replication_enabled:
        return None
    here, there = TopicPartition(decision.topic, 0), TopicPartition(decision.remote, 0)
    written = state.reader.ask(Part.HEARTBEATS, "source", lambda c: newest_times(c, [here]), {})
    copied: dict[TopicPartition, int] = {}
    if target.has(decision.remote):
        copied = state.reader.ask(Part.HEARTBEATS, "target", lambda c: newest_times(c, [there]), {})
    writer = f"{flow.name.target}->{flow.name.source}"
    return HeartbeatTimes(decision.topic, decision.remote, written.get(here), copied.get(there), writer)
