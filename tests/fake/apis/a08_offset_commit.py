"""OffsetCommit of a client without a member, which a group with members refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka.protocol.consumer import OffsetCommitRequest, OffsetCommitResponse

if TYPE_CHECKING:
    from fake.cluster import FakeCluster

REQUEST, RESPONSE, VERSIONS = OffsetCommitRequest, OffsetCommitResponse, (7, 9)


UNKNOWN_MEMBER_ID = 25


def answer(cluster: FakeCluster, request: Any) -> dict[str, Any]:
    """The broker's answer."""
    group = cluster.group_of(request.group_id)
    topics = []
    for topic in request.topics:
        codes = [(part, cluster.log_of(topic, part.partition_index)[0]) for part in topic.partitions]
        if group.members:
            codes = [(part, UNKNOWN_MEMBER_ID) for part, _ in codes]
        for part, code in codes:
            if not code:
                cluster.groups[request.group_id] = group
                group.commits[topic.name, part.partition_index] = (part.committed_offset, part.committed_metadata or "")
        parts = [{"partition_index": part.partition_index, "error_code": code} for part, code in codes]
        topics.append({"name": topic.name, "partitions": parts})
    return {"topics": topics}
