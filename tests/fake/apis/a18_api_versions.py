"""ApiVersions: what the files beside this one know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

if TYPE_CHECKING:
    from fake.cluster import FakeCluster

REQUEST, RESPONSE, VERSIONS = ApiVersionsRequest, ApiVersionsResponse, (0, 4)


def answer(cluster: FakeCluster, request: Any) -> dict[str, Any]:
    """The broker's answer."""
    keys = [{"api_key": key, "min_version": handler.VERSIONS[0], "max_version": handler.VERSIONS[1]}
            for key, handler in sorted(cluster.handlers.items())]  # fmt: skip
    return {"error_code": 0, "api_keys": keys}
