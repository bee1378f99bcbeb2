"""Offsets of partitions: log start, high watermark, log end, leader epochs."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from kafka.protocol.consumer import ListOffsetsRequest, OffsetForLeaderEpochRequest

from sparkmirror.clusters.client import ClusterClient, by_topic
from sparkmirror.clusters.connection import Connection
from sparkmirror.model import TopicPartition

__all__ = ["EARLIEST", "LATEST", "leader_epoch_request", "list_offsets", "list_offsets_request", "partition_ends"]

LIST_OFFSETS_API, LEADER_EPOCH_API = 2, 23
EARLIEST, LATEST = -2, -1
# As a debugging replica (−2) the leader answers with its log end; as a client (−1) with the high watermark (R1).
CLIENT_REPLICA, DEBUG_REPLICA = -1, -2


def list_offsets_request(
    connection: Connection,
    topics: dict[str, list[int]],
    *,
    timestamp: int,
    replica: int = CLIENT_REPLICA,
    read_committed: bool = False,
) -> Any:
    """Asks one leader for the offsets of some of its partitions."""
    version = connection.version(LIST_OFFSETS_API, lowest=4, highest=6)
    topic_type = ListOffsetsRequest.ListOffsetsTopic
    entry = topic_type.ListOffsetsPartition
    return ListOffsetsRequest(
        version=version,
        replica_id=replica,
        isolation_level=int(read_committed),
        topics=[
            topic_type(
                version=version,
                name=name,
                partitions=[
                    entry(version=version, partition_index=index, current_leader_epoch=-1, timestamp=timestamp)
                    for index in indexes
                ],
            )
            for name, indexes in topics.items()
        ],
    )


def list_offsets(
    client: ClusterClient,
    partitions: Collection[TopicPartition],
    *,
    timestamp: int,
    replica: int = CLIENT_REPLICA,
    read_committed: bool = False,
) -> dict[TopicPartition, tuple[int, int]]:
    """(offset, leader epoch) of each partition, asked at its leader; waits through elections."""

    def look() -> dict[TopicPartition, tuple[int, int]]:
        found: dict[TopicPartition, tuple[int, int]] = {}
        for node, led in client.leaders.look_up(partitions).items():
            topics = by_topic(led)
            answer = client.ask_node(
                node,
                lambda c, topics=topics: list_offsets_request(  # type: ignore[misc]
                    c, topics, timestamp=timestamp, replica=replica, read_committed=read_committed
                ),
                timeout_s=client.look_s,
            )
            for topic in answer.topics:
                for part in topic.partitions:
                    client.check(
                        part.error_code, f"offsets of {topic.name}-{part.partition_index}", f"Describe on topic {topic.name}"
                    )
                    found[TopicPartition(topic.name, part.partition_index)] = (part.offset, part.leader_epoch)
        return found

    return client.retry(look) if partitions else {}


def partition_ends(client: ClusterClient, partition: TopicPartition) -> tuple[int, int, int, int]:
    """High watermark, log end, leader epoch, log start of one partition, from one leader; waits through elections."""
    topics = {partition.topic: [partition.partition]}

    def ask(node: int, timestamp: int, replica: int) -> tuple[int, int]:
        answer = client.ask_node(
            node,
            lambda c: list_offsets_request(c, topics, timestamp=timestamp, replica=replica),
            timeout_s=client.look_s,
        )
        part = answer.topics[0].partitions[0]
        client.check(part.error_code, f"offsets of {partition}", f"Describe on topic {partition.topic}")
        return part.offset, part.leader_epoch

    def look() -> tuple[int, int, int, int]:
        node = client.leader_node(partition)
        log_end, leader_epoch = ask(node, LATEST, DEBUG_REPLICA)
        high_watermark, _ = ask(node, LATEST, CLIENT_REPLICA)
        log_start, _ = ask(node, EARLIEST, CLIENT_REPLICA)
        return high_watermark, log_end, leader_epoch, log_start

    return client.retry(look)


def leader_epoch_request(connection: Connection, partition: TopicPartition, leader_epoch: int) -> Any:
    """Asks the leader where the records of a leader epoch end (KIP-320)."""
    topic_type = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    version = connection.version(LEADER_EPOCH_API, lowest=3, highest=4)
    wanted = topic_type.OffsetForLeaderPartition(
        version=version, partition=partition.partition, current_leader_epoch=-1, leader_epoch=leader_epoch
    )
    return OffsetForLeaderEpochRequest(
        version=version,
        replica_id=-1,
        topics=[topic_type(version=version, topic=partition.topic, partitions=[wanted])],
    )


