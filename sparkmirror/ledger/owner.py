"""One owner per flow: how a driver takes the flow over, and how it ends attempts that did not end themselves.

Generators again: they ask, whoever drives them does the I/O (the conductor, or the simulator).

Order (O2): InitProducerId, then read the ledger to its settled end, then fence every open without closed. A task checks,
after its open is acked, that the flow's producer epoch is still its owner's. So of two drivers that start at once, either
the first one's tasks see the second's epoch, or the second one sees the first's opens.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable
from dataclasses import dataclass

from sparkmirror.errors import (
    ContentDiffers,
    FlowOwnedByAnother,
    ReplicationError,
    SourceOffsetLost,
    TargetHasStranger,
)
from sparkmirror.ledger.blocks import block_starts
from sparkmirror.ledger.partition import RUNS_PER_BLOCK, extend_runs
from sparkmirror.ledger.records import (
    SEQUENCE_MODULUS,
    Attempt,
    Closed,
    LedgerRecord,
    Open,
    Owner,
    Position,
    Receipt,
    Void,
)
from sparkmirror.ledger.recovery import Ask, AskPause, Baseline, Found, Truncated, find_out
from sparkmirror.ledger.runs import Run
from sparkmirror.ledger.view import LedgerView, PartitionHistory
from sparkmirror.model import TopicPartition

# Owner beats come each 5 s; three missed ones, by our own clock, mean that the owner is gone.
WATCH_S = 15.0
# A leader shows a fence before its followers have it, and may die with it: the coordinator then writes it again.
FENCE_PAUSE_S = 0.2
FENCE_TRIES = 200


@dataclass(frozen=True, slots=True)
class AskLedger:
    """Wants the LedgerView at the ledger's settled end."""


@dataclass(frozen=True, slots=True)
class AskIsGone:
    """Wants to know whether this owner is gone: its process is provably dead, or its beat stood still for `watch_s`."""

    owner: Owner
    watch_s: float


@dataclass(frozen=True, slots=True)
class AskProducer:
    """Wants (producer id, epoch) of the flow's transactional id, raised; `held` makes it conditional."""

    held: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class AskAppend:
    """Wants these records acked in the ledger."""

    records: tuple[LedgerRecord, ...]


OwnerAsk = AskLedger | AskIsGone | AskProducer | AskAppend


@dataclass(frozen=True, slots=True)
class Ownership:
    """The right to write a flow."""

    owner: Owner
    is_weak: bool  # some attempt without an end wrote under another producer id: our epoch does not fence it

    @property
    def producer(self) -> tuple[int, int]:
        """Producer id and epoch for attempts opened now."""
        return self.owner.producer_id, self.owner.producer_epoch


@dataclass(frozen=True, slots=True)
class Ready:
    """A partition whose last attempt is over: the next one may open here."""

    position: Position
    previous: Attempt | None
    fenced: bool
    found_records: int


def take_ownership(
    name: str, *, force: bool, clusters: tuple[str, str] = ("", "")
) -> Generator[OwnerAsk, object, tuple[Ownership, LedgerView]]:
    """OWNER START, steps 1 to 3: look, raise the epoch, read again, sign, also with the ids of source and target cluster."""
    view = yield AskLedger()
    assert isinstance(view, LedgerView)
    present = view.owner
    if present is not None and not present.released and not force:
        is_gone = yield AskIsGone(present, WATCH_S)
        if not is_gone:
            raise owned_by_another(present.name)
    answer = yield AskProducer(None)
    assert isinstance(answer, tuple)
    producer_id, epoch = answer
    view = yield AskLedger()
    assert isinstance(view, LedgerView)
    owner = _sign(view, name, producer_id, epoch, clusters)
    yield AskAppend((owner,))
    view.apply(owner)
    # Not by the owners: one that took the new id before us may have died before it waited for the old one's writers.
    return Ownership(owner, is_weak=any(o.producer_id != producer_id for o in lost_attempts(view))), view


def owned_by_another(name: str) -> FlowOwnedByAnother:
    """What refuses a second process while the owner is alive."""
    return FlowOwnedByAnother(
        f"this flow is owned by {name}, which is alive", hint="stop it first, or start with --take-over"
    )


def _sign(view: LedgerView, name: str, producer_id: int, epoch: int, clusters: tuple[str, str]) -> Owner:
    newest = view.owner
    if newest is None:
        generation = 0
        ids: tuple[int, ...] = (producer_id,)
    else:
        is_same = newest.producer_id == producer_id
        if is_same and newest.producer_epoch >= epoch:
            raise FlowOwnedByAnother(f"{newest.name} took this flow over at the same time")
        generation = newest.generation + (0 if is_same else 1)
        ids = tuple(dict.fromkeys((*newest.producer_ids, producer_id)))
    source, target = clusters
    return Owner(generation, epoch, producer_id, epoch, name, 0, ids, source_cluster_id=source, target_cluster_id=target)


def lost_attempts(view: LedgerView, among: Collection[TopicPartition] | None = None) -> list[Open]:
    """The newest opens that have no closed."""
    partitions: Iterable[TopicPartition] = view.partitions if among is None else among
    found = []
    for partition in partitions:
        history = view.of(partition)
        newest = history.newest
        if newest is not None and not history.is_closed:
            found.append(newest)
    return found


def inverse(runs: Iterable[Run], downstream: int) -> int | None:
    """The upstream offset of the first record that does not lie below `downstream`; None if no run reaches there."""
    best: int | None = None
    for run in runs:
        if run.downstream + run.length <= downstream:
            best = max(best or 0, run.upstream + run.length)
        elif run.downstream < downstream:
            best = max(best or 0, run.upstream + downstream - run.downstream)
    return best


def close_lost_attempt(
    history: PartitionHistory,
    *,
    producer_ids: frozenset[int],
    target_compacts: bool,
    compare_timestamps: bool,
    accepted: Collection[str] = (),
) -> Generator[Ask, object, tuple[list[LedgerRecord], Ready | ReplicationError]]:
    """RECOVER, steps 2 to 6, after the fence: settle, read, and find where the lost attempt really ended.

    `accepted` are error codes the operator accepted: copies of records that the source lost keep their place without a
    source record; records of another producer are skipped.
    """
    order = history.newest
    position = history.position()
    assert order is not None and position is not None
    records: list[LedgerRecord] = []
    lost: Void | None = None
    known = history.voids.get(order.attempt)
    tries = FENCE_TRIES
    try:
        if known is not None and known < position.downstream:
            position = _before(history, order, Truncated(known))  # a recovery before this one could not end
        while True:
            found = yield from find_out(
                _baseline(history, position, producer_ids, target_compacts, compare_timestamps, accepted)
            )
            if isinstance(found, Found):
                if found.fenced:
                    break
                tries -= 1
                if not tries:
                    raise ReplicationError(
                        f"{order.target_topic}-{order.partition.partition}: the fence of the lost attempt is not in the log",
                        hint="restart the flow: it fences the lost attempt again",
                    )
                yield AskPause(FENCE_PAUSE_S)
                continue
            # Step by step: a fence marker may lie where proven records were lost, and must not be taken for them.
            lost = Void(order.partition, order.attempt, found.log_end)
            position = _before(history, order, found)
    except ReplicationError as error:
        return [lost] if lost is not None else [], error
    if lost is not None:
        records.append(lost)
    count = sum(run.length for run in found.runs)
    runs = _compacted(history, order, lost, found)
    if runs:
        records.append(_receipt(order, history.receipts.get(order.attempt), found, count, runs))
    records.append(Closed(order.partition, order.attempt, found.position))
    return records, Ready(found.position._replace(sequence=0), order.attempt, found.marker_last, count)


def _compacted(history: PartitionHistory, order: Open, lost: Void | None, found: Found) -> tuple[Run, ...]:
    """The attempt's runs, written again under the recoverer's own key, and the runs that were found.

    A late receipt of the dead has the same key as its longer successor: the ledger's cleaner may yet prefer it (O11).
    """
    runs: list[Run] = []
    for run in history.runs_of(order.attempt):
        length = run.length if lost is None else min(run.length, lost.downstream - run.downstream)
        if length > 0:
            extend_runs(runs, run.upstream, run.downstream, length)
    del runs[:-RUNS_PER_BLOCK]
    for run in found.runs:
        extend_runs(runs, *run)
    return tuple(runs)


def _receipt(order: Open, last: Receipt | None, found: Found, count: int, runs: tuple[Run, ...]) -> Receipt:
    return Receipt(
        order.partition,
        order.attempt,
        found.position,
        max(found.source_leader_epoch, last.source_leader_epoch if last is not None else order.source_leader_epoch),
        (last.records if last is not None else 0) + count,
        last.record_bytes if last is not None else 0,
        runs,
        is_final=True,
    )


def _before(history: PartitionHistory, order: Open, lost: Truncated) -> Position:
    """Where to resume when the target lost its end: the newest upstream offset that still has its copy."""
    points = [o.position.upstream for o in history.counted().values() if _is_below(history, o, order, lost.log_end)]
    upstream = inverse(history.runs(), lost.log_end)
    if upstream is not None:
        points.append(upstream)
    if not points:
        raise ContentDiffers(
            f"{order.target_topic}-{order.partition.partition}: the target lost what lay at {lost.log_end} and above, "
            f"which was there before the ledger knew of it; the copy began at {order.position.downstream}"
        )
    return Position(max(points), lost.log_end, _sequence_at(history, order, lost.log_end))


def _sequence_at(history: PartitionHistory, order: Open, downstream: int) -> int:
    """The sequence number of the record that the attempt wrote there first: whatever follows it must begin with that.

    Below the attempt's own beginning there is none; the number is then one that no batch of it can have.
    """
    start = order.position
    if downstream < start.downstream:
        return (start.sequence - (start.downstream - downstream)) % SEQUENCE_MODULUS
    own = [at for at in block_starts(history.blocks, order.attempt) if at >= start.upstream]
    blocks = [history.blocks[order.attempt, at] for at in own]
    block = next((block for block in reversed(blocks) if block.downstream <= downstream), None)
    if block is None:
        return start.sequence
    lost = sum(max(min(run.length, run.downstream + run.length - downstream), 0) for run in block)
    return (block.sequence - lost) % SEQUENCE_MODULUS


def _is_below(history: PartitionHistory, order: Open, newest: Open, log_end: int) -> bool:
    """Whether everything before this open is still in a log that ends there, and the copy was not set back since."""
    at = order.position.downstream
    later = [o.position.upstream for attempt, o in history.counted().items() if attempt > order.attempt]
    if order.topic_incarnation != newest.topic_incarnation or (later and min(later) < order.position.upstream):
        return False
    return at <= log_end and all(void >= at for attempt, void in history.voids.items() if attempt >= order.attempt)


def _baseline(
    history: PartitionHistory,
    position: Position,
    producer_ids: frozenset[int],
    target_compacts: bool,
    compare_timestamps: bool,
    accepted: Collection[str],
) -> Baseline:
    order = history.newest
    assert order is not None
    return Baseline(
        partition=order.partition,
        target=TopicPartition(order.target_topic, order.partition.partition),
        position=position,
        producer_ids=producer_ids,
        sequenced_by=(order.producer_id, order.producer_epoch),
        shared=order.shared or TargetHasStranger.code in accepted,
        source_compacts=order.source_compacts or SourceOffsetLost.code in accepted,
        target_compacts=target_compacts,
        compare_timestamps=compare_timestamps,
        last_copy=history.last_copy(position.downstream),
        foreign_below=history.pending_move() is not None,
    )
