"""OffsetForLeaderEpoch, of the only leader epoch that there is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka.protocol.consumer import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse

if TYPE_CHECKING:
    from fake.cluster import FakeCluster

REQUEST, RESPONSE, VERSIONS = OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, (3, 4)


def answer(cluster: FakeCluster, request: Any) -> dict[str, Any]:
    """The broker's answer."""
    return {
        "topics": [
            {"topic": topic.topic, "partitions": [_partition(cluster, topic, part) for part in topic.partitions]}
            for topic in request.topics
        ]
    }


def _partition(cluster: FakeCluster, topic: Any, part: Any) -> dict[str, Any]:
    error, log = cluster.log_of(topic, part.partition)
    is_known = not error and part.leader_epoch == 0
    return {"partition": part.partition, "error_code": error, "leader_epoch": 0 if is_known else -1,
            "end_offset": log.end if is_known else -1}  # fmt: skip
