"""Where a request moves one partition, by how it stands. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from sparkmirror.ledger import CopyState, Move, reset, skip
from sparkmirror.model import TopicPartition
from sparkmirror.positions.requests import EARLIEST, Goal, MoveRequest


def judge(request: MoveRequest, copy_state: CopyState, times: Mapping[TopicPartition, int]) -> Move | None:
    """The move, None if there is nothing to change; `times` are the offsets of a time. Raises MoveRefused."""
    if request.verb == "skip":
        return skip(copy_state, None if request.to is None else request.to.number)
    goal = request.to or EARLIEST
    if request.entries is not None:
        entry = request.entries[copy_state.partition]
        goal = goal if entry is None else Goal("offset", entry)
    if goal.kind == "time":
        goal = Goal("offset", times.get(copy_state.partition, copy_state.log_end))
    return reset(copy_state, str(goal))
