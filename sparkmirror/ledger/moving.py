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

import math
from collections.abc import Collection
from dataclasses import dataclass, replace

from sparkmirror.errors import MoveRefused
from sparkmirror.ledger.blocks import block_starts
from sparkmirror.ledger.records import NOBODY, Attempt, Closed, Gap, LedgerRecord, Open, Position, TopicIncarnation, Void
from sparkmirror.ledger.view import PartitionHistory
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
    copied_before: int = 0  # the target holds the upstream offsets from `position` up to here, from before a reset

    @property
    def is_same_incarnation(self) -> bool:
        """Whether both topics are the ones that were copied."""
        return self.was is None or self.was == self.now


@dataclass(frozen=True, slots=True)
class Move:
    """One partition: its old and new position, the upstream offsets that are given up, and the effect on the target.

    `copied_again`: so many upstream offsets lie on the target already. `is_map_new`: what the map said belongs to topics
    that are no more. `is_target_shorter`: the target lost its end since. `held_until`: the target holds what the gap passes
    over up to here, from before a reset.
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
    held_until: int = 0

    @property
    def held(self) -> tuple[int, int] | None:
        """The part of the gap that the target holds."""
        if self.gap is None or self.held_until <= self.gap[0]:
            return None
        return self.gap[0], min(self.held_until, self.gap[1])

    @property
    def never_copied(self) -> tuple[int, int] | None:
        """The part of the gap that the target does not hold."""
        if self.gap is None or self.held_until >= self.gap[1]:
            return None
        return max(self.held_until, self.gap[0]), self.gap[1]


def copied_before(history: PartitionHistory, since: int) -> int:
    """Up to where the target holds the upstream offsets from `since` on, whatever a later move went back behind.

    What others copied before the first attempt counts too: then the copy does not begin at the target's first record.
    """
    newest, ranges, until = history.newest, [], since
    for attempt, order in history.counted().items():
        if newest is None or order.is_move or order.topic_incarnation != newest.topic_incarnation:
            continue
        starts = block_starts(history.blocks, attempt)
        lost = min((at for voided, at in history.voids.items() if voided >= attempt), default=math.inf)
        there = [run for start in starts for run in history.blocks[attempt, start] if run.downstream + run.length <= lost]
        first = min(order.position.upstream, *starts) if starts else order.position.upstream
        is_continued = order.previous is None and order.position.downstream > 0
        ranges.append((0 if is_continued else first, max([order.position.upstream, *(run.end for run in there)])))
    for first, end in sorted(ranges):
        until = max(until, end) if first <= until else until
    return until


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
        held_until=copy_state.copied_before if is_continued else 0,
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


def position_before(history: PartitionHistory, attempt: Attempt) -> Position | None:
    """Where the copy would go on if this attempt and those that followed it had not been."""
    return replace(history, opens={a: order for a, order in history.opens.items() if a < attempt}).position()


def idle_since(history: PartitionHistory, moves: Collection[Attempt]) -> list[Attempt] | None:
    """The attempts that followed these moves and copied nothing; None if one did, or if the moves do not count."""
    last = max(moves)
    order, position = history.opens.get(last), history.position()
    later = sorted(attempt for attempt in history.opens if attempt > last)
    if order is None or not order.is_move or position is None or position[:2] != order.position[:2]:
        return None
    has_copied = any(attempt in later for attempt, _ in history.blocks)
    return None if has_copied or any(history.opens[attempt].is_move for attempt in later) else later
