"""DescribeGroups: groups without members, and those that a test gave some."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka.protocol.admin import DescribeGroupsRequest, DescribeGroupsResponse

if TYPE_CHECKING:
    from fake.cluster import FakeCluster

REQUEST, RESPONSE, VERSIONS = DescribeGroupsRequest, DescribeGroupsResponse, (4, 6)


GROUP_ID_NOT_FOUND = 69


def answer(cluster: FakeCluster, request: Any) -> dict[str, Any]:
    """The broker's answer."""
    return {"groups": [_group(cluster, name, request.version) for name in request.groups]}


def _group(cluster: FakeCluster, name: str, version: int) -> dict[str, Any]:
    whole = {"group_id": name, "protocol_type": "", "protocol_data": "", "members": []}
    group = cluster.groups.get(name)
    if group is None:
        return whole | {"group_state": "Dead", "error_code": GROUP_ID_NOT_FOUND if version >= 6 else 0}
    empty = {"client_host": "/127.0.0.1", "member_metadata": b"", "member_assignment": b""}
    members = [empty | {"member_id": one, "client_id": one} for one in group.members]
    return whole | {"group_state": group.state, "protocol_type": group.protocol_type, "members": members}
