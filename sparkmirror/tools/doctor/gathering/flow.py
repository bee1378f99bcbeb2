"""One flow gathered whole: positions and commits first, then the ends, so that growth cannot fake a loss."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from sparkmirror.clusters import ClusterClient
from sparkmirror.config import FlowSettings, Settings
from sparkmirror.config.properties import parse_properties
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.tools.doctor.facts import DEFAULT_OF, Connector, Facts, Malformed, Open, Part, Runner, Subject
from sparkmirror.tools.doctor.gathering.asking import Asker
from sparkmirror.tools.doctor.gathering.clusters import Wanted, gather_cluster
from sparkmirror.tools.doctor.gathering.connect import Connectors
from sparkmirror.tools.doctor.gathering.copies import copies_of, read_sync_story
from sparkmirror.tools.doctor.gathering.groups import Commits, gather_commits, groups_of
from sparkmirror.tools.doctor.gathering.internal import (
    gather_heartbeats,
    internal_names,
    internal_topics_of,
    odd_keys_of,
)
from sparkmirror.tools.doctor.gathering.proofs import prove_groups
from sparkmirror.tools.doctor.gathering.reads import ReadLimits, read_records_of
from sparkmirror.tools.doctor.gathering.runner import runner_of
from sparkmirror.tools.doctor.samples import Sample
from sparkmirror.tools.evidence import FlowEvidence, has_topic, now_ms, read_to_mark
from sparkmirror.topology import TopicDecision, select_topics
from sparkmirror.wire import Record

__all__ = ["GatherOptions", "gather"]

BROKERS_OWN = "internal topic of the brokers"
TOLD_KEYS = {
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
) -> tuple[Facts, tuple[Open, ...]]:
    """Everything about one flow, and what could not be asked. Reads only."""
    evidence = FlowEvidence(flow)
    try:
        asker = Asker(evidence)
        facts = _gather(asker, settings, options, past)
        return facts, tuple(asker.opens)
    finally:
        evidence.close()


def _gather(asker: Asker, settings: Settings, options: GatherOptions, past: tuple[Sample, ...]) -> Facts:
    evidence, flow = asker.evidence, asker.evidence.flow
    decisions = _decisions(asker)
    asker.hear(Part.TARGET, "target", lambda: evidence.topics("target"))
    # What says how far the copy and the groups are, before anything that says where logs end.
    positions = asker.hear(Part.POSITIONS, "target", evidence.positions)
    ledger = asker.hear(Part.LEDGER, "target", evidence.ledger)
    syncs_side = "source" if flow.offset_syncs_topic_location == "source" else "target"
    syncs = asker.hear(Part.SYNCS, "source" if syncs_side == "source" else "target", evidence.syncs)
    checkpoints = asker.hear(Part.CHECKPOINTS, "target", evidence.checkpoints)
    connectors = _connectors(asker)
    commits = gather_commits(asker)
    story = read_sync_story(asker)
    copies = copies_of(asker, decisions, syncs, story)
    runner = _runner(asker, commits, connectors)
    if runner.program == "sparkmirror":
        connectors = {}  # what an earlier MirrorMaker 2 left behind says nothing of now
    names = internal_names(flow, evidence.policy)
    copied = [d for d in decisions if d.replicated]
    wants_acls = flow.sync_topic_acls_enabled
    source, source_details = gather_cluster(
        asker, "source", flow.source, Wanted([*(d.topic for d in copied), *names["source"]], wants_acls)
    )
    target, target_details = gather_cluster(
        asker, "target", flow.target,
        Wanted([*(d.remote for d in copied), *names["target"]], wants_acls, flow.sync_group_offsets_enabled),
    )  # fmt: skip
    by_alias = {source.alias: source, target.alias: target}
    details = {source.alias: source_details, target.alias: target_details}
    groups = groups_of(asker, commits, copies, checkpoints, syncs)
    heartbeats = gather_heartbeats(asker, decisions, source, target)
    facts = Facts(
        flow=flow,
        policy=evidence.policy,
        file_words=_file_words(settings, flow),
        now_ms=now_ms(),
        source=replace(source, groups=commits.source_groups),
        target=replace(target, groups=commits.target_groups),
        places=_places(settings.path, flow),
        back=_back(settings, flow),
        missing=asker.missing,
        decisions=decisions,
        runner=runner,
        copies=copies,
        connectors=connectors,
        groups=groups,
        internal_topics=internal_topics_of(flow, evidence.policy, runner.program, by_alias, details),
        odd_keys=odd_keys_of(
            source, positions, target.partitions(flow.offset_storage_topic), (evidence.syncs_topic, syncs),
            (evidence.checkpoints_topic, checkpoints),
            commits.source_groups if Part.SOURCE_GROUPS not in asker.missing else None,
        ),
        malformed=tuple(
            Malformed(note.cluster, note.message)
            for note in (*evidence.notes, *evidence.notes.rest())
            if note.kind == "malformed"
        ),
        heartbeats=heartbeats,
        past=past,
    )  # fmt: skip
    del ledger
    return _with_records(asker, facts, options)


def _with_records(asker: Asker, facts: Facts, options: GatherOptions) -> Facts:
    is_up = asker.evidence.is_up("source") and asker.evidence.is_up("target")
    if not options.records or not is_up:
        return facts
    reads = read_records_of(facts, asker.client("source"), asker.client("target"), options.limits)
    for topic, why in sorted({place.topic: why for place, why in reads.unread.items()}.items()):
        asker.leave_open(Subject(topic), f"records of {topic} cannot be read: {why}", f"Read on topic {topic}")
    facts = replace(facts, reads=reads)
    if options.proofs:
        facts = replace(facts, proofs=prove_groups(asker, facts))
    return replace(facts, now_ms=now_ms())


# --- parts -----------------------------------------------------------------------------------------------------


def _decisions(asker: Asker) -> tuple[TopicDecision, ...]:
    evidence = asker.evidence
    view = asker.hear(Part.SOURCE, "source", lambda: evidence.topics("source"))
    if view is None:
        return ()
    names = [t.name for t in view.topics.values() if not t.is_internal and not t.error]
    decided = select_topics(evidence.flow, evidence.policy, names)
    others = [TopicDecision(t.name, False, BROKERS_OWN, "") for t in view.topics.values() if t.is_internal]
    return tuple(sorted([*decided, *others], key=lambda decision: decision.topic))


def _connectors(asker: Asker) -> dict[str, Connector]:
    flow, found = asker.evidence.flow, Connectors()
    for part, topic, take in (
        (Part.CONNECT, flow.status_storage_topic, found.take_states),
        (Part.CONNECT_SETTINGS, flow.config_storage_topic, found.take_settings),
    ):
        if has_topic(asker.evidence, "target", topic):
            records: list[Record] = asker.ask(part, "target", lambda c, topic=topic: _records(c, topic), [])  # type: ignore[misc]
            take(records)
        elif not asker.evidence.is_up("target"):
            asker.ask(part, "target", lambda _: None, None)
    return found.all()


def _records(client: ClusterClient, topic: str) -> list[Record]:
    view = client.view([topic]).topics.get(topic)
    indexes: Iterable[int] = () if view is None else sorted(view.leaders)
    return [record for index in indexes for record in read_to_mark(client, TopicPartition(topic, index))]


def _runner(asker: Asker, commits: Commits, connectors: Mapping[str, Connector]) -> Runner:
    evidence, flow = asker.evidence, asker.evidence.flow
    ledger = evidence.ledger()
    if not evidence.is_up("target"):
        return Runner("", "unknown")
    owner = ledger.view.owner if ledger is not None else None
    groups = dict(commits.target_groups) if Part.TARGET_GROUPS not in asker.missing else None
    stored = list(evidence.positions().all())
    mm2_ran = bool(connectors) or (owner is None and bool(stored))
    newest = max((state.time_ms for c in connectors.values() for state in c.tasks.values()), default=0)
    ours = max(ledger.times.values(), default=0) if ledger is not None else 0
    found = asker.ask(
        Part.LEDGER, "target",
        lambda c: runner_of(flow, owner, lambda: c, groups, mm2_ran=mm2_ran, ours_is_newer=ours >= newest),
        Runner("", "unknown"),
    )  # fmt: skip
    states = [task.state for c in connectors.values() if c.kind == "source" for task in c.tasks.values()]
    if found.program == "mm2" and found.state == "dead":
        is_in_order = bool(states) and "RUNNING" not in states
        return replace(found, state="released" if is_in_order else "dead", seen_ms=newest or None)
    return found


def _back(settings: Settings, flow: FlowSettings) -> FlowSettings | None:
    name = FlowName(flow.name.target, flow.name.source)
    return next((other for other in settings.enabled_flows(None) if other.name == name), None)


def _file_words(settings: Settings, flow: FlowSettings) -> str:
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
    for key, old in TOLD_KEYS.items():
        names = [f"{flow.name}.{key}", key, *([f"{flow.name}.{old}", old] if old else [])]
        entry = next((entries[name] for name in names if name in entries), None)
        found[key] = f"{DEFAULT_OF} {key}" if entry is None else f"line {entry.line}: {entry.key} = {entry.value}"
    return found
