"""DeleteRecords: moves the start of a log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka.protocol.admin import DeleteRecordsRequest, DeleteRecordsResponse

if TYPE_CHECKING:
    from fake.cluster import FakeCluster

REQUEST, RESPONSE, VERSIONS = DeleteRecordsRequest, DeleteRecordsResponse, (0, 2)


def answer(cluster: FakeCluster, request: Any) -> dict[str, Any]:
    """The broker's answer."""
    return {
        "topics": [
            {"name": topic.name, "partitions": [_partition(cluster, topic, part) for part in topic.partitions]}
            for topic in request.topics
        ]
    }


def _partition(cluster: FakeCluster, topic: Any, part: Any) -> dict[str, Any]:
    error, log = cluster.log_of(topic, part.partition_index)
    error = error or log.delete_to(part.offset)
    return {"partition_index": part.partition_index, "low_watermark": -1 if error else log.start, "error_code": error}
