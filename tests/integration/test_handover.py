"""One flow, one file, two programs: Java MirrorMaker 2 and sparkmirror take over from each other."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from faults.workload import MirrorProcess, Workload, run_once, wait_until, write_properties
from judge import compare, java_records
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from sparkmirror.local import MirrorMaker, create_topic

MM2_QUICK = """
offset.lag.max = 100
target.offset.flush.interval.ms = 1000
refresh.topics.interval.seconds = 2
emit.checkpoints.interval.seconds = 2
sync.topic.acls.enabled = false
tasks.max = 2
"""


def produce(bootstrap: str, topic: str, first: int, count: int) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=5)
    for number in range(first, first + count):
        producer.send(topic, value=f"record {number}".encode(), key=str(number % 13).encode(), partition=number % 2)
    producer.close()


def end_offsets(bootstrap: str, topic: str, partitions: int) -> int:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    try:
        if topic not in consumer.topics():
            return 0
        ends = consumer.end_offsets([TopicPartition(topic, index) for index in range(partitions)])
        return sum(ends.values())
    finally:
        consumer.close()


@pytest.mark.nightly
@pytest.mark.fault("F11")
@pytest.mark.timeout(600)
def test_mm2_then_sparkmirror_then_mm2_copies_every_record_once(source_cluster, target_cluster, topic_name, tmp_path):
    topic = topic_name("handover")
    remote = f"hand.{topic}"
    create_topic(source_cluster.bootstrap, topic, partitions=2)
    path = write_properties(
        tmp_path, source_cluster.bootstrap, target_cluster.bootstrap, alias="hand", topics=topic, more=MM2_QUICK
    )
    produce(source_cluster.bootstrap, topic, 0, 1000)
    with MirrorMaker(path.read_text(), name="first") as mm2:
        wait_until(lambda: end_offsets(target_cluster.bootstrap, remote, 2) >= 1000, "MM2 copies 1000 records", 90)
        mm2.stop()
    produce(source_cluster.bootstrap, topic, 1000, 1000)
    status, output = run_once(path)
    assert status == 0, output
    assert end_offsets(target_cluster.bootstrap, remote, 2) == 2000, output
    with MirrorProcess(path) as mirror:
        produce(source_cluster.bootstrap, topic, 2000, 1000)
        wait_until(lambda: end_offsets(target_cluster.bootstrap, remote, 2) >= 3000, "ours copies 1000 more", 60)
        assert mirror.interrupt() == 0, mirror.output
    produce(source_cluster.bootstrap, topic, 3000, 1000)
    with MirrorMaker(path.read_text(), name="second") as mm2:
        wait_until(lambda: end_offsets(target_cluster.bootstrap, remote, 2) >= 4000, "MM2 goes on", 90)
        time.sleep(2)  # were something copied twice, it would arrive now
        mm2.stop()
    produce(source_cluster.bootstrap, topic, 4000, 500)
    status, output = run_once(path)
    assert status == 0, output
    assert compare(java_records(source_cluster.bootstrap, topic), java_records(target_cluster.bootstrap, remote)) == []


@pytest.mark.fault("F54")
@pytest.mark.timeout(600)
def test_F54_taking_over_from_a_killed_mm2_copies_nothing_twice(source_cluster, target_cluster, topic_name, tmp_path: Path):
    topic = topic_name("killed-mm2")
    remote = f"dead.{topic}"
    create_topic(source_cluster.bootstrap, topic, partitions=2)
    path = write_properties(
        tmp_path,
        source_cluster.bootstrap,
        target_cluster.bootstrap,
        alias="dead",
        topics=topic,
        # MM2's own default: positions are stored each 60 s, so a killed one has written far past its last one.
        more=MM2_QUICK.replace("target.offset.flush.interval.ms = 1000", ""),
    )
    with Workload(source_cluster.bootstrap, topic, partitions=2, per_second=2000):
        with MirrorMaker(path.read_text(), name="killed") as mm2:
            wait_until(lambda: end_offsets(target_cluster.bootstrap, remote, 2) >= 8000, "MM2 copies under load", 90)
            mm2.kill()
        time.sleep(1)
    copied = end_offsets(target_cluster.bootstrap, remote, 2)
    status, output = run_once(path)
    assert status == 0, output
    source = java_records(source_cluster.bootstrap, topic)
    assert sum(map(len, source.values())) > copied, "the mirror had something left to do"
    assert compare(source, java_records(target_cluster.bootstrap, remote)) == []
