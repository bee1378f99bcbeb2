"""Local clusters, the Java tools and MirrorMaker 2 do what their words say, and leave nothing behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import kafka
import pytest
from judge import JudgeRecord, batches, compare
from judge import java_records as resident_records
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import OffsetSpec

from sparkmirror.errors import ClusterUnreachable, InternalError
from sparkmirror.local import (
    LocalCluster,
    MirrorMaker,
    console_produce,
    consumer_groups,
    create_topic,
    delete_records,
    perf_produce,
)
from sparkmirror.local.processes import SCRATCH_PREFIX
from sparkmirror.local.reading import java_records as console_records
from sparkmirror.local.tools import java_tool
from sparkmirror.model import TopicPartition

COPY_SECONDS_MAX = 300.0


def java_records(bootstrap: str, topic: str, isolation: str = "read_uncommitted") -> dict[int, list[JudgeRecord]]:
    """What the console consumer reads, which the demo uses, and Java's consumer in the judge: the same."""
    found = console_records(bootstrap, topic, isolation)
    assert resident_records(bootstrap, topic, isolation) == found
    return found


def wait_until(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    """Returns when the condition holds; fails when it does not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not true within {seconds} s"
        time.sleep(0.1)


def is_alive(pid: int) -> bool:
    """True for a running process; a zombie that nobody reaps counts as dead."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def topics_of(cluster: LocalCluster) -> set[str]:
    with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap)) as admin:
        return set(admin.list_topics())


def odd_records(cluster: LocalCluster, topic: str) -> None:
    """Records with null, empty and binary parts, and headers that print in two ways."""
    with closing(KafkaProducer(bootstrap_servers=cluster.bootstrap)) as producer:
        producer.send(topic, b"\n\x00\xff", b"k", [("a:b", b"c:d"), ("é", b"1"), ("x", b"")], 0, 5)
        producer.send(topic, None, b"tombstone", partition=0)
        producer.send(topic, b"", b"", [("h", b":\x00"), ("h", b"null")], 1)
        producer.flush()


def test_judge_reads_every_part_of_odd_records(source_cluster: LocalCluster, topic_name: Callable[..., str]) -> None:
    topic = topic_name("odd")
    # One record is of 1970: with the usual retention the broker deletes it at some moment.
    create_topic(source_cluster.bootstrap, topic, partitions=3, configs={"retention.ms": "-1"})
    odd_records(source_cluster, topic)
    found = java_records(source_cluster.bootstrap, topic)
    parts = {
        partition: [(record.offset, record.key, record.value, record.headers) for record in records]
        for partition, records in found.items()
    }
    assert parts == {
        0: [
            (0, b"k", b"\n\x00\xff", (("a:b", b"c:d"), ("é", b"1"), ("x", b""))),
            (1, b"tombstone", None, ()),
        ],
        1: [(0, b"", b"", (("h", b":\x00"), ("h", b"null")))],
        2: [],
    }
    assert (found[0][0].timestamp, found[0][0].timestamp_type) == (5, "CreateTime")


def test_judge_tells_null_headers_from_empty_ones(source_cluster: LocalCluster, topic_name: Callable[..., str]) -> None:
    topic = topic_name("null-header")
    create_topic(source_cluster.bootstrap, topic)
    reader = {"parse.headers": "true", "parse.key": "true", "null.marker": "NIL"}
    console_produce(source_cluster.bootstrap, topic, ["a:NIL,b:\tNIL\tvalue", "a:1\tkey\tNIL"], reader=reader)
    [first, second] = java_records(source_cluster.bootstrap, topic)[0]
    assert (first.headers, first.key, first.value) == ((("a", None), ("b", b"")), None, b"value")
    assert (second.headers, second.key, second.value) == ((("a", b"1"),), b"key", None)


def test_judge_sees_aborted_records_only_uncommitted(
    source_cluster: LocalCluster, topic_name: Callable[..., str]
) -> None:
    topic = topic_name("transactions")
    create_topic(source_cluster.bootstrap, topic)
    with closing(KafkaProducer(bootstrap_servers=source_cluster.bootstrap, transactional_id=topic)) as producer:
        producer.init_transactions()
        for value, end in ((b"kept", producer.commit_transaction), (b"dropped", producer.abort_transaction)):
            producer.begin_transaction()
            producer.send(topic, value)
            producer.flush()
            end()
    everything = java_records(source_cluster.bootstrap, topic)
    committed = java_records(source_cluster.bootstrap, topic, "read_committed")
    assert [record.value for record in everything[0]] == [b"kept", b"dropped"]
    assert [record.value for record in committed[0]] == [b"kept"]
    found = batches(source_cluster.log_dirs[1], topic, 0)
    assert [(batch.base_offset, batch.is_transactional, batch.is_control) for batch in found] == [
        (0, True, False),
        (1, True, True),
        (2, True, False),
        (3, True, True),
    ]


def test_records_deleted_by_the_java_tool_are_not_read(
    source_cluster: LocalCluster, topic_name: Callable[..., str]
) -> None:
    topic = topic_name("deleted")
    create_topic(source_cluster.bootstrap, topic)
    console_produce(source_cluster.bootstrap, topic, ["a", "b", "c"])
    delete_records(source_cluster.bootstrap, {TopicPartition(topic, 0): 2})
    assert [(record.offset, record.value) for record in java_records(source_cluster.bootstrap, topic)[0]] == [(2, b"c")]
    delete_records(source_cluster.bootstrap, {TopicPartition(topic, 0): 3})
    assert java_records(source_cluster.bootstrap, topic) == {0: []}


def test_judge_leaves_no_group_behind(source_cluster: LocalCluster, topic_name: Callable[..., str]) -> None:
    topic = topic_name("groups")
    create_topic(source_cluster.bootstrap, topic)
    console_produce(source_cluster.bootstrap, topic, ["a"])
    java_records(source_cluster.bootstrap, topic)
    # Other tests have groups there, too: none has a position or a member on this topic.
    assert topic not in consumer_groups(source_cluster.bootstrap, "--describe", "--all-groups")


@pytest.mark.nightly
def test_mirror_maker_copies_a_topic_and_the_judge_finds_it_identical(
    source_cluster: LocalCluster, target_cluster: LocalCluster, topic_name: Callable[..., str]
) -> None:
    topic = topic_name("orders")
    create_topic(source_cluster.bootstrap, topic, partitions=3)
    odd_records(source_cluster, topic)
    perf_produce(source_cluster.bootstrap, topic, records=2_000, record_bytes=100)
    source = java_records(source_cluster.bootstrap, topic)
    total = sum(map(len, source.values()))
    with MirrorMaker(mirror_properties(source_cluster, target_cluster, topic)) as mirror:
        wait_until(lambda: f"A.{topic}" in _checked_topics(mirror, target_cluster), COPY_SECONDS_MAX)

        def copied() -> bool:
            mirror.check()
            return _log_end_sum(target_cluster, f"A.{topic}") == total

        wait_until(copied, COPY_SECONDS_MAX)
        assert mirror.cpu_seconds > 0
        while_running = mirror.cpu_seconds
        mirror.stop()
        assert not mirror.is_running
        assert mirror.log_file.stat().st_size > 0
        assert mirror.cpu_seconds >= while_running
    target = java_records(target_cluster.bootstrap, f"A.{topic}")
    assert total == 2_003
    assert compare(source, target) == []


def mirror_properties(source: LocalCluster, target: LocalCluster, topic: str) -> dict[str, str]:
    quick = ("refresh.topics", "refresh.groups", "emit.checkpoints", "emit.heartbeats", "sync.topic.configs")
    internal = ("replication.factor", "checkpoints.topic.replication.factor", "heartbeats.topic.replication.factor")
    internal += ("offset-syncs.topic.replication.factor", "offset.storage.replication.factor")
    internal += ("status.storage.replication.factor", "config.storage.replication.factor")
    return {
        "clusters": "A, B",
        "A.bootstrap.servers": source.bootstrap,
        "B.bootstrap.servers": target.bootstrap,
        "A->B.enabled": "true",
        "A->B.topics": re.escape(topic),
        "B->A.enabled": "false",
        **{f"{name}.interval.seconds": "1" for name in quick},
        **dict.fromkeys(internal, "1"),
    }


def _checked_topics(mirror: MirrorMaker, cluster: LocalCluster) -> set[str]:
    mirror.check()
    return topics_of(cluster)


def _log_end_sum(cluster: LocalCluster, topic: str) -> int:
    with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap)) as admin:
        parts = admin.describe_topics([topic])[0]["partitions"]
        places = [kafka.TopicPartition(topic, part["partition_index"]) for part in parts]
        ends = admin.list_partition_offsets(dict.fromkeys(places, OffsetSpec.LATEST))
        return sum(end.offset for end in ends.values())


def test_one_broker_keeps_port_and_data_over_kill_stop_and_suspend(own_cluster: Callable[..., LocalCluster]) -> None:
    cluster = own_cluster("restarts")
    bootstrap = cluster.bootstrap
    create_topic(bootstrap, "kept")
    console_produce(bootstrap, "kept", ["a"])
    cluster.kill(1)
    assert cluster.pids == {}
    cluster.start(1)
    console_produce(bootstrap, "kept", ["b"])
    cluster.stop(1)
    cluster.start(1)
    with pytest.raises(InternalError, match="runs already"):
        cluster.start(1)
    cluster.suspend(1)
    wait_until(lambda: Path(f"/proc/{cluster.pids[1]}/stat").read_text().rpartition(")")[2].split()[0] == "T")
    cluster.resume(1)
    assert cluster.bootstrap == bootstrap
    assert [record.value for record in java_records(bootstrap, "kept")[0]] == [b"a", b"b"]


def test_three_brokers_go_on_without_one_of_them(three_brokers: Callable[..., LocalCluster]) -> None:
    cluster = three_brokers()
    create_topic(cluster.bootstrap, "replicated", partitions=3)
    console_produce(cluster.bootstrap, "replicated", ["a"])
    cluster.kill(2)
    console_produce(cluster.bootstrap, "replicated", ["b"])
    cluster.start(2)
    assert sorted(cluster.pids) == [1, 2, 3]
    found = java_records(cluster.bootstrap, "replicated")
    assert sorted(record.value or b"" for records in found.values() for record in records) == [b"a", b"b"]
    assert all((folder / "replicated-0").is_dir() for folder in cluster.log_dirs.values())


def test_a_data_folder_is_one_that_kafkas_own_tool_calls_formatted(source_cluster: LocalCluster) -> None:
    settings = source_cluster.log_dirs[1].parent / "server.properties"
    found = java_tool("kafka.tools.StorageTool", ["info", "--config", str(settings)]).decode()  # else the status is 1
    assert f"Found log directory:\n  {source_cluster.log_dirs[1]}" in found
    assert "node.id=1" in found and "cluster.id" in found


def test_second_listener_advertises_the_port_of_the_door(own_cluster: Callable[..., LocalCluster]) -> None:
    asked: list[tuple[int, int]] = []

    def door(broker: int, port: int) -> int:
        asked.append((broker, port))
        return port

    cluster = own_cluster("door", door=door)
    [(broker, port)] = asked
    assert (broker, cluster.door_bootstrap) == (1, f"127.0.0.1:{port}")
    assert cluster.door_bootstrap != cluster.bootstrap
    create_topic(cluster.door_bootstrap, "through-the-door")
    assert "through-the-door" in topics_of(cluster)


def test_a_broker_that_cannot_start_tells_its_log_and_leaves_nothing() -> None:
    cluster = LocalCluster("broken", overrides={"num.io.threads": "none"})
    with pytest.raises((ClusterUnreachable, InternalError), match=r"num\.io\.threads"):
        cluster.open()
    assert cluster.pids == {}
    with pytest.raises(InternalError, match="is not open"):
        assert cluster.log_dirs


# A shell starts what it puts into the background with SIGINT ignored, and Python then leaves it so.
KILLED = """
import signal, sys
from sparkmirror.local import LocalCluster
signal.signal(signal.SIGINT, signal.default_int_handler)
with LocalCluster("orphan") as cluster:
    print(cluster.pids[1], flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_brokers_and_folders_die_with_their_process(number: signal.Signals) -> None:
    command = [sys.executable, "-c", KILLED]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as parent:
        assert parent.stdout is not None
        broker = int(parent.stdout.readline())
        folders = list(Path(os.environ.get("TMPDIR", "/tmp")).glob(f"{SCRATCH_PREFIX}{parent.pid}-*"))
        assert is_alive(broker)
        assert len(folders) == 1
        parent.send_signal(number)
        parent.wait(timeout=60)
    wait_until(lambda: not is_alive(broker))
    wait_until(lambda: not folders[0].exists())
