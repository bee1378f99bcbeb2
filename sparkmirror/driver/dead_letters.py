"""Records that no transform can handle, kept as they are in a topic of the target, with Connect's headers about why."""

from __future__ import annotations

from sparkmirror.clusters import Appender, NewTopic, create_topics, read_range
from sparkmirror.driver.flow_context import FlowContext
from sparkmirror.driver.recorder import CONNECTOR
from sparkmirror.errors import BrokerRefused
from sparkmirror.model import TopicPartition
from sparkmirror.transforms.orders import PoisonRecord
from sparkmirror.wire import Record, build_batch, read_records
from sparkmirror.wire.error_codes import UNKNOWN_SERVER_ERROR

HEADERS = "__connect.errors."


def send_dead_letter(context: FlowContext, culprit: PoisonRecord) -> None:
    """Appends the record, acked; a crash right after it may send it once more."""
    flow, place = context.flow, culprit.partition
    target = TopicPartition(flow.errors_deadletterqueue_topic_name, 0)
    _ensure(context, target)
    found = read_range(
        context.source, place, culprit.offset, culprit.offset + 1, read_committed=context.read_committed
    )
    for batch in found:
        for record in read_records(batch):
            if record.offset == culprit.offset:
                headers = (*record.headers, *_error_headers(culprit))
                letter = Record(0, record.timestamp, record.key, record.value, headers)
                Appender(context.target).send({target: build_batch([letter])})


def _ensure(context: FlowContext, target: TopicPartition) -> None:
    found = context.target.view([target.topic]).topics.get(target.topic)
    if found is None or found.error:
        wanted = NewTopic(target.topic, 1, context.flow.replication_factor, {})
        refused = create_topics(context.target, [wanted])[target.topic]
        if refused is not None:
            raise BrokerRefused(
                f"cluster {context.target.alias}: topic {target.topic} for dead letters cannot be created: {refused}",
                error_code=UNKNOWN_SERVER_ERROR,
                hint="create it, or change errors.deadletterqueue.topic.name",
            )
        context.target.leader_node(target)


def _error_headers(culprit: PoisonRecord) -> list[tuple[bytes, bytes]]:
    kind, _, message = culprit.reason.partition(": ")
    texts = {
        "topic": culprit.partition.topic,
        "partition": str(culprit.partition.partition),
        "offset": str(culprit.offset),
        "connector.name": CONNECTOR,
        "task.id": "0",
        "stage": "TRANSFORMATION",
        "class.name": "sparkmirror",
        "exception.class.name": kind,
        "exception.message": message or culprit.reason,
        "exception.stacktrace": culprit.reason,
    }
    return [((HEADERS + name).encode(), text.encode()) for name, text in texts.items()]
