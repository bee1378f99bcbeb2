"""Keeps the ledger short: the runs of many old attempts are stated again under the newest, then the old keys are removed;
and so are runs of records that the source itself has deleted since.

Order matters (O11): the tombstones are written only after the restated runs are acked. A crash in between leaves both,
which say the same.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from sparkmirror.ledger.records import Attempt, Gap, Open, Receipt, tombstone
from sparkmirror.ledger.runs import Run
from sparkmirror.ledger.view import PartitionHistory

__all__ = ["ATTEMPTS_MAX", "outlived", "restate"]

# So many attempts of one partition are kept as they are; restating more seldom would cost more to read at each start.
ATTEMPTS_MAX = 8
RUNS_PER_BLOCK = 1000  # these are written once


def restate(history: PartitionHistory, order: Open) -> tuple[list[Receipt | Gap], list[tuple[bytes, None]]]:
    """What states every valid run and gap under `order`, and the tombstones to be written once that is acked."""
    kept = history.standing_move()
    old = sorted(attempt for attempt in history.opens if attempt < (order.attempt if kept is None else kept))
    if len(old) < ATTEMPTS_MAX:
        return [], []
    is_same_life = history.newest is not None and history.newest.life == order.life
    runs = sorted({run for run in history.runs() if is_same_life and run.upstream + run.length <= order.position.upstream})
    again: list[Receipt | Gap] = [
        _receipt(order, runs[start : start + RUNS_PER_BLOCK]) for start in range(0, len(runs), RUNS_PER_BLOCK)
    ]
    # Opens that cut a gap short go away too, so what is left of it is said anew.
    again += [
        replace(gap, attempt=order.attempt, until=min(gap.until, order.position.upstream))
        for gap in history.accepted_gaps()
        if gap.source_topic_id == order.source_topic_id and gap.upstream < order.position.upstream
    ]
    past = [tombstone("gap", order.partition, *place) for place in history.gaps if place[0] < order.attempt]
    return again, past + [key for attempt in old for key in _keys(history, order, attempt)]


def outlived(history: PartitionHistory, log_start: int) -> list[tuple[bytes, None]]:
    """The tombstones of blocks that lie below the source's log start as a whole; the last one of each attempt is kept."""
    newest = history.newest
    if newest is None:
        return []
    found = []
    for attempt in {attempt for attempt, _ in history.blocks}:
        starts = history.block_starts(attempt)
        gone = [start for start, following in pairwise(starts) if following <= log_start]
        found += [tombstone("receipt", newest.partition, attempt, start, *final) for start in gone for final in ((), (1,))]
    return found


def _receipt(order: Open, runs: list[Run]) -> Receipt:
    return Receipt(
        order.partition, order.attempt, order.position, order.source_leader_epoch, 0, 0, tuple(runs)
    )


def _keys(history: PartitionHistory, order: Open, attempt: Attempt) -> list[tuple[bytes, None]]:
    partition = order.partition
    kinds = ("started", "closed", "state", "release", "void", "open")
    starts = (*history.block_starts(attempt), -1)
    found = [tombstone("receipt", partition, attempt, start, *final) for start in starts for final in ((), (1,))]
    return found + [tombstone(kind, partition, attempt) for kind in kinds]
