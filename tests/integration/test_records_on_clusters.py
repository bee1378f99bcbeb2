"""records, beside what Kafka's own formatters print of the same records; and a broker that restarts while it follows."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sparkmirror.clusters import ClusterClient, append_records
from sparkmirror.config.values import ClusterSettings
from sparkmirror.local import LocalCluster, create_topic, perf_produce
from sparkmirror.local.tools import java_tool
from sparkmirror.model import TopicPartition

PROGRAM = str(Path(sys.executable).with_name("sparkmirror"))
GOLDEN = Path(__file__).parents[1] / "golden" / "data"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
FORMATTERS = "org.apache.kafka.connect.mirror.formatters."


def as_kafka_says(kind: str, line: dict[str, Any]) -> str:
    """A line in the words of Kafka's formatter."""
    if kind == "heartbeats":
        return (
            f"Heartbeat{{sourceClusterAlias={line['source_cluster']}, targetClusterAlias={line['target_cluster']}, "
            f"timestamp={line['timestamp_ms']}}}"
        )
    place = f"topicPartition={line['topic']}-{line['partition']}"
    offsets = f"upstreamOffset={line['upstream_offset']}, downstreamOffset={line['downstream_offset']}"
    if kind == "offset-syncs":
        return f"OffsetSync{{{place}, {offsets}}}"
    return f"Checkpoint{{consumerGroupId={line['consumer_group']}, {place}, {offsets}, metadata={line['metadata']}}}"


def formatted(bootstrap: str, topic: str, formatter: str, count: int) -> list[str]:
    words = ["--bootstrap-server", bootstrap, "--topic", topic, "--from-beginning", "--max-messages", str(count)]
    return java_tool(CONSOLE_CONSUMER, [*words, "--formatter", FORMATTERS + formatter]).decode().splitlines()


@pytest.mark.parametrize(
    ("golden", "kind", "formatter"),
    [
        ("B__A.checkpoints.internal", "checkpoints", "CheckpointFormatter"),
        ("A__mm2-offset-syncs.B.internal", "offset-syncs", "OffsetSyncFormatter"),
        ("B__heartbeats", "heartbeats", "HeartbeatFormatter"),
    ],
)
def test_mirror_makers_records_are_shown_as_kafkas_formatters_show_them(
    golden: str, kind: str, formatter: str,
    two_clusters: tuple[LocalCluster, LocalCluster], topic_name: Callable[..., str], tmp_path: Path,
) -> None:  # fmt: skip
    source, target = two_clusters
    one, other = topic_name("one"), topic_name("other")
    topics = {"checkpoints": f"{one}.checkpoints.internal", "offset-syncs": f"mm2-offset-syncs.{other}.internal"}
    cluster = source if kind == "offset-syncs" else target
    topic = topics.get(kind, "heartbeats")
    rows = json.loads((GOLDEN / f"{golden}.json").read_text())["records"]
    records = [(bytes.fromhex(row["key"]), bytes.fromhex(row["value"])) for row in rows]
    host, _, port = cluster.bootstrap.partition(":")
    with closing(ClusterClient(ClusterSettings("X", ((host, int(port)),), {}))) as client:
        if topic not in client.view(None).topics:
            create_topic(cluster.bootstrap, topic)
        append_records(client, TopicPartition(topic, 0), records, rows[0]["timestamp"])
    file = tmp_path / "mm2.properties"
    # Nobody listens where the cluster is said to be that the records are not asked of.
    here = {one: "127.0.0.1:1", other: "127.0.0.1:1"} | {one if cluster is source else other: cluster.bootstrap}
    file.write_text(
        f"clusters = {one}, {other}\n{one}->{other}.enabled = true\n"
        + "".join(f"{alias}.bootstrap.servers = {bootstrap}\n" for alias, bootstrap in here.items())
    )
    shown = subprocess.run(
        [PROGRAM, "records", str(file), kind], capture_output=True, text=True, check=False, timeout=120
    )
    assert (shown.returncode, shown.stderr) == (0, "")
    lines = [json.loads(line) for line in shown.stdout.splitlines()]
    assert len(lines) >= len(rows) > 0
    told = [as_kafka_says(kind, line) for line in lines]
    assert told == formatted(cluster.bootstrap, topic, formatter, len(lines))


def test_records_follow_over_the_restart_of_a_broker(tmp_path: Path) -> None:
    with LocalCluster("followed") as cluster:
        create_topic(cluster.bootstrap, "A.checkpoints.internal")
        perf_produce(cluster.bootstrap, "A.checkpoints.internal", records=2, record_bytes=10)
        file = tmp_path / "mm2.properties"
        file.write_text(
            f"clusters = A, B\nA.bootstrap.servers = 127.0.0.1:1\nB.bootstrap.servers = {cluster.bootstrap}\n"
            "A->B.enabled = true\n"
        )
        words = [PROGRAM, "records", str(file), "checkpoints", "--follow"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None and process.stderr is not None
            first = [json.loads(process.stdout.readline()) for _ in range(2)]
            assert [line["record"]["offset"] for line in first] == [0, 1]
            assert all(line["foreign"] for line in first)
            [broker] = cluster.pids
            cluster.kill(broker)
            assert "is unreachable" in process.stderr.readline()
            cluster.start(broker)
            perf_produce(cluster.bootstrap, "A.checkpoints.internal", records=1, record_bytes=10)
            assert json.loads(process.stdout.readline())["record"]["offset"] == 2
            process.send_signal(signal.SIGINT)
            rest, errors = process.communicate(timeout=60)
    assert (process.returncode, rest, "Traceback" in errors) == (0, "", False)
