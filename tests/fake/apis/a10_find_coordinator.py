"""FindCoordinator: always the one broker; several keys from version 4 on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from fake.cluster import FakeCluster

REQUEST, RESPONSE, VERSIONS = FindCoordinatorRequest, FindCoordinatorResponse, (1, 4)


def answer(cluster: FakeCluster, request: Any) -> dict[str, Any]:
    """The broker's answer."""
    found = cluster.broker | {"error_code": 0, "error_message": ""}
    return found | {"coordinators": [found | {"key": key} for key in request.coordinator_keys or ()]}
