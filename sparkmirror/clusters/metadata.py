"""A cluster as its metadata shows it: brokers, topics with their ids, leaders."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from kafka.protocol.api_key import ApiKey
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from sparkmirror.clusters.connection import Address, Connection
from sparkmirror.model import TopicPartition

NO_ID = bytes(16)
# Topic ids are in the answer from version 10 on. Who examines a cluster may ask an older broker, which has none.
METADATA_VERSIONS = (9, 12)


@dataclass(frozen=True, slots=True)
class Leader:
    """Who leads a partition, and in which leader epoch; node −1 means nobody."""

    node: int
    leader_epoch: int
    replicas: int = 1


@dataclass(frozen=True, slots=True)
class TopicView:
    """One topic; `error` is Kafka's code for the topic as a whole."""

    name: str
    topic_id: bytes
    is_internal: bool
    error: int
    leaders: Mapping[int, Leader]

    @property
    def partitions(self) -> int:
        """How many partitions the topic has."""
        return len(self.leaders)


@dataclass(frozen=True, slots=True)
class ClusterView:
    """Brokers and topics at one moment."""

    cluster_id: str
    controller: int
    brokers: Mapping[int, Address]
    topics: Mapping[str, TopicView]

    def leader(self, partition: TopicPartition) -> Leader | None:
        """The leader of a partition, or None while there is none."""
        topic = self.topics.get(partition.topic)
        found = topic.leaders.get(partition.partition) if topic is not None else None
        return found if found is not None and found.node in self.brokers else None


def metadata_version(connection: Connection) -> int:
    """In which version a broker is asked."""
    low, high = METADATA_VERSIONS
    return connection.version(ApiKey.Metadata, lowest=low, highest=high)


def find_coordinator_request(connection: Connection, key: str, *, transactional: bool = True) -> Any:
    """Asks who coordinates a transactional id or a group."""
    version = connection.version(ApiKey.FindCoordinator, lowest=1, highest=2)
    return FindCoordinatorRequest(version=version, key=key, key_type=int(transactional))


def metadata_request(topics: Collection[str] | None, version: int) -> Any:
    """Asks for the named topics, or for all."""
    entry = MetadataRequest.MetadataRequestTopic
    wanted = (
        None
        if topics is None
        else [entry(version=version, topic_id=uuid.UUID(int=0), name=name) for name in topics]
    )
    return MetadataRequest(
        version=version,
        topics=wanted,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )


def read_metadata(answer: Any) -> ClusterView:
    """The decoded answer as our own values."""
    topics = {}
    for topic in answer.topics:
        if topic.name is None:
            continue
        leaders = {p.partition_index: Leader(p.leader_id, p.leader_epoch, len(p.replica_nodes)) for p in topic.partitions}
        identity = getattr(topic, "topic_id", None)
        topics[topic.name] = TopicView(
            name=topic.name,
            topic_id=identity.bytes if identity is not None else NO_ID,
            is_internal=bool(topic.is_internal),
            error=topic.error_code,
            leaders=leaders,
        )
    return ClusterView(
        cluster_id=answer.cluster_id or "",
        controller=answer.controller_id,
        brokers={b.node_id: Address(b.host, b.port) for b in answer.brokers},
        topics=topics,
    )
