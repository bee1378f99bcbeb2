"""Consumer groups on the wire: which there are, what they have committed, and commits in their name.

A commit without a member is what Kafka's own admin client sends: the coordinator takes it only while the group has no
members (UNKNOWN_MEMBER_ID otherwise), so that "empty" is judged where and when the commit happens.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import ListGroupsRequest
from kafka.protocol.api_key import ApiKey
from kafka.protocol.consumer import OffsetCommitRequest, OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from sparkmirror.clusters.client import ClusterClient, by_topic
from sparkmirror.clusters.connection import Connection
from sparkmirror.clusters.membership import JoinedMember
from sparkmirror.errors import ClusterUnreachable, ConnectionLost
from sparkmirror.model import TopicPartition
from sparkmirror.wire import error_codes as codes

GROUPS_PER_REQUEST_MAX = 100
NO_OFFSET = -1
# A coordinator that moved or loads: ask again, at the one that is named now. Other codes, retriable or not, are the
# partition's own: one that was deleted must not hold up the commits of the others.
COORDINATOR_MOVED = frozenset(
    {codes.COORDINATOR_LOAD_IN_PROGRESS, codes.COORDINATOR_NOT_AVAILABLE, codes.NOT_COORDINATOR}
)
# Without the right to describe a group or transactional id, the coordinator is hidden.
COORDINATOR_HIDDEN = frozenset({codes.GROUP_AUTHORIZATION_FAILED, codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED})


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A group as its coordinator lists it; `kind` is empty for brokers that know only one."""

    name: str
    protocol: str
    state: str
    kind: str


@dataclass(frozen=True, slots=True)
class Committed:
    """One commit; `offset` is the next record to read."""

    offset: int
    metadata: str


@dataclass(slots=True)
class GroupOffsets:
    """What a group has committed, None where a client committed "nothing"; `error` if some of it could not be read.

    A commit inside an open transaction is not read: its partition is missing with UNSTABLE_OFFSET_COMMIT (88).
    """

    committed: dict[TopicPartition, Committed | None]
    error: int


def list_groups(client: ClusterClient) -> list[ListedGroup]:
    """Every group that a live broker coordinates."""

    def look() -> list[ListedGroup]:
        found: dict[str, ListedGroup] = {}
        for node in client.view(()).brokers:
            answer = client.ask_node(node, _list_groups_request)
            client.check(answer.error_code, f"groups of broker {node}")
            for group in answer.groups:
                kind = getattr(group, "group_type", None) or ""
                found[group.group_id] = ListedGroup(group.group_id, group.protocol_type, group.group_state or "", kind)
        return sorted(found.values(), key=lambda group: group.name)

    return client.retry(look)


def _list_groups_request(connection: Connection) -> Any:
    version = connection.version(ApiKey.ListGroups, lowest=4, highest=5)
    return ListGroupsRequest(version=version, states_filter=[], types_filter=[])


def committed_offsets(client: ClusterClient, groups: Collection[str]) -> dict[str, GroupOffsets]:
    """What each group has committed. A group that may not be read says so and does not keep the others from it."""
    found: dict[str, GroupOffsets] = {}

    def look() -> None:
        rest = [group for group in groups if group not in found]
        moved = 0
        for node, names in _by_coordinator(client, rest):
            if node < 0:
                found.update({name: GroupOffsets({}, -node) for name in names})
                _forget(client, names)  # rights may come
                continue
            answer = _ask(client, node, names, functools.partial(_fetch_request, groups=names))
            for name, offsets in _read_fetched(answer):
                if offsets.error in COORDINATOR_MOVED:
                    _forget(client, [name])
                    moved = offsets.error
                else:
                    found[name] = offsets
        client.check(moved, "commits of groups")

    client.retry(look)
    return found


def _nodes_of(client: ClusterClient, groups: Collection[str]) -> dict[str, int]:
    """The coordinator of each group, remembered until it moves; many are asked for in one request.

    A group that we have no rights for has the error code, negative, in its place: it must not hold up the others.
    """
    unknown = [group for group in groups if group not in client.group_nodes]
    for start in range(0, len(unknown), GROUPS_PER_REQUEST_MAX):
        some = unknown[start : start + GROUPS_PER_REQUEST_MAX]
        client.group_nodes |= client.retry(lambda some=some: _find_coordinators(client, some))  # type: ignore[misc]
    return {group: client.group_nodes[group] for group in groups}


def _forget(client: ClusterClient, groups: Collection[str]) -> None:
    for group in groups:
        client.group_nodes.pop(group, None)


def _find_coordinators(client: ClusterClient, groups: list[str]) -> dict[str, int]:
    def build(connection: Connection) -> Any:
        version = connection.version(ApiKey.FindCoordinator, lowest=4, highest=4)
        return FindCoordinatorRequest(version=version, key_type=0, coordinator_keys=groups)

    answer = client.ask_any(build)
    for found in answer.coordinators:
        if found.error_code not in COORDINATOR_HIDDEN:
            client.check(found.error_code, f"coordinator of group {found.key}")
    return {c.key: -c.error_code if c.error_code else int(c.node_id) for c in answer.coordinators}


def _ask(client: ClusterClient, node: int, groups: list[str], build: Callable[[Connection], Any]) -> Any:
    try:
        return client.ask_node(node, build)
    except (ClusterUnreachable, ConnectionLost):
        _forget(client, groups)
        raise


def _by_coordinator(client: ClusterClient, groups: Collection[str]) -> Iterator[tuple[int, list[str]]]:
    nodes: dict[int, list[str]] = {}
    for group, node in _nodes_of(client, groups).items():
        nodes.setdefault(node, []).append(group)
    for node, names in nodes.items():
        for start in range(0, len(names), GROUPS_PER_REQUEST_MAX):
            yield node, names[start : start + GROUPS_PER_REQUEST_MAX]


def _fetch_request(connection: Connection, groups: Collection[str]) -> Any:
    version = connection.version(ApiKey.OffsetFetch, lowest=8, highest=9)
    entry = OffsetFetchRequest.OffsetFetchRequestGroup
    wanted = [entry(version=version, group_id=name, member_id=None, member_epoch=-1, topics=None) for name in groups]
    return OffsetFetchRequest(version=version, groups=wanted, require_stable=True)


def _read_fetched(answer: Any) -> Iterator[tuple[str, GroupOffsets]]:
    for group in answer.groups:
        found = GroupOffsets({}, group.error_code)
        for topic in group.topics:
            for part in topic.partitions:
                if part.error_code:
                    found.error = part.error_code
                    continue
                is_set = part.committed_offset != NO_OFFSET
                value = Committed(part.committed_offset, part.metadata or "") if is_set else None
                found.committed[TopicPartition(topic.name, part.partition_index)] = value
        yield group.group_id, found


def commit_offsets(
    client: ClusterClient, group: str, offsets: Mapping[TopicPartition, Committed], member: JoinedMember | None = None
) -> dict[TopicPartition, int]:
    """Commits for a group without members, or as one of its members; the error code of each partition, 0 for done."""

    def send() -> dict[TopicPartition, int]:
        node = _nodes_of(client, [group])[group]
        if node < 0:
            _forget(client, [group])
            return dict.fromkeys(offsets, -node)
        answer = _ask(client, node, [group], lambda c: _commit_request(c, group, offsets, member))
        codes = {
            TopicPartition(topic.name, part.partition_index): int(part.error_code)
            for topic in answer.topics
            for part in topic.partitions
        }
        moved = COORDINATOR_MOVED & set(codes.values())
        if moved:
            _forget(client, [group])
            client.check(min(moved), f"commit for group {group}")
        return codes

    return client.retry(send)


def _commit_request(
    connection: Connection, group: str, offsets: Mapping[TopicPartition, Committed], member: JoinedMember | None
) -> Any:
    version = connection.version(ApiKey.OffsetCommit, lowest=7, highest=9)
    topic_type = OffsetCommitRequest.OffsetCommitRequestTopic
    entry = topic_type.OffsetCommitRequestPartition
    topics = []
    for name, indexes in by_topic(list(offsets)).items():
        commits = [(index, offsets[TopicPartition(name, index)]) for index in indexes]
        partitions = [
            entry(
                version=version,
                partition_index=index,
                committed_offset=commit.offset,
                committed_leader_epoch=-1,  # that of the source says nothing about the target (G10)
                committed_metadata=commit.metadata,
            )
            for index, commit in commits
        ]
        topics.append(topic_type(version=version, name=name, partitions=partitions))
    return OffsetCommitRequest(
        version=version,
        group_id=group,
        generation_id_or_member_epoch=-1 if member is None else member.generation,
        member_id="" if member is None else member.member_id,
        group_instance_id=None if member is None else member.instance,
        topics=topics,
    )
