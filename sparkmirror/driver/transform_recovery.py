"""How the driver ends attempts of the transform query: who wrote is fenced, and the settled logs say what landed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from sparkmirror import failpoints
from sparkmirror.clusters import (
    ClusterView,
    describe_flow_request,
    fence,
    flow_producer,
    is_retriable,
    partition_ends,
    raise_producer_epoch,
    read_range,
)
from sparkmirror.driver.flow_context import FlowContext
from sparkmirror.driver.recorder import Recorder
from sparkmirror.errors import (
    BrokerRefused,
    FlowOwnedByAnother,
    ReplicationError,
    TargetRefusedRecords,
    TargetTopicRecreated,
)
from sparkmirror.ledger import (
    Closed,
    Intent,
    LandedBatch,
    LedgerRecord,
    Open,
    Position,
    Ready,
    Receipt,
    Routed,
    State,
    landed,
)
from sparkmirror.model import TopicPartition
from sparkmirror.status.flow_status import MirroredTopic
from sparkmirror.status.state_code import StateCode

SETTLE_PAUSE_S, SETTLE_S = 0.02, 5.0
NOT_ENOUGH_REPLICAS, OFFSET_NOT_AVAILABLE = 19, 78
FENCE_PAUSE_S, FENCE_TRIES = 0.2, 50


def query_id(context: FlowContext) -> str:
    """The transactional id whose epoch says which query of the flow is the newest."""
    return f"{context.transactional_id}-records"


def raise_query_epoch(context: FlowContext) -> tuple[int, int]:
    """From here on no task of an older query begins to write. Raises if the flow has another owner by now.

    The order matters: the next owner raises the flow's epoch before the query's, so an owner that was paused here sees it.
    """
    raised = raise_producer_epoch(context.target, query_id(context), None)
    target, name = context.target, context.transactional_id
    node = target.coordinator(name, transactional=True)
    error, *found = flow_producer(target.ask_node(node, lambda _: describe_flow_request(name)))
    target.check(error, f"DescribeTransactions of {name}", f"Describe on transactional id {name}")
    if tuple(found) != context.owned.producer:
        raise FlowOwnedByAnother("this flow was taken over by another owner; this process writes nothing more")
    return raised


def recover_transforms(
    context: FlowContext, recorder: Recorder, orders: list[Open], take: Callable[[LedgerRecord], None]
) -> set[TopicPartition]:
    """Says in the ledger where each attempt ended; its partition is then ready, or stopped with a reason.

    The query's epoch must have been raised before: what is read here of the ledger is then the last word of older tasks.
    Returns partitions of which that cannot be known now, because the target does not answer for them: they wait.
    """
    for record in context.ledger.read_new():
        take(record)
    present = _seen(context, orders)
    led = [order for order in orders if _is_led(context, order, present)]
    left = {order.partition for order in orders} - {order.partition for order in led}
    intents = [intent for order in led if (intent := _unsettled(context, order)) is not None]
    fences, forbidden = _fence(context, intents)
    for order in led:
        context.beat()
        try:
            records = _ended(context, order, present, fences, forbidden)
        except BrokerRefused as error:
            if not is_retriable(error.error_code):
                raise
            _wait(context, order.partition, error.message)
            left.add(order.partition)
            continue
        context.ledger.append(records)
        for record in records:
            context.ledger.view.apply(record)
            if isinstance(record, Receipt):
                recorder.take(record)
    return left


def _home(order: Open) -> TopicPartition:
    return TopicPartition(order.target_topic, order.partition.partition)


def _targets(context: FlowContext, order: Open) -> list[TopicPartition]:
    """Where its copy lies, and where else its last records may have been sent."""
    intent = _unsettled(context, order)
    return [_home(order), *(target.target for target in (intent.targets if intent is not None else ()))]


def _seen(context: FlowContext, orders: list[Open]) -> ClusterView:
    return context.target.view({target.topic for order in orders for target in _targets(context, order)})


def _is_led(context: FlowContext, order: Open, present: ClusterView) -> bool:
    """Whether the target can say what landed; if not, the partition waits. A topic elsewhere that is gone says it, too."""
    home = _home(order)
    for target in _targets(context, order):
        topic = present.topics.get(target.topic)
        is_gone = topic is None or bool(topic.error)
        if present.leader(target) is None and (target == home or not is_gone):
            reason = f"topic {target.topic} is gone" if is_gone else f"{target} has no leader"
            _wait(context, order.partition, f"cluster {context.target.alias}: {reason}")
            return False
    return True


def _wait(context: FlowContext, partition: TopicPartition, reason: str) -> None:
    if partition not in context.stopped:
        context.show(partition, "waiting", StateCode.TARGET, reason)


def _recreated(context: FlowContext, order: Open, present: ClusterView) -> ReplicationError | None:
    """Why nothing can be found out: a topic is another one now. Where the source's is gone, only the target's counts."""
    was = MirroredTopic(
        order.partition.topic, order.target_topic, 0, order.source_topic_id, order.target_topic_id, False, False, False
    )
    topic = context.topics.get(order.partition.topic, was)
    if topic.remote == order.target_topic:
        topic = replace(topic, target_topic_id=present.topics[topic.remote].topic_id.hex())
    return context.remedies.recreated(order, topic)


def _unsettled(context: FlowContext, order: Open) -> Intent | None:
    """The attempt's last intent, unless its receipts are there."""
    history = context.ledger.view.of(order.partition)
    intent, position = history.intents.get(order.attempt), history.position() or order.position
    return intent if intent is not None and intent.until > position.upstream else None


def _fence(
    context: FlowContext, intents: list[Intent]
) -> tuple[dict[str, tuple[int, int]], dict[TopicPartition, BrokerRefused]]:
    """Each process that may still write is fenced once, wherever it may; its new producer id and epoch.

    And the targets that we may not write to ourselves.
    """
    targets: dict[str, set[TopicPartition]] = {}
    for intent in intents:
        targets.setdefault(intent.transactional_id, set()).update(target.target for target in intent.targets)
    raised = {}
    forbidden: dict[TopicPartition, BrokerRefused] = {}
    for name, wanted in targets.items():
        view = context.target.view({target.topic for target in wanted})
        present = [target for target in wanted if view.leader(target) is not None]
        raised[name] = raise_producer_epoch(context.target, name, None)
        if present:
            forbidden |= fence(context.target, name, raised[name], present)
        context.beat()
    return raised, forbidden


def _ended(
    context: FlowContext,
    order: Open,
    present: ClusterView,
    fences: dict[str, tuple[int, int]],
    forbidden: Mapping[TopicPartition, BrokerRefused],
) -> list[LedgerRecord]:
    history = context.ledger.view.of(order.partition)
    position, intent = history.position() or order.position, _unsettled(context, order)
    home = _home(order)
    records: list[LedgerRecord] = []
    upstream = position.upstream
    try:
        error = _recreated(context, order, present)
        if error is not None:
            raise error
        if intent is not None:
            for refused in (forbidden[t.target] for t in intent.targets if t.target in forbidden):
                raise TargetRefusedRecords(f"{order.partition}: {refused.message}", hint=refused.hint)
            found = {t.target: _landed_in(context, intent, t.target, t.downstream, fences) for t in intent.targets}
            upstream, runs = landed(intent, found)
            for target, there in runs.items():
                if target != home:
                    records.append(Routed(order.partition, order.attempt, target, order.source_topic_id, tuple(there)))
            at = Position(upstream, _settled_end(context, home), 0)
            own = tuple(runs.get(home, ()))
            count = sum(run.length for there in runs.values() for run in there)
            records.append(Receipt(order.partition, order.attempt, at, -1, count, 0, own, is_final=True))
    except ReplicationError as error:
        text = context.remedies.with_hint(error, order.partition, position.upstream)
        context.stop_partition(order.partition, text)
        return [State.stopped(order.partition, order.attempt, text)]
    ended = Position(upstream, _settled_end(context, home), 0)
    context.ready[order.partition] = Ready(ended, order.attempt, False, 0)
    return [*records, Closed(order.partition, order.attempt, ended)]


def _settled_end(context: FlowContext, target: TopicPartition) -> int:
    deadline = time.monotonic() + SETTLE_S
    while True:
        high_watermark, log_end, _, _ = partition_ends(context.target, target)
        if high_watermark == log_end:
            return log_end
        if time.monotonic() > deadline:
            raise BrokerRefused(
                f"cluster {context.target.alias}: {target}: {log_end - high_watermark} records at its end are not "
                "replicated: it goes on when enough replicas are in sync",
                error_code=NOT_ENOUGH_REPLICAS,
            )
        context.beat()
        time.sleep(SETTLE_PAUSE_S)


def _landed_in(
    context: FlowContext, intent: Intent, target: TopicPartition, start: int, fences: dict[str, tuple[int, int]]
) -> list[LandedBatch]:
    """The batches of the intent's producer from `start` on, read where the log is settled and the fence is in it."""
    found_topic = context.target.view([target.topic]).topics.get(target.topic)
    if found_topic is None or found_topic.error:
        raise TargetTopicRecreated(
            f"{intent.partition}: topic {target.topic}, to which its records were being sent, is gone from the target"
        )
    raised = fences[intent.transactional_id]
    for _ in range(FENCE_TRIES):
        found, is_fenced = _read(context, intent, target, start, raised)
        # Another id than the intent's: the old one had expired, and with it whoever wrote under it.
        if is_fenced or raised[0] != intent.producer_id:
            return found
        time.sleep(FENCE_PAUSE_S)
    raise ReplicationError(
        f"{target}: the fence of a lost task is not in the log", hint="restart the flow to fence the task again"
    )


def _read(
    context: FlowContext, intent: Intent, target: TopicPartition, start: int, raised: tuple[int, int]
) -> tuple[list[LandedBatch], bool]:
    end = _settled_end(context, target)
    if failpoints.ARMED:
        failpoints.point("transform.log_settled")
    found, is_fenced = [], False
    for batch in read_range(
        context.target, target, start, end, read_committed=False, is_whole=False, includes_markers=True
    ):
        context.beat()
        if batch.producer_id != intent.producer_id:
            continue
        if batch.is_control:
            is_fenced = is_fenced or batch.producer_epoch >= raised[1]
        elif batch.producer_epoch == intent.producer_epoch:
            found.append(LandedBatch(batch.base_offset, batch.base_sequence, batch.last_offset_delta + 1))
    _, log_end, _, _ = partition_ends(context.target, target)
    if log_end < end:
        raise TargetTopicRecreated(
            f"{intent.partition}: {target} ended at {end} and now ends at {log_end}: "
            "the topic was deleted and created again, or lost its end"
        )
    return found, is_fenced
