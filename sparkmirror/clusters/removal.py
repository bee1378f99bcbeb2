"""Taking away: topics, waited for until no broker shows them any more, groups, and commits of groups."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from kafka.protocol.admin import DeleteGroupsRequest, DeleteTopicsRequest
from kafka.protocol.api_key import ApiKey
from kafka.protocol.consumer import OffsetDeleteRequest

from sparkmirror.clusters import clock
from sparkmirror.clusters.client import ClusterClient, by_topic
from sparkmirror.clusters.connection import Connection
from sparkmirror.clusters.error_codes import is_retriable
from sparkmirror.clusters.metadata import metadata_request, metadata_version, read_metadata
from sparkmirror.errors import ClusterUnreachable
from sparkmirror.model import TopicPartition
from sparkmirror.wire.error_codes import GROUP_ID_NOT_FOUND, UNKNOWN_TOPIC_OR_PARTITION

TIMEOUT_MS = 30_000
# A broker shows a deleted topic until it has heard of it; a name that is still shown cannot be created again.
GONE_S = 60.0
PAUSE_S = 0.1


def delete_topics(client: ClusterClient, names: Collection[str]) -> None:
    """Deletes topics and waits until no broker shows them; one that is not there is fine."""
    wanted = list(names)
    if not wanted:
        return

    def build(connection: Connection) -> Any:
        version = connection.version(ApiKey.DeleteTopics, lowest=4, highest=5)
        return DeleteTopicsRequest(version=version, topic_names=wanted, timeout_ms=TIMEOUT_MS)

    def ask() -> None:
        for result in client.ask_any(build).responses:
            if result.error_code != UNKNOWN_TOPIC_OR_PARTITION:
                client.check(result.error_code, f"deletion of {result.name}", f"Delete on topic {result.name}")

    client.retry(ask)
    _await_gone(client, set(wanted))


def _await_gone(client: ClusterClient, names: set[str]) -> None:
    deadline = clock.now() + GONE_S
    while shown := _shown(client, names):
        if clock.now() > deadline:
            node, name = shown
            raise ClusterUnreachable(f"cluster {client.alias}: broker {node} still shows {name}, deleted {GONE_S:g} s ago")
        clock.pause(PAUSE_S)


def _shown(client: ClusterClient, names: set[str]) -> tuple[int, str] | None:
    """A broker that shows one of the topics, and which; each broker is asked for itself."""
    for node in client.view(()).brokers:
        answer = client.ask_node(node, lambda c: metadata_request(None, metadata_version(c)))
        found = {topic.name for topic in read_metadata(answer).topics.values() if topic.error != UNKNOWN_TOPIC_OR_PARTITION}
        if names & found:
            return node, min(names & found)
    return None


def delete_group_offsets(
    client: ClusterClient, group: str, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """Takes back what a group committed; the error code of each partition, 0 for done. Members may not read there."""
    wanted = list(partitions)

    def send() -> dict[TopicPartition, int]:
        answer = client.ask_node(client.coordinator(group, transactional=False), lambda c: _offset_delete(c, group, wanted))
        if answer.error_code == GROUP_ID_NOT_FOUND:
            return dict.fromkeys(wanted, 0)
        client.check(answer.error_code, f"commits of group {group}", f"Delete on group {group}")
        return {
            TopicPartition(topic.name, part.partition_index): int(part.error_code)
            for topic in answer.topics
            for part in topic.partitions
        }

    return client.retry(send) if wanted else {}


def delete_groups(client: ClusterClient, groups: Collection[str]) -> dict[str, int]:
    """Removes groups without members, with all that they committed; the error code of each, 0 for done or not there."""

    def send(group: str) -> int:
        answer = client.ask_node(
            client.coordinator(group, transactional=False),
            lambda c: DeleteGroupsRequest(
                version=c.version(ApiKey.DeleteGroups, lowest=0, highest=2), groups_names=[group]
            ),
        )
        [found] = answer.results
        if is_retriable(found.error_code):
            client.check(found.error_code, f"removal of group {group}")
        return 0 if found.error_code == GROUP_ID_NOT_FOUND else int(found.error_code)

    return {group: client.retry(lambda group=group: send(group)) for group in groups}  # type: ignore[misc]


def _offset_delete(connection: Connection, group: str, partitions: list[TopicPartition]) -> Any:
    version = connection.version(ApiKey.OffsetDelete, lowest=0, highest=0)
    topic_type = OffsetDeleteRequest.OffsetDeleteRequestTopic
    entry = topic_type.OffsetDeleteRequestPartition
    return OffsetDeleteRequest(
        version=version,
        group_id=group,
        topics=[
            topic_type(
                version=version,
                name=name,
                partitions=[entry(version=version, partition_index=index) for index in indexes],
            )
            for name, indexes in by_topic(partitions).items()
        ],
    )
