"""Several flows in one process, on one Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from faults.workload import run_once
from judge import compare, java_records
from kafka import KafkaProducer

from sparkmirror.local import create_topic

PROPERTIES = """
clusters = left, right
left.bootstrap.servers = {left}
right.bootstrap.servers = {right}
left->right.enabled = true
right->left.enabled = true
topics = {topics}
replication.factor = 1
offset-syncs.topic.replication.factor = 1
offset.storage.replication.factor = 1
emit.heartbeats.enabled = false
heartbeats.replication.enabled = false
checkpoints.topic.replication.factor = 1
"""


def produce(bootstrap: str, topic: str, text: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all")
    for number in range(300):
        producer.send(topic, value=f"{text} {number}".encode(), partition=number % 2)
    producer.close()


@pytest.mark.timeout(600)
def test_both_directions_of_an_active_active_pair_copy_in_one_process_without_a_loop(
    source_cluster, target_cluster, topic_name, tmp_path: Path
):
    stem = topic_name("both")
    for cluster, text in ((source_cluster, "from the left"), (target_cluster, "from the right")):
        create_topic(cluster.bootstrap, stem, partitions=2)
        produce(cluster.bootstrap, stem, text)
    path = tmp_path / "both.properties"
    path.write_text(
        PROPERTIES.format(
            left=source_cluster.bootstrap, right=target_cluster.bootstrap, topics=f"{stem}, left.{stem}, right.{stem}"
        )
    )
    for _ in range(2):  # a loop would show in the second run: it would copy what the first one wrote
        status, output = run_once(path)
        assert status == 0, output
    left, right = source_cluster.bootstrap, target_cluster.bootstrap
    assert compare(java_records(left, stem), java_records(right, f"left.{stem}")) == []
    assert compare(java_records(right, stem), java_records(left, f"right.{stem}")) == []
