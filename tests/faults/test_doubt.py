"""What the broker said, or did not say, is not trusted: the log is read. On real brokers, judged by Java."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from judge import compare, java_records
from kafka import KafkaProducer
from kafka.admin import ConfigResource, KafkaAdminClient

from faults.proxy import Api, Do, Fault, Link, Proxy, is_data
from faults.workload import MirrorProcess, Workload, run_once, wait_until, write_properties
from sparkmirror.local import create_topic

WARM_REQUESTS = 3  # the first goes alone, until its answer is there
TWO_DAYS_MS = 2 * 24 * 3600 * 1000
REMEMBERED = 5  # batches of each producer and partition that brokers remember
FULL_SECONDS = 5.0


def is_copying(mirror: MirrorProcess) -> bool:
    return len(mirror.workers()) >= 1


def await_full(link: Link, requests: int) -> None:
    """Until so many requests are unanswered, or no more come: then as much is in flight as may be."""
    seen, since = len(link.owed), time.monotonic()
    while seen < requests and time.monotonic() < since + FULL_SECONDS:
        time.sleep(0.05)
        if len(link.owed) != seen:
            seen, since = len(link.owed), time.monotonic()
    assert seen >= 1, "nothing is in flight"


@pytest.mark.fault("F17", "F49")
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "age_ms",
    [pytest.param(0, id="fresh records", marks=pytest.mark.nightly), pytest.param(TWO_DAYS_MS, id="records two days old")],
)
def test_F17_F49_answers_cut_in_mid_flight_double_nothing(
    age_ms: int, source_cluster, own_cluster, topic_name, tmp_path: Path
):
    proxies: list[Proxy] = []

    def door(_broker: int, port: int) -> int:
        proxies.append(Proxy(port))
        return proxies[-1].port

    target = own_cluster("cut", door=door)
    topic = topic_name("cut")
    create_topic(source_cluster.bootstrap, topic, partitions=2)
    path = write_properties(
        tmp_path, source_cluster.bootstrap, target.door_bootstrap, alias=f"cut{age_ms}", topics=topic
    )
    timestamp = int(time.time() * 1000) - age_ms if age_ms else None
    with Workload(source_cluster.bootstrap, topic, partitions=2, per_second=6000, timestamp_ms=timestamp), MirrorProcess(
        path
    ) as mirror:
        wait_until(lambda: is_copying(mirror), "a slot runs")
        for in_flight in (1, REMEMBERED, REMEMBERED + 1):
            held = proxies[0].arm(Fault(Api.PRODUCE, Do.HOLD, skip=WARM_REQUESTS, of=is_data))
            held.await_hits()
            [link] = held.links
            # Five batches of each partition may be in flight, in five requests or, after a pause, in fewer.
            await_full(link, in_flight)
            proxies[0].cut(link)
            held.release()
    status, output = run_once(path)
    proxies[0].close()
    assert status == 0, output
    assert (
        compare(
            java_records(source_cluster.bootstrap, topic), java_records(target.bootstrap, f"cut{age_ms}.{topic}")
        )
        == []
    )


@pytest.mark.fault("F13", "F49")
@pytest.mark.timeout(600)
def test_F13_F49_target_restarts_with_records_two_days_old_double_nothing(
    source_cluster, own_cluster, topic_name, tmp_path: Path
):
    target = own_cluster("restarted")
    topic = topic_name("old")
    create_topic(source_cluster.bootstrap, topic, partitions=2)
    path = write_properties(tmp_path, source_cluster.bootstrap, target.bootstrap, alias="old", topics=topic)
    timestamp = int(time.time() * 1000) - TWO_DAYS_MS
    with Workload(source_cluster.bootstrap, topic, partitions=2, per_second=4000, timestamp_ms=timestamp), MirrorProcess(
        path
    ) as mirror:
        wait_until(lambda: is_copying(mirror), "a slot runs")
        time.sleep(2)
        target.stop(1)  # a clean restart makes the broker forget producers whose records are old (R2)
        target.start(1)
        time.sleep(2)
        target.kill(1)
        target.start(1)
        time.sleep(2)
    status, output = run_once(path)
    assert status == 0, output
    assert compare(java_records(source_cluster.bootstrap, topic), java_records(target.bootstrap, f"old.{topic}")) == []


@pytest.mark.fault("F50")
@pytest.mark.timeout(600)
def test_F50_a_refused_first_batch_with_more_behind_it_leaves_no_hole(
    source_cluster, target_cluster, topic_name, tmp_path: Path
):
    topic = topic_name("first")
    create_topic(source_cluster.bootstrap, topic, partitions=1)
    create_topic(target_cluster.bootstrap, f"first.{topic}", partitions=1)
    path = write_properties(
        tmp_path, source_cluster.bootstrap, target_cluster.bootstrap, alias="first", topics=topic
    )
    with MirrorProcess(path) as mirror:
        wait_until(lambda: is_copying(mirror), "a slot runs")
        time.sleep(3)  # the slot has read the target's limits; from now on they are other ones
        admin = KafkaAdminClient(bootstrap_servers=target_cluster.bootstrap)
        admin.alter_configs([ConfigResource("TOPIC", f"first.{topic}", {"max.message.bytes": "20000"})])
        admin.close()
        producer = KafkaProducer(
            bootstrap_servers=source_cluster.bootstrap, acks="all", linger_ms=200, batch_size=200_000
        )
        for number in range(60):
            producer.send(topic, value=b"%d " % number + b"l" * 1000, partition=0)
        producer.flush()
        for number in range(60, 160):
            producer.send(topic, value=b"%d " % number, partition=0).get(10)
        producer.close()
        target_topic = f"first.{topic}"
        wait_until(lambda: len(java_records(target_cluster.bootstrap, target_topic).get(0, [])) >= 160, mirror.output, 60)
        assert mirror.interrupt() == 0
    assert compare(java_records(source_cluster.bootstrap, topic), java_records(target_cluster.bootstrap, target_topic)) == []
