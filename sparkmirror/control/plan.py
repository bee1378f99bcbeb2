"""What a run would do, found out without changing anything: gather (reads both clusters), then judge (pure).

The order of starting points is that of `pipeline/starting.py`: the ledger's word, else MirrorMaker 2's position, else
`auto.offset.reset`; MirrorMaker 2 wins over the ledger where it wrote after it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from sparkmirror.clusters import (
    EARLIEST,
    LATEST,
    ClusterClient,
    ClusterView,
    describe_topic_configs,
    list_offsets,
)
from sparkmirror.config import FlowSettings, Settings, require_enabled_flow
from sparkmirror.control.topics import TopicPlan
from sparkmirror.errors import ClusterError
from sparkmirror.ledger import LedgerView
from sparkmirror.model import ConfigEntry, OffsetSync, TopicPartition
from sparkmirror.pipeline.flow_ledger import FlowLedger
from sparkmirror.pipeline.process import Process
from sparkmirror.pipeline.takeover import read_positions, read_syncs
from sparkmirror.pipeline.topic_transforms import TopicTransforms
from sparkmirror.topology import (
    Action,
    ConfigRules,
    TopicChange,
    creation_configs,
    ledger_topic,
    policy_for,
    require_custom_classes,
    select_topics,
)

__all__ = [
    "AcceptedGap",
    "FlowPlan",
    "Found",
    "InternalTopic",
    "OwnerFinding",
    "PartitionStart",
    "Plan",
    "PlannedTopic",
    "find_owner",
    "gather",
    "judge",
    "make_plan",
]

T = TypeVar("T")

# Owners beat each 5 s; somebody who is alive shows it within this time.
WATCH_S = 6.5
WATCH_PAUSE_S = 0.5


@dataclass(frozen=True, slots=True)
class OwnerFinding:
    """Who owned the flow last: "nobody", "released", "alive", "dead", or "silent" (no beat seen while we looked)."""

    state: str
    name: str = ""


@dataclass(slots=True)
class Found:
    """What was read of one flow; None where it could not be."""

    flow: FlowSettings
    source: ClusterView | None = None
    target: ClusterView | None = None
    unreachable: list[str] = field(default_factory=list)
    configs: Mapping[str, list[ConfigEntry]] = field(default_factory=dict)
    ledger: LedgerView | None = None
    owner: OwnerFinding = OwnerFinding("nobody")
    positions: Mapping[TopicPartition, int] = field(default_factory=dict)
    syncs: Mapping[TopicPartition, OffsetSync] = field(default_factory=dict)
    log_starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    log_ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    target_ends: Mapping[TopicPartition, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AcceptedGap:
    """Upstream offsets that were given up, the last one included, why and when."""

    first: int
    last: int
    reason: str
    time_ms: int


@dataclass(frozen=True, slots=True)
class PartitionStart:
    """Where copying one partition would start (next upstream offset), on whose word, and how much is behind that."""

    partition: int
    next_upstream_offset: int | None
    basis: str  # "ledger", "ledger, to be recovered", "mm2", "earliest", "latest"
    behind: int | None
    gaps: tuple[AcceptedGap, ...] = ()


@dataclass(frozen=True, slots=True)
class PlannedTopic:
    """One source topic: whether it is copied and why, and what a run would do for it."""

    topic: str
    replicated: bool
    reason: str
    remote: str
    action: str  # "create", "extend", "nothing", "stop", "unknown"; empty if not replicated
    action_reason: str
    partitions: int
    found_partitions: int | None
    replication_factor: int | None  # only for a topic to be created; -1 is the target's default
    configs: Mapping[str, str]
    starts: tuple[PartitionStart, ...]
    transforms: tuple[str, ...] = ()  # by name, in their order; with any it is copied as records


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A topic that the mirror keeps its own records in."""

    name: str
    cluster: str
    exists: bool | None
    partitions: int
    replication_factor: int


@dataclass(frozen=True, slots=True)
class FlowPlan:
    """One flow as a run would find it."""

    source: str
    target: str
    unreachable: tuple[str, ...]
    ledger_found: bool | None
    owner: OwnerFinding
    mm2_positions: int
    internal_topics: tuple[InternalTopic, ...]
    topics: tuple[PlannedTopic, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """Every enabled flow of one file."""

    path: str
    warnings: tuple[str, ...]
    flows: tuple[FlowPlan, ...]

    @property
    def is_complete(self) -> bool:
        """Whether every cluster could be read."""
        return not any(flow.unreachable for flow in self.flows)


def make_plan(settings: Settings, targets: Collection[str] | None = None) -> Plan:
    """Reads the clusters and says what a run would do. Writes nothing; a cluster that does not answer is told."""
    require_enabled_flow(settings, targets)
    require_custom_classes(settings, targets)
    flows = tuple(judge(gather(flow)) for flow in settings.enabled_flows(targets))
    return Plan(settings.path, settings.warnings, flows)


# --- gather ----------------------------------------------------------------------------------------------------


def gather(flow: FlowSettings) -> Found:
    """Reads everything a plan needs; only requests that read."""
    found = Found(flow)
    source, target = ClusterClient(flow.source), ClusterClient(flow.target)
    try:
        found.source = _try(found, lambda: source.view(None))
        found.target = _try(found, lambda: target.view(None))
        _try(found, lambda: _read_target(found, target))
        is_on_source = flow.offset_syncs_topic_location == "source"
        syncs = source if is_on_source else target
        if (found.source if is_on_source else found.target) is not None:
            found.syncs = _try(found, lambda: read_syncs(syncs, _syncs_topic(flow))) or {}
        _try(found, lambda: _read_source(found, source))
    finally:
        source.close()
        target.close()
    return found


def _try(found: Found, look: Callable[[], T]) -> T | None:
    try:
        return look()
    except ClusterError as error:
        if error.message not in found.unreachable:
            found.unreachable.append(error.message)
        return None


def _read_target(found: Found, target: ClusterClient) -> None:
    if found.target is None:
        return
    flow, view = found.flow, found.target
    ledger = ledger_topic(flow.name.source)
    if _has(view, ledger):
        reader = FlowLedger(target, ledger)
        found.ledger = reader.read_all()
        found.owner = find_owner(reader)
    if _has(view, flow.offset_storage_topic):
        found.positions = read_positions(target, flow.offset_storage_topic, flow.name.source)
    remotes = {d.remote for d in _decisions(found) if d.replicated and _has(view, d.remote)}
    wanted = [TopicPartition(name, index) for name in remotes for index in view.topics[name].leaders]
    found.target_ends = {p: offset for p, (offset, _) in list_offsets(target, wanted, timestamp=LATEST).items()}


def _read_source(found: Found, source: ClusterClient) -> None:
    if found.source is None:
        return
    topics = [d.topic for d in _decisions(found) if d.replicated]
    wanted = [TopicPartition(name, index) for name in topics for index in found.source.topics[name].leaders]
    committed = found.flow.consumer.get("isolation.level") == "read_committed"
    starts = list_offsets(source, wanted, timestamp=EARLIEST)
    ends = list_offsets(source, wanted, timestamp=LATEST, read_committed=committed)
    found.log_starts = {p: offset for p, (offset, _) in starts.items()}
    found.log_ends = {p: offset for p, (offset, _) in ends.items()}
    missing = [d.topic for d in _decisions(found) if d.replicated and not _has(found.target, d.remote)]
    found.configs = describe_topic_configs(source, missing)


def find_owner(ledger: FlowLedger) -> OwnerFinding:
    """Looks for a sign of life: a released or provably dead owner needs no waiting, another one must beat.

    The ledger must have been read to its end; what is written since is read on from there.
    """
    owner = ledger.view.owner
    if owner is None:
        return OwnerFinding("nobody")
    if owner.released:
        return OwnerFinding("released", owner.name)
    if Process.this().is_dead(owner.name):
        return OwnerFinding("dead", owner.name)
    deadline = time.monotonic() + WATCH_S
    while time.monotonic() < deadline:
        time.sleep(WATCH_PAUSE_S)
        ledger.read_new()
        now = ledger.view.owner
        if now is not None and now != owner:
            return OwnerFinding("released" if now.released else "alive", now.name)
    return OwnerFinding("silent", owner.name)


# --- judge -----------------------------------------------------------------------------------------------------


def judge(found: Found) -> FlowPlan:
    """What follows from what was read."""
    flow = found.flow
    changes = {change.topic: change for change in _changes(found)}
    transforms = TopicTransforms(found.flow)
    topics = [_planned(found, decision, changes.get(decision.topic), transforms) for decision in _decisions(found)]
    return FlowPlan(
        source=flow.name.source,
        target=flow.name.target,
        unreachable=tuple(found.unreachable),
        ledger_found=None if found.target is None else found.ledger is not None,
        owner=found.owner,
        mm2_positions=len(found.positions),
        internal_topics=_internal_topics(found),
        topics=tuple(topics),
    )


@dataclass(frozen=True, slots=True)
class _Decision:
    topic: str
    replicated: bool
    reason: str
    remote: str


def _decisions(found: Found) -> list[_Decision]:
    """The topology's decisions, and one for each topic that it is never asked about."""
    if found.source is None:
        return []
    flow = found.flow
    names = [t.name for t in found.source.topics.values() if not t.is_internal and t.error == 0]
    decided = [
        _Decision(d.topic, d.replicated, d.reason, d.remote) for d in select_topics(flow, policy_for(flow), names)
    ]
    others = [
        _Decision(t.name, False, "internal topic of the brokers" if t.is_internal else f"error {t.error}", "")
        for t in found.source.topics.values()
        if t.is_internal or t.error != 0
    ]
    return sorted([*decided, *others], key=lambda decision: decision.topic)


def _changes(found: Found) -> list[TopicChange]:
    if found.source is None or found.target is None:
        return []
    return TopicPlan(found.flow, found.source, found.target).changes


def _planned(
    found: Found, decision: _Decision, change: TopicChange | None, transforms: TopicTransforms
) -> PlannedTopic:
    assert found.source is not None
    is_new = change is not None and change.action is Action.CREATE
    action = "" if not decision.replicated else change.action.value if change is not None else "unknown"
    partitions = found.source.topics[decision.topic].partitions
    return PlannedTopic(
        topic=decision.topic,
        replicated=decision.replicated,
        reason=decision.reason,
        remote=decision.remote,
        action=action,
        action_reason=change.reason if change is not None else "",
        partitions=partitions,
        found_partitions=change.found if change is not None else None,
        replication_factor=found.flow.replication_factor if is_new else None,
        configs=creation_configs(ConfigRules.of(found.flow), found.configs.get(decision.topic, [])) if is_new else {},
        starts=tuple(_start(found, decision, index) for index in range(partitions)) if decision.replicated else (),
        transforms=transforms.names(decision.topic) if decision.replicated else (),
    )


def _start(found: Found, decision: _Decision, index: int) -> PartitionStart:
    partition = TopicPartition(decision.topic, index)
    offset, basis = _offset_and_basis(found, partition, TopicPartition(decision.remote, index))
    end = found.log_ends.get(partition)
    behind = None if offset is None or end is None else max(end - offset, 0)
    history = found.ledger.partitions.get(partition) if found.ledger is not None else None
    gaps = () if history is None else history.accepted_gaps()
    told = tuple(AcceptedGap(gap.upstream, gap.until - 1, gap.reason, gap.time_ms) for gap in gaps)
    return PartitionStart(index, offset, basis, behind, told)


def _offset_and_basis(found: Found, partition: TopicPartition, remote: TopicPartition) -> tuple[int | None, str]:
    history = found.ledger.partitions.get(partition) if found.ledger is not None else None
    position = history.position() if history is not None else None
    stored, sync = found.positions.get(partition), found.syncs.get(partition)
    target_end = found.target_ends.get(remote, 0)
    if position is None:
        was_mm2_here = stored is not None or (sync is not None and sync.downstream_offset < target_end)
    else:
        is_later = sync is not None and sync.downstream_offset >= position.downstream
        was_mm2_here = (stored is not None and stored + 1 > position.upstream) or (
            is_later and target_end > position.downstream
        )
    if was_mm2_here:
        return (stored + 1 if stored is not None else sync.upstream_offset if sync is not None else 0), "mm2"
    if position is not None and history is not None:
        return position.upstream, "ledger" if history.is_closed else "ledger, to be recovered"
    reset = found.flow.consumer.get("auto.offset.reset", "earliest")
    known = {"latest": found.log_ends, "earliest": found.log_starts}.get(reset, {})
    return known.get(partition), reset


def _internal_topics(found: Found) -> tuple[InternalTopic, ...]:
    flow = found.flow
    factor = flow.offset_storage_replication_factor
    is_on_source = flow.offset_syncs_topic_location == "source"
    wanted = [
        (ledger_topic(flow.name.source), False, 1, factor),
        (flow.offset_storage_topic, False, flow.offset_storage_partitions, factor),
    ]
    if flow.emit_checkpoints_enabled:
        topic = policy_for(flow).checkpoints_topic(flow.name.source)
        wanted.append((topic, False, 1, flow.checkpoints_topic_replication_factor))
    wanted.append((policy_for(flow).heartbeats_topic, False, 1, flow.heartbeats_topic_replication_factor))
    if flow.emit_offset_syncs_enabled:
        wanted.append((_syncs_topic(flow), is_on_source, 1, flow.offset_syncs_topic_replication_factor))
    return tuple(
        InternalTopic(
            name,
            flow.name.source if on_source else flow.name.target,
            None if view is None else _has(view, name),
            partitions,
            replicas,
        )
        for name, on_source, partitions, replicas in wanted
        for view in [found.source if on_source else found.target]
    )


def _syncs_topic(flow: FlowSettings) -> str:
    is_on_source = flow.offset_syncs_topic_location == "source"
    return policy_for(flow).offset_syncs_topic(flow.name.target if is_on_source else flow.name.source)


def _has(view: ClusterView | None, topic: str) -> bool:
    return view is not None and topic in view.topics and view.topics[topic].error == 0
