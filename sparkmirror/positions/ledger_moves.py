"""Positions of a flow that sparkmirror runs: through the ledger, and in MirrorMaker 2's records with it.

A live owner is asked to do it. With none, the command takes ownership as a run does, so the previous owner is fenced, and
then decides again by what is found then. The undo file names the ledger's records of the move: once they are deleted, the
ledger says what it said before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from sparkmirror.clusters import ClusterClient
from sparkmirror.clusters.probing import probe_times
from sparkmirror.config import FlowSettings, Settings
from sparkmirror.control import RunOptions, TopicControl, place_of
from sparkmirror.driver import Asker, Asking, Outcome, Repositioning, ask_or_do, carry_out_as_owner
from sparkmirror.errors import BrokerRefused, FlowOwnedByAnother, MoveRefused
from sparkmirror.ledger import CopyState, LedgerRecord, Move, OwnerAnswer, OwnerRequest, encode
from sparkmirror.model import TopicPartition
from sparkmirror.positions.judging import judge
from sparkmirror.positions.live_moves import (
    SKIPPED,
    LiveMoves,
    as_closed,
    is_stuck,
    moves_of,
    outcome_of,
    request_of,
)
from sparkmirror.positions.named_topics import NamedTopics, named_topics, partitions_of
from sparkmirror.positions.requests import CONNECTOR, MoveRequest, StoragePlace
from sparkmirror.positions.running import refuse_running_workers
from sparkmirror.positions.snapshots import SavedRecord, Snapshot
from sparkmirror.positions.stored import present_topics, read_stored
from sparkmirror.positions.target_state import plan_target, read_commits, save_target, take_away
from sparkmirror.positions.undo_file import now_text, require_new, save, time_text, undo_path
from sparkmirror.positions.verdicts import SPARKMIRROR, MoveVerdict
from sparkmirror.state import places_for
from sparkmirror.topology import ledger_topic
from sparkmirror.wire import encode_connect_offset


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

    def live_owner(self) -> str:
        """The process that runs the flow as sparkmirror, empty if none does."""
        asker = self.asker()
        owner = asker.owner() if asker is not None else None
        return owner.name if owner is not None and owner.state == "alive" else ""

    def asker(self) -> Asker | None:
        """Who asks the flow's owner; None if there is no ledger to ask it by."""
        _, target = self.clients
        return Asker(target, self.ledger_topic) if present_topics(target, [self.ledger_topic]) else None

    def prove_no_worker(self) -> str:
        """That MirrorMaker 2 does not run the flow; raises BrokerRefused without the right to describe its group."""
        try:
            return refuse_running_workers(self.clients[1], self.flow, StoragePlace())
        except BrokerRefused as error:
            return f"could not find out whether MirrorMaker 2 runs it: {error.message}"

    def own(self) -> None:
        """Takes ownership of the flow."""
        self.work.own()


@contextmanager
def open_ledger_flow(settings: Settings, flow: FlowSettings) -> Iterator[LedgerFlow]:
    """The flow; its ownership is released afterwards."""
    work = Repositioning.outside(flow, place_of(settings, flow, RunOptions(), slots=0))
    try:
        yield LedgerFlow(flow, work)
    finally:
        work.close()


def preview_of_ledger(opened: LedgerFlow, request: MoveRequest) -> MoveVerdict:
    """What `move_in_ledger` would do, by what can be seen now. Changes nothing; raises what it would."""
    owner = opened.live_owner()
    proof = "" if owner else opened.prove_no_worker()
    _refuse_target(opened, request, owner)
    topics = named_topics(opened.flow, opened.clients, request)
    partitions = partitions_of(topics.found, request)
    plan = _outer(opened, request, topics)
    copy_states = opened.work.look(topics.found, partitions)
    if owner:
        copy_states = [as_closed(state) for state in copy_states if _is_concerned(opened, request, state)]
    if request.with_target:
        copy_states = [_emptied(copy_state) for copy_state in copy_states]
    verdict = _verdict(opened, request, topics, copy_states, replace(plan, proof=proof, owner=owner))
    moved = {move.partition for move in verdict.moves}
    return replace(verdict, unmoved=tuple(partition for partition in partitions if partition not in moved))


def _is_concerned(opened: LedgerFlow, request: MoveRequest, state: CopyState) -> bool:
    """Whether a running owner would pause the partition at all."""
    history = opened.work.ledger.view.of(state.partition)
    known = history.states.get(history.newest.attempt) if history.newest is not None else None
    is_bare_skip = request.verb == "skip" and request.to is None
    return not is_bare_skip or is_stuck(state, is_stopped=known is not None and known.state == "stopped")


def _refuse_target(opened: LedgerFlow, request: MoveRequest, owner: str) -> None:
    if owner and request.with_target:
        raise FlowOwnedByAnother(
            f"{opened.flow.name} is owned by {owner}, which is alive and writes to the topics that --with-target deletes",
            hint="stop that process first; or leave out --with-target: positions alone are set while it runs",
        )


def move_in_ledger(opened: LedgerFlow, request: MoveRequest, asking: Asking) -> MoveVerdict:
    """Asks the owner to move positions, or takes the flow if nobody owns it; all partitions or, if one is refused, none."""
    asker = opened.asker()
    if request.with_target:
        _refuse_target(opened, request, opened.live_owner())
        asker = None
    path = undo_path(opened.flow, request.undo_file)
    require_new(path)
    record = request_of(asking, request, opened.clients[1])
    return ask_or_do(
        asker,
        record,
        lambda answer: _answered(opened, answer, path, asking.command),
        lambda asked: _move_as_owner(opened, request, asked, path),
    )


def _answered(opened: LedgerFlow, answer: OwnerAnswer, path: str, command: str) -> MoveVerdict:
    """The report of what the owner did, with what `undo` needs in a file."""
    found, flow = moves_of(answer), opened.flow
    commits, notes = read_commits(opened.clients[1], [remote for _, remote in found.topics], requires_all=False)
    moved = bool(found.moves)
    if moved:
        stored = read_stored(
            opened.clients[1], [flow.offset_storage_topic], connector=CONNECTOR, alias=flow.name.source
        )
        before = [
            # What the owner would have written there without the move.
            SavedRecord(place, stored.key_of(move.partition), _stored_value(move))
            for move in found.moves
            for place in places_for(stored, move.partition)
        ]
        snapshot = Snapshot(
            kind="undo",
            flow=str(flow.name),
            connector=CONNECTOR,
            time=time_text(answer.time_ms),
            command=command,
            positions=tuple(before),
            ledger_keys=tuple(key.encode() for key in found.ledger_keys),
            topic_ids=found.topic_ids,
        )
        try:
            save(path, snapshot)
        except MoveRefused as error:
            again = f"the same command with --request-id {answer.id} and another --undo-file writes it"
            raise MoveRefused(f"the positions were changed, but {error.message}", hint=again) from error
    return MoveVerdict(
        flow=str(flow.name),
        run_by=SPARKMIRROR,
        topics=found.topics,
        moves=found.moves,
        unmoved=found.unmoved,
        commits=tuple(commits),
        target_ends=dict(found.target_ends),
        notes=(*found.notes, *notes),
        undo_file=path if moved else "",
        is_applied=True,
        owner=answer.owner,
        request_id=answer.id,
    )


def _stored_value(move: Move) -> bytes | None:
    return encode_connect_offset(move.old.upstream - 1) if move.old is not None and move.old.upstream else None


def _move_as_owner(opened: LedgerFlow, request: MoveRequest, asked: OwnerRequest, path: str) -> MoveVerdict:
    """Takes ownership, moves the positions, releases the flow."""
    proof = opened.prove_no_worker()
    topics = named_topics(opened.flow, opened.clients, request)
    partitions = partitions_of(topics.found, request)
    outer = replace(_outer(opened, request, topics), proof=proof, undo_file=path, request_id=asked.id)
    verdict: MoveVerdict | None = None

    def decide() -> Outcome:
        nonlocal verdict
        if outer.target is not None:
            _save(opened, outer, [], asked.command)  # deleting comes first: a move names the topics that it resumes with
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
            verdict = replace(verdict, undo_file=path if outer.target is not None else "")
            return outcome_of(_live_moves(verdict), ())
        records = opened.work.writer.prepare(verdict.moves, request.reason or f"sparkmirror offsets {request.verb}")
        if outer.target is None:
            _save(opened, verdict, records, asked.command)
        return outcome_of(_live_moves(verdict), records)

    opened.own()
    answer = carry_out_as_owner(opened.work, asked, decide)
    return verdict if verdict is not None else _answered(opened, answer, path, asked.command)


def _live_moves(verdict: MoveVerdict) -> LiveMoves:
    remotes = dict(verdict.topics)
    return LiveMoves(
        topics=verdict.topics,
        moves=verdict.moves,
        unmoved=verdict.unmoved,
        target_ends=tuple(verdict.target_ends.items()),
        notes=verdict.notes,
        topic_ids={remotes[move.partition.topic]: move.topic_incarnation.target_topic_id for move in verdict.moves},
    )


# --- gather ----------------------------------------------------------------------------------------------------


def _outer(opened: LedgerFlow, request: MoveRequest, topics: NamedTopics) -> MoveVerdict:
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
    opened: LedgerFlow, request: MoveRequest, topics: NamedTopics, copy_states: Sequence[CopyState], outer: MoveVerdict
) -> MoveVerdict:
    times: Mapping[TopicPartition, int] = {}
    if request.to is not None and request.to.kind == "time":
        times = probe_times(opened.clients[0], {s.partition: request.to.number for s in copy_states})
    judged = {copy_state.partition: judge(request, copy_state, times) for copy_state in copy_states}
    return replace(
        outer,
        moves=tuple(move for move in judged.values() if move is not None),
        unmoved=tuple(partition for partition, move in judged.items() if move is None),
        target_ends={copy_state.partition: copy_state.target_end for copy_state in copy_states},
    )


def _emptied(copy_state: CopyState) -> CopyState:
    """The state of a partition after its copy was deleted and re-created."""
    return replace(copy_state, now=copy_state.now._replace(target_topic_id=""), target_end=0)
