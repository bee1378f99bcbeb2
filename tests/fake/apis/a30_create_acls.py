"""CreateAcls: one that is there already is no error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka.protocol.admin import CreateAclsRequest, CreateAclsResponse

if TYPE_CHECKING:
    from fake.cluster import FakeCluster

REQUEST, RESPONSE, VERSIONS = CreateAclsRequest, CreateAclsResponse, (1, 3)


SECURITY_DISABLED = 54
FIELDS = ("resource_type", "resource_name", "resource_pattern_type", "principal", "host", "operation", "permission_type")


def answer(cluster: FakeCluster, request: Any) -> dict[str, Any]:
    """The broker's answer."""
    if cluster.acls is None:
        refused = {"error_code": SECURITY_DISABLED, "error_message": "No Authorizer is configured."}
        return {"results": [refused for _ in request.creations]}
    for creation in request.creations:
        acl = {name: getattr(creation, name) for name in FIELDS}
        if acl not in cluster.acls:
            cluster.acls.append(acl)
    return {"results": [{"error_code": 0, "error_message": None} for _ in request.creations]}
