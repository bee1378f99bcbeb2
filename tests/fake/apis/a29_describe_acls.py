"""DescribeAcls of one kind of resource, whatever the other filters say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka.protocol.admin import DescribeAclsRequest, DescribeAclsResponse

if TYPE_CHECKING:
    from fake.cluster import FakeCluster

REQUEST, RESPONSE, VERSIONS = DescribeAclsRequest, DescribeAclsResponse, (1, 3)


SECURITY_DISABLED = 54


def answer(cluster: FakeCluster, request: Any) -> dict[str, Any]:
    """The broker's answer."""
    if cluster.acls is None:
        return {"error_code": SECURITY_DISABLED, "error_message": "No Authorizer is configured.", "resources": []}
    found: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for acl in cluster.acls:
        if acl["resource_type"] == request.resource_type_filter:
            kept = {name: acl[name] for name in ("principal", "host", "operation", "permission_type")}
            found.setdefault((acl["resource_name"], acl["resource_pattern_type"]), []).append(kept)
    kind = request.resource_type_filter
    resources = [
        {"resource_type": kind, "resource_name": name, "pattern_type": pattern, "acls": acls}
        for (name, pattern), acls in found.items()
    ]
    return {"error_code": 0, "error_message": None, "resources": resources}
