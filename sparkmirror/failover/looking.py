"""What a failover would find and do now: one look at both clusters, of which the source may be gone. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace

from sparkmirror.clusters import ClusterClient, committed_offsets
from sparkmirror.clusters.probing import probe_ends
from sparkmirror.config import FlowSettings, Settings
from sparkmirror.driver import FlowLedger
from sparkmirror.errors import ClusterError
from sparkmirror.failover.access import missing_access
from sparkmirror.failover.values import CopyEnd, FailoverPlan, GroupPlan, GroupPosition, Kind, Obstacle
from sparkmirror.ledger import Failover
from sparkmirror.model import TopicPartition
from sparkmirror.positions import present_topics
from sparkmirror.positions.translating import TranslatedPosition, TranslateRequest, translate_positions
from sparkmirror.state import Part
from sparkmirror.state.facts import Copy, Facts
from sparkmirror.state.gathering import GatherOptions, gather
from sparkmirror.status import resume_command, wish_words
from sparkmirror.topology import ledger_topic

NAMED_MAX = 3
LOOK = GatherOptions(records=False, proofs=False)
HAS_MEMBERS = "it has members on {}: their own commits count"


def look(settings: Settings, flow: FlowSettings, kind: Kind) -> FailoverPlan:
    """The plan; raises ClusterError only if the target cannot be read."""
    facts, opens = gather(settings, flow, LOOK)
    with closing(ClusterClient(flow.target)) as target:
        target.view(())  # a target that does not answer is the end of every failover
        recorded = recorded_failover(target, flow)
    groups = tuple(groups_of(settings, flow, facts))
    policy = facts.policy
    plan = FailoverPlan(
        flow=facts.name,
        kind=kind,
        source=flow.name.source,
        target=flow.name.target,
        target_bootstrap=facts.target.bootstrap,
        owner=facts.runner.who,
        owner_state=facts.runner.state,
        topics={d.topic: d.remote for d in facts.decisions if d.replicated and not policy.is_heartbeats_topic(d.topic)},
        copies=tuple(
            _copy_end(copy)
            for place, copy in sorted(facts.copies.items())
            if not policy.is_heartbeats_topic(place.topic)
        ),
        groups=groups,
        notes=tuple(dict.fromkeys(question.reason for question in opens)),
        source_down=facts.outages["source"].message if "source" in facts.outages else "",
        source_seen_ms=facts.source_seen_ms,
        recorded=recorded,
    )
    plan = replace(plan, access=_access(flow, plan))
    return replace(plan, obstacles=tuple(_obstacles(plan, facts)))


def recorded_failover(target: ClusterClient, flow: FlowSettings) -> Failover | None:
    """The failover that the flow's ledger names."""
    topic = ledger_topic(flow.name.source)
    if not present_topics(target, [topic]):
        return None
    return FlowLedger(target, topic).read_all().failover


def _copy_end(copy: Copy) -> CopyEnd:
    last = copy.last_source
    return CopyEnd(
        partition=copy.partition,
        remote=copy.remote,
        reached=copy.reached if copy.reached is not None else (copy.source_ends[0] if copy.source_ends else None),
        source_end=None if copy.source_ends is None else copy.source_ends[1],
        last_end=None if last is None else last.end,
        last_seen_ms=None if last is None else last.time_ms,
    )


# --- groups ------------------------------------------------------------------------------------------------------


def groups_of(settings: Settings, flow: FlowSettings, facts: Facts) -> Iterator[GroupPlan]:
    """Each group that was on the source, with where it continues on the target."""
    names = [g.name for g in facts.groups.values() if g.source or g.checkpoints]
    request = TranslateRequest(origin=flow.name.source, destination=flow.name.target, groups=tuple(names))
    if not names:
        return
    found = translate_positions(settings, request)
    by_group: dict[str, list[TranslatedPosition]] = {}
    for position in found.positions:
        if not facts.policy.is_heartbeats_topic(position.origin.topic):
            by_group.setdefault(position.group, []).append(position)
    with closing(ClusterClient(flow.target)) as target:
        commits = committed_offsets(target, names)
        remotes = {p.destination for p in found.positions if p.destination is not None}
        ends = {place: end.end for place, end in probe_ends(target, remotes).items() if end.is_known}
    for name in names:
        group, there = facts.groups[name], commits[name]
        yield GroupPlan(
            name=name,
            positions=tuple(
                _position(p, {place: c.offset for place, c in there.committed.items() if c is not None}, ends)
                for p in by_group.get(name, [])
            ),
            source_state=group.source_state,
            target_state=group.target_state,
            left_alone=HAS_MEMBERS.format(flow.name.target) if group.is_used_on_target else found.unknown.get(name, ""),
        )


def _position(
    found: TranslatedPosition, committed: dict[TopicPartition, int], ends: dict[TopicPartition, int]
) -> GroupPosition:
    place = found.destination
    return GroupPosition(
        origin=found.origin,
        offset=found.offset,
        remote=place,
        downstream=found.destination_offset,
        committed=None if place is None else committed.get(place),
        target_end=None if place is None else ends.get(place),
        sureness=found.sureness,
        again=0 if found.sureness == "ledger" and found.again is None else found.again,
        missing=found.missing,
        as_of_ms=found.as_of_ms,
        is_current=found.is_current,
        reason=found.reason,
    )


# --- what is in the way --------------------------------------------------------------------------------------------


def _obstacles(plan: FailoverPlan, facts: Facts) -> Iterator[Obstacle]:
    """What no waiting mends. What is waited for (lag, producers, consumers) is none."""
    if plan.recorded is not None and plan.recorded.kind != plan.kind:
        yield Obstacle(
            "check",
            f"{plan.flow} has a failover of another kind on record: {plan.recorded.kind}, by {plan.recorded.who}",
            "give the command as it was given, or take that one back with --abandon",
        )
    if Part.LEDGER in facts.missing:
        yield Obstacle("check", f"the ledger of {plan.flow} cannot be read: {facts.missing[Part.LEDGER].reason}",
                       facts.missing[Part.LEDGER].needs)  # fmt: skip
    if facts.runner.program == "mm2" and facts.runner.is_running:
        yield Obstacle(
            "stop",
            f"{plan.flow} is run by MirrorMaker 2 ({plan.owner}), which no record in the ledger stops",
            "stop its workers; --unplanned places the groups of a flow that MirrorMaker 2 ran",
        )
    if not plan.copies:
        yield Obstacle("check", f"{plan.flow} copies no topic: there is nothing to fail over to",
                       "check topics in the file; sparkmirror plan shows what is copied")  # fmt: skip
    if plan.kind == "planned":
        yield from _of_planned(plan, facts)
    absent = [copy.remote for copy in facts.copies.values() if copy.target is not None and copy.target.error]
    gone = sorted(remote for remote in set(plan.topics.values()) if not facts.target.has(remote))
    if gone:
        hint = f"sparkmirror plan {facts.file_words} says why; let the flow copy the topic, or exclude it"
        yield Obstacle("check", f"{_some(gone)} not on {plan.target}", hint)
    elif absent:
        yield Obstacle("check", f"{_some([str(p) for p in absent])} of {plan.target} cannot be read", "wait for its leader")


def _of_planned(plan: FailoverPlan, facts: Facts) -> Iterator[Obstacle]:
    if plan.source_down:
        yield Obstacle("check", f"{plan.source_down}", "if it stays away: the same command with --unplanned")
        return
    unled = [str(c.partition) for c in plan.copies if c.source_end is None]
    if unled:
        yield Obstacle("check", f"the ends of {_some(unled)} on {plan.source} are unknown",
                       "wait for their leaders, or use --unplanned")  # fmt: skip
    stopped = [c for c in facts.copies.values() if c.stop is not None and c.stop.state == "stopped" and c.lag]
    for copy in stopped[:NAMED_MAX]:
        assert copy.stop is not None
        yield Obstacle("copied", f"{copy.partition} is stopped: {copy.stop.code}: {copy.stop.reason}", copy.stop.hint)
    paused = [(c, wish) for c in plan.copies if c.missing and (wish := facts.wish_on(c.partition))]
    if paused and plan.recorded is None:
        end, wish = paused[0]
        yield Obstacle("copied", f"{end.missing:,} records of {end.partition} are not copied: {wish_words(wish)}",
                       resume_command(wish, facts.file_words))  # fmt: skip
    if facts.runner.program == "mm2":
        yield Obstacle(
            "copied",
            f"MirrorMaker 2 ran {plan.flow}: without a ledger nothing proves that every record was copied",
            "let sparkmirror take the flow over first (docs/migrating.md), or use --unplanned",
        )
    elif plan.missing and not facts.runner.is_running and plan.recorded is None:
        yield Obstacle("copied", f"{plan.missing:,} records are not copied and nobody copies them ({facts.runner.state})",
                       f"start the flow: sparkmirror run {facts.file_words}")  # fmt: skip


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:NAMED_MAX])
    more = f" and {len(names) - NAMED_MAX:,} more" if len(names) > NAMED_MAX else ""
    return f"{shown}{more} {'is' if len(names) == 1 else 'are'}"


def _access(flow: FlowSettings, plan: FailoverPlan) -> tuple[str, ...]:
    if plan.source_down:
        return (f"rights and settings of {plan.source} cannot be compared: it does not answer",)
    with closing(ClusterClient(flow.source)) as source, closing(ClusterClient(flow.target)) as target:
        try:
            return tuple(missing_access(flow, source, target, plan.topics))
        except ClusterError as error:
            return (f"rights and settings cannot be compared: {error.message}",)
