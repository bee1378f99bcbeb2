"""`offsets` on a flow that sparkmirror runs: as a request to its owner, and as its owner carries it out.

Only the partitions that are concerned pause. They are judged twice: before they are closed, so that a request that is
refused stops nothing, and once more when nothing is being written there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from sparkmirror.clusters import ClusterClient
from sparkmirror.clusters.probing import probe_times
from sparkmirror.driver import Asking, NextPosition, Outcome, OwnerWork, Steps, Verb, take_back, who_asks
from sparkmirror.errors import MoveRefused, RequestRefused, SourceOffsetLost, TargetHasStranger
from sparkmirror.ledger import CopyState, LedgerRecord, Move, OwnerAnswer, OwnerRequest, decode_key, encode
from sparkmirror.model import TopicPartition
from sparkmirror.positions.judging import judge
from sparkmirror.positions.named_topics import named_topics, partitions_of
from sparkmirror.positions.requests import Goal, MoveRequest

# States that `skip` is for; `reset` accepts any state, since it sets where to resume.
SKIPPED = (SourceOffsetLost.code, TargetHasStranger.code)
NAMED_MAX = 3
STATES_AT_ONCE = 50  # of so many partitions the ends are asked for in one turn of the owner
PREFIX = "offsets."
UNDO = f"{PREFIX}undo"


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveMoves:
    """What a request moved, as its answer carries it."""

    topics: tuple[tuple[str, str], ...]
    moves: tuple[Move, ...]
    unmoved: tuple[TopicPartition, ...]
    target_ends: tuple[tuple[TopicPartition, int], ...]
    notes: tuple[str, ...] = ()
    ledger_keys: tuple[str, ...] = ()
    topic_ids: dict[str, str]


# --- the request -----------------------------------------------------------------------------------------------


def request_of(asking: Asking, asked: MoveRequest, client: ClusterClient) -> OwnerRequest:
    """The move as the owner is asked for it."""
    arguments: dict[str, Any] = {}
    if asked.to is not None:
        arguments["to"] = [asked.to.kind, asked.to.number]
    if asked.entries is not None:
        arguments["entries"] = [[*partition, offset] for partition, offset in sorted(asked.entries.items())]
    if asked.with_target:
        arguments["with_target"] = True
    verb = f"{PREFIX}{asked.verb}"
    return asking.request(verb, who_asks(client), topic=asked.topic, partition=asked.partition, arguments=arguments)


class _Arguments(msgspec.Struct):
    to: tuple[str, int] | None = None
    entries: list[tuple[str, int, int | None]] | None = None
    with_target: bool = False


def _move_request(request: OwnerRequest) -> MoveRequest:
    found = msgspec.convert(request.arguments, _Arguments)
    if found.with_target:
        raise RequestRefused("--with-target deletes remote topics, which a running flow writes", hint="stop the flow first")
    return MoveRequest(
        verb=request.verb.removeprefix(PREFIX),  # type: ignore[arg-type]  # one of LIVE_VERBS
        topic=request.topic or None,
        partition=None if request.partition < 0 else request.partition,
        to=None if found.to is None else Goal(*found.to),  # type: ignore[arg-type]  # what it was made of
        entries=None if found.entries is None else {TopicPartition(t, p): offset for t, p, offset in found.entries},
    )


def moves_of(answer: OwnerAnswer) -> LiveMoves:
    """What an answer says was moved."""
    try:
        return msgspec.convert(answer.detail, LiveMoves)
    except msgspec.ValidationError as error:
        raise RequestRefused(f"the answer to request {answer.id} by {answer.owner} cannot be read: {error}") from error


def outcome_of(found: LiveMoves, records: Sequence[LedgerRecord], ended: Sequence[NextPosition] = ()) -> Outcome:
    """The outcome of moves with their records; `ended` go on without a move, where it was found out that they end."""
    entries = [encode(record) for record in records]
    found = replace(found, ledger_keys=tuple(key.decode() for key, _ in entries))
    next_positions = [*(NextPosition.of(move) for move in found.moves), *ended]
    return Outcome(_text(found.moves), msgspec.to_builtins(found), entries, next_positions)


def _text(moves: Sequence[Move]) -> str:
    if not moves:
        return "there was nothing to change"
    olds = ["nothing" if move.old is None else str(move.old.upstream) for move in moves]
    named = [f"{move.partition} {old} -> {move.new.upstream}" for move, old in zip(moves[:NAMED_MAX], olds, strict=False)]
    return ", ".join(named) + (f" and {len(moves) - NAMED_MAX} more" if len(moves) > NAMED_MAX else "")


# --- as the owner carries it out -------------------------------------------------------------------------------


def _live_move(work: OwnerWork, request: OwnerRequest) -> Steps:
    asked = _move_request(request)
    work.look()
    topics = named_topics(work.flow, work.clients, asked)
    for name in topics.found:
        if name in work.stopped_topics:
            raise MoveRefused(f"topic {name}: {work.stopped_topics[name]}")
    partitions = partitions_of(topics.found, asked)
    wanted = partitions
    if asked.verb == "skip" and asked.to is None:  # what goes on by itself need not pause
        before = yield from _states(work, partitions)
        wanted = [s.partition for s in before if is_stuck(s, is_stopped=work.is_stopped(s.partition))]
    judged = _judge(work, asked, [as_closed(state) for state in (yield from _states(work, wanted))])
    affected = [partition for partition, move in judged.items() if move is not None]
    if affected:
        yield from work.pause(affected, SKIPPED if asked.verb == "skip" else ())
    states = yield from _states(work, affected)
    for state in states:
        if asked.verb == "skip" and state.is_same_incarnation and state.is_open:
            raise MoveRefused(f"{state.partition} cannot be skipped: {work.positions.trouble(state.partition)}")
    moves = [move for move in _judge(work, asked, states).values() if move is not None]
    records = work.positions.writer.prepare(moves, f"sparkmirror offsets {asked.verb}") if moves else []
    moved = {move.partition for move in moves}
    remotes = {topic.topic: topic.remote for topic in topics.found.values()}
    found = LiveMoves(
        topics=tuple(remotes.items()),
        moves=tuple(moves),
        unmoved=tuple(partition for partition in partitions if partition not in moved),
        target_ends=tuple((state.partition, state.target_end) for state in states),
        notes=topics.notes,
        topic_ids={remotes[move.partition.topic]: move.topic_incarnation.target_topic_id for move in moves},
    )
    ended = [
        NextPosition(state.partition, state.position.upstream, is_back=False)
        for state in states
        if state.position is not None and state.partition not in moved and not state.is_open
    ]
    return outcome_of(found, records, ended)


def _states(work: OwnerWork, partitions: Sequence[TopicPartition]) -> Any:
    """How the partitions stand, some in each turn."""
    found: list[CopyState] = []
    for start in range(0, len(partitions), STATES_AT_ONCE):
        if start:
            yield
        found += work.positions.states(partitions[start : start + STATES_AT_ONCE])
    return found


def _judge(work: OwnerWork, asked: MoveRequest, states: Sequence[CopyState]) -> Mapping[TopicPartition, Move | None]:
    times: Mapping[TopicPartition, int] = {}
    if asked.to is not None and asked.to.kind == "time":
        times = probe_times(work.clients[0], {state.partition: asked.to.number for state in states})
    return {state.partition: judge(asked, state, times) for state in states}


def is_stuck(state: CopyState, *, is_stopped: bool) -> bool:
    """Whether there is something that `skip` could pass over."""
    return is_stopped or state.position is None or state.log_start > state.position.upstream


def as_closed(state: CopyState) -> CopyState:
    """The state once its attempt has ended as a running slot ends it: where it is proven now."""
    return replace(state, is_open=False)


def _live_undo(work: OwnerWork, request: OwnerRequest) -> Steps:
    found = msgspec.convert(request.arguments, UndoArguments)
    keys = [key.encode() for key in found.ledger_keys]
    refuse_other_copies(work.clients[1], found.topic_ids, found.time, found.path)
    take_back(work.positions.ledger.view, keys, allows_open=True)
    yield from work.pause(sorted({partition for _, partition, _, _ in map(decode_key, keys)}))
    next_positions, entries = take_back(work.positions.ledger.view, keys)
    work.positions.writer.renew()
    return Outcome(f"{len(keys)} records of the ledger are restored", {}, entries, next_positions)


class UndoArguments(msgspec.Struct):
    """What the owner must know of an undo file."""

    ledger_keys: list[str]
    topic_ids: dict[str, str]
    time: str
    path: str


def refuse_other_copies(target: ClusterClient, topic_ids: Mapping[str, str], moment: str, path: str) -> None:
    """Old positions point into copies that are gone: the records before them would be missing there."""
    view = target.view(list(topic_ids)).topics
    for name, topic_id in topic_ids.items():
        there = view.get(name)
        if there is None or there.error or there.topic_id.hex() != topic_id:
            raise MoveRefused(
                f"{name} on {target.alias} is not the same topic as at {moment}: resuming at the old positions "
                "would leave it without the records copied before",
                hint=f"deleted records cannot be restored; `offsets import FILE {path}` sets positions alone",
            )


LIVE_VERBS: Mapping[str, Verb] = {
    **dict.fromkeys((f"{PREFIX}{verb}" for verb in ("set", "reset", "skip", "import")), _live_move),
    UNDO: _live_undo,
}
