"""ListGroups: every group, whatever the filters say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka.protocol.admin import ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from fake.cluster import FakeCluster

REQUEST, RESPONSE, VERSIONS = ListGroupsRequest, ListGroupsResponse, (4, 5)


def answer(cluster: FakeCluster, request: Any) -> dict[str, Any]:
    """The broker's answer."""
    return {
        "groups": [
            {"group_id": name, "protocol_type": group.protocol_type, "group_state": group.state, "group_type": "classic"}
            for name, group in cluster.groups.items()
        ]
    }
