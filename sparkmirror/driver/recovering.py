"""Fence, settle, read: how the driver ends attempts that did not end themselves."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace

from sparkmirror.clusters import ClusterView, fence
from sparkmirror.driver.flow_context import FlowContext
from sparkmirror.driver.owning import renew_producer
from sparkmirror.driver.recorder import Recorder
from sparkmirror.errors import (
    BrokerRefused,
    FlowOwnedByAnother,
    ReplicationError,
    SourceOffsetLost,
    TargetRefusedRecords,
)
from sparkmirror.ledger import LedgerRecord, Open, Ready, Receipt, State, close_lost_attempt
from sparkmirror.model import TopicPartition
from sparkmirror.status.state_code import StateCode

RECOVERY_THREADS = 8
WAIT_S = 1.0
RIGHTS_RETRY_S = 30.0  # each try takes an epoch of the flow's producer, of which there are 32,767

Outcome = tuple[list[LedgerRecord], Ready | ReplicationError]


def recover(
    context: FlowContext,
    recorder: Recorder,
    orders: list[Open],
    take: Callable[[LedgerRecord], None],
    outlast: Callable[[list[Open]], None],
    *,
    raise_epoch: bool,
    accepted: Collection[str] = (),
) -> set[TopicPartition]:
    """Says in the ledger where each lost attempt really ended; its partition is then ready, or stopped with a reason.

    At the owner's start its own epoch is new and serves for the fence; later it is raised. `outlast` waits for those
    whom no fence of ours reaches. `accepted` are error codes the operator accepted. Returns partitions that
    cannot be fenced now, because nobody leads them, nobody copies their topic or we may not write there: they stay lost.
    """
    now = time.monotonic()
    present = context.target.view({order.target_topic for order in orders}) if orders else None
    led = [
        order
        for order in orders
        if order.partition.topic in context.topics
        and present is not None
        and present.leader(_target(order)) is not None
        and context.forbidden.get(order.partition, (now, ""))[0] <= now
    ]
    left = {order.partition for order in orders} - {order.partition for order in led}
    records: list[LedgerRecord] = []
    known = []
    for order in led:
        error = _recreated(context, order, present)
        if error is None:
            known.append(order)
        else:
            records += _stop(context, order, error)
    if known:
        if raise_epoch:
            renew_producer(context)
        outlast(known)
        targets = [_target(order) for order in known]
        refused = fence(context.target, context.transactional_id, context.owned.producer, targets)
        for order in [order for order in known if _target(order) in refused]:
            records += _forbid(context, order, refused[_target(order)])
            if order.partition not in context.stopped:
                left.add(order.partition)
        known = [order for order in known if _target(order) not in refused]
        for record in context.ledger.read_new():  # what the dead wrote to the ledger in their last moment counts
            take(record)
    for order, (found, ready) in zip(known, _read_all(context, known, accepted), strict=True):
        records += found
        context.forbidden.pop(order.partition, None)
        if isinstance(ready, Ready):
            context.ready[order.partition] = ready
        else:
            records += _stop(context, order, ready)
    context.ledger.append(records)
    for record in records:
        context.ledger.view.apply(record)
        if isinstance(record, Receipt):
            recorder.take(record)
    return left


def _recreated(context: FlowContext, order: Open, present: ClusterView | None) -> ReplicationError | None:
    """Why nothing can be found out about the attempt: its topics are no more, others have their names."""
    topic = context.topics[order.partition.topic]
    if present is not None and order.target_topic == topic.remote:
        topic = replace(topic, target_topic_id=present.topics[topic.remote].topic_id.hex())
    return context.remedies.recreated(order, topic)


def _stop(context: FlowContext, order: Open, error: ReplicationError) -> list[LedgerRecord]:
    position = context.ledger.view.of(order.partition).position() or order.position
    error = context.remedies.with_hint(error, order.partition, position.upstream)
    context.stop_partition(order.partition, error)
    return [State.stopped(order.partition, order.attempt, error)]


def _forbid(context: FlowContext, order: Open, error: BrokerRefused) -> list[LedgerRecord]:
    """A right may come back at any time, and only that partition waits for it; a run that is to finish does not."""
    text = f"{order.partition}: {error.message}"
    if context.place.once:
        return _stop(context, order, TargetRefusedRecords(text, hint=error.hint))
    context.forbidden[order.partition] = (time.monotonic() + RIGHTS_RETRY_S, text)
    context.show(order.partition, "waiting", StateCode.RIGHTS, text)
    return []


def _target(order: Open) -> TopicPartition:
    return TopicPartition(order.target_topic, order.partition.partition)


def _read_all(context: FlowContext, orders: list[Open], accepted: Collection[str]) -> list[Outcome]:
    """Every partition's log, some at a time; the owner's beat goes on meanwhile."""
    with ThreadPoolExecutor(RECOVERY_THREADS, thread_name_prefix="recover") as pool:
        futures = [pool.submit(_read_accepting, context, order, accepted) for order in orders]
        pending = set(futures)
        while pending:
            _, pending = wait(pending, WAIT_S)
            context.beat()
        return [future.result() for future in futures]


def _read_accepting(context: FlowContext, order: Open, accepted: Collection[str]) -> Outcome:
    """First as if nothing was lost: what is accepted makes the comparison of both logs weaker."""
    records, ready = _read_one(context, order, ())
    if isinstance(ready, Ready):
        return records, ready
    codes = set(accepted)
    if context.accepts_gap(order.partition.topic):
        codes.add(SourceOffsetLost.code)
    return _read_one(context, order, codes) if ready.code in codes else (records, ready)


def _read_one(context: FlowContext, order: Open, accepted: Collection[str]) -> Outcome:
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
        accepted=accepted,
    )
    result: Outcome = context.finder.run(
        asking,
        order.partition,
        _target(order),
        read_committed=order.read_committed,
    )
    return result
