"""ListOffsets: the first, the last, and by time (the largest timestamp from version 7 on)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse

if TYPE_CHECKING:
    from fake.cluster import FakeCluster

REQUEST, RESPONSE, VERSIONS = ListOffsetsRequest, ListOffsetsResponse, (4, 7)


def answer(cluster: FakeCluster, request: Any) -> dict[str, Any]:
    """The broker's answer."""
    return {
        "topics": [
            {"name": topic.name, "partitions": [_partition(cluster, request, topic, part) for part in topic.partitions]}
            for topic in request.topics
        ]
    }


def _partition(cluster: FakeCluster, request: Any, topic: Any, part: Any) -> dict[str, Any]:
    error, log = cluster.log_of(topic, part.partition_index)
    if error:
        return {"partition_index": part.partition_index, "error_code": error}
    offset, timestamp = log.find(part.timestamp, read_committed=request.isolation_level == 1)
    epoch = 0 if offset >= 0 else -1
    return {"partition_index": part.partition_index, "offset": offset, "timestamp": timestamp, "leader_epoch": epoch}
