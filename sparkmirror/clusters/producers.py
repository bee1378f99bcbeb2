"""Producer ids, epochs and the fence: the parts of Kafka's transaction API that ownership rests on."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from kafka.protocol.admin import DescribeProducersRequest, DescribeTransactionsRequest
from kafka.protocol.api_key import ApiKey
from kafka.protocol.producer import AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest

from sparkmirror.clusters.client import ClusterClient, by_topic
from sparkmirror.clusters.connection import Connection
from sparkmirror.errors import BrokerRefused, FlowOwnedByAnother
from sparkmirror.model import TopicPartition
from sparkmirror.wire.error_codes import (
    CONCURRENT_TRANSACTIONS,
    INVALID_PRODUCER_EPOCH,
    OPERATION_NOT_ATTEMPTED,
    PRODUCER_FENCED,
    TOPIC_AUTHORIZATION_FAILED,
)

# An open transaction of ours exists only between AddPartitions and EndTxn of a fence.
TRANSACTION_TIMEOUT_MS = 60_000
FENCE_PARTITIONS_MAX = 1000
FENCED = (INVALID_PRODUCER_EPOCH, PRODUCER_FENCED)


def raise_producer_epoch(client: ClusterClient, transactional_id: str, held: tuple[int, int] | None) -> tuple[int, int]:
    """(id, epoch) after one InitProducerId; with `held` it is refused if somebody raised it since (R10)."""

    def ask() -> tuple[int, int]:
        node = client.coordinator(transactional_id, transactional=True)
        answer = client.ask_node(node, lambda c: _init_request(c, transactional_id, held))
        if answer.error_code in FENCED:
            raise FlowOwnedByAnother(f"the producer of {transactional_id} was taken over by another owner")
        needs = f"Write on transactional id {transactional_id}"
        client.check(answer.error_code, f"InitProducerId for {transactional_id}", needs)
        return answer.producer_id, answer.producer_epoch

    return client.retry(ask)


def new_producer(client: ClusterClient) -> tuple[int, int]:
    """(id, epoch) of a producer that nobody else has; its sequences make a repeated send harmless."""

    def ask() -> tuple[int, int]:
        answer = client.ask_any(lambda c: _init_request(c, None, None))
        client.check(answer.error_code, "InitProducerId", "IdempotentWrite on the cluster, or Write on a topic")
        return answer.producer_id, answer.producer_epoch

    return client.retry(ask)


def _init_request(connection: Connection, transactional_id: str | None, held: tuple[int, int] | None) -> Any:
    producer_id, epoch = held if held is not None else (-1, -1)
    return InitProducerIdRequest(
        version=connection.version(ApiKey.InitProducerId, lowest=3, highest=4),
        transactional_id=transactional_id,
        transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
        producer_id=producer_id,
        producer_epoch=epoch,
    )


def fence(
    client: ClusterClient, transactional_id: str, producer: tuple[int, int], targets: Collection[TopicPartition]
) -> dict[TopicPartition, BrokerRefused]:
    """One empty transaction over the partitions: from then on older epochs are refused there (R9).

    Returns those that we may not write to, each with what is missing: nobody is kept out of them.
    """
    wanted = list(targets)
    refused: dict[TopicPartition, BrokerRefused] = {}
    for start in range(0, len(wanted), FENCE_PARTITIONS_MAX):
        refused |= _fence_some(client, transactional_id, producer, wanted[start : start + FENCE_PARTITIONS_MAX])
    return refused


def fence_all(
    client: ClusterClient, transactional_id: str, producer: tuple[int, int], targets: Collection[TopicPartition]
) -> None:
    """The same where nothing can be done unless all are fenced: raises what is missing."""
    for error in fence(client, transactional_id, producer, targets).values():
        raise error


def _fence_some(
    client: ClusterClient, transactional_id: str, producer: tuple[int, int], targets: list[TopicPartition]
) -> dict[TopicPartition, BrokerRefused]:
    producer_id, epoch = producer
    topic_type = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic

    def add() -> dict[TopicPartition, BrokerRefused]:
        answer = client.ask_node(
            client.coordinator(transactional_id, transactional=True),
            # Version 4 is the brokers' own; this one answers per partition.
            lambda c: AddPartitionsToTxnRequest(
                version=c.version(ApiKey.AddPartitionsToTxn, lowest=3, highest=3),
                v3_and_below_transactional_id=transactional_id,
                v3_and_below_producer_id=producer_id,
                v3_and_below_producer_epoch=epoch,
                v3_and_below_topics=[
                    topic_type(version=3, name=name, partitions=indexes) for name, indexes in by_topic(targets).items()
                ],
            ),
        )
        codes = {
            TopicPartition(topic.name, part.partition_index): part.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for part in topic.results_by_partition
        }
        refused = {}
        for place, code in codes.items():
            try:
                _check(client, code, f"fence of {place}", _needed(code, place, transactional_id))
            except BrokerRefused as error:
                if code == TOPIC_AUTHORIZATION_FAILED:
                    refused[place] = error
                elif code != OPERATION_NOT_ATTEMPTED or TOPIC_AUTHORIZATION_FAILED not in codes.values():
                    raise
        return refused

    def end() -> None:
        answer = client.ask_node(
            client.coordinator(transactional_id, transactional=True),
            # Version 5 would raise the epoch by itself (R9, O12).
            lambda c: EndTxnRequest(
                version=c.version(ApiKey.EndTxn, lowest=3, highest=4),
                transactional_id=transactional_id,
                producer_id=producer_id,
                producer_epoch=epoch,
                committed=True,
            ),
        )
        _check(client, answer.error_code, f"fence of {transactional_id}", f"Write on transactional id {transactional_id}")

    refused = client.retry(add)
    left = [target for target in targets if target not in refused]
    if refused and left:  # one of them is enough that the broker adds none
        return refused | _fence_some(client, transactional_id, producer, left)
    if left:
        client.retry(end)
        client.retry(lambda: _see_fence(client, producer, left))
    return refused


def _needed(code: int, place: TopicPartition, transactional_id: str) -> str:
    is_of_topic = code == TOPIC_AUTHORIZATION_FAILED
    return f"Write on topic {place.topic}" if is_of_topic else f"Write on transactional id {transactional_id}"


def _check(client: ClusterClient, code: int, what: str, needs: str) -> None:
    if code in FENCED:
        raise FlowOwnedByAnother(f"cluster {client.alias}: {what}: another owner raised the epoch")
    client.check(code, what, needs)


def _see_fence(client: ClusterClient, producer: tuple[int, int], targets: list[TopicPartition]) -> None:
    """The marker is written after EndTxn answers: the fence stands when every partition shows the epoch."""
    shown = describe_producers(client, targets)
    for partition in targets:
        epoch = shown.get(partition, {}).get(producer[0], (-1, -1))[0]
        if epoch < producer[1]:
            client.check(CONCURRENT_TRANSACTIONS, f"fence marker on {partition}")


def describe_producers(
    client: ClusterClient, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, dict[int, tuple[int, int]]]:
    """Per partition: producer id → (epoch, last sequence), as its leader remembers them."""
    found: dict[TopicPartition, dict[int, tuple[int, int]]] = {}
    topic_type = DescribeProducersRequest.TopicRequest
    for node, group in client.leaders.look_up(partitions).items():
        topics = by_topic(group)
        answer = client.ask_node(
            node,
            lambda c, topics=topics: DescribeProducersRequest(  # type: ignore[misc]
                version=c.version(ApiKey.DescribeProducers, lowest=0, highest=0),
                topics=[topic_type(version=0, name=n, partition_indexes=i) for n, i in topics.items()],
            ),
        )
        for topic in answer.topics:
            for part in topic.partitions:
                what, needs = f"producers of {topic.name}-{part.partition_index}", f"Read on topic {topic.name}"
                client.check(part.error_code, what, needs)
                found[TopicPartition(topic.name, part.partition_index)] = {
                    p.producer_id: (p.producer_epoch, p.last_sequence) for p in part.active_producers
                }
    return found


def describe_flow_request(transactional_id: str) -> Any:
    """Asks the coordinator for the flow's present producer id and epoch (R16: also without any transaction)."""
    return DescribeTransactionsRequest(version=0, transactional_ids=[transactional_id])


def flow_producer(answer: Any) -> tuple[int, int, int]:
    """(error, producer id, producer epoch) of a DescribeTransactions answer."""
    state = answer.transaction_states[0]
    return state.error_code, state.producer_id, state.producer_epoch
