"""records: every record of a flow's internal topics as a line of JSON, from the cluster that holds them alone."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from fake.cluster import FakeCluster
from fake.pair import FakePair, copied, fake_pair
from kafka.record import MemoryRecords
from typer.testing import CliRunner, Result

from sparkmirror.cli.app import app
from sparkmirror.clusters import append_records
from sparkmirror.ledger import Position, Run
from sparkmirror.model import Checkpoint, Heartbeat, OffsetSync, TopicPartition
from sparkmirror.wire import (
    Record,
    build_batch,
    encode_checkpoint,
    encode_connect_offset,
    encode_heartbeat,
    encode_offset_sync,
    source_key,
)

PROGRAM = str(Path(sys.executable).with_name("sparkmirror"))
GOLDEN = Path(__file__).parents[2] / "golden" / "data"
TIME_MS, TIME = 1_794_773_596_107, "2026-11-15T20:13:16.107Z"
ORDERS, REMOTE = TopicPartition("orders", 3), TopicPartition("A.orders", 3)
CHECKPOINTS, SYNCS, POSITIONS = "A.checkpoints.internal", "mm2-offset-syncs.B.internal", "mm2-offsets.A.internal"
Pairs = Sequence[tuple[bytes | None, bytes | None]]


@pytest.fixture
def pair() -> Iterator[FakePair]:
    with fake_pair({}) as made:
        yield made


def put(cluster: FakeCluster, topic: str, pairs: Pairs, partitions: int = 1, partition: int = 0) -> None:
    if topic not in cluster.topics:
        cluster.create_topic(topic, partitions)
    batch = build_batch([Record(at, TIME_MS, key, value) for at, (key, value) in enumerate(pairs)], codec=0)
    assert cluster.topics[topic].logs[partition].append(bytes(batch))[0] == 0


def write_file(pair: FakePair, tmp_path: Path) -> str:
    file = tmp_path / "mm2.properties"
    file.write_text(
        f"clusters = A, B\nA.bootstrap.servers = {pair.source.bootstrap}\nB.bootstrap.servers = {pair.target.bootstrap}\n"
        "A->B.enabled = true\n"
    )
    return str(file)


def shown(pair: FakePair, tmp_path: Path, kind: str, *words: str) -> Result:
    return CliRunner().invoke(app, ["records", write_file(pair, tmp_path), kind, *words])


def lines(pair: FakePair, tmp_path: Path, kind: str, *words: str) -> list[dict[str, Any]]:
    ended = shown(pair, tmp_path, kind, *words)
    assert (ended.exit_code, ended.stderr) == (0, "")
    return [json.loads(line) for line in ended.stdout.splitlines()]


def where(topic: str, offset: int, partition: int = 0) -> dict[str, Any]:
    return {"topic": topic, "partition": partition, "offset": offset, "timestamp_ms": TIME_MS, "timestamp": TIME}


def test_checkpoints_have_the_names_of_the_reference(pair: FakePair, tmp_path: Path) -> None:
    key, value = encode_checkpoint(Checkpoint("billing", REMOTE, 1000, 990, "note"))
    put(pair.target, CHECKPOINTS, [(key, value), (key, None), (b"?", b"\xff"), (None, None)])
    pair.source.close()  # checkpoints are read in the night in which the source is gone
    first, gone, foreign, empty = lines(pair, tmp_path, "checkpoints")
    assert first == {
        "consumer_group": "billing", "topic": "A.orders", "partition": 3, "upstream_offset": 1000, "downstream_offset": 990,
        "metadata": "note", "record": where(CHECKPOINTS, 0),
    }  # fmt: skip
    assert gone == {
        "consumer_group": "billing", "topic": "A.orders", "partition": 3, "tombstone": True,
        "record": where(CHECKPOINTS, 1),
    }  # fmt: skip
    assert (foreign["foreign"], foreign["key"], foreign["value"]) == (True, "?", "\\xff")
    assert (empty["foreign"], empty["key"], empty["reason"]) == (True, None, "a checkpoint without a key")


def test_offset_syncs_are_read_where_they_are_and_a_restart_is_named(pair: FakePair, tmp_path: Path) -> None:
    syncs = [encode_offset_sync(OffsetSync(ORDERS, upstream, 7)) for upstream in (12, -1)]
    put(pair.source, SYNCS, [*syncs, (syncs[0][0], None)])
    pair.target.close()
    found = lines(pair, tmp_path, "offset-syncs")
    offsets = {"topic": "orders", "partition": 3, "upstream_offset": 12, "downstream_offset": 7}
    assert found[0] == offsets | {"record": where(SYNCS, 0)}
    assert found[1] == offsets | {"upstream_offset": -1, "restart": True, "record": where(SYNCS, 1)}
    assert "tombstone" in found[2]["reason"]


def test_heartbeats_show_both_times(pair: FakePair, tmp_path: Path) -> None:
    beat = encode_heartbeat(Heartbeat("A", "B", TIME_MS - 1))
    put(pair.target, "heartbeats", [beat, (b"A", None)])
    good, foreign = lines(pair, tmp_path, "heartbeats")
    assert good == {
        "source_cluster": "A", "target_cluster": "B", "timestamp_ms": TIME_MS - 1, "timestamp": TIME.replace("107", "106"),
        "record": where("heartbeats", 0),
    }  # fmt: skip
    assert foreign["foreign"]


def test_positions_of_every_partition_and_connector_are_shown(pair: FakePair, tmp_path: Path) -> None:
    key = source_key("MirrorSourceConnector", "A", ORDERS)
    put(pair.target, POSITIONS, [(key, encode_connect_offset(41)), (key, None)], partitions=3)
    put(pair.target, POSITIONS, [(b'["MirrorHeartbeatConnector",{"x":"y"}]', b"{}"), (b"{", b"")], partition=2)
    found = lines(pair, tmp_path, "positions")
    place = {"connector": "MirrorSourceConnector", "cluster": "A", "topic": "orders", "partition": 3}
    assert found[0] == place | {"offset": 41, "next_offset": 42, "record": where(POSITIONS, 0)}
    assert found[1] == place | {"tombstone": True, "record": where(POSITIONS, 1)}
    assert [("other" in line, "foreign" in line) for line in found[2:]] == [(True, False), (False, True)]
    assert found[2]["record"]["partition"] == 2


def test_the_ledger_is_shown_as_it_is_written(pair: FakePair, tmp_path: Path) -> None:
    pair.write_ledger(copied("A", "orders", Position(10, 10, 10), Run(0, 0, 10)))
    raw = [pair.target.topics["mm2-ledger.A.internal"].logs[0].batches[at][1] for at in range(1)]
    written = [record for data in raw for batch in MemoryRecords(data) for record in batch]
    odd = [(b"{}", b"{}"), (written[0].key, None)]
    append_records(pair.target_client, TopicPartition("mm2-ledger.A.internal", 0), odd, TIME_MS)
    found = lines(pair, tmp_path, "ledger")
    assert [[line["kind"], *line["key"]] for line in found[:2]] == [json.loads(record.key) for record in written]
    assert [line["value"] for line in found[:2]] == [json.loads(record.value) for record in written]
    assert ("foreign" in found[2], found[3]["tombstone"], found[3]["kind"]) == (True, True, "open")


@pytest.mark.parametrize(
    ("topic", "kind"), [("B__A.checkpoints.internal", "checkpoints"), ("B__mm2-offsets.A.internal", "positions"),
                        ("A__mm2-offset-syncs.B.internal", "offset-syncs"), ("B__heartbeats", "heartbeats")],
)  # fmt: skip
def test_no_record_of_mirror_maker_is_foreign(pair: FakePair, tmp_path: Path, topic: str, kind: str) -> None:
    rows = json.loads((GOLDEN / f"{topic}.json").read_text())["records"]
    side, _, name = topic.partition("__")
    cluster = pair.source if side == "A" else pair.target
    pairs = [tuple(None if row[part] is None else bytes.fromhex(row[part]) for part in ("key", "value")) for row in rows]
    put(cluster, name, pairs)
    found = lines(pair, tmp_path, kind)
    assert len(found) == len(rows) > 0
    assert [line for line in found if line.get("foreign")] == []


def test_from_and_limit_choose_records(pair: FakePair, tmp_path: Path) -> None:
    beats = [encode_heartbeat(Heartbeat("A", "B", at)) for at in range(5)]
    put(pair.target, "heartbeats", beats)
    assert [line["timestamp_ms"] for line in lines(pair, tmp_path, "heartbeats", "--from", "3")] == [3, 4]
    assert [line["timestamp_ms"] for line in lines(pair, tmp_path, "heartbeats", "--from", "1", "--limit", "2")] == [1, 2]


def test_a_topic_that_is_not_there_and_a_kind_that_is_none_are_said(pair: FakePair, tmp_path: Path) -> None:
    missing = shown(pair, tmp_path, "checkpoints")
    told = "sparkmirror: topic A.checkpoints.internal does not exist on B\n"
    assert (missing.exit_code, missing.stdout, missing.stderr) == (2, "", told)
    assert shown(pair, tmp_path, "groups").exit_code == 1


def test_a_cluster_that_is_away_is_said_at_once(pair: FakePair, tmp_path: Path) -> None:
    pair.target.close()
    began = time.monotonic()
    ended = shown(pair, tmp_path, "checkpoints")
    assert (ended.exit_code, ended.stdout) != (0, "")
    assert "unreachable" in str(ended.exception)
    assert time.monotonic() - began < 10


def test_new_records_follow_over_a_restart_until_ctrl_c(pair: FakePair, tmp_path: Path) -> None:
    put(pair.target, "heartbeats", [encode_heartbeat(Heartbeat("A", "B", 1))])
    words = [PROGRAM, "records", write_file(pair, tmp_path), "heartbeats", "--follow"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        assert beat_of(process.stdout.fileno()) == 1
        pair.target.hang_up()  # as a broker that restarts
        assert "unreachable" in line_of(process.stderr.fileno())
        assert "answers again" in line_of(process.stderr.fileno())
        put(pair.target, "heartbeats", [encode_heartbeat(Heartbeat("A", "B", 2))])
        assert beat_of(process.stdout.fileno()) == 2
        del pair.target.topics["heartbeats"]
        assert "does not exist" in line_of(process.stderr.fileno())
        put(pair.target, "heartbeats", [encode_heartbeat(Heartbeat("A", "B", 3))])
        assert beat_of(process.stdout.fileno()) == 3
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=30)
    assert (process.returncode, rest) == (0, b"")
    assert re.search(rb"Traceback", errors) is None


def line_of(number: int) -> str:
    """The next line, which may come in pieces."""
    text = b""
    while not text.endswith(b"\n"):
        ready, _, _ = select.select([number], [], [], 60)
        assert ready, f"nothing came after {text!r}"
        text += os.read(number, 1)
    return text.decode()


def beat_of(number: int) -> int:
    return int(json.loads(line_of(number))["timestamp_ms"])
