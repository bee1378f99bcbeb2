"""Ends of many partitions at once, for tools that must say something whatever the clusters answer.

Unlike `list_offsets`, a partition that has no answer has an error code in its place and keeps no other from its own: a
topic that was deleted, one that we may not describe, a partition without a leader.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest

from sparkmirror.clusters.client import ClusterClient
from sparkmirror.clusters.connection import Connection
from sparkmirror.clusters.error_codes import is_retriable
from sparkmirror.clusters.metadata import METADATA_API
from sparkmirror.clusters.offsets import EARLIEST, LATEST, LIST_OFFSETS_API
from sparkmirror.errors import BrokerRefused, ConnectionLost
from sparkmirror.model import TopicPartition
from sparkmirror.wire import error_codes as codes

__all__ = ["PartitionEnds", "is_allowed_to_list_all", "probe_ends", "probe_times"]

# The leader moves or is being elected: there will be an answer soon.
LEADER_MOVING = frozenset(
    {
        codes.LEADER_NOT_AVAILABLE,
        codes.NOT_LEADER_OR_FOLLOWER,
        codes.FENCED_LEADER_EPOCH,
        codes.UNKNOWN_LEADER_EPOCH,
        codes.OFFSET_NOT_AVAILABLE,
    }
)
# A leader that is being elected is there within a second or two; a tool does not wait for an outage to end.
SETTLE_S = 3.0
NO_OFFSET = -1
DESCRIBE = 8  # Kafka's number of the right
CLUSTER_RIGHTS_VERSIONS = (8, 10)  # KIP-430; later versions moved it to DescribeCluster

Wanted = Mapping[TopicPartition, int]
Answer = tuple[int, int, int]  # offset, leader epoch, error


@dataclass(frozen=True, slots=True)
class PartitionEnds:
    """The first offset of a partition and the one behind its last (high watermark), or why neither is known."""

    first: int
    end: int
    leader_epoch: int
    error: int = 0

    @property
    def is_known(self) -> bool:
        """Whether there was an answer."""
        return self.error == 0


def probe_ends(client: ClusterClient, partitions: Collection[TopicPartition]) -> dict[TopicPartition, PartitionEnds]:
    """The ends of each partition: where its log begins, then where it ends."""
    first = _probe(client, dict.fromkeys(partitions, EARLIEST))
    known = [partition for partition, (_, _, error) in first.items() if not error]
    last = _probe(client, dict.fromkeys(known, LATEST))
    found = {}
    for partition, (offset, _, error) in first.items():
        end, leader_epoch, end_error = last.get(partition, (NO_OFFSET, -1, error))
        code = error or end_error
        found[partition] = PartitionEnds(-1, -1, -1, code) if code else PartitionEnds(offset, end, leader_epoch)
    return found


def probe_times(client: ClusterClient, times: Wanted) -> dict[TopicPartition, int]:
    """The first offset whose record is not older than a time (ms), for each partition; left out if there is none."""
    return {p: offset for p, (offset, _, error) in _probe(client, times).items() if not error and offset != NO_OFFSET}


def is_allowed_to_list_all(client: ClusterClient) -> bool:
    """Whether the cluster shows us every group: who may not describe the cluster sees those that it may describe."""

    def build(connection: Connection) -> Any:
        low, high = CLUSTER_RIGHTS_VERSIONS
        return MetadataRequest(
            version=connection.version(METADATA_API, lowest=low, highest=high),
            topics=[],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=True,
            include_topic_authorized_operations=False,
        )

    answer = client.retry(lambda: client.ask_any(build))
    return DESCRIBE in (answer.authorized_operations or ())


def _probe(client: ClusterClient, wanted: Wanted) -> dict[TopicPartition, Answer]:
    """The offset of each partition at a time, asked at its leader; asks again only for those whose error may pass."""
    found: dict[TopicPartition, Answer] = {}

    def look() -> None:
        rest = {p: at for p, at in wanted.items() if p not in found or is_retriable(found[p][2])}
        if rest:
            found.update(_probe_once(client, rest))
        passing = [answer[2] for answer in found.values() if answer[2] in LEADER_MOVING]
        if passing:
            client.check(passing[0], "offsets of partitions")

    try:
        client.retry(look, timeout_s=SETTLE_S)
    except BrokerRefused:
        if len(found) < len(wanted):
            raise
    return found


def _probe_once(client: ClusterClient, wanted: Wanted) -> dict[TopicPartition, Answer]:
    view = client.view({partition.topic for partition in wanted})
    found: dict[TopicPartition, Answer] = {}
    by_node: dict[int, dict[str, dict[int, int]]] = {}
    for partition, at in wanted.items():
        topic = view.topics.get(partition.topic)
        leader = view.leader(partition)
        if topic is None or topic.error or partition.partition not in topic.leaders:
            error = codes.UNKNOWN_TOPIC_OR_PARTITION if topic is None or not topic.error else topic.error
            found[partition] = (NO_OFFSET, -1, error)
        elif leader is None:
            found[partition] = (NO_OFFSET, -1, codes.LEADER_NOT_AVAILABLE)
        else:
            by_node.setdefault(leader.node, {}).setdefault(partition.topic, {})[partition.partition] = at
    for node, topics in by_node.items():
        try:
            answer = client.ask_node(node, lambda c, topics=topics: _request(c, topics))  # type: ignore[misc]
        except ConnectionLost:
            lost = (NO_OFFSET, -1, codes.NETWORK_EXCEPTION)
            found |= {TopicPartition(t, i): lost for t, places in topics.items() for i in places}
            continue
        for topic in answer.topics:
            for part in topic.partitions:
                place = TopicPartition(topic.name, part.partition_index)
                found[place] = (part.offset, part.leader_epoch, part.error_code)
    return found


def _request(connection: Connection, topics: Mapping[str, Mapping[int, int]]) -> Any:
    version = connection.version(LIST_OFFSETS_API, lowest=4, highest=6)
    topic_type = ListOffsetsRequest.ListOffsetsTopic
    entry = topic_type.ListOffsetsPartition
    return ListOffsetsRequest(
        version=version,
        replica_id=-1,
        isolation_level=0,
        topics=[
            topic_type(
                version=version,
                name=name,
                partitions=[
                    entry(version=version, partition_index=index, current_leader_epoch=-1, timestamp=at)
                    for index, at in places.items()
                ],
            )
            for name, places in topics.items()
        ],
    )
