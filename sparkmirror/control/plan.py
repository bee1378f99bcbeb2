"""What a run would do, found out without changing anything: gather (reads both clusters), then judge (pure).

The order of starting points is that of `driver/starting.py`: the ledger's word, else MirrorMaker 2's position, else
`auto.offset.reset`; MirrorMaker 2 wins over the ledger where it wrote after it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, field

from sparkmirror.clusters import EARLIEST, LATEST, ClusterClient, ClusterView, describe_topic_configs, list_offsets
from sparkmirror.config import FlowSettings, Settings, require_enabled_flow
from sparkmirror.control.topics import TopicPlan
from sparkmirror.driver.topic_transforms import TopicTransforms
from sparkmirror.ledger import LedgerView
from sparkmirror.model import ConfigEntry, OffsetSync, TopicPartition
from sparkmirror.state import FlowState, OwnerStatus, Part, owner_status
from sparkmirror.topology import (
    Action,
    ConfigRules,
    TopicChange,
    creation_configs,
    ledger_topic,
    offset_syncs_topic,
    policy_for,
    require_custom_classes,
    select_topics,
)

NOBODY, UNKNOWN = OwnerStatus("nobody"), OwnerStatus("unknown")


@dataclass(slots=True)
class PlanFacts:
    """What was read of one flow; None where it could not be."""

    flow: FlowSettings
    source: ClusterView | None = None
    target: ClusterView | None = None
    unreachable: list[str] = field(default_factory=list)
    configs: Mapping[str, list[ConfigEntry]] = field(default_factory=dict)
    ledger: LedgerView | None = None
    owner: OwnerStatus = NOBODY
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
class PlannedInternalTopic:
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
    owner: OwnerStatus
    mm2_positions: int
    internal_topics: tuple[PlannedInternalTopic, ...]
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
    """Reads the clusters and says what a run would do. Writes nothing; an unreachable cluster is reported."""
    require_enabled_flow(settings, targets)
    require_custom_classes(settings, targets)
    flows = tuple(judge(gather(flow)) for flow in settings.enabled_flows(targets))
    return Plan(settings.path, settings.warnings, flows)


# --- gather ----------------------------------------------------------------------------------------------------


def gather(flow: FlowSettings) -> PlanFacts:
    """Reads everything a plan needs; only requests that read."""
    found = PlanFacts(flow)
    with closing(FlowState(flow)) as state:
        found.source, found.target = state.topics("source"), state.topics("target")
        if found.target is not None:
            _read_target(found, state)
        else:
            found.owner = UNKNOWN
        syncs = state.syncs()
        found.syncs = {partition: sync for partition in syncs.newest if (sync := syncs.sync_of(partition)) is not None}
        if found.source is not None:
            _read_source(found, found.source, state)
        found.unreachable = [note.message for note in (*state.notes, *state.notes.rest()) if note.is_incomplete]
    return found


def _read_target(found: PlanFacts, state: FlowState) -> None:
    assert found.target is not None
    ledger, positions, view = state.ledger(), state.positions(), found.target
    if ledger is not None:
        topic = ledger_topic(found.flow.name.source)
        found.ledger = ledger.view
        found.owner = state.reader.ask(Part.LEDGER, "target", lambda c: owner_status(c, topic, ledger), UNKNOWN)
    elif Part.LEDGER in state.unknown:
        found.owner = UNKNOWN
    found.positions = {p: last for p in positions.partitions() if (last := positions.last_offset(p)) is not None}
    remotes = {d.remote for d in _decisions(found) if d.replicated and _has(view, d.remote)}
    wanted = [TopicPartition(name, index) for name in remotes for index in view.topics[name].leaders]
    ends = state.reader.ask(Part.TARGET_ENDS, "target", lambda c: list_offsets(c, wanted, timestamp=LATEST), {})
    found.target_ends = {p: offset for p, (offset, _) in ends.items()}


def _read_source(found: PlanFacts, view: ClusterView, state: FlowState) -> None:
    topics = [d.topic for d in _decisions(found) if d.replicated]
    wanted = [TopicPartition(name, index) for name in topics for index in view.topics[name].leaders]
    missing = [d.topic for d in _decisions(found) if d.replicated and not _has(found.target, d.remote)]

    def look(client: ClusterClient) -> None:
        starts = list_offsets(client, wanted, timestamp=EARLIEST)
        ends = list_offsets(client, wanted, timestamp=LATEST, read_committed=found.flow.reads_committed)
        found.log_starts = {p: offset for p, (offset, _) in starts.items()}
        found.log_ends = {p: offset for p, (offset, _) in ends.items()}

    state.reader.ask(Part.SOURCE_ENDS, "source", look, None)
    found.configs = state.reader.ask(Part.SOURCE_CONFIGS, "source", lambda c: describe_topic_configs(c, missing), {})


# --- judge -----------------------------------------------------------------------------------------------------


def judge(found: PlanFacts) -> FlowPlan:
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


def _decisions(found: PlanFacts) -> list[_Decision]:
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


def _changes(found: PlanFacts) -> list[TopicChange]:
    if found.source is None or found.target is None:
        return []
    return TopicPlan(found.flow, found.source, found.target).changes


def _planned(
    found: PlanFacts, decision: _Decision, change: TopicChange | None, transforms: TopicTransforms
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


def _start(found: PlanFacts, decision: _Decision, index: int) -> PartitionStart:
    partition = TopicPartition(decision.topic, index)
    offset, basis = _offset_and_basis(found, partition, TopicPartition(decision.remote, index))
    end = found.log_ends.get(partition)
    behind = None if offset is None or end is None else max(end - offset, 0)
    history = found.ledger.partitions.get(partition) if found.ledger is not None else None
    gaps = () if history is None else history.accepted_gaps()
    text = tuple(AcceptedGap(gap.upstream, gap.until - 1, gap.reason, gap.time_ms) for gap in gaps)
    return PartitionStart(index, offset, basis, behind, text)


def _offset_and_basis(found: PlanFacts, partition: TopicPartition, remote: TopicPartition) -> tuple[int | None, str]:
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


def _internal_topics(found: PlanFacts) -> tuple[PlannedInternalTopic, ...]:
    flow = found.flow
    factor = flow.offset_storage_replication_factor
    wanted = [
        (ledger_topic(flow.name.source), False, 1, factor),
        (flow.offset_storage_topic, False, flow.offset_storage_partitions, factor),
    ]
    if flow.emit_checkpoints_enabled:
        topic = policy_for(flow).checkpoints_topic(flow.name.source)
        wanted.append((topic, False, 1, flow.checkpoints_topic_replication_factor))
    wanted.append((policy_for(flow).heartbeats_topic, False, 1, flow.heartbeats_topic_replication_factor))
    if flow.emit_offset_syncs_enabled:
        topic, factor = offset_syncs_topic(flow, policy_for(flow)), flow.offset_syncs_topic_replication_factor
        wanted.append((topic, flow.syncs_side == "source", 1, factor))
    return tuple(
        PlannedInternalTopic(
            name,
            flow.name.source if on_source else flow.name.target,
            None if view is None else _has(view, name),
            partitions,
            replicas,
        )
        for name, on_source, partitions, replicas in wanted
        for view in [found.source if on_source else found.target]
    )


def _has(view: ClusterView | None, topic: str) -> bool:
    return view is not None and topic in view.topics and view.topics[topic].error == 0
