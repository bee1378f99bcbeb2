"""Fetch: raw batches by topic name (12) or id (13), waiting for the first byte as long as the client says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka.protocol.consumer import FetchRequest, FetchResponse

if TYPE_CHECKING:
    from fake.cluster import FakeCluster

REQUEST, RESPONSE, VERSIONS = FetchRequest, FetchResponse, (12, 13)


OFFSET_OUT_OF_RANGE = 1


def answer(cluster: FakeCluster, request: Any) -> dict[str, Any]:
    """The broker's answer."""

    def is_enough() -> bool:
        parts = [part for topic in found() for part in topic["partitions"]]
        return any(part["error_code"] for part in parts) or sum(len(part["records"]) for part in parts) >= request.min_bytes

    def found() -> list[dict[str, Any]]:
        return [_topic(cluster, request, topic) for topic in request.topics]

    if request.max_wait_ms > 0:
        cluster.lock.wait_for(is_enough, request.max_wait_ms / 1000)
    return {"responses": found()}


def _topic(cluster: FakeCluster, request: Any, topic: Any) -> dict[str, Any]:
    parts = [_partition(cluster, request, topic, part) for part in topic.partitions]
    return {"topic": topic.topic, "topic_id": topic.topic_id, "partitions": parts}


def _partition(cluster: FakeCluster, request: Any, topic: Any, part: Any) -> dict[str, Any]:
    error, log = cluster.log_of(topic, part.partition)
    if not error and not log.start <= part.fetch_offset <= log.end:
        error = OFFSET_OUT_OF_RANGE
    if error:
        return {"partition_index": part.partition, "error_code": error, "high_watermark": -1, "aborted_transactions": [],
                "records": b""}  # fmt: skip
    end = log.stable_end if request.isolation_level else log.end
    aborted = log.aborted_between(part.fetch_offset, end) if request.isolation_level else None
    return {
        "partition_index": part.partition,
        "error_code": 0,
        "high_watermark": log.end,
        "last_stable_offset": log.stable_end,
        "log_start_offset": log.start,
        "aborted_transactions": aborted and [{"producer_id": one, "first_offset": first} for one, first in aborted],
        "records": log.read(part.fetch_offset, part.partition_max_bytes, end=end),
    }
