"""DescribeCluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka.protocol.admin import DescribeClusterRequest, DescribeClusterResponse

if TYPE_CHECKING:
    from fake.cluster import FakeCluster

REQUEST, RESPONSE, VERSIONS = DescribeClusterRequest, DescribeClusterResponse, (0, 1)


NODE = 1


def answer(cluster: FakeCluster, request: Any) -> dict[str, Any]:
    """The broker's answer."""
    broker = {"broker_id": NODE, "host": cluster.host, "port": cluster.port}
    return {"error_code": 0, "cluster_id": cluster.cluster_id, "controller_id": NODE, "brokers": [broker]}
