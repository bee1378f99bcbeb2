"""sparkmirror beside a live MirrorMaker 2 on the same flow: it gives way, whoever came first. Java's consumer judges.

One MirrorMaker 2 for both, as it takes longest to start: it comes second, and is then the first of the next run.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest
from faults.staging import client_of_all
from faults.workload import Workload, wait_until, write_properties
from integration.mirroring import live_mirror, log_ends, topics_of
from judge import java_records, map_violations

from sparkmirror.driver import FlowLedger
from sparkmirror.local import LocalCluster, MirrorMaker, create_topic
from sparkmirror.local.java import QUICK_START
from sparkmirror.model import TopicPartition
from sparkmirror.offsets import OffsetMap

OWNED = 5
START_S = 120.0  # MirrorMaker 2 on two busy cores
PER_SECOND, BURST = 1000, 10_000
# Records that MirrorMaker 2 copied again: what was copied between its reading of the positions and our end. None where its
# tasks start seconds after its workers joined, as they do; 1,554 were seen on two busy cores, where a look comes late. Were
# the flow to copy on, all of the burst would be there twice.
DOUBLED_MAX = BURST // 2
MM2_QUICK = """
offset.lag.max = 100
target.offset.flush.interval.ms = 1000
sync.topic.acls.enabled = false
tasks.max = 2
"""


def staged(source: LocalCluster, target: LocalCluster, folder: Path, topic: str) -> tuple[Path, str, str]:
    """The file of a flow, its alias and the copy's name."""
    alias = topic.replace("-", "")
    create_topic(source.bootstrap, topic, partitions=2)
    path = write_properties(folder, source.bootstrap, target.bootstrap, alias=alias, topics=topic, more=MM2_QUICK)
    return path, alias, f"{alias}.{topic}"


def copied(cluster: LocalCluster, topic: str) -> int:
    return sum(log_ends(cluster, topic).values()) if topic in topics_of(cluster) else 0


def numbers(cluster: LocalCluster, topic: str) -> Counter[bytes]:
    """How often each record of the workload is there."""
    records = [record for found in java_records(cluster.bootstrap, topic).values() for record in found]
    return Counter(b":".join(record.value.split(b":")[:2]) for record in records)


@pytest.mark.fault("F10")
@pytest.mark.timeout(600)
def test_F10_a_flow_gives_way_to_a_mirror_maker_that_is_started_beside_it(
    source_cluster, target_cluster, topic_name, tmp_path: Path, row
) -> None:
    path, alias, remote = staged(source_cluster, target_cluster, tmp_path, topic_name("later"))
    topic = remote.removeprefix(f"{alias}.")
    with live_mirror(path) as mirror, Workload(source_cluster.bootstrap, topic, partitions=2, per_second=PER_SECOND) as load:
        wait_until(lambda: copied(target_cluster, remote) > PER_SECOND, "it copies", START_S)
        with MirrorMaker(path.read_text(), name="later", jvm_options=QUICK_START) as mm2:
            began, sent = time.monotonic(), load.sent
            ended = mirror.await_end(START_S)
            took = time.monotonic() - began
            wait_until(lambda: load.sent > sent + BURST, "a burst", START_S)
            load.finish()
            wait_until(lambda: copied(target_cluster, remote) >= load.sent, "MirrorMaker 2 copies the rest", START_S)
            wait_until(lambda: len(numbers(target_cluster, remote)) == load.sent, "some of these are there twice", START_S)
            written = log_ends(target_cluster, f"mm2-ledger.{alias}.internal")
            with live_mirror(path, "--take-over") as second:
                refused = second.await_end(90)
            assert log_ends(target_cluster, f"mm2-ledger.{alias}.internal") == written, "a refused run writes nothing"
            mm2.stop()
    for run in (ended, refused):
        assert run.status == OWNED, run.output
        assert f"{alias}->target is run by MirrorMaker 2: group {alias}-mm2 on target has 1 member" in run.output
    assert "not even --take-over" in refused.output
    found = numbers(target_cluster, remote)
    doubled = sum(count - 1 for count in found.values())
    row.seen = f"MirrorMaker 2 named and status {OWNED} {took:.1f} s after its start; {load.sent} records, {doubled} twice"
    print(row.seen)
    assert len(found) == load.sent and doubled <= DOUBLED_MAX
    source, target = java_records(source_cluster.bootstrap, topic), java_records(target_cluster.bootstrap, remote)
    with client_of_all(target_cluster) as client:
        view = FlowLedger(client, f"mm2-ledger.{alias}.internal").read_all()
    for index in source:
        history = view.of(TopicPartition(topic, index))
        position = history.position()
        # A partition in which MirrorMaker 2 wrote before this flow had drained is not closed: what is proven of it counts.
        assert position is not None
        ours = [record for record in source[index] if record.offset < position.upstream]
        assert map_violations(ours, target[index], OffsetMap(history.runs()).downstream) == []
