"""Documents 001 and 002: a flow that is stopped is reset by a tombstone in its offsets topic, or by deleting that topic.

Kafka's own tools remove, Java's consumer judges what arrives. Without a removal nothing is copied twice, whatever dies.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from faults.workload import MirrorProcess
from host import hosted_command
from judge import compare, java_records
from mirroring import (
    await_true,
    create_topics,
    flow_settings,
    live_mirror,
    log_ends,
    numbered,
    produce,
    recreate_topic,
    run_cleanly,
    run_once,
    topics_of,
    write_settings,
)
from scenario import client_of

from sparkmirror.local import LocalCluster, MirrorMaker
from sparkmirror.local.tools import console_produce, java_tool
from sparkmirror.state import PositionTable, read_settled

TOPIC_COMMAND = "org.apache.kafka.tools.TopicCommand"
FIRST, SECOND, THIRD, NEW = numbered(300), numbered(40, first=300), numbered(10, first=400), numbered(20, first=900)


class Stage:
    """One flow with a topic of two partitions and an idle one, and what an operator does to it."""

    def __init__(self, source: LocalCluster, target: LocalCluster, alias: str, folder: Path) -> None:
        self.source, self.target, self.alias, self.folder = source, target, alias, folder
        self.topic, self.idle = f"{alias}-orders", f"{alias}-idle"
        self.offsets = f"mm2-offsets.{alias}.internal"
        create_topics(source, {self.topic: (2, {}), self.idle: (1, {})})
        self.path = self.write()

    def write(self, **more: str) -> Path:
        keys = {name.replace("_", "."): value for name, value in more.items()}
        settings = flow_settings(self.source, self.target, alias=self.alias, topics=f"{self.alias}-.*", more=keys)
        settings |= {f"{self.alias}-to.offset.flush.interval.ms": "1000", "sync.topic.acls.enabled": "false"}
        return write_settings(self.folder / "mm2.properties", settings)

    def remote(self, topic: str) -> str:
        return f"{self.alias}.{topic}"

    def copied(self, topic: str) -> dict[int, list[bytes | None]]:
        """What Java's consumer reads of a copy."""
        found = java_records(self.target.bootstrap, self.remote(topic))
        return {partition: [record.value for record in records] for partition, records in found.items()}

    def copy_with_mm2(self) -> None:
        with MirrorMaker(self.path.read_text("latin-1"), name="before") as mm2:
            wanted = {self.topic: len(FIRST) * 2, self.idle: len(FIRST)}
            await_true(lambda: all(self.count(topic) >= count for topic, count in wanted.items()), 120.0, "MM2 copies")
            await_true(lambda: len(self.positions()) == 3, 60.0, "MM2 stores its positions")
            mm2.stop()

    def count(self, topic: str) -> int:
        remote = self.remote(topic)
        return sum(log_ends(self.target, remote).values()) if remote in topics_of(self.target) else 0

    def positions(self) -> dict[tuple[str, int], int]:
        """The positions that are stored now."""
        table = PositionTable(self.alias)
        with client_of(self.target) as client:
            read_settled(client, self.offsets, table)
        found = {partition: table.last_offset(partition) for partition in table.partitions()}
        return {(p.topic, p.partition): last for p, last in found.items() if last is not None}

    def tombstone(self, topic: str, partition: int) -> None:
        """As document 001 says: the same key with a null value; the tool's partitioner is that of Connect."""
        entry = {"cluster": self.alias, "partition": partition, "topic": topic}
        key = json.dumps(["MirrorSourceConnector", entry], separators=(",", ":"))
        reader = {"parse.key": "true", "key.separator": "\t", "null.marker": "NULL"}
        console_produce(self.target.bootstrap, self.offsets, [f"{key}\tNULL"], reader=reader)

    def delete_offsets_topic(self) -> None:
        self.delete(self.target, self.offsets)

    def delete(self, cluster: LocalCluster, topic: str) -> None:
        java_tool(TOPIC_COMMAND, ["--bootstrap-server", cluster.bootstrap, "--delete", "--topic", topic])
        await_true(lambda: topic not in topics_of(cluster), what=f"{topic} is gone")

    def call(self, *words: str) -> tuple[int, str]:
        ended = hosted_command(*words)
        return ended.returncode, ended.stdout + ended.stderr

    def judge(self) -> None:
        """Both topics are copied once."""
        for topic in (self.topic, self.idle):
            source = java_records(self.source.bootstrap, topic)
            assert compare(source, java_records(self.target.bootstrap, self.remote(topic))) == []


@pytest.fixture
def stage(source_cluster: LocalCluster, target_cluster: LocalCluster, topic_name, tmp_path: Path) -> Stage:
    stage = Stage(source_cluster, target_cluster, topic_name("reset").replace("-", ""), tmp_path)
    for partition in range(2):
        produce(source_cluster, stage.topic, partition, FIRST)
    produce(source_cluster, stage.idle, 0, FIRST)
    return stage


@pytest.mark.timeout(600)
@pytest.mark.parametrize("before", ["MirrorMaker 2", "sparkmirror"])
def test_the_documents_procedures_reset_a_partition_and_the_flow(stage: Stage, before: str) -> None:
    if before == "MirrorMaker 2":
        stage.copy_with_mm2()
    run_cleanly(stage.path)
    stage.judge()

    stage.tombstone(stage.topic, 0)
    stage.tombstone(stage.idle, 0)
    plan = stage.call("plan", str(stage.path))[1]
    assert f"{stage.topic}-0: its position was removed from {stage.offsets}" in plan, plan
    outcome = run_cleanly(stage.path)
    again = "at most 600" if before == "MirrorMaker 2" else "600"  # of what sparkmirror did not copy it knows no more
    assert f"2 partitions ({stage.idle}-0, {stage.topic}-0) restart at auto.offset.reset; {again} copied" in outcome.output
    assert stage.copied(stage.topic) == {0: FIRST * 2, 1: FIRST}
    assert stage.copied(stage.idle) == {0: FIRST * 2}

    produce(stage.source, stage.topic, 0, SECOND)
    run_cleanly(stage.path)
    assert stage.copied(stage.topic) == {0: [*FIRST, *FIRST, *SECOND], 1: FIRST}, "once, and nothing after that"

    stage.delete_offsets_topic()
    plan = stage.call("plan", str(stage.path))[1]
    assert "and copies 340 copied offsets again, after what the target holds" in plan, plan
    outcome = run_cleanly(stage.path)
    assert f"{stage.offsets} was deleted while the flow was stopped: 3 partitions" in outcome.output, outcome.output
    assert stage.copied(stage.topic) == {0: [*FIRST, *FIRST, *SECOND, *FIRST, *SECOND], 1: FIRST * 2}
    assert stage.copied(stage.idle) == {0: FIRST * 3}
    run_cleanly(stage.path)
    assert sum(map(len, stage.copied(stage.idle).values())) == len(FIRST) * 3


@pytest.mark.timeout(600)
def test_a_tombstone_lifts_the_stop_of_a_topic_that_was_created_again(stage: Stage) -> None:
    run_cleanly(stage.path)
    recreate_topic(stage.source, stage.topic, partitions=2)
    produce(stage.source, stage.topic, 0, NEW)
    stopped = run_once(stage.path)
    assert stopped.status == 4 and "SOURCE_TOPIC_RECREATED" in stopped.output, stopped.output
    stage.tombstone(stage.topic, 0)
    still = run_once(stage.path)
    assert still.status == 4 and f"{stage.topic}-1" in still.output, "only one of the two partitions was reset"
    assert stage.copied(stage.topic) == {0: [*FIRST, *NEW], 1: FIRST}
    stage.tombstone(stage.topic, 1)
    produce(stage.source, stage.topic, 1, NEW)
    run_cleanly(stage.path)
    assert stage.copied(stage.topic) == {0: [*FIRST, *NEW], 1: [*FIRST, *NEW]}


@pytest.mark.timeout(600)
def test_the_offsets_topic_deleted_while_the_flow_runs_is_written_anew_and_nothing_is_copied_twice(stage: Stage) -> None:
    syncs = f"mm2-offset-syncs.{stage.alias}-to.internal"
    with live_mirror(stage.path) as mirror:
        await_true(lambda: stage.count(stage.topic) >= 600 and stage.count(stage.idle) >= 300, what="everything is copied")
        await_true(lambda: len(stage.positions()) == 3, what="positions are stored")
        before = stage.positions()
        stage.delete_offsets_topic()
        stage.delete(stage.source, syncs)
        await_true(lambda: stage.offsets in topics_of(stage.target) and stage.positions() == before, 60.0, "written again")
        mirror.await_said("its positions are written again")
        produce(stage.source, stage.topic, 0, SECOND)
        await_true(lambda: stage.count(stage.topic) >= 640, what="copying goes on")
        await_true(lambda: syncs in topics_of(stage.source), 60.0, "offset syncs are written again")
        mirror.kill()
    run_cleanly(stage.path)
    stage.judge()


# The next ones have twins on the fake broker (tests/unit/driver/test_position_removal.py), which run each time.


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_deleting_the_offset_syncs_topic_resets_nothing(stage: Stage) -> None:
    run_cleanly(stage.path)
    syncs = f"mm2-offset-syncs.{stage.alias}-to.internal"
    stage.delete(stage.source, syncs)
    produce(stage.source, stage.topic, 0, SECOND)
    run_cleanly(stage.path)
    assert log_ends(stage.source, syncs)[0] > 0
    stage.judge()


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_the_file_says_to_stop_or_to_ignore_it(stage: Stage) -> None:
    run_cleanly(stage.path)
    stage.tombstone(stage.topic, 0)
    stage.write(on_positions_removed="stop")
    for _ in range(2):
        stopped = run_once(stage.path)
        assert stopped.status == 4 and "POSITION_REMOVED" in stopped.output, stopped.output
    command = ("offsets", "reset", str(stage.path), "--topic", stage.topic, "--partition", "0")
    assert command[1] in stopped.output
    stage.judge()

    stage.write(on_positions_removed="ignore")
    produce(stage.source, stage.topic, 0, SECOND)
    run_cleanly(stage.path)
    stage.judge()
    stage.tombstone(stage.idle, 0)
    run_cleanly(stage.path)
    assert len(stage.positions()) == 3, "the position of a partition without new records, too"

    stage.write(on_positions_removed="stop")
    stage.tombstone(stage.topic, 0)
    assert run_once(stage.path).status == 4
    status, output = stage.call(*command, "--yes")
    assert status == 0, output
    run_cleanly(stage.path)
    assert stage.copied(stage.topic) == {0: [*FIRST, *SECOND] * 2, 1: FIRST}


@pytest.mark.timeout(600)
def test_our_own_moves_and_their_undo_are_no_removal(stage: Stage) -> None:
    """`offsets reset` writes a tombstone of its own, and `undo` takes a position away that was not there before."""
    run_cleanly(stage.path)
    saved = stage.folder / "before.json"
    move = ("--topic", stage.topic, "--partition", "0", "--yes")
    status, output = stage.call("offsets", "reset", str(stage.path), *move, "--undo-file", str(saved))
    assert status == 0, output
    status, output = stage.call("offsets", "undo", str(stage.path), str(saved), "--yes")
    assert status == 0, output
    outcome = run_cleanly(stage.path)
    assert "while the flow was stopped" not in outcome.output, outcome.output
    stage.judge()
    status, output = stage.call("offsets", "reset", str(stage.path), *move)
    assert status == 0, output
    for _ in range(2):
        outcome = run_cleanly(stage.path)
        assert "while the flow was stopped" not in outcome.output, outcome.output
    assert stage.copied(stage.topic) == {0: FIRST * 2, 1: FIRST}


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "point", ["record.midway", *(pytest.param(at, marks=pytest.mark.nightly) for at in ("record.written", "record.done"))]
)
def test_whoever_dies_around_the_flush_copies_nothing_twice(stage: Stage, point: str) -> None:
    died = stage.folder / "died"
    with MirrorProcess(stage.path, faults=f"{point}=kill@1:{died}") as mirror:
        await_true(lambda: mirror.process.poll() is not None, 120.0, f"it dies at {point}")
        assert died.exists(), mirror.output
    run_cleanly(stage.path)
    stage.judge()
