"""Metadata: brokers, and topics by name or all. Topics are not created by asking."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from fake.apis.a19_create_topics import is_legal

if TYPE_CHECKING:
    from fake.cluster import FakeCluster

REQUEST, RESPONSE, VERSIONS = MetadataRequest, MetadataResponse, (9, 12)


UNKNOWN_TOPIC, LEADER_NOT_AVAILABLE, INVALID_TOPIC = 3, 5, 17
NODE, AWAY, NOBODY = 1, 2, -1
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
    parts = [_partition(index, is_led=(name, index) not in cluster.leaderless) for index in range(len(topic.logs))]
    return {"name": name, "topic_id": topic.topic_id, "is_internal": name in INTERNAL, "partitions": parts}


def _partition(index: int, *, is_led: bool) -> dict[str, Any]:
    if is_led:
        return {"partition_index": index, "leader_id": NODE, "leader_epoch": 0, "replica_nodes": [NODE], "isr_nodes": [NODE],
                "offline_replicas": []}  # fmt: skip
    return {"partition_index": index, "error_code": LEADER_NOT_AVAILABLE, "leader_id": NOBODY, "leader_epoch": 0,
            "replica_nodes": [AWAY], "isr_nodes": [AWAY], "offline_replicas": [AWAY]}  # fmt: skip
