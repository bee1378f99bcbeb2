"""Everything that a plan needs of one flow, read from both clusters; nothing on them changes.

What a target would refuse to create is asked of it (CreateTopics with `validate_only`), so that its own answer is shown.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, field

from sparkmirror.clusters import LATEST, ClusterClient, ClusterView, NewTopic, create_topics, is_right_missing, list_offsets
from sparkmirror.clusters.probing import PartitionEnds
from sparkmirror.config import FlowSettings
from sparkmirror.control import TopicPlan
from sparkmirror.driver.mm2_watch import Sighting, find_mirror_maker, has_groups
from sparkmirror.errors import BrokerRefused, ReplicationLoop
from sparkmirror.examination.plan_values import PlannedInternalTopic
from sparkmirror.ledger import LedgerView, OffsetsTopic, Removal, find_removed
from sparkmirror.model import ConfigEntry, OffsetSync, Side, TopicPartition
from sparkmirror.state import FlowState, OwnerStatus, Part, PositionTable, now_ms, owner_status, tombstones
from sparkmirror.state.facts import Facts, Runner
from sparkmirror.state.gathering.cluster_facts import gather_topics
from sparkmirror.state.gathering.internal import internal_names, internal_topics_of
from sparkmirror.topology import (
    Action,
    ConfigRules,
    TopicChange,
    TopicDecision,
    creation_configs,
    ledger_topic,
    offset_syncs_topic,
    policy_for,
    select_topics,
)

NOBODY, UNKNOWN = OwnerStatus("nobody"), OwnerStatus("unknown")
UNKNOWN_START = "unknown"
NO_SIGHTING = Sighting(is_undecided=False, reason="")
REMOVED = "position removed"
NOTHING_REMOVED = Removal()
DELETED_ID = "deleted"  # of an offsets topic that is not there: a run creates another one


@dataclass(slots=True)
class PlanFacts:
    """What was read of one flow; None where it could not be, and the part is in `unknown`."""

    flow: FlowSettings
    source: ClusterView | None = None
    target: ClusterView | None = None
    unreachable: list[str] = field(default_factory=list)
    unknown: Collection[str] = ()
    file_words: str = ""  # how a command names the file and the flow
    configs: Mapping[str, list[ConfigEntry]] = field(default_factory=dict)
    ledger: LedgerView | None = None
    ledger_times: Mapping[TopicPartition, int] = field(default_factory=dict)
    owner: OwnerStatus = NOBODY
    positions: Mapping[TopicPartition, int] = field(default_factory=dict)
    removal: Removal = NOTHING_REMOVED
    syncs: Mapping[TopicPartition, OffsetSync] = field(default_factory=dict)
    log_starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    log_ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    target_ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    errors: Mapping[TopicPartition, int] = field(default_factory=dict)  # partitions of the source without ends, and why
    refused: Mapping[tuple[str, str], str] = field(default_factory=dict)  # alias and topic that cannot be created, and why
    mm2: Sighting = NO_SIGHTING
    mm2_unseen: str = ""  # why it cannot be seen whether MirrorMaker 2 runs the flow
    loop: ReplicationLoop | None = None  # through this flow and others
    facts: Facts | None = None  # as the doctor's rules read them; None unless both clusters answer

    @property
    def is_target_known(self) -> bool:
        """Whether the target's own words of the flow could be read: ledger and MirrorMaker 2's positions."""
        return self.target is not None and not {Part.LEDGER, Part.POSITIONS} & set(self.unknown)


def gather(flow: FlowSettings, file_words: str = "") -> PlanFacts:
    """Reads everything a plan needs; only requests that read."""
    found = PlanFacts(flow, file_words=file_words)
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
        if found.source is not None and found.target is not None:
            found.facts = _facts(found, state)
            found.configs = {
                topic: list(entries.values()) for topic, entries in found.facts.source.configs.items()
            }
            found.refused = _refused(found, state)
        found.unreachable = [note.message for note in (*state.notes, *state.notes.rest()) if note.is_incomplete]
        found.unknown = frozenset(state.unknown)
    return found


def _read_target(found: PlanFacts, state: FlowState) -> None:
    assert found.target is not None
    ledger, positions, view = state.ledger(), state.positions(), found.target
    if ledger is not None:
        topic = ledger_topic(found.flow.name.source)
        found.ledger, found.ledger_times = ledger.view, ledger.times
        found.owner = state.reader.ask(Part.LEDGER, "target", lambda c: owner_status(c, topic, ledger), UNKNOWN)
    elif Part.LEDGER in state.unknown:
        found.owner = UNKNOWN
    found.positions = {p: last for p in positions.partitions() if (last := positions.last_offset(p)) is not None}
    found.removal = _removal(found, state, positions)
    found.mm2 = state.reader.ask(Part.groups("target"), "target", lambda c: _mirror_maker(c, found), found.mm2)
    remotes = {d.remote for d in decisions_of(found) if d.replicated and has(view, d.remote)}
    wanted = [TopicPartition(name, index) for name in remotes for index in view.topics[name].leaders]
    found.target_ends = {p: ends.end for p, ends in state.ends("target", wanted).items() if ends.is_known}


def _mirror_maker(client: ClusterClient, found: PlanFacts) -> Sighting:
    """Whether MirrorMaker 2 runs the flow, by the run's own proof; a right that is missing keeps no run from copying."""
    try:
        return find_mirror_maker(client, found.flow) if has_groups(client) else NO_SIGHTING
    except BrokerRefused as error:
        if not is_right_missing(error.error_code):
            raise
        found.mm2_unseen = error.message
        return NO_SIGHTING


def _removal(found: PlanFacts, state: FlowState, table: PositionTable) -> Removal:
    """Which positions somebody removed, as the run would find it; nothing where ledger or positions are not known."""
    assert found.target is not None
    topic = found.flow.offset_storage_topic
    there = found.target.topics.get(topic)
    is_there = there is not None and not there.error
    places = [TopicPartition(topic, index) for index in there.leaders] if there is not None and is_there else []
    ends = state.ends("target", places)
    if {Part.LEDGER, Part.POSITIONS} & set(state.unknown) or any(not ends[p].is_known for p in places if p in ends):
        return NOTHING_REMOVED
    copied = [p for p, history in found.ledger.partitions.items() if history.newest] if found.ledger is not None else []
    taken_back, ordered = tombstones(table), [ends[place] for place in sorted(places) if place in ends]
    now = OffsetsTopic(
        topic_id=there.topic_id.hex() if there is not None and is_there else DELETED_ID,
        starts=tuple(end.first for end in ordered),
        ends=tuple(end.end for end in ordered),
        stored=frozenset(table.partitions()) - taken_back,
        tombstones=taken_back,
    )
    return find_removed(found.ledger.stored if found.ledger is not None else {}, now, copied)


def _read_source(found: PlanFacts, view: ClusterView, state: FlowState) -> None:
    topics = [d.topic for d in decisions_of(found) if d.replicated]
    wanted = [TopicPartition(name, index) for name in topics for index in view.topics[name].leaders]
    ends = state.ends("source", wanted)
    known = {partition: end for partition, end in ends.items() if end.is_known}
    found.log_starts = {partition: end.first for partition, end in known.items()}
    found.log_ends = {partition: end.end for partition, end in known.items()} | _stable_ends(found.flow, known, state)
    found.errors = {partition: end.error for partition, end in ends.items() if not end.is_known}


def _stable_ends(
    flow: FlowSettings, known: Mapping[TopicPartition, PartitionEnds], state: FlowState
) -> dict[TopicPartition, int]:
    """Where a reader of committed records would end, if the flow is one."""
    if not flow.reads_committed or not known:
        return {}

    def look(client: ClusterClient) -> dict[TopicPartition, tuple[int, int]]:
        return list_offsets(client, list(known), timestamp=LATEST, read_committed=True)

    found = state.reader.ask(Part.SOURCE_ENDS, "source", look, {})
    return {partition: offset for partition, (offset, _) in found.items()}


def _facts(found: PlanFacts, state: FlowState) -> Facts:
    """What the doctor's rules about settings and rights read: topics of the flow, not its groups or its records."""
    flow, names = found.flow, internal_names(found.flow, state.policy)
    copied = [d for d in decisions_of(found) if d.replicated]
    source, source_details = gather_topics(state, "source", flow.source, [*(d.topic for d in copied), *names["source"]])
    target, target_details = gather_topics(state, "target", flow.target, [*(d.remote for d in copied), *names["target"]])
    by_alias = {source.alias: source, target.alias: target}
    details = {source.alias: source_details, target.alias: target_details}
    program = "sparkmirror"
    return Facts(
        flow=flow,
        policy=state.policy,
        file_words=found.file_words,
        now_ms=now_ms(),
        source=source,
        target=target,
        missing=state.unknown,
        decisions=tuple(copied),
        runner=Runner(program, "unknown"),  # it is about to be: what only MirrorMaker 2 needs does not count
        internal_topics=internal_topics_of(flow, state.policy, program, by_alias, details),
    )


def _refused(found: PlanFacts, state: FlowState) -> dict[tuple[str, str], str]:
    """What the clusters say to the topics that a run would create; asked without creating them."""
    flow, rules = found.flow, ConfigRules.of(found.flow)
    wanted: dict[Side, list[NewTopic]] = {"source": [], "target": []}
    for topic in internal_topics(found):
        if topic.exists is False:
            side: Side = "source" if topic.cluster == flow.name.source else "target"
            compact = {"cleanup.policy": "compact"}
            wanted[side].append(NewTopic(topic.name, topic.partitions, topic.replication_factor, compact))
    for change in changes_of(found):
        if change.action is Action.CREATE:
            configs = creation_configs(rules, found.configs.get(change.topic, []))
            wanted["target"].append(NewTopic(change.remote, change.partitions, flow.replication_factor, configs))
    refused: dict[tuple[str, str], str] = {}
    for side, topics in wanted.items():
        answers = state.reader.ask(Part.topics(side), side, lambda c, t=topics: create_topics(c, t, dry_run=True), {})  # type: ignore[misc]
        alias = state.clients[side].alias
        refused |= {(alias, name): reason for name, reason in answers.items() if reason is not None}
    return refused


# --- what follows from names alone -----------------------------------------------------------------------------


def decisions_of(found: PlanFacts) -> list[TopicDecision]:
    """The topology's decisions, and one for each topic that it is never asked about; by the ledger without a source."""
    flow, policy = found.flow, policy_for(found.flow)
    if found.source is None:
        known = {partition.topic for partition in found.ledger.partitions} if found.ledger is not None else set()
        return select_topics(flow, policy, known)
    names = [t.name for t in found.source.topics.values() if not t.is_internal and t.error == 0]
    others = [
        TopicDecision(t.name, False, "internal topic of the brokers" if t.is_internal else f"error {t.error}", "")
        for t in found.source.topics.values()
        if t.is_internal or t.error != 0
    ]
    return sorted([*select_topics(flow, policy, names), *others], key=lambda decision: decision.topic)


def changes_of(found: PlanFacts) -> list[TopicChange]:
    """What the target needs for each copied topic; nothing is known of that unless both clusters answer."""
    if found.source is None or found.target is None:
        return []
    return TopicPlan(found.flow, found.source, found.target).changes


def starting_point(
    found: PlanFacts, decision: TopicDecision, partition: TopicPartition
) -> tuple[int | None, str]:
    """Where copying a partition would start, and on whose word; the order is that of `driver/starting.py`."""
    if not found.is_target_known:
        return None, UNKNOWN_START
    if is_restarted(found, partition):
        offset, word = _by_reset(found, partition)
        return offset, f"{word}, {REMOVED}"
    history = found.ledger.partitions.get(partition) if found.ledger is not None else None
    position = history.position() if history is not None else None
    stored, sync = found.positions.get(partition), found.syncs.get(partition)
    target_end = found.target_ends.get(TopicPartition(decision.remote, partition.partition), 0)
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
    return _by_reset(found, partition)


def is_restarted(found: PlanFacts, partition: TopicPartition) -> bool:
    """Whether a run restarts the partition because somebody removed its position."""
    return partition in found.removal.removed and found.flow.on_positions_removed == "reset"


def restart_of(found: PlanFacts, partition: TopicPartition) -> tuple[int | None, int | None, bool]:
    """Where a partition restarts without its position, how many offsets come again, and whether that is exact.

    Of what only MirrorMaker 2 copied the end is not known.
    """
    start, _ = _by_reset(found, partition)
    history = found.ledger.partitions.get(partition) if found.ledger is not None else None
    position = history.position() if history is not None else None
    end = position.upstream if position is not None else found.log_ends.get(partition)
    return start, None if start is None or end is None else max(end - start, 0), position is not None


def _by_reset(found: PlanFacts, partition: TopicPartition) -> tuple[int | None, str]:
    reset = found.flow.consumer.get("auto.offset.reset", "earliest")
    known = {"latest": found.log_ends, "earliest": found.log_starts}.get(reset, {})
    return known.get(partition), reset


def internal_topics(found: PlanFacts) -> tuple[PlannedInternalTopic, ...]:
    """The topics that a run keeps its own records in."""
    flow, policy = found.flow, policy_for(found.flow)
    factor, key = flow.offset_storage_replication_factor, "offset.storage.replication.factor"
    wanted = [
        (ledger_topic(flow.name.source), False, 1, factor, key),
        (flow.offset_storage_topic, False, flow.offset_storage_partitions, factor, key),
    ]
    if flow.emit_checkpoints_enabled:
        factor, key = flow.checkpoints_topic_replication_factor, "checkpoints.topic.replication.factor"
        wanted.append((policy.checkpoints_topic(flow.name.source), False, 1, factor, key))
    factor, key = flow.heartbeats_topic_replication_factor, "heartbeats.topic.replication.factor"
    wanted.append((policy.heartbeats_topic, False, 1, factor, key))
    if flow.emit_offset_syncs_enabled:
        factor, key = flow.offset_syncs_topic_replication_factor, "offset-syncs.topic.replication.factor"
        wanted.append((offset_syncs_topic(flow, policy), flow.syncs_side == "source", 1, factor, key))
    return tuple(
        PlannedInternalTopic(
            name,
            flow.name.source if on_source else flow.name.target,
            None if view is None else has(view, name),
            partitions,
            replicas,
            key,
        )
        for name, on_source, partitions, replicas, key in wanted
        for view in [found.source if on_source else found.target]
    )


def has(view: ClusterView | None, topic: str) -> bool:
    """Whether a cluster shows the topic."""
    return view is not None and topic in view.topics and view.topics[topic].error == 0
