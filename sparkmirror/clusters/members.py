"""Who is in a group of the classic kind: Connect's workers are members of one, under the protocol type `connect`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.api_key import ApiKey

from sparkmirror.clusters.client import ClusterClient
from sparkmirror.clusters.connection import Connection
from sparkmirror.wire.error_codes import GROUP_ID_NOT_FOUND

DEAD = "Dead"
NAMED_MAX = 3


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One member: what it calls itself, where it is, what it said when it joined, and what it was given then.

    The last two are in the form of the group's own protocol.
    """

    client_id: str
    host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class DescribedGroup:
    """A group as its coordinator knows it. One that does not exist is "Dead" and has no members."""

    name: str
    state: str
    protocol_type: str
    members: tuple[GroupMember, ...]

    def named_members(self) -> str:
        """How many they are, and who the first ones are."""
        named = ", ".join(f"{member.client_id} at {member.host.lstrip('/')}" for member in self.members[:NAMED_MAX])
        count = len(self.members)
        return f"{count} member{'' if count == 1 else 's'} ({named}{', …' if count > NAMED_MAX else ''})"


def describe_groups(client: ClusterClient, names: Collection[str]) -> dict[str, DescribedGroup]:
    """The groups, each asked at its coordinator; raises if one may not be described."""
    return {name: _describe(client, name) for name in names}


def _describe(client: ClusterClient, name: str) -> DescribedGroup:
    needs = f"Describe on group {name}"

    def look() -> DescribedGroup:
        answer = client.ask_node(client.coordinator(name, transactional=False), lambda c: _request(c, name))
        [group] = answer.groups
        if group.error_code == GROUP_ID_NOT_FOUND:
            return DescribedGroup(name, DEAD, "", ())
        client.check(group.error_code, f"group {name}", needs)
        members = tuple(
            GroupMember(
                member.client_id,
                member.client_host,
                bytes(member.member_metadata or b""),
                bytes(member.member_assignment or b""),
            )
            for member in group.members
        )
        return DescribedGroup(name, group.group_state, group.protocol_type, members)

    return client.retry(look)


def _request(connection: Connection, name: str) -> Any:
    version = connection.version(ApiKey.DescribeGroups, lowest=4, highest=6)
    return DescribeGroupsRequest(version=version, groups=[name], include_authorized_operations=False)
