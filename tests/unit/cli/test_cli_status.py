"""`status` where no process answers: what both clusters say, what one alone remembers, and nothing that nobody knows."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake.cluster import FakeGroup
from fake.pair import FakePair, copied, fake_pair
from typer.testing import CliRunner, Result

from sparkmirror.cli.app import app
from sparkmirror.cli.status.view import flow_lines, severity_of
from sparkmirror.clusters import append_records
from sparkmirror.config import KeyChange
from sparkmirror.diagnose.exit_status import status_of
from sparkmirror.ledger import Owner, PartitionEnd, Position, Receipt, Run, SourceEnds, State
from sparkmirror.model import FlowName, Heartbeat, TopicPartition
from sparkmirror.status import FlowStatus, ReloadResult
from sparkmirror.status.outline import outline
from sparkmirror.wire import encode_heartbeat

NOW_MS = int(time.time() * 1000)
SINCE_MS = 1_700_000_000_000
ALIVE = Owner(1, 0, 1, 0, "elsewhere/pid 7/boot/ns/1", 9, (1,), source_seen_ms=NOW_MS, since_ms=SINCE_MS)
HEARTBEATS = TopicPartition("heartbeats", 0)
WRONG = (
    "A.security.protocol = SASL_PLAINTEXT\nA.sasl.mechanism = PLAIN\nA.sasl.jaas.config = "
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="wrong";\n'
)


class Pair:
    """A flow that copied ten of the records of its source."""

    def __init__(self, pair: FakePair, folder: Path) -> None:
        self.pair, self.path, self.records = pair, folder / "mm2.properties", 10

    def fill(self, owner: Owner, *, records: int = 10, age_ms: int = 0, state: State | None = None) -> None:
        pair = self.pair
        source, target = pair.source.create_topic("orders"), pair.target.create_topic("A.orders")
        time_ms = int(time.time() * 1000) - age_ms
        for client, name, count in ((pair.source_client, "orders", records), (pair.target_client, "A.orders", 10)):
            append_records(client, TopicPartition(name, 0), [(b"k", b"v")] * count, time_ms)
        begin, receipt = copied("A", "orders", Position(10, 10, 0), Run(0, 0, 10))
        assert isinstance(receipt, Receipt)
        order = replace(begin, source_topic_id=source.topic_id.hex, target_topic_id=target.topic_id.hex)
        ends = SourceEnds("orders", 0, NOW_MS, source.topic_id.hex, (PartitionEnd(0, records, NOW_MS),))
        pair.write_ledger([owner, order, receipt, ends, *([] if state is None else [state])])
        with pair.target.lock, pair.source.lock:
            for cluster in (pair.source, pair.target):
                cluster.groups["other"] = FakeGroup()

    def status(self, *words: str, more: str = "") -> Result:
        pair = self.pair
        self.path.write_text(
            f"clusters = A, B\nA.bootstrap.servers = {pair.source.bootstrap}\nemit.heartbeats.enabled = false\n"
            f"B.bootstrap.servers = {pair.target.bootstrap}\nA->B.enabled = true\nA->B.topics = orders\n"
            f"replication.factor = 1\nheartbeats.replication.enabled = false\n{more}"
        )
        return CliRunner().invoke(app, ["status", str(self.path), *words], env={"NO_COLOR": "1"})

    def flow(self, status: int, *words: str, more: str = "") -> dict[str, Any]:
        result = self.status("--json", *words, more=more)
        assert result.exit_code == status, result.output
        found = json.loads(result.stdout)
        assert found["status"] == status
        [flow] = found["flows"]
        assert isinstance(flow, dict)
        return flow


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with fake_pair({"A->B.topics": "orders"}) as made:
        yield Pair(made, tmp_path)


def test_flow_that_has_copied_everything_is_running_with_its_owner_and_since_when(pair: Pair) -> None:
    pair.fill(ALIVE)
    flow = pair.flow(0)
    assert (flow["state"], flow["lag"], flow["lag_seconds"], flow["partitions"]) == ("running", 0, 0, {"copying": 1})
    result = pair.status()
    assert result.exit_code == 0
    assert "A->B  running  as of " in result.stdout
    assert "owner elsewhere pid 7, since 2023-11-14 22:13:20Z" in result.stdout
    assert "  lag 0\n" in result.stdout
    assert "heartbeat unknown" in result.stdout
    pair.pair.writes()
    pair.status()
    assert pair.pair.writes() == []


def test_records_that_are_not_copied_are_counted_and_the_oldest_is_as_old_as_its_timestamp(pair: Pair) -> None:
    pair.fill(ALIVE, records=17, age_ms=90_000)
    flow = pair.flow(0)
    assert flow["lag"] == 7
    assert 90 <= flow["lag_seconds"] < 200


def test_stopped_partition_is_named_with_code_reason_and_command_and_ends_with_4(pair: Pair) -> None:
    begin, _ = copied("A", "orders", Position(10, 10, 0), Run(0, 0, 10))
    stop = State(TopicPartition("orders", 0), begin.attempt, "stopped", "CORRUPT_BATCH", "bad bytes", "skip it")  # type: ignore[union-attr]
    pair.fill(ALIVE, state=stop)
    result = pair.status()
    assert result.exit_code == 4
    assert "A->B  stopped" in result.stdout
    assert "stopped  orders-0  CORRUPT_BATCH  bad bytes (skip it)" in result.stdout


def test_nobody_owns_it_and_nobody_ever_did(pair: Pair) -> None:
    pair.pair.source.create_topic("orders")
    pair.pair.target.create_topic("A.orders")
    with pair.pair.target.lock, pair.pair.source.lock:
        for cluster in (pair.pair.source, pair.pair.target):
            cluster.groups["other"] = FakeGroup()
    result = pair.status()
    assert (result.exit_code, "A->B  never run" in result.stdout, "owner none" in result.stdout) == (3, True, True)


def test_owner_that_left_in_order_is_not_running_and_what_is_left_to_copy_is_said(pair: Pair) -> None:
    pair.fill(replace(ALIVE, released=True), records=17)
    flow = pair.flow(3)
    assert (flow["state"], flow["lag"], flow["partitions"]) == ("not running", 7, {"not copied": 1})
    assert "was shut down cleanly" in flow["reason"]
    assert "7 records not copied" in flow["reason"]


def test_dead_source_makes_the_state_unknown_and_says_what_was_known_with_its_time(pair: Pair) -> None:
    pair.fill(ALIVE, records=17)
    pair.pair.source.close()
    flow = pair.flow(4)
    assert (flow["state"], flow["reason"], flow["lag"], flow["lag_seconds"]) == (
        "unknown", "cluster A does not answer", None, None
    )  # fmt: skip
    assert (flow["lag_known"], flow["lag_as_of"] is not None) == (7, True)
    assert "lag ? (7 as of " in pair.status().stdout


def test_dead_target_leaves_nothing_known(pair: Pair) -> None:
    pair.fill(ALIVE, records=17)
    pair.pair.target.close()
    flow = pair.flow(4)
    assert (flow["state"], flow["lag"], flow["owner"], flow["groups"], flow["heartbeat"]) == ("unknown", *[None] * 4)
    assert "lag ?" in pair.status().stdout


def test_refused_login_is_named(pair: Pair) -> None:
    pair.fill(ALIVE)
    flow = pair.flow(4, more=WRONG)
    assert (flow["state"], flow["reason"]) == ("unknown", "cluster A refuses the login")


def test_newest_heartbeat_of_this_flow_counts_and_no_other(pair: Pair) -> None:
    pair.fill(ALIVE)
    pair.pair.target.create_topic("heartbeats")
    now_ms = int(time.time() * 1000)
    for source, at in (("A", now_ms - 30_000), ("C", now_ms)):
        append_records(pair.pair.target_client, HEARTBEATS, [encode_heartbeat(Heartbeat(source, "B", at))], at)
    result = pair.status()
    [line] = [line for line in result.stdout.splitlines() if "heartbeat" in line]
    assert 30 <= int(line.split()[1]) < 90, line


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"state": "running", "lag": 0}, 0),
        ({"state": "running", "lag": None}, 2),
        ({"state": "running", "lag": 0, "groups": {"ready": 1, "unsynced": 1, "unknown": 0}}, 3),
        ({"state": "running", "lag": 0, "chores": {"checkpoints": "no right"}}, 3),
        ({"state": "paused", "lag": 0, "wishes": [{"text": "the flow is paused"}]}, 3),
        ({"state": "failed over", "lag": 0}, 3),
        ({"state": "running", "lag": 0, "settings": {"trouble": "not taken while the flow runs: tasks.max"}}, 3),
        ({"state": "running", "lag": 0, "settings": {"trouble": ""}}, 0),
        ({"state": "degraded", "lag": 9}, 4),
        ({"state": "unknown", "lag": None}, 4),
    ],
)
def test_status_of_what_a_process_says_follows_the_doctors_table(fields: dict[str, Any], status: int) -> None:
    severity, is_whole = severity_of(fields)
    assert status_of(severity, is_complete=is_whole) == status


def test_file_that_is_not_taken_is_said_with_the_key_and_the_reason() -> None:
    refused = KeyChange("replication.policy.separator", ".", "_", "restart sparkmirror to take it")
    flow = FlowStatus(FlowName("A", "B"), settings=ReloadResult(refused=(refused,)))
    told = ["".join(text for text, _ in line) for line in flow_lines(outline(flow), "http://x", 0)]
    [said] = [line for line in told if line.startswith("  configuration file: ")]
    assert "not taken while the flow runs: replication.policy.separator: . → _ (restart sparkmirror to take it)" in said


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--token", "x"], "--url"),
        (["--url", "ftp://x"], "http://HOST:PORT"),
        (["--flow", "X->Y"], "X->Y"),
        (["--url", "http://127.0.0.1:1", "--token", "/nowhere"], "--token /nowhere: expected a readable file"),
    ],
)
def test_wrong_options_end_with_1_and_the_option(pair: Pair, words: list[str], expected: str) -> None:
    result = pair.status(*words)
    assert result.exit_code == 1
    assert expected in result.output + str(result.exception)


def test_url_that_does_not_answer_is_named_and_the_clusters_are_asked(pair: Pair) -> None:
    pair.fill(ALIVE)
    result = pair.status("--url", "http://127.0.0.1:1")
    assert "no answer from http://127.0.0.1:1" in result.stdout
    assert "A->B  running" in result.stdout
