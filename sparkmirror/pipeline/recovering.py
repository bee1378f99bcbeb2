"""Fence, settle, read: how the driver ends attempts that did not end themselves."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait

from sparkmirror.clusters import fence
from sparkmirror.errors import FlowOwnedByAnother, ReplicationError
from sparkmirror.ledger import LedgerRecord, Open, Ready, Receipt, State, close_lost_attempt
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.flow_context import FlowContext
from sparkmirror.pipeline.recorder import Recorder

__all__ = ["recover"]

RECOVERY_THREADS = 8
WAIT_S = 1.0

Outcome = tuple[list[LedgerRecord], Ready | ReplicationError]


def recover(
    context: FlowContext,
    recorder: Recorder,
    orders: list[Open],
    take: Callable[[LedgerRecord], None],
    *,
    raise_epoch: bool,
) -> set[TopicPartition]:
    """Says in the ledger where each lost attempt really ended; its partition is then ready, or stopped with a reason.

    At the owner's start its own epoch is new and serves for the fence; later it is raised. Returns the partitions that
    cannot be fenced now, because nobody leads them or nobody copies their topic: they stay lost.
    """
    present = context.target.view({order.target_topic for order in orders}) if orders else None
    known = [
        order
        for order in orders
        if order.partition.topic in context.topics and present is not None and present.leader(_target(order)) is not None
    ]
    left = {order.partition for order in orders} - {order.partition for order in known}
    if not known:
        return left
    if raise_epoch:
        _raise_epoch(context)
    fence(context.target, context.transactional_id, context.owned.producer, [_target(order) for order in known])
    for record in context.ledger.read_new():  # what the dead wrote to the ledger in their last moment counts
        take(record)
    records: list[LedgerRecord] = []
    for order, (found, ready) in zip(known, _read_all(context, known), strict=True):
        records += found
        if isinstance(ready, Ready):
            context.ready[order.partition] = ready
        else:
            context.stop_partition(order.partition, ready)
            records.append(State(order.partition, order.attempt, "stopped", ready.code, str(ready)))
    context.ledger.append(records)
    for record in records:
        context.ledger.view.apply(record)
        if isinstance(record, Receipt):
            recorder.take(record)
    return left


def _target(order: Open) -> TopicPartition:
    return TopicPartition(order.target_topic, order.partition.partition)


def _raise_epoch(context: FlowContext) -> None:
    owner = context.owned.owner
    producer_id, epoch = context.raise_epoch(context.owned.producer)
    if producer_id == owner.producer_id:
        context.sign(producer_epoch=epoch)
        return
    # The transactional id had expired, or its epochs were used up (R11, R12): a new id begins at epoch 0 again, and only
    # a new generation sorts its attempts behind the old ones.
    context.sign(
        generation=owner.generation + 1,
        first_epoch=epoch,
        producer_id=producer_id,
        producer_epoch=epoch,
        producer_ids=(*owner.producer_ids, producer_id),
    )


def _read_all(context: FlowContext, orders: list[Open]) -> list[Outcome]:
    """Every partition's log, some at a time; the owner's beat goes on meanwhile."""
    with ThreadPoolExecutor(RECOVERY_THREADS, thread_name_prefix="recover") as pool:
        futures = [pool.submit(_read_one, context, order) for order in orders]
        pending = set(futures)
        while pending:
            _, pending = wait(pending, WAIT_S)
            context.beat()
        return [future.result() for future in futures]


def _read_one(context: FlowContext, order: Open) -> Outcome:
    history = context.ledger.view.of(order.partition)
    if history.newest != order:
        raise FlowOwnedByAnother(f"{order.partition}: another owner has opened it since; this process writes nothing more")
    if history.is_closed:  # it closed itself in its last moment
        position = history.position() or order.position
        return [], Ready(position._replace(sequence=0), order.attempt, False, 0)
    topic = context.topics[order.partition.topic]
    asking = close_lost_attempt(
        history,
        producer_ids=frozenset(context.owned.owner.producer_ids),
        target_compacts=topic.target_compacts,
        compare_timestamps=not topic.target_log_append_time,
    )
    result: Outcome = context.finder.run(
        asking,
        order.partition,
        _target(order),
        read_committed=order.read_committed,
    )
    return result
