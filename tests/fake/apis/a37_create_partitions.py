"""CreatePartitions: more of them, never fewer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka.protocol.admin import CreatePartitionsRequest, CreatePartitionsResponse

from fake.log import FakeLog

if TYPE_CHECKING:
    from fake.cluster import FakeCluster

REQUEST, RESPONSE, VERSIONS = CreatePartitionsRequest, CreatePartitionsResponse, (0, 3)


UNKNOWN_TOPIC, INVALID_PARTITIONS = 3, 37


def answer(cluster: FakeCluster, request: Any) -> dict[str, Any]:
    """The broker's answer."""
    return {"results": [_extend(cluster, topic, is_dry=request.validate_only) for topic in request.topics]}


def _extend(cluster: FakeCluster, wanted: Any, *, is_dry: bool) -> dict[str, Any]:
    topic = cluster.topics.get(wanted.name)
    if topic is None:
        return {"name": wanted.name, "error_code": UNKNOWN_TOPIC, "error_message": None}
    if wanted.count <= len(topic.logs):
        return {"name": wanted.name, "error_code": INVALID_PARTITIONS, "error_message": f"has {len(topic.logs)} partitions"}
    if not is_dry:
        topic.logs += [FakeLog() for _ in range(wanted.count - len(topic.logs))]
    return {"name": wanted.name, "error_code": 0, "error_message": None}
