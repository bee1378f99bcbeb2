"""One flow gathered whole: positions and commits first, then the ends, so that growth cannot fake a loss."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace

from sparkmirror.config import FlowSettings, Settings
from sparkmirror.config.properties import parse_properties
from sparkmirror.ledger import Failover, Wish
from sparkmirror.model import FlowName
from sparkmirror.state import FlowState, Note, now_ms, recorded_partitions, source_seen_ms
from sparkmirror.state.facts import DEFAULT_OF, Connector, Facts, Malformed, OpenQuestion, Runner, Subject
from sparkmirror.state.gathering.cluster_facts import Wanted, gather_cluster
from sparkmirror.state.gathering.connect import Connectors
from sparkmirror.state.gathering.copies import copies_of
from sparkmirror.state.gathering.groups import Commits, gather_commits, groups_of
from sparkmirror.state.gathering.internal import gather_heartbeats, internal_names, internal_topics_of, odd_keys_of
from sparkmirror.state.gathering.proofs import prove_groups
from sparkmirror.state.gathering.reads import ReadLimits, read_records_of
from sparkmirror.state.gathering.runner import runner_of
from sparkmirror.state.parts import Part
from sparkmirror.state.samples import Sample
from sparkmirror.status.wishes import in_order
from sparkmirror.topology import TopicDecision, offset_syncs_topic, select_topics

BROKERS_OWN = "internal topic of the brokers"
NAMED_KEYS = {
    "topics": "topics.whitelist", "topics.exclude": "topics.blacklist", "groups": "groups.whitelist",
    "groups.exclude": "groups.blacklist", "topic.filter.class": "", "group.filter.class": "", "replication.policy.class": "",
    "refresh.topics.interval.seconds": "", "refresh.groups.interval.seconds": "",
    "sync.group.offsets.enabled": "", "emit.checkpoints.enabled": "", "errors.tolerance": "",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class GatherOptions:
    """How much is read; without `records` no record of a topic is."""

    records: bool = True
    proofs: bool = True
    limits: ReadLimits = field(default_factory=ReadLimits)


def gather(
    settings: Settings, flow: FlowSettings, options: GatherOptions, past: tuple[Sample, ...] = ()
) -> tuple[Facts, tuple[OpenQuestion, ...]]:
    """Everything about one flow, and what could not be asked. Reads only."""
    with closing(FlowState(flow)) as state:
        facts = _gather(state, settings, options, past)
        return facts, tuple(_opens(state))


def _opens(state: FlowState) -> Iterator[OpenQuestion]:
    """What is unknown of one topic or group, and commits that could not be read at all; rules name the other parts."""
    name = str(state.flow.name)
    for part in (Part.SOURCE_COMMITS, Part.TARGET_COMMITS):
        if part in state.unknown and state.is_up("source" if part is Part.SOURCE_COMMITS else "target"):
            yield OpenQuestion("V1", name, Subject(), state.unknown[part].reason, state.unknown[part].needs)
    for note in (*state.notes, *state.notes.rest()):
        if note.kind == "refused" and (note.topic or note.group or note not in state.notes):
            yield OpenQuestion("V1", name, Subject(note.topic, group=note.group), note.message, note.needs)


def _gather(state: FlowState, settings: Settings, options: GatherOptions, past: tuple[Sample, ...]) -> Facts:
    flow = state.flow
    decisions = _decisions(state)
    # What says how far the copy and the groups are, before anything that says where logs end.
    positions, syncs, checkpoints = state.positions(), state.syncs(), state.checkpoints()
    connectors = _connectors(state)
    commits = gather_commits(state)
    copies = copies_of(state, decisions)
    runner = _runner(state, commits, connectors)
    if runner.program == "sparkmirror":
        connectors = {}  # what an earlier MirrorMaker 2 left behind says nothing of now
    names = internal_names(flow, state.policy)
    copied = [d for d in decisions if d.replicated]
    wants_acls = flow.sync_topic_acls_enabled
    source, source_details = gather_cluster(
        state, "source", flow.source, Wanted([*(d.topic for d in copied), *names["source"]], wants_acls)
    )
    target, target_details = gather_cluster(
        state, "target", flow.target,
        Wanted([*(d.remote for d in copied), *names["target"]], wants_acls, flow.sync_group_offsets_enabled),
    )  # fmt: skip
    by_alias = {source.alias: source, target.alias: target}
    details = {source.alias: source_details, target.alias: target_details}
    groups = groups_of(state, commits, copies)
    heartbeats = gather_heartbeats(state, decisions, target)
    facts = Facts(
        flow=flow,
        policy=state.policy,
        file_words=file_words_of(settings, flow),
        now_ms=now_ms(),
        source=replace(source, groups=commits.source_groups),
        target=replace(target, groups=commits.target_groups),
        places=_places(settings.path, flow),
        back=_back(settings, flow),
        missing=state.unknown,
        outages=state.reader.outages,
        source_seen_ms=source_seen_ms(state),
        decisions=decisions,
        runner=runner,
        failover=_failover(state),
        wishes=_wishes(state, runner),
        copies=copies,
        connectors=connectors,
        groups=groups,
        internal_topics=internal_topics_of(flow, state.policy, runner.program, by_alias, details),
        odd_keys=odd_keys_of(
            source, positions, target.partitions(flow.offset_storage_topic), (offset_syncs_topic(flow, state.policy), syncs),
            (state.policy.checkpoints_topic(flow.name.source), checkpoints),
            commits.source_groups if Part.SOURCE_GROUPS not in state.unknown else None,
        ),
        malformed=tuple(
            Malformed(note.cluster, note.message)
            for note in (*state.notes, *state.notes.rest())
            if note.kind == "malformed"
        ),
        heartbeats=heartbeats,
        past=past,
    )  # fmt: skip
    return _with_records(state, facts, options)


def _with_records(state: FlowState, facts: Facts, options: GatherOptions) -> Facts:
    if not options.records or not state.is_up("source") or not state.is_up("target"):
        return facts
    reads = read_records_of(facts, state, options.limits)
    for topic, why in sorted({place.topic: why for place, why in reads.unread.items()}.items()):
        message, needs = f"records of {topic} cannot be read: {why}", f"Read on topic {topic}"
        state.notes.add(Note("refused", state.flow.name.source, message, needs, topic))
    facts = replace(facts, reads=reads)
    if options.proofs:
        facts = replace(facts, proofs=prove_groups(state, facts))
    return replace(facts, now_ms=now_ms())


# --- parts -----------------------------------------------------------------------------------------------------


def _decisions(state: FlowState) -> tuple[TopicDecision, ...]:
    view = state.topics("source")
    if view is None:  # what the flow copies is what the target remembers of it
        return tuple(select_topics(state.flow, state.policy, {p.topic for p in recorded_partitions(state)}))
    names = [t.name for t in view.topics.values() if not t.is_internal and not t.error]
    decided = select_topics(state.flow, state.policy, names)
    others = [TopicDecision(t.name, False, BROKERS_OWN, "") for t in view.topics.values() if t.is_internal]
    return tuple(sorted([*decided, *others], key=lambda decision: decision.topic))


def _connectors(state: FlowState) -> dict[str, Connector]:
    flow, found = state.flow, Connectors()
    found.take_states(state.reader.records(Part.CONNECT, "target", flow.status_storage_topic))
    found.take_settings(state.reader.records(Part.CONNECT_SETTINGS, "target", flow.config_storage_topic))
    return found.all()


def _runner(state: FlowState, commits: Commits, connectors: Mapping[str, Connector]) -> Runner:
    flow, ledger = state.flow, state.ledger()
    if not state.is_up("target"):
        return Runner("", "unknown")
    owner = ledger.view.owner if ledger is not None else None
    groups = dict(commits.target_groups) if Part.TARGET_GROUPS not in state.unknown else None
    mm2_ran = bool(connectors) or (owner is None and any(state.positions().own()))
    newest = max((state.time_ms for c in connectors.values() for state in c.tasks.values()), default=0)
    ours = max(ledger.times.values(), default=0) if ledger is not None else 0
    found = state.reader.ask(
        Part.LEDGER, "target",
        lambda c: runner_of(flow, ledger, c, groups, mm2_ran=mm2_ran, ours_is_newer=ours >= newest),
        Runner("", "unknown"),
    )  # fmt: skip
    states = [task.state for c in connectors.values() if c.kind == "source" for task in c.tasks.values()]
    if found.program == "mm2" and found.state == "dead":
        is_in_order = bool(states) and "RUNNING" not in states
        return replace(found, state="released" if is_in_order else "dead", seen_ms=newest or None)
    return found


def _wishes(state: FlowState, runner: Runner) -> tuple[Wish, ...]:
    ledger = state.ledger()
    return () if ledger is None or runner.program == "mm2" else tuple(in_order(ledger.view.wishes.values()))


def _failover(state: FlowState) -> Failover | None:
    ledger = state.ledger()
    return None if ledger is None else ledger.view.failover


def _back(settings: Settings, flow: FlowSettings) -> FlowSettings | None:
    name = FlowName(flow.name.target, flow.name.source)
    return next((other for other in settings.enabled_flows(None) if other.name == name), None)


def file_words_of(settings: Settings, flow: FlowSettings) -> str:
    """How a command names the file, and the flow where the file has several."""
    words = shlex.quote(settings.path)  # as it was given: the command is run where this one was
    return words if len(settings.enabled_flows(None)) == 1 else f"{words} --flow {shlex.quote(str(flow.name))}"


def _places(path: str, flow: FlowSettings) -> dict[str, str]:
    """Where the keys are written that findings name."""
    try:
        with open(path, encoding="iso-8859-1") as file:
            entries = parse_properties(file.read()).last()
    except (OSError, ValueError):
        return {}
    found = {}
    for key, old in NAMED_KEYS.items():
        names = [f"{flow.name}.{key}", key, *([f"{flow.name}.{old}", old] if old else [])]
        entry = next((entries[name] for name in names if name in entries), None)
        found[key] = f"{DEFAULT_OF} {key}" if entry is None else f"line {entry.line}: {entry.key} = {entry.value}"
    return found
