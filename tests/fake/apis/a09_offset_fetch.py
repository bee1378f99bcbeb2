"""OffsetFetch of several groups: all that they committed, or some partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka.protocol.consumer import OffsetFetchRequest, OffsetFetchResponse

if TYPE_CHECKING:
    from fake.cluster import FakeCluster

REQUEST, RESPONSE, VERSIONS = OffsetFetchRequest, OffsetFetchResponse, (8, 9)


def answer(cluster: FakeCluster, request: Any) -> dict[str, Any]:
    """The broker's answer."""
    return {"groups": [{"group_id": group.group_id, "topics": _topics(cluster, group)} for group in request.groups]}


def _topics(cluster: FakeCluster, group: Any) -> list[dict[str, Any]]:
    commits = cluster.group_of(group.group_id).commits
    asked = None if group.topics is None else [(topic.name, at) for topic in group.topics for at in topic.partition_indexes]
    found: dict[str, list[dict[str, Any]]] = {}
    for name, index in [*commits] if asked is None else asked:
        offset, metadata = commits.get((name, index), (-1, ""))
        part = {"partition_index": index, "committed_offset": offset, "committed_leader_epoch": -1, "metadata": metadata}
        found.setdefault(name, []).append(part)
    return [{"name": name, "partitions": parts} for name, parts in found.items()]
