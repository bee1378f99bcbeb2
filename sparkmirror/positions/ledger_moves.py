"""Positions of a flow that sparkmirror runs: through the ledger, and in MirrorMaker 2's records with it.

The command takes ownership as a run does, so the previous owner is fenced, and then decides again by what is found
then. The undo file names the ledger's records of the move: once they are deleted, the ledger says what it said before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from sparkmirror.clusters import ClusterClient
from sparkmirror.clusters.probing import probe_times
from sparkmirror.config import FlowSettings, Settings
from sparkmirror.control import RunOptions, TopicControl, TopicPlan, place_of
from sparkmirror.driver import FlowLedger, Repositioning
from sparkmirror.errors import BrokerRefused, FlowOwnedByAnother, MoveRefused, SourceOffsetLost, TargetHasStranger
from sparkmirror.ledger import CopyState, LedgerRecord, Move, encode, reset, skip
from sparkmirror.model import TopicPartition
from sparkmirror.positions.requests import CONNECTOR, EARLIEST, Goal, MoveRequest, StoragePlace
from sparkmirror.positions.running import STOP_FIRST, refuse_running_workers
from sparkmirror.positions.snapshots import SavedRecord, Snapshot
from sparkmirror.positions.stored import present_topics, read_stored
from sparkmirror.positions.target_state import plan_target, read_commits, save_target, take_away
from sparkmirror.positions.undo_file import now_text, save, undo_path
from sparkmirror.positions.verdicts import SPARKMIRROR, MoveVerdict
from sparkmirror.state import owner_status, places_for
from sparkmirror.status import MirroredTopic
from sparkmirror.topology import Action, ledger_topic

# States that `skip` is for; `reset` accepts any state, since it sets where to resume.
SKIPPED = (SourceOffsetLost.code, TargetHasStranger.code)


@dataclass(frozen=True, slots=True)
class LedgerFlow:
    """One flow of sparkmirror's, opened to be read or moved."""

    flow: FlowSettings
    work: Repositioning

    @property
    def clients(self) -> tuple[ClusterClient, ClusterClient]:
        """Source and target."""
        return self.work.clients

    @property
    def ledger_topic(self) -> str:
        """The flow's ledger."""
        return ledger_topic(self.flow.name.source)

    def prove_stopped(self) -> str:
        """That neither a sparkmirror nor MirrorMaker 2 runs the flow; raises FlowOwnedByAnother if one may."""
        _, target = self.clients
        if present_topics(target, [self.ledger_topic]):
            ledger = FlowLedger(target, self.ledger_topic)
            ledger.read_all()
            owner = owner_status(target, self.ledger_topic, ledger.table)
            if owner.state == "alive":
                raise FlowOwnedByAnother(f"{self.flow.name} is owned by {owner.name}, which is alive", hint=STOP_FIRST)
        return self.prove_no_worker()

    def prove_no_worker(self) -> str:
        """That MirrorMaker 2 does not run the flow; raises BrokerRefused without the right to describe its group."""
        try:
            return refuse_running_workers(self.clients[1], self.flow, StoragePlace())
        except BrokerRefused as error:
            return f"could not find out whether MirrorMaker 2 runs it: {error.message}"

    def own(self) -> None:
        """Takes ownership of the flow."""
        try:
            self.work.own()
        except FlowOwnedByAnother as error:
            raise FlowOwnedByAnother(error.message, hint=STOP_FIRST) from error


@contextmanager
def open_ledger_flow(settings: Settings, flow: FlowSettings) -> Iterator[LedgerFlow]:
    """The flow; its ownership is released afterwards."""
    work = Repositioning(flow, place_of(settings, flow, RunOptions(), slots=0))
    try:
        yield LedgerFlow(flow, work)
    finally:
        work.close()


def preview_of_ledger(opened: LedgerFlow, request: MoveRequest) -> MoveVerdict:
    """What `apply_to_ledger` would do, by what can be seen now. Changes nothing; raises what it would."""
    proof = opened.prove_stopped()
    topics = _topics(opened, request)
    partitions = _partitions(topics.found, request)
    plan = _outer(opened, request, topics)
    copy_states = opened.work.look(topics.found, partitions)
    if request.with_target:
        copy_states = [_emptied(copy_state) for copy_state in copy_states]
    return _verdict(opened, request, topics, copy_states, replace(plan, proof=proof))


def apply_to_ledger(opened: LedgerFlow, request: MoveRequest, command: str) -> MoveVerdict:
    """Takes ownership, moves the positions, releases the flow; all partitions or, if one is refused, none."""
    proof = opened.prove_no_worker()
    topics = _topics(opened, request)
    partitions = _partitions(topics.found, request)
    outer = replace(_outer(opened, request, topics), proof=proof)
    opened.own()
    if outer.target is not None:
        _save(opened, outer, [], command)  # deleting comes first: a move names the topics that it resumes with
        take_away(opened.flow, opened.clients, outer.target)
    accepted = SKIPPED if request.verb == "skip" else ()
    discover = TopicControl(opened.flow, set(topics.found)).discover
    copy_states = opened.work.take(partitions, discover, accepted)
    for copy_state in copy_states:
        trouble = opened.work.trouble(copy_state.partition)
        if request.verb == "skip" and copy_state.is_same_incarnation and trouble:
            raise MoveRefused(f"{copy_state.partition} cannot be skipped: {trouble}")
    verdict = replace(_verdict(opened, request, topics, copy_states, outer), is_applied=True)
    if not verdict.moves:
        opened.work.write((), ())  # what was found is MirrorMaker 2's position too
        return replace(verdict, undo_file=verdict.undo_file if outer.target is not None else "")
    records = opened.work.prepare(verdict.moves, f"sparkmirror offsets {request.verb}")
    if outer.target is None:
        _save(opened, verdict, records, command)
    opened.work.write(verdict.moves, records)
    return verdict


# --- gather ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Topics:
    """The topics that are meant, those to be created on the target, and notes on those that are left out."""

    found: Mapping[str, MirroredTopic]
    created: tuple[str, ...]
    notes: tuple[str, ...]


def _topics(opened: LedgerFlow, request: MoveRequest) -> _Topics:
    """The topics as they are on both sides now."""
    flow = opened.flow
    source, target = (client.view(None) for client in opened.clients)
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
    return _Topics(found, tuple(created), tuple(notes))


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


def _partitions(topics: Mapping[str, MirroredTopic], request: MoveRequest) -> list[TopicPartition]:
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


def _outer(opened: LedgerFlow, request: MoveRequest, topics: _Topics) -> MoveVerdict:
    """Everything but the moves: names, groups, what is taken away on the target."""
    remotes = {topic.remote for topic in topics.found.values()}
    commits, notes = read_commits(opened.clients[1], remotes, requires_all=request.with_target)
    plan = None
    if request.with_target:
        # A move to a new copy writes the sync that restarts the partition.
        found = plan_target(opened.flow, opened.clients, topics.found, commits=commits, is_whole=False)
        plan = replace(found, restarted=())
    return MoveVerdict(
        flow=str(opened.flow.name),
        run_by=SPARKMIRROR,
        topics=tuple((topic.topic, topic.remote) for topic in topics.found.values()),
        created=topics.created if plan is None else tuple(sorted({*topics.created, *plan.topics})),
        target=plan,
        commits=tuple(commits),
        notes=(*topics.notes, *notes),
        undo_file=undo_path(opened.flow, request.undo_file),
    )


def _save(opened: LedgerFlow, verdict: MoveVerdict, records: Sequence[LedgerRecord], command: str) -> None:
    _, target = opened.clients
    plan = verdict.target
    syncs, checkpoints, commits = ((), (), ()) if plan is None else save_target(opened.flow, opened.clients, plan)
    view = target.view([remote for _, remote in verdict.topics]).topics
    snapshot = Snapshot(
        kind="undo",
        flow=verdict.flow,
        connector=CONNECTOR,
        time=now_text(),
        command=command,
        positions=tuple(_mm2_positions(opened, [move.partition for move in verdict.moves])),
        ledger_keys=tuple(encode(record)[0] for record in records),
        topic_ids={name: topic.topic_id.hex() for name, topic in sorted(view.items()) if not topic.error},
        with_target=plan is not None,
        syncs=syncs,
        checkpoints=checkpoints,
        commits=commits,
    )
    save(verdict.undo_file, snapshot)


def _mm2_positions(opened: LedgerFlow, partitions: Collection[TopicPartition]) -> Iterator[SavedRecord]:
    flow = opened.flow
    stored = read_stored(
        opened.clients[1], [flow.offset_storage_topic], connector=CONNECTOR, alias=flow.name.source
    )
    for partition in partitions:
        old = {record.place: record.value for record in stored.records_of(partition)}
        for place in places_for(stored, partition):
            yield SavedRecord(place, stored.key_of(partition), old.get(place))


# --- judge -----------------------------------------------------------------------------------------------------


def _verdict(
    opened: LedgerFlow, request: MoveRequest, topics: _Topics, copy_states: Sequence[CopyState], outer: MoveVerdict
) -> MoveVerdict:
    times: Mapping[TopicPartition, int] = {}
    if request.to is not None and request.to.kind == "time":
        times = probe_times(opened.clients[0], {s.partition: request.to.number for s in copy_states})
    judged = {copy_state.partition: _judge(request, copy_state, times) for copy_state in copy_states}
    return replace(
        outer,
        moves=tuple(move for move in judged.values() if move is not None),
        unmoved=tuple(partition for partition, move in judged.items() if move is None),
        target_ends={copy_state.partition: copy_state.target_end for copy_state in copy_states},
    )


def _judge(request: MoveRequest, copy_state: CopyState, times: Mapping[TopicPartition, int]) -> Move | None:
    if request.verb == "skip":
        return skip(copy_state, None if request.to is None else request.to.number)
    goal = request.to or EARLIEST
    if request.entries is not None:
        entry = request.entries[copy_state.partition]
        goal = EARLIEST if entry is None else Goal("offset", entry)
    if goal.kind == "time":
        goal = Goal("offset", times.get(copy_state.partition, copy_state.log_end))
    return reset(copy_state, str(goal))


def _emptied(copy_state: CopyState) -> CopyState:
    """The state of a partition after its copy was deleted and re-created."""
    return replace(copy_state, now=copy_state.now._replace(target_topic_id=""), target_end=0)
