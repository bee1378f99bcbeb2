"""`sparkmirror offsets` beyond the plain case: on a Connect cluster, and with copies that begin empty under groups."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from integration.mirroring import (
    await_true,
    create_topics,
    flow_settings,
    move_log_start,
    numbered,
    produce,
    topics_of,
    write_settings,
)
from integration.scenario import commit, java_formatted, java_offsets
from integration.test_offsets_on_clusters import QUICK, committed, count, done, java_positions, mirror_maker, offsets

from sparkmirror.local import LocalCluster, kafka_jars
from sparkmirror.local.java import QUICK_START, JavaCall, log_settings
from sparkmirror.local.ports import HOST, free_ports
from sparkmirror.local.processes import Child

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]
WAIT_S = 300.0
NAME, ALIAS, TOPIC = "oc->to.MirrorSourceConnector", "oc", "oc-orders"
OFFSETS_TOPIC = "oc-connect-offsets"


class Worker:
    """One Connect worker and its REST API."""

    def __init__(self, target: LocalCluster, folder: Path) -> None:
        [port] = free_ports(1)
        self._url = f"http://{HOST}:{port}"
        settings = {
            "bootstrap.servers": target.bootstrap,
            "group.id": "oc-workers",
            "listeners": self._url,
            "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
            "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
            "offset.storage.topic": OFFSETS_TOPIC,
            "offset.storage.replication.factor": "1",
            "offset.flush.interval.ms": "1000",
            "config.storage.topic": "oc-connect-configs",
            "config.storage.replication.factor": "1",
            "status.storage.topic": "oc-connect-status",
            "status.storage.replication.factor": "1",
        }
        file = folder / "worker.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        log = log_settings(folder / "log4j2.properties", log_file=folder / "connect.log", level="info")
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        call = JavaCall(kafka_jars(), main, [str(file)], heap_mb=512, options=[log, *QUICK_START])
        self._child = Child("Connect worker", call.command(), log_file=folder / "stdout.log")

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """The answer's JSON, None if there is none or nobody answers yet."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self._url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                text = answer.read()
        except OSError:
            return None
        return json.loads(text) if text else {}

    def close(self) -> None:
        """Ends it."""
        self._child.kill()


@contextmanager
def worker(target: LocalCluster, folder: Path) -> Iterator[Worker]:
    made = Worker(target, folder)
    try:
        await_true(lambda: made.ask("GET", "/connectors") == [], WAIT_S, "the worker's API")
        yield made
    finally:
        made.close()


def connector(source: LocalCluster, target: LocalCluster) -> dict[str, str]:
    return {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "source.cluster.alias": ALIAS,
        "target.cluster.alias": f"{ALIAS}-to",
        "source.cluster.bootstrap.servers": source.bootstrap,
        "target.cluster.bootstrap.servers": target.bootstrap,
        "topics": TOPIC,
        "tasks.max": "2",
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "refresh.topics.interval.seconds": "2",
        "heartbeats.replication.enabled": "false",
        "sync.topic.acls.enabled": "false",
    }


def test_a_connector_is_reset_when_it_has_no_tasks_although_its_workers_run_on(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    source, target, remote = source_cluster, target_cluster, f"{ALIAS}.{TOPIC}"
    create_topics(source, {TOPIC: (2, {})})
    for partition in (0, 1):
        produce(source, TOPIC, partition, numbered(20))
    file = write_settings(tmp_path / "oc.properties", flow_settings(source, target, alias=ALIAS, topics=TOPIC))
    place = ("--connector", NAME, "--offsets-topic", OFFSETS_TOPIC)
    with worker(target, tmp_path) as connect:
        path = f"/connectors/{urllib.parse.quote(NAME)}"
        await_true(lambda: connect.ask("POST", "/connectors", {"name": NAME, "config": connector(source, target)}), WAIT_S)
        await_true(lambda: count(target, remote) == 40, WAIT_S, "the connector copies")
        await_true(lambda: OFFSETS_TOPIC in topics_of(target) and java_positions(target, OFFSETS_TOPIC), WAIT_S, "positions")
        running = offsets("reset", file, "--topic", TOPIC, *place, "--yes")
        assert running.status == 5, running.output
        assert f"Connect group oc-workers on {ALIAS}-to runs 2 tasks of {NAME}" in running.output
        assert connect.ask("PUT", f"{path}/stop") == {}
        # Workers that are dealing out tasks are not believed; a moment later they are.
        await_true(lambda: offsets("reset", file, "--topic", TOPIC, *place).status == 0, WAIT_S, "it is known to be stopped")
        wrong = offsets("reset", file, "--topic", TOPIC, "--offsets-topic", OFFSETS_TOPIC, "--yes")
        assert (wrong.status, f"it holds those of {NAME}" in wrong.output) == (2, True), wrong.output
        told = done("reset", file, "--topic", TOPIC, *place, "--worker-group", "oc-workers", "--yes")
        assert f"no worker of a Connect group on {ALIAS}-to has a task of {NAME} (groups: oc-workers)" in told
        assert connect.ask("GET", f"{path}/offsets") == {"offsets": []}, "Connect reads it so too"
        connect.ask("PUT", f"{path}/resume")
        await_true(lambda: count(target, remote) == 80, WAIT_S, "it copies from the start")


def test_one_topic_begins_with_an_empty_copy_and_its_groups_follow(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    """Partition 1 is empty by now: its old sync would send the group behind the new copy's end."""
    source, target, topic, group = source_cluster, target_cluster, "oe-orders", "oe-readers"
    create_topics(source, {topic: (2, {}), "oe-other": (1, {})})
    for partition in (0, 1):
        produce(source, topic, partition, numbered(20))
    produce(source, "oe-other", 0, numbered(5))
    commit(source, group, topic, {0: 20, 1: 20})
    settings = flow_settings(source, target, alias="oe", topics="oe-.*", more=QUICK | {"groups": group})
    settings["oe-to.offset.flush.interval.ms"] = "1000"
    file = write_settings(tmp_path / "oe.properties", settings)
    with mirror_maker(file, "empty-1") as mm2:
        await_true(lambda: committed(target, group, f"oe.{topic}") == {0: 20, 1: 20}, WAIT_S, "the group follows")
        await_true(lambda: count(target, "oe.oe-other") == 5, WAIT_S, "the other topic is copied")
        mm2.stop()
    move_log_start(source, topic, 1, 20)
    told = done("reset", file, "--topic", topic, "--with-target", "--yes")
    assert f"{topic}-1: an offset sync that restarts the offset map was written" in told
    assert java_offsets(target, group, f"oe.{topic}") == {}
    with mirror_maker(file, "empty-2") as mm2:
        await_true(lambda: count(target, f"oe.{topic}") == 20, WAIT_S, "partition 0 comes again")
        await_true(lambda: committed(target, group, f"oe.{topic}") == {0: 20, 1: 0}, WAIT_S, "the group in the new copy")
        mm2.stop()
    assert count(target, "oe.oe-other") == 5, "the other topic was not touched"
    formatted = java_formatted(target, "oe.checkpoints.internal", "CheckpointFormatter")
    assert any(f"topicPartition=oe.{topic}-0, upstreamOffset=20, downstreamOffset=20" in line for line in formatted)
