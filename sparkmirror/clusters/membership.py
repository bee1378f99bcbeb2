"""A static member of a consumer group of the classic kind, which reads nothing: it is there, and commits.

Each member names its partitions in its subscription, as those that it owns, and whoever leads the group assigns to each
member what it named. So members of several processes share a group, and Kafka's tools show whose each partition is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

from kafka.protocol.api_key import ApiKey
from kafka.protocol.consumer import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from sparkmirror.clusters.client import ClusterClient, by_topic
from sparkmirror.clusters.connection import Connection
from sparkmirror.model import TopicPartition
from sparkmirror.wire import error_codes as codes

PROTOCOL_TYPE, PROTOCOL = "consumer", "sparkmirror"
FORMAT = 1  # of subscription and assignment: the first in which a member says what it owns
SESSION_MS = 10_000  # a member that died is gone from the group after this time
REBALANCE_MS = 10_000
# The coordinator says that the group goes on without us, or begins anew.
REJOIN = frozenset(
    {codes.ILLEGAL_GENERATION, codes.UNKNOWN_MEMBER_ID, codes.REBALANCE_IN_PROGRESS, codes.COORDINATOR_NOT_AVAILABLE,
     codes.NOT_COORDINATOR, codes.COORDINATOR_LOAD_IN_PROGRESS}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """Who commits, as the coordinator knows it."""

    instance: str
    member_id: str
    generation: int


class GroupMembership:
    """One member, named `instance`; another process with this name takes its place. For one thread."""

    def __init__(self, client: ClusterClient, group: str, instance: str) -> None:
        self._client, self._group, self._instance = client, group, instance
        self._node = -1
        self.member: JoinedMember | None = None

    def join(self, partitions: Collection[TopicPartition]) -> None:
        """Joins, or joins again with other partitions; waits for a coordinator that loads; raises if it refuses."""
        self._client.retry(lambda: self._join(partitions))

    def _join(self, partitions: Collection[TopicPartition]) -> None:
        self._node = self._client.coordinator(self._group, transactional=False)
        answer = self._ask(lambda connection: self._join_request(connection, partitions))
        self._check(answer.error_code, "joining")
        member = JoinedMember(self._instance, answer.member_id, answer.generation_id)
        is_leader = answer.leader == answer.member_id
        assigned = [(found.member_id, _owned(found.metadata)) for found in answer.members] if is_leader else []
        answer = self._ask(lambda connection: self._sync_request(connection, member, assigned))
        self._check(answer.error_code, "joining")
        self.member = member

    def beat(self) -> bool:
        """A sign of life; False if it has to join again."""
        member = self.member
        if member is None:
            return False
        answer = self._ask(lambda connection: self._beat_request(connection, member))
        if answer.error_code in REJOIN:
            return False
        self._check(answer.error_code, "heartbeat")
        return True

    def leave(self) -> None:
        """Leaves; the group has no active members then, unless others are there."""
        member, self.member = self.member, None
        if member is not None:
            self._ask(lambda connection: self._leave_request(connection, member))

    def _ask(self, build: Callable[[Connection], Any]) -> Any:
        return self._client.ask_node(self._node, build)

    def _check(self, code: int, what: str) -> None:
        if code:
            self.member = None
        self._client.check(code, f"{what} group {self._group}", f"Read on group {self._group}")

    # --- requests ----------------------------------------------------------------------------------------------

    def _join_request(self, connection: Connection, partitions: Collection[TopicPartition]) -> Any:
        version = connection.version(ApiKey.JoinGroup, lowest=5, highest=9)
        protocol = JoinGroupRequest.JoinGroupRequestProtocol
        return JoinGroupRequest(
            version=version,
            group_id=self._group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member.member_id if self.member is not None else "",
            group_instance_id=self._instance,
            protocol_type=PROTOCOL_TYPE,
            protocols=[protocol(version=version, name=PROTOCOL, metadata=_subscription(partitions))],
            reason=None,
        )

    def _sync_request(
        self, connection: Connection, member: JoinedMember, assigned: Iterable[tuple[str, list[TopicPartition]]]
    ) -> Any:
        version = connection.version(ApiKey.SyncGroup, lowest=3, highest=5)
        entry = SyncGroupRequest.SyncGroupRequestAssignment
        return SyncGroupRequest(
            version=version,
            group_id=self._group,
            generation_id=member.generation,
            member_id=member.member_id,
            group_instance_id=self._instance,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=PROTOCOL,
            assignments=[
                entry(version=version, member_id=name, assignment=_assignment(places)) for name, places in assigned
            ],
        )

    def _beat_request(self, connection: Connection, member: JoinedMember) -> Any:
        version = connection.version(ApiKey.Heartbeat, lowest=3, highest=4)
        return HeartbeatRequest(
            version=version,
            group_id=self._group,
            generation_id=member.generation,
            member_id=member.member_id,
            group_instance_id=self._instance,
        )

    def _leave_request(self, connection: Connection, member: JoinedMember) -> Any:
        version = connection.version(ApiKey.LeaveGroup, lowest=3, highest=5)
        entry = LeaveGroupRequest.MemberIdentity
        leaving = entry(version=version, member_id=member.member_id, group_instance_id=self._instance, reason=None)
        return LeaveGroupRequest(version=version, group_id=self._group, members=[leaving])


def _subscription(partitions: Collection[TopicPartition]) -> bytes:
    owned = ConsumerProtocolSubscription.TopicPartition
    topics = by_topic(sorted(partitions))
    found = ConsumerProtocolSubscription(
        version=FORMAT,
        topics=list(topics),
        user_data=None,
        owned_partitions=[owned(version=FORMAT, topic=topic, partitions=places) for topic, places in topics.items()],
    )
    return bytes(found.encode())


def _owned(metadata: bytes) -> list[TopicPartition]:
    found = ConsumerProtocolSubscription.decode(metadata)
    return [TopicPartition(owned.topic, index) for owned in found.owned_partitions for index in owned.partitions]


def _assignment(partitions: Collection[TopicPartition]) -> bytes:
    entry = ConsumerProtocolAssignment.TopicPartition
    found = ConsumerProtocolAssignment(
        version=FORMAT,
        assigned_partitions=[
            entry(version=FORMAT, topic=topic, partitions=places) for topic, places in by_topic(list(partitions)).items()
        ],
        user_data=None,
    )
    return bytes(found.encode())
