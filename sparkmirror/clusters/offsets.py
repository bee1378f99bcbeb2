"""Offsets of partitions: log start, high watermark, log end, leader epochs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from kafka.protocol.api_key import ApiKey
from kafka.protocol.consumer import ListOffsetsRequest, OffsetForLeaderEpochRequest

from sparkmirror.clusters.client import ClusterClient, grouped
from sparkmirror.clusters.connection import Connection
from sparkmirror.errors import ClusterUnreachable, ConnectionLost
from sparkmirror.model import TopicPartition

NEWEST, EARLIEST, LATEST = -3, -2, -1  # in the place of a timestamp; NEWEST is the record with the largest one (KIP-734)
NEWEST_VERSION = 7
# As a debugging replica (−2) the leader answers with its log end; as a client (−1) with the high watermark (R1).
CLIENT_REPLICA, DEBUG_REPLICA = -1, -2


class Listed(NamedTuple):
    """What a leader says about one partition at one timestamp; −1 where there is no such record."""

    offset: int
    leader_epoch: int
    timestamp: int = -1
    error: int = 0


def list_offsets_request(
    connection: Connection,
    wanted: Mapping[TopicPartition, int],
    *,
    replica: int = CLIENT_REPLICA,
    read_committed: bool = False,
) -> Any:
    """Asks one leader for the offsets of some of its partitions, each at its timestamp."""
    lowest = NEWEST_VERSION if NEWEST in wanted.values() else 4
    version = connection.version(ApiKey.ListOffsets, lowest=lowest, highest=7)
    topic_type = ListOffsetsRequest.ListOffsetsTopic
    entry = topic_type.ListOffsetsPartition
    topics: dict[str, list[Any]] = {}
    for partition, at in wanted.items():
        asked = entry(version=version, partition_index=partition.partition, current_leader_epoch=-1, timestamp=at)
        topics.setdefault(partition.topic, []).append(asked)
    return ListOffsetsRequest(
        version=version,
        replica_id=replica,
        isolation_level=int(read_committed),
        topics=[topic_type(version=version, name=name, partitions=parts) for name, parts in topics.items()],
    )


def read_offsets(answer: Any) -> dict[TopicPartition, Listed]:
    """The decoded answer as our own values."""
    return {
        TopicPartition(topic.name, part.partition_index): Listed(
            part.offset, part.leader_epoch, part.timestamp, part.error_code
        )
        for topic in answer.topics
        for part in topic.partitions
    }


def ask_offsets(
    client: ClusterClient,
    node: int,
    wanted: Mapping[TopicPartition, int],
    *,
    replica: int = CLIENT_REPLICA,
    read_committed: bool = False,
    timeout_s: float | None = None,
) -> dict[TopicPartition, Listed]:
    """One question to one leader."""

    def build(connection: Connection) -> Any:
        return list_offsets_request(connection, wanted, replica=replica, read_committed=read_committed)

    return read_offsets(client.ask_node(node, build, timeout_s=timeout_s))


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
        found: dict[TopicPartition, Listed] = {}
        for node, led in client.leaders.look_up(partitions).items():
            wanted = dict.fromkeys(led, timestamp)
            found |= ask_offsets(
                client, node, wanted, replica=replica, read_committed=read_committed, timeout_s=client.look_s
            )
        _check(client, found)
        return {partition: (listed.offset, listed.leader_epoch) for partition, listed in found.items()}

    return client.retry(look) if partitions else {}


def ask_leaders(
    client: ClusterClient,
    leaders: Mapping[TopicPartition, int],
    *,
    timestamp: int,
    read_committed: bool = False,
) -> dict[TopicPartition, Listed]:
    """What each leader says, asked once: without the partitions of leaders that do not answer; raises if none answers."""
    found: dict[TopicPartition, Listed] = {}
    trouble: ClusterUnreachable | ConnectionLost | None = None
    for node, led in grouped(leaders).items():
        wanted = dict.fromkeys(led, timestamp)
        try:
            found |= ask_offsets(client, node, wanted, read_committed=read_committed, timeout_s=client.look_s)
        except (ClusterUnreachable, ConnectionLost) as error:
            trouble = error
    if trouble is not None and not found:
        raise trouble
    return found


def partition_ends(client: ClusterClient, partition: TopicPartition) -> tuple[int, int, int, int]:
    """High watermark, log end, leader epoch, log start of one partition, from one leader; waits through elections."""

    def ask(node: int, timestamp: int, replica: int) -> Listed:
        found = ask_offsets(client, node, {partition: timestamp}, replica=replica, timeout_s=client.look_s)
        _check(client, found)
        return found[partition]

    def look() -> tuple[int, int, int, int]:
        node = client.leader_node(partition)
        log_end = ask(node, LATEST, DEBUG_REPLICA)
        high_watermark = ask(node, LATEST, CLIENT_REPLICA)
        log_start = ask(node, EARLIEST, CLIENT_REPLICA)
        return high_watermark.offset, log_end.offset, log_end.leader_epoch, log_start.offset

    return client.retry(look)


def _check(client: ClusterClient, found: Mapping[TopicPartition, Listed]) -> None:
    for partition, listed in found.items():
        client.check(listed.error, f"offsets of {partition}", f"Describe on topic {partition.topic}")


def leader_epoch_request(connection: Connection, partition: TopicPartition, leader_epoch: int) -> Any:
    """Asks the leader where the records of a leader epoch end (KIP-320)."""
    topic_type = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    version = connection.version(ApiKey.OffsetForLeaderEpoch, lowest=3, highest=4)
    wanted = topic_type.OffsetForLeaderPartition(
        version=version, partition=partition.partition, current_leader_epoch=-1, leader_epoch=leader_epoch
    )
    return OffsetForLeaderEpochRequest(
        version=version,
        replica_id=-1,
        topics=[topic_type(version=version, topic=partition.topic, partitions=[wanted])],
    )
