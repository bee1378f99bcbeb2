"""Rights on topics through the admin API."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kafka.protocol.admin import CreateAclsRequest, DescribeAclsRequest
from kafka.protocol.admin.acl import ACLOperation, ACLPermissionType, ACLResourcePatternType, ACLResourceType
from kafka.protocol.api_key import ApiKey

from sparkmirror.clusters.client import ClusterClient
from sparkmirror.clusters.connection import Connection
from sparkmirror.clusters.error_codes import name_of
from sparkmirror.errors import BrokerRefused
from sparkmirror.model import Acl
from sparkmirror.wire.error_codes import (
    CLUSTER_AUTHORIZATION_FAILED,
    NOT_CONTROLLER,
    SECURITY_DISABLED,
    UNKNOWN_SERVER_ERROR,
)

# The controller refuses more than 10,000 changes in one request; this many it handles within milliseconds.
ACLS_PER_REQUEST_MAX = 500


def describe_topic_acls(client: ClusterClient) -> list[Acl] | None:
    """Every right on topics, or None if the cluster has no authorizer and so knows no rights.

    Operations that this program does not know are left out.
    """

    def ask() -> list[Acl] | None:
        answer = client.ask_any(_describe_request)
        if answer.error_code == SECURITY_DISABLED:
            return None
        if answer.error_code == CLUSTER_AUTHORIZATION_FAILED:
            raise BrokerRefused(
                f"cluster {client.alias}: rights of topics cannot be read: {name_of(answer.error_code)}",
                error_code=answer.error_code,
                hint=f"on {client.alias}, grant DESCRIBE on the cluster to {client.who}",
            )
        client.check(answer.error_code, "rights of topics")
        return list(_read_acls(answer))

    return client.retry(ask)


def _describe_request(connection: Connection) -> Any:
    return DescribeAclsRequest(
        version=connection.version(ApiKey.DescribeAcls, lowest=1, highest=3),
        resource_type_filter=int(ACLResourceType.TOPIC),
        resource_name_filter=None,
        pattern_type_filter=int(ACLResourcePatternType.ANY),
        principal_filter=None,
        host_filter=None,
        operation=int(ACLOperation.ANY),
        permission_type=int(ACLPermissionType.ANY),
    )


def _read_acls(answer: Any) -> Iterator[Acl]:
    known = {int(operation): operation.name for operation in ACLOperation if operation > ACLOperation.ANY}
    for resource in answer.resources:
        for acl in resource.acls:
            if acl.operation in known:
                yield Acl(
                    topic=resource.resource_name,
                    pattern="PREFIXED" if resource.pattern_type == ACLResourcePatternType.PREFIXED else "LITERAL",
                    principal=acl.principal,
                    host=acl.host,
                    operation=known[acl.operation],
                    permission="ALLOW" if acl.permission_type == ACLPermissionType.ALLOW else "DENY",
                )


def create_topic_acls(client: ClusterClient, acls: Sequence[Acl]) -> dict[Acl, str | None]:
    """Creates rights; for each None if it is there now, else the broker's reason. One that is there already is no error."""
    found: dict[Acl, str | None] = {}
    for start in range(0, len(acls), ACLS_PER_REQUEST_MAX):
        found |= _create_some(client, acls[start : start + ACLS_PER_REQUEST_MAX])
    return found


def _create_some(client: ClusterClient, acls: Sequence[Acl]) -> dict[Acl, str | None]:
    """Asks any broker, which forwards to the controller; repeating the request changes nothing."""

    def ask() -> dict[Acl, str | None]:
        results = client.ask_any(lambda connection: _create_request(connection, acls)).results
        if len(results) != len(acls):
            raise BrokerRefused(
                f"cluster {client.alias}: creating {len(acls)} rights was answered with {len(results)} results",
                error_code=UNKNOWN_SERVER_ERROR,
            )
        if any(result.error_code == NOT_CONTROLLER for result in results):
            client.check(NOT_CONTROLLER, "controller")
        return {acl: _refusal(client, result) for acl, result in zip(acls, results, strict=True)}

    return client.retry(ask)


def _create_request(connection: Connection, acls: Sequence[Acl]) -> Any:
    version = connection.version(ApiKey.CreateAcls, lowest=1, highest=3)
    creations = [
        CreateAclsRequest.AclCreation(
            version=version,
            resource_type=int(ACLResourceType.TOPIC),
            resource_name=acl.topic,
            resource_pattern_type=int(ACLResourcePatternType[acl.pattern]),
            principal=acl.principal,
            host=acl.host,
            operation=int(ACLOperation[acl.operation]),
            permission_type=int(ACLPermissionType[acl.permission]),
        )
        for acl in acls
    ]
    return CreateAclsRequest(version=version, creations=creations)


def _refusal(client: ClusterClient, result: Any) -> str | None:
    if result.error_code == 0:
        return None
    if result.error_code == CLUSTER_AUTHORIZATION_FAILED:
        return f"{name_of(result.error_code)}; on {client.alias}, grant ALTER on the cluster to {client.who}"
    return f"{name_of(result.error_code)}: {result.error_message or ''}".rstrip(": ")
