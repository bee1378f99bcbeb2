"""What a cluster says about itself and about us: releases, the controller's clock, our rights, newest times.

Only questions. Where a broker does not know the question, the answer is None: these facts are never needed to copy.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import (
    DescribeClusterRequest,
    DescribeQuorumRequest,
)
from kafka.protocol.admin.acl import ACLOperation
from kafka.protocol.api_key import ApiKey
from kafka.protocol.broker_version_data import infer_broker_version_from_api_versions
from kafka.protocol.metadata import MetadataRequest

from sparkmirror.clusters import clock
from sparkmirror.clusters.client import ClusterClient
from sparkmirror.clusters.connection import Connection, missing_apis
from sparkmirror.clusters.offsets import NEWEST, ask_offsets
from sparkmirror.clusters.topics import BROKER_RESOURCE, describe_configs_request
from sparkmirror.errors import BrokerTooOld
from sparkmirror.model import TopicPartition

NO_TIMESTAMP = -1
METADATA_LOG = "__cluster_metadata"


@dataclass(frozen=True, slots=True)
class BrokerRelease:
    """What release a broker is, by the protocol versions it offers; `lacks` is what copying needs and it does not have."""

    release: str
    lacks: str = ""


@dataclass(frozen=True, slots=True)
class TopicDetail:
    """What metadata says beyond partitions: replicas, fewest replicas in sync, and what we may do (None: unknown)."""

    replicas: int
    in_sync: int
    rights: frozenset[str] | None


def broker_releases(client: ClusterClient) -> dict[int, BrokerRelease]:
    """The release of each broker."""
    found: dict[int, BrokerRelease] = {}

    def look() -> None:
        for node in client.view(()).brokers:
            versions = client.talk(node, lambda c: c.versions)
            release = ".".join(map(str, infer_broker_version_from_api_versions(versions) or ("unknown",)))
            found[node] = BrokerRelease(release, missing_apis(versions))

    client.retry(look)
    return found


def controller_skew_ms(client: ClusterClient) -> int | None:
    """How far the controller's clock is ahead of ours, to half of the time that the question took.

    None if the cluster does not tell. The leader of the quorum of controllers (KRaft) calls itself caught up now (KIP-836).
    """

    def build(connection: Connection) -> Any:
        version = connection.version(ApiKey.DescribeQuorum, lowest=1, highest=2)
        topic_type = DescribeQuorumRequest.TopicData
        wanted = topic_type.PartitionData(version=version, partition_index=0)
        topics = [topic_type(version=version, topic_name=METADATA_LOG, partitions=[wanted])]
        return DescribeQuorumRequest(version=version, topics=topics)

    def ask() -> int | None:
        client.view(())  # so that the connection is there, and its making is not measured
        try:
            began = clock.wall_s()
            answer = client.ask_any(build)
            ended = clock.wall_s()
        except BrokerTooOld:
            return None
        client.check(answer.error_code, "time of the controllers", "Describe on the cluster")
        [part] = answer.topics[0].partitions
        client.check(part.error_code, "time of the controllers", "Describe on the cluster")
        times = [v.last_caught_up_timestamp for v in part.current_voters if v.replica_id == part.leader_id]
        return None if not times or times[0] < 0 else round(times[0] - (began + ended) / 2 * 1000)

    return client.retry(ask)


def topic_details(client: ClusterClient, topics: Collection[str]) -> dict[str, TopicDetail]:
    """Replicas and our rights, of topics that exist and that we may see."""
    names = list(topics)

    def build(connection: Connection) -> Any:
        version = connection.version(ApiKey.Metadata, lowest=9, highest=9)
        entry = MetadataRequest.MetadataRequestTopic
        return MetadataRequest(
            version=version,
            topics=[entry(version=version, name=name) for name in names],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=True,
        )

    if not names:
        return {}
    answer = client.retry(lambda: client.ask_any(build))
    return {
        topic.name: TopicDetail(
            min((len(part.replica_nodes) for part in topic.partitions), default=0),
            min((len(part.isr_nodes) for part in topic.partitions), default=0),
            _operations(topic.authorized_operations),
        )
        for topic in answer.topics
        if topic.error_code == 0
    }


def cluster_rights(client: ClusterClient) -> frozenset[str] | None:
    """What we may do on the cluster itself."""

    def build(connection: Connection) -> Any:
        version = connection.version(ApiKey.DescribeCluster, lowest=0, highest=1)
        return DescribeClusterRequest(version=version, include_cluster_authorized_operations=True)

    try:
        answer = client.retry(lambda: client.ask_any(build))
    except BrokerTooOld:
        return None
    client.check(answer.error_code, "rights on the cluster")
    return _operations(answer.authorized_operations)


def _operations(found: Collection[int] | None) -> frozenset[str] | None:
    """Names of operations; None if the broker did not tell."""
    if found is None:
        return None
    return frozenset(ACLOperation(number).name for number in found if number in set(map(int, ACLOperation)))


def broker_setting(client: ClusterClient, name: str) -> str | None:
    """A setting of the broker that answers first."""
    node = min(client.view(()).brokers)
    answer = client.retry(
        lambda: client.ask_node(
            node, lambda c: describe_configs_request(c, [str(node)], kind=BROKER_RESOURCE, keys=[name])
        )
    )
    [result] = answer.results
    client.check(result.error_code, f"setting {name} of broker {node}", "DescribeConfigs on the cluster")
    return next((entry.value for entry in result.configs if entry.name == name), None)


def newest_times(client: ClusterClient, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    """The largest timestamp in each partition (KIP-734); left out where there is none or nobody tells."""
    found: dict[TopicPartition, int] = {}

    def look() -> None:
        view = client.view({partition.topic for partition in partitions})
        for partition in partitions:
            leader = view.leader(partition)
            if leader is None:
                continue
            listed = ask_offsets(client, leader.node, {partition: NEWEST})[partition]
            client.check(listed.error, f"newest time of {partition}", f"Describe on topic {partition.topic}")
            if listed.timestamp != NO_TIMESTAMP:
                found[partition] = listed.timestamp

    try:
        client.retry(look)
    except BrokerTooOld:
        return {}
    return found
