"""The transform query's part of the protocol: a task writes an intent, appends the records, and writes the receipts.

Records may be left out or go to several partitions, so a copy cannot be proven by comparing two logs. Instead the intent
names every upstream offset that a task appends, in order, by partition. Whoever finds an intent without its receipts
fences the task's process, reads what of its sequence numbers is in the settled logs, and so knows each record that landed.
The rest is made again from the source. A transform that was changed meanwhile, or gives another result each time, changes
nothing of that: a record that landed is not sent again, whatever would become of it now.

 1 intent        no byte is sent before the intent is acked, and before the query's epoch was then read to be the task's own
 2 one at a time everything before an intent's `upstream` is done: its receipts were acked before, or with it
 3 no resend     a task whose send failed sends nothing more; only a reader of the fenced, settled log says what landed
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from sparkmirror.errors import OrderBroken
from sparkmirror.ledger.partition import extend_runs
from sparkmirror.ledger.records import SEQUENCE_MODULUS, Intent, IntentTarget
from sparkmirror.ledger.runs import Run
from sparkmirror.ledger.view import PartitionHistory
from sparkmirror.model import TopicPartition

OffsetRanges = Sequence[tuple[int, int]]


class LandedBatch(NamedTuple):
    """A batch of the task's producer in a log: the offset and the sequence number of its first record, and how many."""

    base_offset: int
    sequence: int
    records: int


def ranges_of(offsets: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Ascending offsets as ranges (start, length)."""
    found: list[tuple[int, int]] = []
    start = end = -1
    for offset in offsets:
        if offset == end:
            end += 1
            continue
        if offset < end:
            raise OrderBroken(f"offset {offset} came after {end - 1}: a transform must keep the order of records")
        if end > start:
            found.append((start, end - start))
        start, end = offset, offset + 1
    if end > start:
        found.append((start, end - start))
    return tuple(found)


def placed_runs(ranges: OffsetRanges, index: int, count: int, base_offset: int) -> Iterator[Run]:
    """The `count` records from the `index`th on, which lie at `base_offset` and the offsets behind it."""
    for start, length in ranges:
        if index >= length:
            index -= length
            continue
        taken = min(length - index, count)
        yield Run(start + index, base_offset, taken)
        base_offset, count, index = base_offset + taken, count - taken, 0
        if not count:
            return


def landed(
    intent: Intent, found: Mapping[TopicPartition, Sequence[LandedBatch]]
) -> tuple[int, dict[TopicPartition, list[Run]]]:
    """The upstream offset from which on not everything landed, and where each record that did lies."""
    resume, runs = intent.until, dict[TopicPartition, list[Run]]()
    for target in intent.targets:
        count = sum(length for _, length in target.ranges)
        at = 0
        for batch in sorted(found.get(target.target, ()), key=lambda b: _index(b, target)):
            index = _index(batch, target)
            if index >= count:
                continue  # older than the intent: sequence numbers go round
            if index != at:
                raise OrderBroken(
                    f"{target.target}: record {at} of an intent for {intent.partition} is missing before record {index}"
                )
            for run in placed_runs(target.ranges, index, batch.records, batch.base_offset):
                extend_runs(runs.setdefault(target.target, []), *run)
            at = index + batch.records
        if at < count:
            resume = min(resume, next(placed_runs(target.ranges, at, 1, 0)).upstream)
    return resume, runs


def _index(batch: LandedBatch, target: IntentTarget) -> int:
    return (batch.sequence - target.sequence) % SEQUENCE_MODULUS


def covered_from(history: PartitionHistory, upstream: int) -> tuple[tuple[int, int], ...]:
    """Ranges from this offset on that landed already, in the copy or elsewhere; in order."""
    runs = [*history.runs(), *(run for found in history.routed_runs().values() for run in found)]
    later = sorted((max(run.upstream, upstream), run.upstream + run.length) for run in runs)
    return tuple((start, end - start) for start, end in later if end > start)
