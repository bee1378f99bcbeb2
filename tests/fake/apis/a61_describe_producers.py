"""DescribeProducers: what the leader of a partition remembers of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka.protocol.admin import DescribeProducersRequest, DescribeProducersResponse

if TYPE_CHECKING:
    from fake.cluster import FakeCluster

REQUEST, RESPONSE, VERSIONS = DescribeProducersRequest, DescribeProducersResponse, (0, 0)


def answer(cluster: FakeCluster, request: Any) -> dict[str, Any]:
    """The broker's answer."""
    return {
        "topics": [
            {"name": topic.name, "partitions": [_partition(cluster, topic, index) for index in topic.partition_indexes]}
            for topic in request.topics
        ]
    }


def _partition(cluster: FakeCluster, topic: Any, index: int) -> dict[str, Any]:
    error, log = cluster.log_of(topic, index)
    producers = [
        {"producer_id": producer_id, "producer_epoch": known.epoch, "last_sequence": known.last_sequence,
         "last_timestamp": known.last_timestamp, "coordinator_epoch": 0, "current_txn_start_offset": known.transaction_start}
        for producer_id, known in log.producers.items()
    ]  # fmt: skip
    return {"partition_index": index, "error_code": error, "active_producers": producers}
