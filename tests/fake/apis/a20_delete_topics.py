"""DeleteTopics by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka.protocol.admin import DeleteTopicsRequest, DeleteTopicsResponse

if TYPE_CHECKING:
    from fake.cluster import FakeCluster

REQUEST, RESPONSE, VERSIONS = DeleteTopicsRequest, DeleteTopicsResponse, (4, 5)


UNKNOWN_TOPIC = 3


def answer(cluster: FakeCluster, request: Any) -> dict[str, Any]:
    """The broker's answer."""
    found = []
    for name in request.topic_names:
        topic = cluster.topics.pop(name, None)
        for group in cluster.groups.values():
            group.commits = {place: commit for place, commit in group.commits.items() if place[0] != name}
        found.append({"name": name, "error_code": UNKNOWN_TOPIC if topic is None else 0})
    return {"responses": found}
