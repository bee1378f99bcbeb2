"""Metadata: brokers, and topics by name or all. Topics are not created by asking."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from fake.apis.a19_create_topics import is_legal

if TYPE_CHECKING:
    from fake.cluster import FakeCluster

REQUEST, RESPONSE, VERSIONS = MetadataRequest, MetadataResponse, (9, 12)


UNKNOWN_TOPIC, INVALID_TOPIC = 3, 17
NODE = 1
NO_ID = uuid.UUID(int=0)
INTERNAL = ("__consumer_offsets", "__transaction_state")


def answer(cluster: FakeCluster, request: Any) -> dict[str, Any]:
    """The broker's answer."""
    names = cluster.topics if request.topics is None else [topic.name for topic in request.topics]
    return {
        "brokers": [cluster.broker],
        "cluster_id": cluster.cluster_id,
        "controller_id": NODE,
        "topics": [_topic(cluster, name) for name in names],
    }


def _topic(cluster: FakeCluster, name: str) -> dict[str, Any]:
    topic = cluster.topics.get(name)
    if topic is None:
        error = UNKNOWN_TOPIC if is_legal(name) else INVALID_TOPIC
        return {"name": name, "error_code": error, "topic_id": NO_ID, "partitions": []}
    parts = [{"partition_index": index, "leader_id": NODE, "leader_epoch": 0, "replica_nodes": [NODE], "isr_nodes": [NODE],
              "offline_replicas": []} for index in range(len(topic.logs))]  # fmt: skip
    return {"name": name, "topic_id": topic.topic_id, "is_internal": name in INTERNAL, "partitions": parts}
