"""Keeps the ledger short: the runs of many old attempts are stated again under the newest, then the old keys are removed;
so are the many small blocks of the transform query's tasks, and runs of records that the source itself has deleted since.

Order matters (O11): the tombstones are written only after the restated runs are acked. A crash in between leaves both,
which state the same runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

from sparkmirror.ledger.blocks import block_starts
from sparkmirror.ledger.partition import extend_runs
from sparkmirror.ledger.records import TRANSFORM_QUERY, Attempt, Gap, LedgerRecord, Open, Receipt, Routed, tombstone
from sparkmirror.ledger.runs import Run
from sparkmirror.ledger.view import PartitionHistory
from sparkmirror.model import TopicPartition

# So many attempts of one partition are kept as they are; restating more seldom would cost more to read at each start.
ATTEMPTS_MAX = 8
RUNS_PER_BLOCK = 1000  # these are written once
# Each batch of a query leaves a block of its own; so many of them are left as they are.
BLOCKS_MAX = 64


def compact(history: PartitionHistory, order: Open) -> tuple[list[Receipt | Gap], list[tuple[bytes, None]]]:
    """What states every valid run and gap under `order`, and the tombstones to be written once that is acked."""
    kept = history.pending_move()
    old = sorted(attempt for attempt in history.opens if attempt < (order.attempt if kept is None else kept))
    if len(old) < ATTEMPTS_MAX:
        return [], []
    is_same_incarnation = history.newest is not None and history.newest.topic_incarnation == order.topic_incarnation
    end = order.position.upstream
    runs = sorted({run for run in history.runs() if is_same_incarnation and run.upstream + run.length <= end})
    again: list[Receipt | Gap] = [
        _receipt(order, runs[start : start + RUNS_PER_BLOCK]) for start in range(0, len(runs), RUNS_PER_BLOCK)
    ]
    # Opens that cut a gap short go away too, so what is left of it is written again.
    again += [
        replace(gap, attempt=order.attempt, until=min(gap.until, order.position.upstream))
        for gap in history.accepted_gaps()
        if gap.source_topic_id == order.source_topic_id and gap.upstream < order.position.upstream
    ]
    past = [tombstone("gap", order.partition, *place) for place in history.gaps if place[0] < order.attempt]
    return again, past + [key for attempt in old for key in attempt_keys(history, order.partition, attempt)]


def condense(history: PartitionHistory) -> tuple[list[LedgerRecord], list[tuple[bytes, None]]]:
    """The transform query's many blocks joined into few, and the tombstones to be written once these are acked."""
    newest = history.newest
    if newest is None or newest.slot != TRANSFORM_QUERY:
        return [], []
    again: list[LedgerRecord] = []
    removed: list[tuple[bytes, None]] = []
    attempt, partition = newest.attempt, newest.partition
    small = [at for at in block_starts(history.blocks, attempt) if len(history.blocks[attempt, at]) < RUNS_PER_BLOCK]
    starts, last = small, history.receipts.get(attempt)
    if last is not None and len(starts) > BLOCKS_MAX:
        text = [run for start in starts for run in history.blocks[attempt, start]]
        blocks = _in_blocks(text)
        if len(blocks) < len(starts):
            again += [replace(last, runs=tuple(block)) for block in blocks]
            kept = {block[0].upstream for block in blocks}
            gone = [start for start in starts if start not in kept]
            removed += [tombstone("receipt", partition, attempt, start, *final) for start in gone for final in ((), (1,))]
    for target in {routed.target for routed in history.routed.values()}:
        here = {place: routed for place, routed in history.routed.items() if routed.target == target}
        places = sorted(place for place, routed in here.items() if len(routed.runs) < RUNS_PER_BLOCK)
        if len(places) <= BLOCKS_MAX:
            continue
        blocks = _in_blocks(run for place in places if _is_of_incarnation(here[place], newest) for run in here[place].runs)
        stated = [Routed(partition, attempt, target, newest.source_topic_id, tuple(block)) for block in blocks]
        again += stated
        kept_places = {(attempt, routed.runs[0].upstream) for routed in stated}
        removed += [
            tombstone("routed", partition, *place, *target) for place in places if place not in kept_places
        ]
    return again, removed


def _is_of_incarnation(routed: Routed, newest: Open) -> bool:
    return routed.source_topic_id == newest.source_topic_id


def _in_blocks(runs: Iterable[Run]) -> list[list[Run]]:
    joined: list[Run] = []
    for run in sorted(set(runs)):
        if not joined or run.upstream >= joined[-1].upstream + joined[-1].length:  # stated twice, it says the same
            extend_runs(joined, *run)
    return [joined[start : start + RUNS_PER_BLOCK] for start in range(0, len(joined), RUNS_PER_BLOCK)]


def outlived(history: PartitionHistory, log_start: int) -> list[tuple[bytes, None]]:
    """The tombstones of blocks that lie below the source's log start as a whole; the last one of each attempt is kept."""
    newest = history.newest
    if newest is None:
        return []
    found = []
    for attempt in {attempt for attempt, _ in history.blocks}:
        starts = block_starts(history.blocks, attempt)
        gone = [start for start, following in pairwise(starts) if following <= log_start]
        found += [tombstone("receipt", newest.partition, attempt, start, *final) for start in gone for final in ((), (1,))]
    return found


def _receipt(order: Open, runs: list[Run]) -> Receipt:
    return Receipt(
        order.partition, order.attempt, order.position, order.source_leader_epoch, 0, 0, tuple(runs)
    )


def attempt_keys(history: PartitionHistory, partition: TopicPartition, attempt: Attempt) -> list[tuple[bytes, None]]:
    """The tombstones of everything that the ledger holds of an attempt, but gaps and what lies elsewhere."""
    kinds = ("started", "closed", "state", "release", "void", "intent", "open")
    starts = (*block_starts(history.blocks, attempt), -1)
    found = [tombstone("receipt", partition, attempt, start, *final) for start in starts for final in ((), (1,))]
    return found + [tombstone(kind, partition, attempt) for kind in kinds]
