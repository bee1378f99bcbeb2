"""Produce: one batch for each partition, checked and appended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka.protocol.producer import ProduceRequest, ProduceResponse

if TYPE_CHECKING:
    from fake.cluster import FakeCluster

REQUEST, RESPONSE, VERSIONS = ProduceRequest, ProduceResponse, (9, 13)


def answer(cluster: FakeCluster, request: Any) -> dict[str, Any]:
    """The broker's answer."""
    return {"responses": [_topic(cluster, topic) for topic in request.topic_data]}


def _topic(cluster: FakeCluster, topic: Any) -> dict[str, Any]:
    found = []
    for part in topic.partition_data:
        error, log = cluster.log_of(topic, part.index)
        base = -1
        if not error:
            error, base = log.append(bytes(part.records))
        verdict = {"index": part.index, "error_code": error, "base_offset": base, "record_errors": []}
        found.append(verdict | {"log_start_offset": -1 if error else log.start})
    return {"name": topic.name, "topic_id": topic.topic_id, "partition_responses": found}
