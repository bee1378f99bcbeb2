"""The client beside Java's own MirrorClient and RemoteClusterUtils, on one real broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from integration.mirroring import (
    create_topics,
    flow_settings,
    now_ms,
    numbered,
    produce,
    run_cleanly,
    transaction,
    transactional,
    write_settings,
)
from judge import java_records
from judge.java_gateway import java_gateway, java_map
from py4j.protocol import Py4JJavaError

from sparkmirror.client import (
    Basis,
    DeadlineReached,
    MirrorClient,
    RemoteOffset,
    RemotePosition,
    TopicPartition,
    translate_offsets,
)
from sparkmirror.clusters import ClusterClient, append_records
from sparkmirror.config import ClusterSettings
from sparkmirror.local import LocalCluster
from sparkmirror.model import Checkpoint
from sparkmirror.wire import encode_checkpoint

Entry = tuple[bytes, bytes | None]
DOCUMENT = Path(__file__).parents[2] / "docs" / "client.md"
AT_ONCE_SECONDS = 5.0  # far less than any of the door's own limits


@pytest.fixture(scope="module")
def asked() -> Iterator[LocalCluster]:
    with LocalCluster("asked") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def jvm() -> Iterator[Any]:
    with java_gateway() as found:
        yield found


@pytest.fixture
def alias(topic_name: Callable[..., str]) -> str:
    """A source that no other test uses."""
    return topic_name("src")


def append(cluster: LocalCluster, topic: str, entries: Sequence[Entry]) -> None:
    host, _, port = cluster.bootstrap.rpartition(":")
    with closing(ClusterClient(ClusterSettings("asked", ((host, int(port)),), {}))) as client:
        append_records(client, TopicPartition(topic, 0), entries, now_ms())


def fill(cluster: LocalCluster, topic: str, entries: Sequence[Entry]) -> None:
    create_topics(cluster, {topic: (1, {"cleanup.policy": "compact"})})
    append(cluster, topic, entries)


def checkpoint(group: str, topic: str, partition: int, downstream: int, metadata: str = "") -> Entry:
    return encode_checkpoint(Checkpoint(group, TopicPartition(topic, partition), 7, downstream, metadata))


def properties_of(cluster: LocalCluster, **more: str) -> dict[str, str]:
    return {"bootstrap.servers": cluster.bootstrap, **more}


def java_offsets(jvm: Any, cluster: LocalCluster, alias: str, group: str) -> dict[TopicPartition, RemoteOffset]:
    """RemoteClusterUtils.translateOffsets."""
    seconds = jvm.java.time.Duration.ofSeconds(30)
    found = jvm.org.apache.kafka.connect.mirror.RemoteClusterUtils.translateOffsets(
        java_map(jvm, properties_of(cluster)), alias, group, seconds
    )
    return {
        TopicPartition(at.topic(), at.partition()): RemoteOffset(value.offset(), value.metadata())
        for at, value in found.items()
    }


# --- checkpoints -----------------------------------------------------------------------------------------------


def test_offsets_of_every_group_are_those_that_java_finds(asked: LocalCluster, jvm: Any, alias: str) -> None:
    groups, topics = ["g", "ümläut 😀", "", "a,b"], [f"{alias}.orders", f"{alias}.b.c", "kept"]
    entries: list[Entry] = [
        checkpoint(group, topic, partition, 1000 * turn + partition, f"m{turn} \0" if partition else "")
        for turn in (3, 1, 2)
        for group in groups
        for topic in topics
        for partition in range(3)
    ]
    whole = checkpoint("g", topics[0], 0, 5)
    assert whole[1] is not None
    entries += [(b"\x7f\x7fnot a key", whole[1]), (whole[0], whole[1][:9]), (whole[0], b"")]
    fill(asked, f"{alias}.checkpoints.internal", entries)
    with MirrorClient(properties_of(asked)) as client:
        for group in [*groups, "nobody"]:
            found = client.remote_consumer_offsets(group, alias, 30)
            assert found == java_offsets(jvm, asked, alias, group)
            assert len(found) == (0 if group == "nobody" else 9)
        assert client.malformed_records == 3


def test_tombstone_removes_an_offset_where_java_fails(asked: LocalCluster, jvm: Any, alias: str) -> None:
    first, second = (checkpoint("g", f"{alias}.orders", partition, 5 + partition) for partition in range(2))
    fill(asked, f"{alias}.checkpoints.internal", [first, second, (first[0], None)])
    left = {TopicPartition(f"{alias}.orders", 1): RemoteOffset(6, "")}
    assert translate_offsets(properties_of(asked), alias, "g", 30) == left
    with pytest.raises(Py4JJavaError, match="NullPointerException"):
        java_offsets(jvm, asked, alias, "g")


# --- deadlines -------------------------------------------------------------------------------------------------


def test_silent_broker_ends_in_an_error_at_the_deadline_and_later_answers(asked: LocalCluster, alias: str) -> None:
    at = TopicPartition(f"{alias}.orders", 0)
    fill(asked, f"{alias}.checkpoints.internal", [checkpoint("g", at.topic, 0, 5)])
    with MirrorClient(properties_of(asked)) as client:
        assert client.remote_consumer_offsets("g", alias, 30) == {at: RemoteOffset(5, "")}
        asked.suspend(1)
        try:
            started = time.monotonic()
            with pytest.raises(DeadlineReached, match=rf"{alias}\.checkpoints\.internal"):
                client.remote_consumer_offsets("g", alias, 0.5)
            assert time.monotonic() - started < AT_ONCE_SECONDS
        finally:
            asked.resume(1)
        assert client.remote_consumer_offsets("g", alias, 30) == {at: RemoteOffset(5, "")}


# --- names -----------------------------------------------------------------------------------------------------

NAMES = [
    "orders", "heartbeats", "source1.heartbeats", "source1.source2.heartbeats", "source3.heartbeats", "source1.orders",
    "source2.source1.orders", "mm2-offsets.source1.internal", "source1.checkpoints.internal", "checkpoints.internal",
    "source1__orders", "x-heartbeats", "dotted.local.name",
]  # fmt: skip


@pytest.fixture(scope="module")
def named(asked: LocalCluster) -> LocalCluster:
    create_topics(asked, {name: (1, {}) for name in NAMES})
    return asked


IDENTITY = {"replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"}


@pytest.mark.parametrize(
    "more",
    [{}, {"replication.policy.separator": "__"}, IDENTITY, IDENTITY | {"source.cluster.alias": "source1"}],
    ids=["default", "separator", "identity", "identity with a source"],
)
def test_answers_about_names_are_those_of_java(named: LocalCluster, jvm: Any, more: dict[str, str]) -> None:
    properties = properties_of(named) | more
    java = jvm.org.apache.kafka.connect.mirror.MirrorClient(java_map(jvm, properties))
    try:
        with MirrorClient(properties) as client:
            assert client.heartbeat_topics() == set(java.heartbeatTopics())
            assert client.checkpoint_topics() == set(java.checkpointTopics())
            assert client.upstream_clusters() == set(java.upstreamClusters())
            assert client.remote_topics() == set(java.remoteTopics())
            for source in ("source1", "source2", "source3", "source4", ""):
                assert client.remote_topics(source) == set(java.remoteTopics(source))
                assert client.replication_hops(source) == java.replicationHops(source)
    finally:
        java.close()


# --- the ledger ------------------------------------------------------------------------------------------------


def test_every_record_of_a_real_copy_is_found_where_java_reads_it(asked: LocalCluster, alias: str, tmp_path: Path) -> None:
    topic = f"{alias}-mixed"
    create_topics(asked, {topic: (1, {})})
    produce(asked, topic, 0, numbered(50))
    with transactional(asked, f"{alias}-tx") as producer:
        for turn in range(6):
            values = [b"turn %d record %d" % (turn, at) for at in range(4)]
            transaction(producer, topic, values, commit=turn % 3 != 1)
    produce(asked, topic, 0, numbered(20, first=50))
    more = {"consumer.isolation.level": "read_committed"}
    run_cleanly(write_settings(tmp_path / "f.properties", flow_settings(asked, asked, alias=alias, topics=topic, more=more)))

    source, remote = TopicPartition(topic, 0), TopicPartition(f"{alias}.{topic}", 0)
    there = {record.offset: record.value for record in java_records(asked.bootstrap, remote.topic)[0]}
    records = java_records(asked.bootstrap, topic, "read_committed")[0]
    assert len(records) == len(there) == 86
    with MirrorClient(properties_of(asked)) as client:
        for record in records:
            found = client.translate_exact(alias, {source: record.offset})[source]
            assert (found.partition, found.basis, there[found.offset]) == (remote, Basis.EXACT, record.value)
        end = records[-1].offset + 1
        assert client.translate_exact(alias, {source: end})[source] == RemotePosition(remote, max(there) + 1, Basis.EXACT)
