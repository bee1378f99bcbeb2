"""A move: a ledger record that a partition resumes elsewhere, by an operator's command or by `on.source.gap`.

It is an attempt that no slot is given, opened and closed in the same moment. What the next open follows is therefore the
same as ever: the newest closed. Offsets that are passed over are a named gap; nothing is put into the map for them.

| the partition                           | skip                               | reset                          |
|-----------------------------------------|------------------------------------|--------------------------------|
| the source deleted what comes next      | resumes at the source's log start  | resumes at the given offset    |
| another producer wrote to the target    | resumes behind its records         | resumes at the given offset    |
| a topic was deleted and created again   | is refused                         | restarts with a new offset map |
| the source ends before what was copied  | is refused                         | resumes at the given offset    |
| no error                                | nothing, or skips to the offset    | resumes at the given offset    |

The open records what a later read of the target's log must know: a move resumes where the copy ended; or behind records
of another or an unknown producer; or it restarts ("anew"), so that copies below it may not count any more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sparkmirror.errors import MoveRefused
from sparkmirror.ledger.records import NOBODY, Closed, Gap, LedgerRecord, Open, Position, TopicIncarnation, Void
from sparkmirror.model import TopicPartition

EARLIEST, LATEST = "earliest", "latest"
ON, BEHIND, RESTARTED = "on", "behind", "anew"


@dataclass(frozen=True, slots=True)
class CopyState:
    """The state of a partition: where its copy ends, of which topic incarnations, the present ones, and their log ranges."""

    partition: TopicPartition
    position: Position | None  # None: the ledger knows nothing
    was: TopicIncarnation | None
    now: TopicIncarnation
    log_start: int
    log_end: int
    target_end: int
    is_open: bool = False  # an attempt has no end yet

    @property
    def is_same_incarnation(self) -> bool:
        """Whether both topics are the ones that were copied."""
        return self.was is None or self.was == self.now


@dataclass(frozen=True, slots=True)
class Move:
    """One partition: its old and new position, the upstream offsets that are given up, and the effect on the target.

    `copied_again`: so many upstream offsets lie on the target already. `is_map_new`: what the map said belongs to topics
    that are no more. `is_target_shorter`: the target lost its end since.
    """

    partition: TopicPartition
    old: Position | None
    new: Position
    topic_incarnation: TopicIncarnation
    kind: str
    gap: tuple[int, int] | None
    copied_again: int
    is_map_new: bool
    is_target_shorter: bool


def skip(copy_state: CopyState, to: int | None) -> Move | None:
    """The move past what cannot be copied; None if there is nothing to pass over. Raises MoveRefused."""
    partition, position = copy_state.partition, copy_state.position
    if position is None:
        raise MoveRefused(f"{partition}: nothing was copied yet, so nothing can be skipped")
    if not copy_state.is_same_incarnation:
        raise MoveRefused(
            f"{partition}: {_what_is_new(copy_state)} was re-created, so there is nothing to skip",
            hint="to restart the copy: `offsets reset`",
        )
    if copy_state.log_end < position.upstream:
        raise MoveRefused(
            f"{partition}: upstream offset {position.upstream} comes next, but the source ends at {copy_state.log_end}: "
            "it lost what was copied",
            hint=f"use `offsets reset --to {copy_state.log_end}`",
        )
    if copy_state.target_end < position.downstream:
        raise MoveRefused(
            f"{partition}: the target ends at {copy_state.target_end}, before the copy's end {position.downstream}",
            hint="start the flow: it finds out what the target lost and copies that again",
        )
    if to is not None and to < position.upstream:
        raise MoveRefused(
            f"{partition}: everything up to {position.upstream} was copied, so {to} lies behind",
            hint=f"to copy it again: `offsets reset --to {to}`",
        )
    wanted = _within(copy_state, to) if to is not None else max(copy_state.log_start, position.upstream)
    if (wanted, copy_state.target_end) == position[:2] and not copy_state.is_open:
        return None
    return _move(copy_state, wanted)


def reset(copy_state: CopyState, to: str) -> Move | None:
    """The move to `earliest`, `latest` or an offset; None if the copy is there already. Raises MoveRefused."""
    known = {EARLIEST: copy_state.log_start, LATEST: copy_state.log_end}
    wanted = known[to] if to in known else _within(copy_state, int(to))
    move = _move(copy_state, wanted)
    is_there = move.old is not None and move.old[:2] == move.new[:2] and not move.is_map_new and not copy_state.is_open
    return None if is_there else move


def _within(copy_state: CopyState, to: int) -> int:
    if not copy_state.log_start <= to <= copy_state.log_end:
        raise MoveRefused(
            f"{copy_state.partition}: the source begins at {copy_state.log_start} and ends at {copy_state.log_end}, "
            f"found {to}",
            hint=f"give an offset from {copy_state.log_start} to {copy_state.log_end}",
        )
    return to


def _move(copy_state: CopyState, wanted: int) -> Move:
    old = copy_state.position
    # Nothing of the new incarnation was copied, so every offset before `wanted` is a gap.
    is_continued = old is not None and copy_state.is_same_incarnation
    since = old.upstream if old is not None and is_continued else copy_state.log_start
    return Move(
        partition=copy_state.partition,
        old=old,
        new=Position(wanted, copy_state.target_end, 0),
        topic_incarnation=copy_state.now,
        kind=_kind(copy_state, wanted),
        gap=(since, wanted) if old is not None and wanted > since else None,
        copied_again=max(since - wanted, 0) if is_continued else 0,
        is_map_new=not copy_state.is_same_incarnation,
        is_target_shorter=is_continued and old is not None and copy_state.target_end < old.downstream,
    )


def _kind(copy_state: CopyState, wanted: int) -> str:
    old = copy_state.position
    if old is None or not copy_state.is_same_incarnation or wanted < old.upstream or copy_state.target_end < old.downstream:
        return RESTARTED
    return BEHIND if copy_state.target_end > old.downstream or copy_state.is_open else ON


def _what_is_new(copy_state: CopyState) -> str:
    was, now = copy_state.was, copy_state.now
    assert was is not None
    return "the source topic" if was.source_topic_id != now.source_topic_id else "the target topic"


def moved(move: Move, order: Open, *, reason: str, time_ms: int) -> list[LedgerRecord]:
    """The records of a move; `order` is the open that would come next, at the new position, and is given to no slot."""
    assert order.position[:2] == move.new[:2]
    order = replace(order, slot=NOBODY, incarnation=NOBODY, source_leader_epoch=-1, move=move.kind)
    records: list[LedgerRecord] = []
    if move.is_target_shorter and order.previous is not None:
        records.append(Void(order.partition, order.previous, move.new.downstream))
    if move.gap is not None:
        records.append(Gap(order.partition, order.attempt, *move.gap, reason, time_ms, order.source_topic_id))
    return [*records, order, Closed(order.partition, order.attempt, order.position)]
