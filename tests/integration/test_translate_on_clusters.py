"""`translate` over a flow that sparkmirror ran in both directions: what Kafka's own tools set by it is exact."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from integration.mirroring import create_topics, numbered, produce, run_cleanly, transaction, transactional
from integration.scenario import Pair, client_of, commit, java_offsets
from judge import group_violations, java_records
from judge.java_gateway import java_gateway
from typer.testing import CliRunner, Result

from sparkmirror.cli.app import app
from sparkmirror.clusters import append_records
from sparkmirror.local import LocalCluster, consumer_groups
from sparkmirror.model import Checkpoint, TopicPartition
from sparkmirror.state import now_ms
from sparkmirror.wire import encode_checkpoint

COMMITTED = 70
NOBODY = "127.0.0.1:1"  # a port that nobody may listen on without being root


def translate(path: Path, *words: str) -> Result:
    return CliRunner().invoke(app, ["translate", str(path), *words])


@pytest.fixture(scope="module")
def mirrored(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Pair, Path]:
    """Topic 1 of the primary, with transactions that leave holes, and topic 2 of the backup, both mirrored."""
    pair = Pair(source_cluster, target_cluster, tmp_path_factory.mktemp("translate"))
    create_topics(pair.primary, {pair.topic(1): (2, {})})
    create_topics(pair.backup, {pair.topic(2): (1, {})})
    produce(pair.primary, pair.topic(1), 0, numbered(50), batch=7)
    with transactional(pair.primary, f"tx-{pair.mark}") as producer:
        for turn in range(6):
            values = [b"turn %d record %d" % (turn, at) for at in range(4)]
            transaction(producer, pair.topic(1), values, commit=turn % 3 != 1)
    produce(pair.primary, pair.topic(1), 1, numbered(30), batch=7)
    produce(pair.backup, pair.topic(2), 0, numbered(40), batch=7)
    commit(pair.primary, pair.group("night"), pair.topic(1), {0: COMMITTED, 1: 25})
    path = pair.write({f"{pair.flow}.consumer.isolation.level": "read_committed"}, both_ways=True)
    run_cleanly(path)
    return pair, path


def test_positions_are_exact_and_kafkas_own_tool_takes_them(mirrored: tuple[Pair, Path], tmp_path: Path) -> None:
    pair, path = mirrored
    group, topic, remote = pair.group("over"), pair.topic(1), pair.remote(1)
    commit(pair.primary, group, topic, {0: COMMITTED, 1: 30})
    result = translate(path, "--flow", pair.flow, "--group", group, "--format", "csv")
    assert result.exit_code == 0, result.output
    file = tmp_path / "positions.csv"
    file.write_text(result.stdout)
    consumer_groups(
        pair.backup.bootstrap, "--reset-offsets", "--group", group, "--from-file", str(file), "--execute"
    )
    there = java_offsets(pair.backup, group, remote)
    source = java_records(pair.primary.bootstrap, topic, "read_committed")
    target = java_records(pair.backup.bootstrap, remote)
    for partition, at in {0: COMMITTED, 1: 30}.items():
        assert group_violations(source[partition], target[partition], at_source=at, at_target=there[partition]) == []
    lines = sorted(result.stdout.splitlines())
    assert lines == [f"{remote},{partition},{offset}" for partition, offset in sorted(there.items())]


def test_every_offset_goes_over_and_back(mirrored: tuple[Pair, Path]) -> None:
    pair, path = mirrored
    topic, remote = pair.topic(1), pair.remote(1)
    source = java_records(pair.primary.bootstrap, topic, "read_committed")[0]
    target = {record.offset: record.value for record in java_records(pair.backup.bootstrap, remote)[0]}
    for mode in ((), ("--no-record-reads",)):
        over = positions(path, pair, topic, [record.offset for record in source], *mode)
        assert [target[over[record.offset]["offset"]] for record in source] == [record.value for record in source]
        back = positions(path, pair, remote, sorted(target), "--back", *mode)
        assert [back[over[record.offset]["offset"]]["offset"] for record in source] == [r.offset for r in source]


def positions(path: Path, pair: Pair, topic: str, offsets: list[int], *words: str) -> dict[int, Any]:
    """Where offsets of partition 0 of a topic are on the other side."""
    places = [word for offset in offsets for word in ("--at", f"{topic}:0={offset}")]
    result = translate(path, "--flow", pair.flow, "--json", *places, *words)
    found = json.loads(result.stdout)["positions"]
    sure = "ledger" if "--no-record-reads" in words else "proven"
    assert (result.exit_code, {position["sureness"] for position in found}) == (0, {sure})
    return {position["from"]["offset"]: position["to"] for position in found}


def test_copy_that_came_from_the_other_side_is_found_there_under_its_own_name(mirrored: tuple[Pair, Path]) -> None:
    pair, path = mirrored
    group, copy = pair.group("copy"), f"{pair.target}.{pair.topic(2)}"
    commit(pair.primary, group, copy, {0: 17})
    found = json.loads(translate(path, "--flow", pair.flow, "--group", group, "--json").stdout)
    [position] = found["positions"]
    assert (position["to"]["topic"], position["to"]["partition"], position["sureness"]) == (pair.topic(2), 0, "proven")
    ours = java_records(pair.primary.bootstrap, copy)[0]
    theirs = java_records(pair.backup.bootstrap, pair.topic(2))[0]
    assert group_violations(ours, theirs, at_source=17, at_target=position["to"]["offset"]) == []


def test_with_the_source_gone_positions_are_those_of_the_records_and_never_behind_java(
    mirrored: tuple[Pair, Path], tmp_path: Path
) -> None:
    pair, path = mirrored
    group, topic, remote = pair.group("night"), pair.topic(1), pair.remote(1)
    gone = tmp_path / "gone.properties"
    gone.write_text(path.read_text("latin-1").replace(pair.primary.bootstrap, NOBODY), "latin-1")
    result = translate(gone, "--flow", pair.flow, "--group", group, "--json")
    found = {place["from"]["partition"]: place for place in json.loads(result.stdout)["positions"]}
    assert (result.exit_code, {place["sureness"] for place in found.values()}) == (3, {"ledger"}), result.output
    source = java_records(pair.primary.bootstrap, topic, "read_committed")
    target = java_records(pair.backup.bootstrap, remote)
    theirs = java_translated(pair.backup, pair.source, group)
    for partition, at in {0: COMMITTED, 1: 25}.items():
        there = found[partition]["to"]["offset"]
        assert group_violations(source[partition], target[partition], at_source=at, at_target=there) == []
        assert there >= theirs[remote, partition]
    # What MirrorMaker 2 alone has checkpoints of is what Java finds.
    rough, topics = pair.group("rough"), TopicPartition(f"{pair.source}.checkpoints.internal", 0)
    points = [Checkpoint(rough, TopicPartition(f"{pair.source}.test-topic-9-{pair.mark}", 0), 40, at, "") for at in (3, 7)]
    create_topics(pair.backup, {points[0].partition.topic: (1, {})})
    produce(pair.backup, points[0].partition.topic, 0, numbered(20))
    with client_of(pair.backup) as client:
        append_records(client, topics, [encode_checkpoint(point) for point in points], now_ms())
    [place] = json.loads(translate(gone, "--flow", pair.flow, "--group", rough, "--json").stdout)["positions"]
    theirs = java_translated(pair.backup, pair.source, rough)
    assert {(place["to"]["topic"], 0): place["to"]["offset"]} == theirs
    assert place["sureness"] == "checkpoint"


def java_translated(cluster: LocalCluster, source: str, group: str) -> dict[tuple[str, int], int]:
    """RemoteClusterUtils.translateOffsets."""
    with java_gateway() as jvm:
        config = jvm.java.util.HashMap()
        config.put("bootstrap.servers", cluster.bootstrap)
        found = jvm.org.apache.kafka.connect.mirror.RemoteClusterUtils.translateOffsets(
            config, source, group, jvm.java.time.Duration.ofSeconds(30)
        )
        return {(at.topic(), at.partition()): value.offset() for at, value in dict(found).items()}


def test_what_has_no_answer_is_told(mirrored: tuple[Pair, Path]) -> None:
    pair, path = mirrored
    nobody = translate(path, "--flow", pair.flow, "--group", pair.group("nobody"))
    assert nobody.exit_code == 2
    assert "no positions of" in nobody.output
    beyond = translate(path, "--flow", pair.flow, "--at", f"{pair.topic(1)}:9=0", "--at", "unheard-of:0=3", "--json")
    reasons = {place["from"]["topic"]: place["reason"] for place in json.loads(beyond.stdout)["positions"]}
    assert beyond.exit_code == 2
    assert "does not exist" in reasons[pair.topic(1)]
    assert reasons["unheard-of"] == "no flow of the file copies this topic"
