"""Which topics are copied, how they are created, and how a run that goes on follows what happens to them.

One run of two flows, the usual policy and the identity policy, goes on until the last test has judged it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from integration.scenario import client_of
from judge import compare, java_records
from mirroring import (
    LiveMirror,
    admin_of,
    await_true,
    create_topics,
    flow_settings,
    live_mirror,
    log_ends,
    move_log_start,
    numbered,
    partitions_of,
    produce,
    topic_configs,
    topics_of,
    write_settings,
)

from sparkmirror.clusters import ClusterClient, NewTopic
from sparkmirror.clusters import create_topics as create_on
from sparkmirror.config import load
from sparkmirror.control import TopicControl
from sparkmirror.local import LocalCluster

IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
CONFIGS = {
    "cleanup.policy": "compact,delete",
    "retention.ms": "123456789",
    "max.message.bytes": "2000000",
    "min.insync.replicas": "1",
    "message.timestamp.type": "CreateTime",
    "follower.replication.throttled.replicas": "*",
}
COPIED: dict[str, tuple[int, dict[str, str]]] = {
    "topics-configured": (3, CONFIGS),
    "topics-plain": (2, {}),
    "topics-growing": (1, {}),
    "topics-more-on-the-target": (1, {}),
    "elsewhere.topics-plain": (1, {}),
    "x.topics-y.internal": (1, {}),
}
REFUSED: dict[str, tuple[int, dict[str, str]]] = {
    "topics-excluded": (1, {}),
    "other": (1, {}),
    "topics-to.topics-plain": (1, {}),
    "elsewhere.topics-to.topics-plain": (1, {}),
    "mm2-topics-y.internal": (1, {}),
    "q-topics.checkpoints.internal": (1, {}),
    "__topics-u": (1, {}),
    ".topics-dot": (1, {}),
    "topics-" + "n" * 242: (1, {}),
}


@pytest.fixture(scope="module")
def mirror(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveMirror]:
    """The run that goes on."""
    create_topics(source_cluster, COPIED | REFUSED | {"identical-one": (2, {}), "identical-heartbeats": (1, {})})
    create_topics(target_cluster, {"topics.topics-more-on-the-target": (3, {})})
    for topic, (partitions, _) in (COPIED | {"identical-one": (2, {}), "identical-heartbeats": (1, {})}).items():
        for partition in range(partitions):
            produce(source_cluster, topic, partition, numbered(5))
    for topic in REFUSED:
        produce(source_cluster, topic, 0, [b"not to be copied"])
    usual = flow_settings(
        source_cluster,
        target_cluster,
        alias="topics",
        topics=".*topics.*",
        more={"topics.exclude": ".*excluded, nothing.*"},
    )
    identity = flow_settings(
        source_cluster,
        target_cluster,
        alias="identity",
        topics="identical-.*",
        more={"replication.policy.class": IDENTITY},
    )
    path = write_settings(tmp_path_factory.mktemp("topics") / "mm2.properties", usual, identity)
    with live_mirror(path) as running:
        await_copied(source_cluster, target_cluster, "topics-plain", "topics.topics-plain", 60.0)
        await_copied(source_cluster, target_cluster, "identical-one", "identical-one")
        yield running
        outcome = running.stop()
    assert outcome.status == 0, outcome.output


def await_copied(source: LocalCluster, target: LocalCluster, topic: str, remote: str, seconds: float = 120.0) -> None:
    """Waits until the remote topic is as long as the source's; both without gaps."""
    wanted = log_ends(source, topic)
    await_true(
        lambda: partitions_of(target, remote) >= len(wanted) and wanted.items() <= log_ends(target, remote).items(),
        seconds,
        f"{topic} is copied",
    )


def is_same(source: LocalCluster, target: LocalCluster, topic: str, remote: str) -> bool:
    return compare(java_records(source.bootstrap, topic), java_records(target.bootstrap, remote)) == []


def test_only_wanted_topics_are_copied(mirror: LiveMirror, target_cluster: LocalCluster) -> None:
    found = {name for name in topics_of(target_cluster) if "topics" in name and not name.startswith("mm2-")}
    assert found == {f"topics.{topic}" for topic in COPIED} | {"topics.checkpoints.internal"}


def test_partition_counts_follow_the_source(mirror: LiveMirror, target_cluster: LocalCluster) -> None:
    assert partitions_of(target_cluster, "topics.topics-configured") == 3
    assert partitions_of(target_cluster, "topics.topics-plain") == 2


def test_settings_are_copied_at_creation_but_not_the_excluded_ones(
    mirror: LiveMirror, target_cluster: LocalCluster
) -> None:
    """testSyncTopicConfig (…ForwardingAdmin): settings arrive with the topic."""
    found = topic_configs(target_cluster, "topics.topics-configured")
    wanted = {key: CONFIGS[key] for key in ("cleanup.policy", "retention.ms", "max.message.bytes")}
    assert {key: value for key, value in found.items() if key in CONFIGS} == wanted


@pytest.mark.fault("F32")
def test_more_partitions_on_the_target_stay(
    mirror: LiveMirror, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    topic = "topics-more-on-the-target"
    await_copied(source_cluster, target_cluster, topic, f"topics.{topic}")
    assert log_ends(target_cluster, f"topics.{topic}") == {0: 5, 1: 0, 2: 0}


def test_a_new_topic_is_found_while_running(
    mirror: LiveMirror, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    create_topics(source_cluster, {"topics-late": (2, {"retention.ms": "99999999"})})
    for partition in range(2):
        produce(source_cluster, "topics-late", partition, numbered(50))
    await_copied(source_cluster, target_cluster, "topics-late", "topics.topics-late", 60.0)
    assert topic_configs(target_cluster, "topics.topics-late")["retention.ms"] == "99999999"


@pytest.mark.fault("F32")
def test_added_partitions_are_followed_while_running(
    mirror: LiveMirror, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    """testCreatePartitions (…ForwardingAdmin), without a class of its own for it."""
    topic = "topics-growing"
    with admin_of(source_cluster) as admin:
        admin.create_partitions({topic: 4})
    await_true(lambda: partitions_of(source_cluster, topic) == 4)
    for partition in range(4):
        produce(source_cluster, topic, partition, numbered(10 + partition))
    await_copied(source_cluster, target_cluster, topic, f"topics.{topic}", 60.0)
    assert is_same(source_cluster, target_cluster, topic, f"topics.{topic}")


def test_records_that_arrive_while_running_are_copied_once(
    mirror: LiveMirror, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    """Dedicated testSingleNodeCluster."""
    for _ in range(20):
        produce(source_cluster, "topics-plain", 0, numbered(7), batch=2)
        produce(source_cluster, "topics-plain", 1, numbered(3), batch=1)
    await_copied(source_cluster, target_cluster, "topics-plain", "topics.topics-plain")
    assert is_same(source_cluster, target_cluster, "topics-plain", "topics.topics-plain")


def test_the_identity_policy_keeps_names(
    mirror: LiveMirror, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    assert is_same(source_cluster, target_cluster, "identical-one", "identical-one")
    assert "identity.identical-one" not in topics_of(target_cluster)


def test_the_identity_policy_renames_topics_of_heartbeats(
    mirror: LiveMirror, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    await_copied(source_cluster, target_cluster, "identical-heartbeats", "identity.identical-heartbeats")
    assert "identical-heartbeats" not in topics_of(target_cluster)


def test_a_source_topic_recreated_while_running_stops_with_the_reason(
    mirror: LiveMirror, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    create_topics(source_cluster, {"topics-reborn": (1, {})})
    produce(source_cluster, "topics-reborn", 0, numbered(5))
    await_copied(source_cluster, target_cluster, "topics-reborn", "topics.topics-reborn", 60.0)
    with admin_of(source_cluster) as admin:
        admin.delete_topics(["topics-reborn"])
        await_true(lambda: "topics-reborn" not in admin.list_topics())
    create_topics(source_cluster, {"topics-reborn": (1, {})})
    produce(source_cluster, "topics-reborn", 0, numbered(20))
    mirror.await_said("SOURCE_TOPIC_RECREATED")
    assert log_ends(target_cluster, "topics.topics-reborn") == {0: 5}


def test_a_log_start_moved_up_to_the_position_disturbs_nothing(
    mirror: LiveMirror, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    await_copied(source_cluster, target_cluster, "topics-plain", "topics.topics-plain")
    move_log_start(source_cluster, "topics-plain", 0, log_ends(source_cluster, "topics-plain")[0])
    produce(source_cluster, "topics-plain", 0, numbered(5))
    await_copied(source_cluster, target_cluster, "topics-plain", "topics.topics-plain")


@pytest.mark.fault("F26")
def test_a_deleted_source_topic_is_told_and_others_go_on(
    mirror: LiveMirror, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    create_topics(source_cluster, {"topics-gone": (1, {})})
    produce(source_cluster, "topics-gone", 0, numbered(5))
    await_copied(source_cluster, target_cluster, "topics-gone", "topics.topics-gone", 60.0)
    with admin_of(source_cluster) as admin:
        admin.delete_topics(["topics-gone"])
    mirror.await_said("topics-gone is gone")
    produce(source_cluster, "topics-plain", 0, numbered(5))
    await_copied(source_cluster, target_cluster, "topics-plain", "topics.topics-plain")
    assert log_ends(target_cluster, "topics.topics-gone") == {0: 5}


def test_a_deleted_source_topic_does_not_keep_new_ones_from_being_found(
    mirror: LiveMirror, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    for topic in ("topics-gone-too", "topics-after-it"):
        create_topics(source_cluster, {topic: (1, {})})
        produce(source_cluster, topic, 0, numbered(5))
        await_copied(source_cluster, target_cluster, topic, f"topics.{topic}", 60.0)
        said = len(mirror.output)
        with admin_of(source_cluster) as admin:
            admin.delete_topics([topic])
        mirror.await_said(f"{topic} is gone", after=said)


def test_a_topic_that_comes_up_during_a_look_is_found_by_the_next(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a chain, the flow before creates topics at any moment; between our look and its end is one of them."""
    usual = flow_settings(source_cluster, target_cluster, alias="looks", topics="looked-.*")
    flow = load(str(write_settings(tmp_path / "mm2.properties", usual))).flows[0]
    create_topics(source_cluster, {"looked-first": (1, {})})

    def create_meanwhile(client: ClusterClient, topics: list[NewTopic]) -> dict[str, str | None]:
        if "looked-second" not in topics_of(source_cluster):
            create_topics(source_cluster, {"looked-second": (1, {})})
        return create_on(client, topics)

    monkeypatch.setattr("sparkmirror.control.topics.create_topics", create_meanwhile)
    control = TopicControl(flow)
    with client_of(source_cluster) as source, client_of(target_cluster) as target:
        assert [topic.topic for topic in control.discover(source, target).topics] == ["looked-first"]
        assert [topic.topic for topic in control.discover(source, target).topics] == ["looked-first", "looked-second"]
