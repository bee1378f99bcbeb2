"""Three brokers on both sides: leaders die, come back, and the copy stays exact. Judged by Java."""

from __future__ import annotations

from pathlib import Path

import pytest
from judge import compare, java_records

from faults.workload import MirrorProcess, Workload, run_once, wait_until, write_properties
from sparkmirror.clusters import LATEST, ClusterClient, list_offsets
from sparkmirror.config import load
from sparkmirror.errors import ClusterError
from sparkmirror.local import create_topic
from sparkmirror.model import FlowName, TopicPartition


def end(client: ClusterClient, topic: str, partitions: int) -> int:
    """Sum of the high watermarks: our own client is enough to wait with; Java judges in the end."""
    try:
        found = list_offsets(client, [TopicPartition(topic, index) for index in range(partitions)], timestamp=LATEST)
    except ClusterError:
        return 0
    return sum(offset for offset, _ in found.values())


@pytest.mark.fault("F14")
@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_F14_a_leader_killed_and_started_again_on_three_target_brokers_is_not_seen_in_the_copy(
    source_cluster, three_brokers, topic_name, tmp_path: Path
):
    target = three_brokers("three-targets")
    topic = topic_name("leaders")
    create_topic(source_cluster.bootstrap, topic, partitions=6)
    path = write_properties(
        tmp_path, source_cluster.bootstrap, target.bootstrap, alias="leaders", topics=topic
    )
    # Everything lies on the three brokers, with three copies; the source has only one.
    three = path.read_text().replace("replication.factor = 1", "replication.factor = 3")
    path.write_text(three + "offset-syncs.topic.location = target\n")
    client = ClusterClient(load(str(path)).flow(FlowName("leaders", "target")).target)
    with Workload(source_cluster.bootstrap, topic, partitions=6, per_second=3000), MirrorProcess(path) as mirror:
        remote = f"leaders.{topic}"
        wait_until(lambda: end(client, remote, 6) > 3000, f"copying: {mirror.output}")
        target.kill(2)
        seen = end(client, remote, 6)
        wait_until(lambda: end(client, remote, 6) > seen + 6000, f"copying without broker 2: {mirror.output}")
        target.start(2)
        target.stop(1)
        seen = end(client, remote, 6)
        wait_until(lambda: end(client, remote, 6) > seen + 6000, f"copying without broker 1: {mirror.output}")
        target.start(1)
    client.close()
    status, output = run_once(path)
    assert status == 0, output
    assert compare(java_records(source_cluster.bootstrap, topic), java_records(target.bootstrap, remote)) == []
