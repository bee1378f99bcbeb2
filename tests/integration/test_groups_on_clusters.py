"""Groups through our door to Kafka, beside Kafka's own kafka-consumer-groups and consumers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest
from integration.mirroring import await_true, create_topics, numbered, produce
from kafka import KafkaConsumer

from sparkmirror.clusters import ClusterClient, Committed, commit_offsets, committed_offsets, list_groups
from sparkmirror.config.values import ClusterSettings
from sparkmirror.local import LocalCluster, consumer_groups
from sparkmirror.model import TopicPartition

UNKNOWN_MEMBER_ID = 25


@pytest.fixture
def client(source_cluster: LocalCluster) -> Iterator[ClusterClient]:
    host, _, port = source_cluster.bootstrap.rpartition(":")
    with contextlib.closing(ClusterClient(ClusterSettings("source", ((host, int(port)),), {}))) as made:
        yield made


@pytest.fixture
def topic(source_cluster: LocalCluster, topic_name: Callable[..., str]) -> str:
    name = topic_name("grouped")
    create_topics(source_cluster, {name: (2, {})})
    for partition in range(2):
        produce(source_cluster, name, partition, numbered(20))
    return name


@pytest.mark.parametrize("group", ["plain", "a,b", 'quo"ted', "line\nbreak", "ümläut 😀", " "], ids=ascii)
def test_commits_of_odd_groups_are_read_back(client: ClusterClient, topic: str, group: str) -> None:
    name = f"{group}{topic}"
    wanted = {TopicPartition(topic, 0): Committed(7, "why not"), TopicPartition(topic, 1): Committed(0, "")}
    assert commit_offsets(client, name, wanted) == dict.fromkeys(wanted, 0)
    found = committed_offsets(client, [name])
    assert (found[name].committed, found[name].error) == (wanted, 0)
    [listed] = [one for one in list_groups(client) if one.name == name]
    assert listed.state == "Empty"


def test_java_reads_what_we_commit_and_we_what_java_commits(
    client: ClusterClient, source_cluster: LocalCluster, topic: str
) -> None:
    commit_offsets(client, f"ours-{topic}", {TopicPartition(topic, 0): Committed(12, "")})
    described = consumer_groups(source_cluster.bootstrap, "--describe", "--group", f"ours-{topic}")
    [line] = [line.split() for line in described.splitlines() if topic in line.split()[1:2]]
    assert line[1:6] == [topic, "0", "12", "20", "8"]

    theirs = f"theirs-{topic}"
    consumer_groups(
        source_cluster.bootstrap, "--reset-offsets", "--group", theirs, "--topic", topic, "--to-offset", "5", "--execute"
    )
    committed = committed_offsets(client, [theirs, "nobody"])
    offsets = {at: found.offset for at, found in committed[theirs].committed.items() if found is not None}
    assert offsets == {TopicPartition(topic, 0): 5, TopicPartition(topic, 1): 5}
    assert committed["nobody"].committed == {}


@pytest.mark.fault("F44")
def test_the_coordinator_refuses_commits_for_a_group_with_members(
    client: ClusterClient, source_cluster: LocalCluster, topic: str
) -> None:
    group, wanted = f"busy-{topic}", {TopicPartition(topic, 0): Committed(3, "")}
    consumer = KafkaConsumer(topic, bootstrap_servers=source_cluster.bootstrap, group_id=group, enable_auto_commit=False)
    with contextlib.closing(consumer):

        def has_joined() -> bool:
            consumer.poll(200)
            return any(one.name == group and one.state == "Stable" for one in list_groups(client))

        await_true(has_joined, 180.0, "the consumer has joined")
        assert commit_offsets(client, group, wanted) == {TopicPartition(topic, 0): UNKNOWN_MEMBER_ID}
        assert committed_offsets(client, [group])[group].committed == {}
    assert commit_offsets(client, group, wanted) == {TopicPartition(topic, 0): 0}
