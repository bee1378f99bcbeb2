"""Draws inspect.svg and doctor.svg: two clusters, Kafka's own MirrorMaker 2 between them, and what is really printed.

    python docs/pictures/stage.py

Some groups are as they should be, some are not: one went back on the source, one has a position past the target's end, one
belongs to a topic that was created again, one is read on the target. For the doctor a record is too large for the target,
and a topic is new.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType
from terminal import picture, printed

from sparkmirror.clusters import ClusterClient, Committed, commit_offsets, committed_offsets, list_groups
from sparkmirror.config import ClusterSettings
from sparkmirror.local import LocalCluster, MirrorMaker, create_topic, open_clusters
from sparkmirror.model import TopicPartition

COLUMNS = 118
FILLED = 3000
TOPICS = {"orders": 4, "payments": 2, "sessions": 1, "invoices": 1}
LARGE = 50_000
SETTINGS = {
    "clusters": "east, west",
    "east->west.enabled": "true",
    "topics": ", ".join([*TOPICS, "refunds"]),
    "tasks.max": "8",
    "sync.group.offsets.enabled": "true",
    "emit.heartbeats.enabled": "false",
    **{f"{name}.interval.seconds": "1" for name in ("emit.checkpoints", "sync.group.offsets", "refresh.groups")},
    **{f"{name}replication.factor": "1" for name in ("", "checkpoints.topic.", "offset-syncs.topic.")},
    **{f"{name}.storage.replication.factor": "1" for name in ("offset", "status", "config")},
}
# Of a Connect worker, and of no interest to the commands.
WORKER = {"west.offset.flush.interval.ms": "2000"}


def client_of(cluster: LocalCluster, alias: str) -> ClusterClient:
    """Our own client, to set groups."""
    host, _, port = cluster.bootstrap.rpartition(":")
    return ClusterClient(ClusterSettings(alias, ((host, int(port)),), {}))


def fill(cluster: LocalCluster) -> None:
    """Records in every topic."""
    for topic, partitions in TOPICS.items():
        create_topic(cluster.bootstrap, topic, partitions=partitions)
    with contextlib.closing(KafkaProducer(bootstrap_servers=cluster.bootstrap, linger_ms=20)) as producer:
        for number in range(FILLED):
            for topic, partitions in TOPICS.items():
                for partition in range(partitions):
                    producer.send(topic, b'{"number": %d}' % number, b"k%d" % (number % 97), partition=partition)
        producer.flush()


def commit(client: ClusterClient, group: str, topic: str, *offsets: int) -> None:
    """Positions of a group without members, partition by partition."""
    wanted = {TopicPartition(topic, partition): Committed(offset, "") for partition, offset in enumerate(offsets)}
    assert set(commit_offsets(client, group, wanted).values()) == {0}


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Until it is true."""
    deadline = time.monotonic() + 180
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.5)


def position(client: ClusterClient, group: str, topic: str, partition: int) -> int:
    """What a group has committed; −1 for nothing."""
    found = committed_offsets(client, [group])[group].committed.get(TopicPartition(topic, partition))
    return -1 if found is None else found.offset


def spoil_copying(east: LocalCluster, west: LocalCluster) -> None:
    """A record that the target does not take, and a topic that MirrorMaker 2 has not found yet."""
    limit = ConfigResource(ConfigResourceType.TOPIC, "east.invoices", configs={"max.message.bytes": "20000"})
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=west.bootstrap)) as admin:
        admin.alter_configs([limit])
    with contextlib.closing(KafkaProducer(bootstrap_servers=east.bootstrap)) as producer:
        producer.send("invoices", b"x" * LARGE, b"scan", partition=0)
        producer.flush()
    create_topic(east.bootstrap, "refunds", partitions=2)


def said(verb: str, *words: str) -> str:
    """What a command prints in the current folder."""
    program = str(Path(sys.executable).with_name("sparkmirror"))
    return printed([program, verb, "mm2.properties", *words], COLUMNS)


def shown(verb: str, *words: str) -> tuple[str, str]:
    """A command's name, and the picture of it."""
    line = " ".join(["$ sparkmirror", verb, "mm2.properties", *words])
    return verb, picture(f"{line}\n{said(verb, *words)}", COLUMNS, f"sparkmirror {verb}")


def draw(east: LocalCluster, west: LocalCluster, folder: Path) -> dict[str, str]:
    """The pictures, by the commands' names."""
    fill(east)
    settings = SETTINGS | {"east.bootstrap.servers": east.bootstrap, "west.bootstrap.servers": west.bootstrap}
    (folder / "mm2.properties").write_text(_text(settings))
    with (
        contextlib.closing(client_of(east, "east")) as source,
        contextlib.closing(client_of(west, "west")) as target,
        MirrorMaker(settings | WORKER),
    ):
        commit(source, "billing", "orders", FILLED, FILLED, FILLED, FILLED)
        commit(source, "shipping", "orders", 2100, 1444, 2900, 777)
        commit(source, "fraud-check", "payments", 2500, 2600)
        commit(source, "ledger-export", "payments", FILLED, 1234)
        commit(source, "session-stats", "sessions", 900)
        wait_for(lambda: all(position(target, "billing", "east.orders", p) == FILLED for p in range(4)), "billing")
        wait_for(lambda: position(target, "ledger-export", "east.payments", 0) == FILLED, "ledger-export")
        wait_for(lambda: position(target, "fraud-check", "east.payments", 0) > 1500, "fraud-check")
        wait_for(lambda: position(target, "shipping", "east.orders", 0) > 0, "shipping")
        wait_for(lambda: position(target, "session-stats", "east.sessions", 0) > 0, "session-stats")
        commit(source, "fraud-check", "payments", 700, 2600)  # it went back; MM2 does not follow
        commit(target, "ledger-export", "east.payments", FILLED, 5000)  # somebody set a wrong position
        commit(source, "session-stats", "sessions", 4000)  # of a former, longer life of the topic
        reader = KafkaConsumer("east.orders", bootstrap_servers=west.bootstrap, group_id="shipping")
        with contextlib.closing(reader):
            wait_for(lambda: reader.poll(200) is not None and _is_stable(target, "shipping"), "a reader on the target")
            os.chdir(folder)
            inspected = shown("inspect", "--include-inactive-groups")
        spoil_copying(east, west)
        wait_for(lambda: "D1 " in said("doctor", "--wait", "0", "--only", "D1"), "the task has failed")
        return dict([inspected, shown("doctor")])


def _is_stable(client: ClusterClient, group: str) -> bool:
    return any(found.name == group and found.state == "Stable" for found in list_groups(client))


def _text(settings: Mapping[str, str]) -> str:
    return "".join(f"{key} = {value}\n" for key, value in settings.items())


if __name__ == "__main__":
    place = Path(__file__).resolve()
    with (
        tempfile.TemporaryDirectory() as scratch,
        open_clusters(LocalCluster("east"), LocalCluster("west")) as (first, second),
    ):
        for name, drawn in draw(first, second, Path(scratch)).items():
            place.with_name(f"{name}.svg").write_text(drawn, encoding="utf-8")
