"""Ends of many partitions at once, for tools that must say something whatever the clusters answer.

Unlike `list_offsets`, a partition that has no answer has an error code in its place and keeps no other from its own: a
topic that was deleted, one that we may not describe, a partition without a leader.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from kafka.protocol.api_key import ApiKey
from kafka.protocol.metadata import MetadataRequest

from sparkmirror.clusters.client import ClusterClient
from sparkmirror.clusters.connection import Connection
from sparkmirror.clusters.error_codes import is_retriable
from sparkmirror.clusters.offsets import EARLIEST, LATEST, Listed, ask_offsets
from sparkmirror.errors import BrokerRefused, ConnectionLost
from sparkmirror.model import TopicPartition
from sparkmirror.wire import error_codes as codes

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

    @property
    def has_no_leader(self) -> bool:
        """Whether nobody leads the partition, or its leader is not reached."""
        return self.error in LEADER_MOVING or self.error == codes.NETWORK_EXCEPTION


def probe_ends(client: ClusterClient, partitions: Collection[TopicPartition]) -> dict[TopicPartition, PartitionEnds]:
    """The ends of each partition: where its log begins, then where it ends."""
    first = _probe(client, dict.fromkeys(partitions, EARLIEST))
    known = [partition for partition, start in first.items() if not start.error]
    last = _probe(client, dict.fromkeys(known, LATEST))
    found = {}
    for partition, start in first.items():
        end = last.get(partition, start)
        code = start.error or end.error
        found[partition] = (
            PartitionEnds(-1, -1, -1, code) if code else PartitionEnds(start.offset, end.offset, end.leader_epoch)
        )
    return found


def probe_times(client: ClusterClient, times: Wanted) -> dict[TopicPartition, int]:
    """The first offset whose record is not older than a time (ms), for each partition; left out if there is none."""
    return {p: at.offset for p, at in _probe(client, times).items() if not at.error and at.offset != NO_OFFSET}


def is_allowed_to_list_all(client: ClusterClient) -> bool:
    """Whether the cluster shows us every group: who may not describe the cluster sees those that it may describe."""

    def build(connection: Connection) -> Any:
        low, high = CLUSTER_RIGHTS_VERSIONS
        return MetadataRequest(
            version=connection.version(ApiKey.Metadata, lowest=low, highest=high),
            topics=[],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=True,
            include_topic_authorized_operations=False,
        )

    answer = client.retry(lambda: client.ask_any(build))
    return DESCRIBE in (answer.authorized_operations or ())


def _probe(client: ClusterClient, wanted: Wanted) -> dict[TopicPartition, Listed]:
    """The offset of each partition at a time, asked at its leader; asks again only for those whose error may pass."""
    found: dict[TopicPartition, Listed] = {}

    def look() -> None:
        rest = {p: at for p, at in wanted.items() if p not in found or is_retriable(found[p].error)}
        if rest:
            found.update(_probe_once(client, rest))
        passing = [listed.error for listed in found.values() if listed.error in LEADER_MOVING]
        if passing:
            client.check(passing[0], "offsets of partitions")

    try:
        client.retry(look, timeout_s=SETTLE_S)
    except BrokerRefused:
        if len(found) < len(wanted):
            raise
    return found


def _probe_once(client: ClusterClient, wanted: Wanted) -> dict[TopicPartition, Listed]:
    view = client.view({partition.topic for partition in wanted})
    found: dict[TopicPartition, Listed] = {}
    by_node: dict[int, dict[TopicPartition, int]] = {}
    for partition, at in wanted.items():
        topic = view.topics.get(partition.topic)
        leader = view.leader(partition)
        if topic is None or topic.error or partition.partition not in topic.leaders:
            error = codes.UNKNOWN_TOPIC_OR_PARTITION if topic is None or not topic.error else topic.error
            found[partition] = _unknown(error)
        elif leader is None:
            found[partition] = _unknown(codes.LEADER_NOT_AVAILABLE)
        else:
            by_node.setdefault(leader.node, {})[partition] = at
    for node, places in by_node.items():
        try:
            found |= ask_offsets(client, node, places)
        except ConnectionLost:
            found |= dict.fromkeys(places, _unknown(codes.NETWORK_EXCEPTION))
    return found


def _unknown(error: int) -> Listed:
    return Listed(NO_OFFSET, -1, error=error)
