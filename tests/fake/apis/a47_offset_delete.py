"""OffsetDelete: takes back what a group committed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka.protocol.consumer import OffsetDeleteRequest, OffsetDeleteResponse

if TYPE_CHECKING:
    from fake.cluster import FakeCluster

REQUEST, RESPONSE, VERSIONS = OffsetDeleteRequest, OffsetDeleteResponse, (0, 0)


GROUP_ID_NOT_FOUND = 69


def answer(cluster: FakeCluster, request: Any) -> dict[str, Any]:
    """The broker's answer."""
    group = cluster.groups.get(request.group_id)
    if group is None:
        return {"error_code": GROUP_ID_NOT_FOUND, "topics": []}
    topics = []
    for topic in request.topics:
        parts = []
        for part in topic.partitions:
            error, _ = cluster.log_of(topic, part.partition_index)
            if not error:
                group.commits.pop((topic.name, part.partition_index), None)
            parts.append({"partition_index": part.partition_index, "error_code": error})
        topics.append({"name": topic.name, "partitions": parts})
    return {"error_code": 0, "topics": topics}
