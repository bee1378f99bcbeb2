"""`offsets skip` and `offsets reset`: what would change, and changing it.

Both work through the ledger only, while nobody runs the flow. `apply` takes the flow as a run does, so whoever owned it
before can write nothing more, and judges again by what it finds then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparkmirror.config import FlowSettings, Settings, require_enabled_flow
from sparkmirror.control import RunOptions, TopicControl, TopicPlan, find_owner, place_of
from sparkmirror.errors import FlowOwnedByAnother, MoveRefused, SourceOffsetLost, TargetHasStranger
from sparkmirror.ledger import Move, Standing, reset, skip
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline import FlowLedger, MirroredTopic, Repositioning
from sparkmirror.topology import Action, require_custom_classes

__all__ = ["MoveRequest", "MoveVerdict", "apply", "preview"]

EARLIEST = "earliest"
STOP_FIRST = "stop it first: positions are moved only while nobody copies"
# What `skip` is there for; `reset` lives with anything, since it says itself where to go on.
SKIPPED = (SourceOffsetLost.code, TargetHasStranger.code)


@dataclass(frozen=True, slots=True)
class MoveRequest:
    """What somebody asked: the verb (`skip` or `reset`), whose positions, where to. None: every partition, the default."""

    verb: str
    topic: str
    partition: int | None = None
    to: str | None = None
    flow: str | None = None


@dataclass(frozen=True, slots=True)
class MoveVerdict:
    """What changes, or changed if `is_applied`; `unmoved` are partitions that stay as they are."""

    flow: str
    topic: str
    remote: str
    moves: tuple[Move, ...]
    unmoved: tuple[TopicPartition, ...]
    creates_remote: bool
    is_applied: bool


def preview(settings: Settings, request: MoveRequest) -> MoveVerdict:
    """What `apply` would do, by what can be seen now. Changes nothing; raises what `apply` would."""
    flow = _flow(settings, request.flow)
    work = Repositioning(flow, place_of(settings, flow, RunOptions(), slots=0))
    try:
        _refuse_live_owner(settings, flow, work)
        topic, creates_remote = _topic(flow, work, request.topic)
        standings = work.look(topic, _partitions(topic, request.partition))
        return _verdict(flow, topic, request, standings, creates_remote=creates_remote)
    finally:
        work.close()


def apply(settings: Settings, request: MoveRequest) -> MoveVerdict:
    """Takes the flow, moves the positions, gives it back; all partitions or, if one is refused, none."""
    flow = _flow(settings, request.flow)
    work = Repositioning(flow, place_of(settings, flow, RunOptions(), slots=0))
    try:
        topic, creates_remote = _topic(flow, work, request.topic)
        partitions = _partitions(topic, request.partition)
        discover = TopicControl(flow, {request.topic}).discover
        accepted = SKIPPED if request.verb == "skip" else ()
        try:
            standings = work.take(request.topic, partitions, discover, accepted)
        except FlowOwnedByAnother as error:
            raise FlowOwnedByAnother(error.message, hint=STOP_FIRST) from error
        for standing in standings:
            if request.verb == "skip" and standing.is_same_life and (trouble := work.trouble(standing.partition)):
                raise MoveRefused(f"{standing.partition} cannot be skipped: {trouble}")
        verdict = _verdict(flow, topic, request, standings, creates_remote=creates_remote, is_applied=True)
        work.write(verdict.moves, f"sparkmirror offsets {request.verb}")
        return verdict
    finally:
        work.close()


# --- gather ----------------------------------------------------------------------------------------------------


def _flow(settings: Settings, name: str | None) -> FlowSettings:
    require_enabled_flow(settings, None)
    require_custom_classes(settings, None)
    flows = {str(flow.name): flow for flow in settings.enabled_flows(None)}
    if name is None and len(flows) == 1:
        return next(iter(flows.values()))
    if name not in flows:
        found = f"found {name}" if name is not None else f"found {len(flows)} flows"
        raise MoveRefused(
            f"{settings.path}: expected one of its enabled flows, {found}",
            hint="give " + " or ".join(f"--flow '{flow}'" for flow in flows),
        )
    return flows[name]


def _refuse_live_owner(settings: Settings, flow: FlowSettings, work: Repositioning) -> None:
    target = work.clients[1]
    ledger = place_of(settings, flow, RunOptions(), slots=0).ledger_topic
    found = target.view([ledger]).topics.get(ledger)
    if found is None or found.error:
        return
    owner = find_owner(target, ledger, FlowLedger(target, ledger).read_all().owner)
    if owner.state == "alive":
        raise FlowOwnedByAnother(f"{flow.name} is owned by {owner.name}, which is alive", hint=STOP_FIRST)


def _topic(flow: FlowSettings, work: Repositioning, name: str) -> tuple[MirroredTopic, bool]:
    """The topic as it is on both sides now, and whether it would have to be created on the target."""
    source, target = (client.view(None) for client in work.clients)
    plan = TopicPlan(flow, source, target, {name})
    decision = next(iter(plan.decisions), None)
    if decision is None:
        raise MoveRefused(f"{flow.name}: cluster {flow.name.source} has no topic {name} that could be copied")
    if not decision.replicated:
        raise MoveRefused(f"{flow.name}: topic {name} is not copied: {decision.reason}")
    [change] = plan.changes
    if change.action is Action.STOP:
        raise MoveRefused(f"{flow.name}: topic {name}: {change.reason}")
    there = target.topics.get(change.remote)
    creates_remote = there is None or there.error != 0
    topic = MirroredTopic(
        topic=name,
        remote=change.remote,
        partitions=change.partitions,
        source_topic_id=source.topics[name].topic_id.hex(),
        target_topic_id="" if there is None or creates_remote else there.topic_id.hex(),
        source_compacts=False,
        target_compacts=False,
        target_log_append_time=False,
    )
    return topic, creates_remote


def _partitions(topic: MirroredTopic, wanted: int | None) -> list[TopicPartition]:
    if wanted is None:
        return [TopicPartition(topic.topic, index) for index in range(topic.partitions)]
    if not 0 <= wanted < topic.partitions:
        raise MoveRefused(f"topic {topic.topic} has partitions 0 to {topic.partitions - 1}, found {wanted}")
    return [TopicPartition(topic.topic, wanted)]


# --- judge -----------------------------------------------------------------------------------------------------


def _verdict(
    flow: FlowSettings,
    topic: MirroredTopic,
    request: MoveRequest,
    standings: Sequence[Standing],
    *,
    creates_remote: bool,
    is_applied: bool = False,
) -> MoveVerdict:
    judged = {standing.partition: _judge(request, standing) for standing in standings}
    return MoveVerdict(
        flow=str(flow.name),
        topic=topic.topic,
        remote=topic.remote,
        moves=tuple(move for move in judged.values() if move is not None),
        unmoved=tuple(partition for partition, move in judged.items() if move is None),
        creates_remote=creates_remote,
        is_applied=is_applied,
    )


def _judge(request: MoveRequest, standing: Standing) -> Move | None:
    if request.verb == "skip":
        return skip(standing, None if request.to is None else int(request.to))
    return reset(standing, request.to if request.to is not None else EARLIEST)
