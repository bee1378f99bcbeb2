"""Two clusters that mirror each other as in MM2's own integration suite (spec §12), and what Java's tools say of them."""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from integration.mirroring import (
    LiveMirror,
    await_true,
    create_topics,
    live_mirror,
    log_ends,
    numbered,
    produce,
    topics_of,
)
from judge import java_records

from sparkmirror.clusters import ClusterClient, Committed, commit_offsets
from sparkmirror.config.values import ClusterSettings
from sparkmirror.errors import InternalError
from sparkmirror.local import LocalCluster, consumer_groups, java_tool
from sparkmirror.model import TopicPartition

CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
FORMATTERS = "org.apache.kafka.connect.mirror.formatters."
PARTITIONS = 10
PER_PARTITION = 10
# MM2's own suite runs at these speeds.
QUICK = {
    "replication.factor": "1",
    "checkpoints.topic.replication.factor": "1",
    "heartbeats.topic.replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "config.storage.replication.factor": "1",
    "emit.checkpoints.interval.seconds": "1",
    "emit.heartbeats.interval.seconds": "1",
    "sync.group.offsets.interval.seconds": "1",
    "sync.topic.configs.interval.seconds": "1",
    "refresh.topics.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "tasks.max": "1",
}


@dataclass
class Pair:
    """Two clusters under aliases that no other test uses."""

    primary: LocalCluster
    backup: LocalCluster
    folder: Path
    mark: str = field(default_factory=lambda: secrets.token_hex(3))
    target_stem: str = "backup"

    @property
    def source(self) -> str:
        """Alias of the primary."""
        return f"primary{self.mark}"

    @property
    def target(self) -> str:
        """Alias of the backup."""
        return f"{self.target_stem}{self.mark}"

    @property
    def flow(self) -> str:
        """The name of the flow from the primary to the backup."""
        return f"{self.source}->{self.target}"

    @property
    def back(self) -> str:
        """The name of the flow from the backup to the primary."""
        return f"{self.target}->{self.source}"

    def topic(self, number: int) -> str:
        """`test-topic-1` and so on, of this pair alone."""
        return f"test-topic-{number}-{self.mark}"

    def remote(self, number: int) -> str:
        """What the backup calls it."""
        return f"{self.source}.{self.topic(number)}"

    def group(self, name: str) -> str:
        """A group of this pair alone."""
        return f"consumer-group-{name}-{self.mark}"

    def settings(self, more: Mapping[str, str] | None = None, *, both_ways: bool = False) -> dict[str, str]:
        """One file; `more` wins."""
        wanted = f"test-topic-.*{self.mark}, {self.source}\\.test-topic-.*, {re.escape(self.target)}\\.test-topic-.*"
        return QUICK | {
            "clusters": f"{self.source}, {self.target}",
            f"{self.source}.bootstrap.servers": self.primary.bootstrap,
            f"{self.target}.bootstrap.servers": self.backup.bootstrap,
            f"{self.flow}.enabled": "true",
            f"{self.back}.enabled": str(both_ways).lower(),
            "topics": wanted.replace("\\", "\\\\"),
            "groups": f"consumer-group-.*{self.mark}",
            "config.properties.exclude": "delete\\\\.retention\\\\..*",
            **(more or {}),
        }

    def write(self, more: Mapping[str, str] | None = None, *, both_ways: bool = False) -> Path:
        """The file on disk."""
        path = self.folder / f"mm2-{self.mark}.properties"
        lines = self.settings(more, both_ways=both_ways).items()
        path.write_text("".join(f"{key} = {value}\n" for key, value in lines), "latin-1")
        return path

    @contextlib.contextmanager
    def mirror(self, more: Mapping[str, str] | None = None, *, both_ways: bool = False) -> Iterator[LiveMirror]:
        """A run that is gone at the end of the block."""
        with live_mirror(self.write(more, both_ways=both_ways)) as running:
            yield running

    def fill(self, number: int, *, cluster: LocalCluster | None = None, partitions: int = PARTITIONS) -> None:
        """Ten more records in each partition of a test topic, which is created if it is missing."""
        at = cluster or self.primary
        if self.topic(number) not in topics_of(at):
            create_topics(at, {self.topic(number): (PARTITIONS, {})})
        for partition in range(partitions):
            produce(at, self.topic(number), partition, numbered(PER_PARTITION))


@contextlib.contextmanager
def client_of(cluster: LocalCluster) -> Iterator[ClusterClient]:
    """Our own client, for set-up."""
    host, _, port = cluster.bootstrap.split(",")[0].rpartition(":")
    with contextlib.closing(ClusterClient(ClusterSettings("test", ((host, int(port)),), {}))) as made:
        yield made


def commit(cluster: LocalCluster, group: str, topic: str, offsets: Mapping[int, int]) -> None:
    """Sets a group without members."""
    wanted = {TopicPartition(topic, partition): Committed(offset, "") for partition, offset in offsets.items()}
    with client_of(cluster) as client:
        assert commit_offsets(client, group, wanted) == dict.fromkeys(wanted, 0)


def java_offsets(cluster: LocalCluster, group: str, topic: str) -> dict[int, int]:
    """What `kafka-consumer-groups --describe` shows as the group's offsets in a topic."""
    try:
        described = consumer_groups(cluster.bootstrap, "--describe", "--offsets", "--group", group)
    except InternalError as error:
        assert "does not exist" in str(error) or "GroupIdNotFound" in str(error), error
        return {}
    rows = [line.split() for line in described.splitlines()]
    return {int(row[2]): int(row[3]) for row in rows if row[1:2] == [topic] and row[3] != "-"}


def java_group_lags(cluster: LocalCluster, group: str, topic: str) -> dict[int, int]:
    """What `kafka-consumer-groups --describe` shows as the group's lag in a topic."""
    described = consumer_groups(cluster.bootstrap, "--describe", "--offsets", "--group", group)
    rows = [line.split() for line in described.splitlines()]
    return {int(row[2]): int(row[5]) for row in rows if row[1:2] == [topic] and row[5] != "-"}


def java_formatted(cluster: LocalCluster, topic: str, formatter: str) -> list[str]:
    """Every record of an internal topic as MM2's own formatter prints it."""
    arguments = ["--bootstrap-server", cluster.bootstrap, "--topic", topic, "--from-beginning"]
    arguments += ["--formatter", FORMATTERS + formatter, "--timeout-ms", "3000"]
    return java_tool(CONSOLE_CONSUMER, arguments).decode().splitlines()


def java_count(cluster: LocalCluster, topic: str) -> int:
    """How many records Java's consumer finds in a topic."""
    return sum(len(found) for found in java_records(cluster.bootstrap, topic).values())


def await_count(cluster: LocalCluster, topic: str, wanted: int, seconds: float = 180.0) -> None:
    """Waits until a topic holds so many records, and sees that there are not more.

    Its end alone does not tell: the mark that a new owner leaves in each partition takes an offset too.
    """
    def is_there() -> bool:
        if topic not in topics_of(cluster) or sum(log_ends(cluster, topic).values()) < wanted:
            return False
        return java_count(cluster, topic) >= wanted

    await_true(is_there, seconds, f"{wanted} records in {topic}")
    found = java_count(cluster, topic)
    assert found == wanted, f"{topic}: {found} records, wanted {wanted}"
