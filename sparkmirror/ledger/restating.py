"""Keeps the ledger short: the runs of many old attempts are stated again under the newest, then the old keys are removed.

Order matters (O11): the tombstones are written only after the restated runs are acked. A crash in between leaves both,
which say the same.
"""

from __future__ import annotations

from sparkmirror.ledger.records import Attempt, Open, Receipt, Run, tombstone
from sparkmirror.ledger.view import PartitionHistory

__all__ = ["ATTEMPTS_MAX", "restate"]

# So many attempts of one partition are kept as they are; restating more seldom would cost more to read at each start.
ATTEMPTS_MAX = 8
RUNS_PER_BLOCK = 1000


def restate(history: PartitionHistory, order: Open) -> tuple[list[Receipt], list[tuple[bytes, None]]]:
    """Receipts under `order` that state every valid run, and the tombstones to be written once those are acked."""
    old = sorted(attempt for attempt in history.opens if attempt < order.attempt)
    if len(old) < ATTEMPTS_MAX:
        return [], []
    runs = sorted({run for run in history.runs() if run.upstream + run.length <= order.position.upstream})
    receipts = [
        _receipt(order, runs[start : start + RUNS_PER_BLOCK]) for start in range(0, len(runs), RUNS_PER_BLOCK)
    ]
    return receipts, [key for attempt in old for key in _keys(history, order, attempt)]


def _receipt(order: Open, runs: list[Run]) -> Receipt:
    return Receipt(
        order.partition, order.attempt, order.position, order.source_leader_epoch, 0, 0, tuple(runs)
    )


def _keys(history: PartitionHistory, order: Open, attempt: Attempt) -> list[tuple[bytes, None]]:
    partition = order.partition
    kinds = ("started", "closed", "state", "release", "void", "open")
    starts = [start for known, start in history.blocks if known == attempt]
    found = [tombstone("receipt", partition, attempt, start, *final) for start in (*starts, -1) for final in ((), (1,))]
    return found + [tombstone(kind, partition, attempt) for kind in kinds]
