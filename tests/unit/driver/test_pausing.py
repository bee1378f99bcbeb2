"""Pause, stop and resume on the fake broker: what is copied, shown and refused, and what the next owner does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from fake.cluster import FakeCluster
from fake.flow import FakeFlow, append, running_flow, values_of, write_flow
from typer.testing import CliRunner, Result
from unit.outages.worst_night import LEADERLESS, LOGIN_REFUSED, SOURCE_GONE, TARGET_GONE, worst_night

from sparkmirror.cli.app import app
from sparkmirror.cli.run_status import exit_status, stop_lines
from sparkmirror.clusters import ClusterClient, append_records
from sparkmirror.clusters.client import PATIENCE
from sparkmirror.config import load
from sparkmirror.control import RunOptions
from sparkmirror.driver.moves import asking
from sparkmirror.errors import ConfigError, RequestRefused
from sparkmirror.ledger import OwnerRequest, encode
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.status import FlowStatus, flow_reason, flow_state

OTHER, BIG = "other", b"b" * 3000


@pytest.fixture
def clusters(monkeypatch) -> Iterator[tuple[FakeCluster, FakeCluster]]:
    monkeypatch.setattr(asking, "NEXT_OWNER_S", 0.2)
    with FakeCluster() as source, FakeCluster() as target:
        source.create_topic("orders", partitions=2)
        source.create_topic(OTHER, partitions=1)
        add(source, "1")
        yield source, target


def add(source: FakeCluster, value: str) -> None:
    """One record in each partition."""
    for topic, partition in (("orders", 0), ("orders", 1), (OTHER, 0)):
        append(source, topic, value.encode(), partition=partition)


def call(verb: str, path: Path, *words: str) -> Result:
    return CliRunner().invoke(app, [verb, str(path), *words], env={"NO_COLOR": "1"})


def ask(verb: str, path: Path, *words: str) -> dict[str, Any]:
    ended = call(verb, path, *words, "--json")
    assert ended.exit_code == 0, (ended.output, ended.exception)
    return json.loads(ended.stdout)


def copied(target: FakeCluster) -> list[list[bytes]]:
    places = (("A.orders", 0), ("A.orders", 1), (f"A.{OTHER}", 0))
    return [values_of(target, *place) if place[0] in target.topics else [] for place in places]


def status_of(flow: FakeFlow) -> FlowStatus:
    return flow.conductor.status


def states(flow: FakeFlow) -> dict[str, str]:
    return {str(p): status.state for p, status in sorted(status_of(flow).partitions.items())}


def await_copied(flow: FakeFlow, target: FakeCluster, *counts: int) -> None:
    flow.await_true(lambda: [len(values) for values in copied(target)] == list(counts))


def test_a_paused_flow_copies_nothing_until_it_is_resumed_and_then_everything_once(tmp_path: Path, clusters) -> None:
    source, target = clusters
    path = write_flow(tmp_path, source, target)
    with running_flow(path) as flow:
        await_copied(flow, target, 1, 1, 1)
        told = ask("pause", path)
        assert told["text"] == "the flow is paused: 3 partitions" and told["owner_runs"] and not told["open_partitions"]
        [wish] = told["wishes"]
        assert (wish["connector"], wish["topic"], wish["partition"], wish["state"]) == ("source", None, None, "paused")
        flow.await_true(lambda: set(states(flow).values()) == {"paused"})
        assert flow_state(status_of(flow)) == "paused"
        assert wish["who"] in flow_reason(status_of(flow)) and f"sparkmirror resume {path}" in flow_reason(status_of(flow))
        add(source, "2")
        flow.await_true(lambda: all(p.lag == 1 for p in status_of(flow).partitions.values()))
        assert copied(target) == [[b"1"]] * 3
        assert ask("resume", path)["text"] == "resumed: the flow"
        await_copied(flow, target, 2, 2, 2)
        flow.await_true(lambda: flow_state(status_of(flow)) == "running")
        assert not flow_reason(status_of(flow))
    assert copied(target) == [[b"1", b"2"]] * 3


@pytest.mark.parametrize(
    ("scope", "paused", "counts"),
    [
        (("--topic", "orders"), {"orders-0", "orders-1"}, (1, 1, 2)),
        (("--topic", "orders", "--partition", "1"), {"orders-1"}, (2, 1, 2)),
    ],
)
def test_only_what_was_named_is_paused(tmp_path: Path, clusters, scope, paused, counts) -> None:
    source, target = clusters
    path = write_flow(tmp_path, source, target)
    with running_flow(path) as flow:
        await_copied(flow, target, 1, 1, 1)
        ask("pause", path, *scope)
        add(source, "2")
        await_copied(flow, target, *counts)
        flow.await_true(lambda: {p for p, state in states(flow).items() if state == "paused"} == paused)
        flow.await_true(lambda: flow_state(status_of(flow)) == "running")
        ask("resume", path, *scope)
        await_copied(flow, target, 2, 2, 2)


def test_a_paused_flow_stays_paused_for_the_next_owner(tmp_path: Path, clusters) -> None:
    source, target = clusters
    path = write_flow(tmp_path, source, target)
    with running_flow(path) as flow:
        await_copied(flow, target, 1, 1, 1)
        ask("pause", path, "--topic", "orders")
    add(source, "2")
    with running_flow(path) as flow:
        await_copied(flow, target, 1, 1, 2)
        flow.await_true(lambda: states(flow)["orders-0"] == "paused")
        assert any("topic orders is paused since" in note for note in status_of(flow).notes)
    ask("resume", path)
    with running_flow(path) as flow:
        await_copied(flow, target, 2, 2, 2)


def test_with_no_owner_the_wish_is_written_and_the_next_start_is_paused(tmp_path: Path, clusters) -> None:
    source, target = clusters
    path = write_flow(tmp_path, source, target)
    told = ask("stop", path)
    assert not told["owner_runs"] and told["text"] == "the flow is stopped"
    with running_flow(path) as flow:
        flow.await_true(lambda: set(states(flow).values()) == {"paused"})
        assert {p.code for p in status_of(flow).partitions.values()} == {"STOPPED_ON_REQUEST"}
        assert all(p.slot is None for p in status_of(flow).partitions.values())
        assert copied(target) == [[], [], []]
        ask("resume", path)
        await_copied(flow, target, 1, 1, 1)


def test_a_topic_that_comes_later_is_paused_with_its_flow(tmp_path: Path, clusters) -> None:
    source, target = clusters
    path = write_flow(tmp_path, source, target, {"refresh.topics.interval.seconds": "1"})
    with running_flow(path) as flow:
        await_copied(flow, target, 1, 1, 1)
        ask("pause", path)
        source.create_topic("later", partitions=1)
        append(source, "later", b"1")
        flow.await_true(lambda: states(flow).get("later-0") == "paused")
        ask("resume", path)
        flow.await_true(lambda: "A.later" in target.topics and values_of(target, "A.later") == [b"1"])


@pytest.mark.parametrize("runs", [True, False])
def test_a_part_of_what_is_paused_cannot_be_resumed_alone(tmp_path: Path, clusters, runs: bool) -> None:
    source, target = clusters
    path = write_flow(tmp_path, source, target)
    with running_flow(path) as flow:
        await_copied(flow, target, 1, 1, 1)
        ask("pause", path)
        if runs:
            refused = call("resume", path, "--topic", "orders")
    if not runs:
        refused = call("resume", path, "--topic", "orders")
    assert isinstance(refused.exception, RequestRefused) and refused.exception.exit_status == 2
    assert "the flow is paused since" in refused.exception.message
    assert refused.exception.hint == f"to resume it: sparkmirror resume {path}"
    assert "the flow is paused" in ask("pause", path)["text"]  # nothing was changed


def test_resume_ends_everything_that_was_paused_within_its_scope(tmp_path: Path, clusters) -> None:
    source, target = clusters
    path = write_flow(tmp_path, source, target)
    with running_flow(path) as flow:
        await_copied(flow, target, 1, 1, 1)
        ask("pause", path, "--topic", "orders", "--partition", "0")
        ask("stop", path, "--topic", OTHER)
        ask("pause", path, "--connector", "heartbeat")
        told = ask("resume", path)
        assert told["text"] == f"resumed: partition orders-0, topic {OTHER}"
        assert [wish["connector"] for wish in told["wishes"]] == ["heartbeat"]
        add(source, "2")
        await_copied(flow, target, 2, 2, 2)
        assert ask("resume", path)["text"] == "nothing was paused or stopped"


@pytest.mark.parametrize("runs", [True, False])
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--topic", "no-such"), "topic no-such: this flow does not copy it"),
        (("--topic", "orders", "--partition", "2"), "topic orders has partitions 0 to 1, found 2"),
    ],
)
def test_what_the_flow_does_not_copy_is_not_paused(tmp_path: Path, clusters, runs: bool, words, message: str) -> None:
    source, target = clusters
    path = write_flow(tmp_path, source, target)
    if runs:
        with running_flow(path) as flow:
            await_copied(flow, target, 1, 1, 1)
            refused = call("pause", path, *words)
            assert status_of(flow).wishes == () and "paused" not in states(flow).values()
    else:
        refused = call("pause", path, *words)
    assert isinstance(refused.exception, RequestRefused) and message in refused.exception.message


def test_bad_words_are_refused_before_any_cluster_is_asked(tmp_path: Path) -> None:
    path = tmp_path / "mm2.properties"
    servers = "".join(f"{alias}.bootstrap.servers = 127.0.0.1:1\n" for alias in "AB")
    path.write_text(f"clusters = A, B\n{servers}A->B.enabled = true\n")
    assert "needs --topic" in call("pause", path, "--partition", "0").output
    assert "cannot be combined" in call("pause", path, "--topic", "t", "--connector", "heartbeat").output
    assert "'sink' is not one of" in call("pause", path, "--connector", "sink").output
    assert isinstance(call("pause", path, "--flow", "X->Y").exception, ConfigError)


def test_without_a_ledger_nothing_can_be_resumed(tmp_path: Path, clusters) -> None:
    source, target = clusters
    path = write_flow(tmp_path, source, target)
    refused = call("resume", path)
    assert isinstance(refused.exception, RequestRefused) and "nothing is paused or stopped" in refused.exception.message
    assert not target.topics


def test_history_says_who_paused_what(tmp_path: Path, clusters) -> None:
    source, target = clusters
    path = write_flow(tmp_path, source, target)
    ask("pause", path, "--topic", "orders")
    ask("resume", path, "--topic", "orders")
    pause, resume = json.loads(call("history", path, "--json").stdout)["entries"]
    assert (pause["verb"], pause["topic"], pause["text"]) == ("pause", "orders", "topic orders is paused")
    assert (resume["verb"], resume["text"], resume["who"]) == ("resume", "resumed: topic orders", pause["who"])


def test_doctor_why_and_plan_say_who_paused_what_and_how_to_resume(tmp_path: Path, clusters) -> None:
    source, target = clusters
    path = write_flow(tmp_path, source, target)
    with running_flow(path) as flow:
        await_copied(flow, target, 1, 1, 1)
        [topic] = ask("pause", path, "--topic", "orders")["wishes"]
        ask("stop", path, "--connector", "checkpoint")
        ask("pause", path, "--connector", "heartbeat")
        words = f"topic orders is paused since {topic['time']} by {topic['who']}"
        resume = f"sparkmirror resume {path} --topic orders"
        doctor = call("doctor", path, "--wait", "0").output
        assert words in doctor and f"$ {resume}" in doctor
        assert "C04 checkpoints stopped on request" in doctor
        assert f"$ sparkmirror resume {path} --connector checkpoint" in doctor
        assert "C19 heartbeats paused on request" in doctor and "C12 a partition" not in doctor
        why = call("why", path, "orders", "--wait", "0").output
        assert "is it being copied? no: copying paused on request (D11)" in why and f"$ {resume}" in why
        assert "paused" not in call("why", path, OTHER, "--wait", "0").output
        plan = call("plan", path)
        assert f"a run waits: PAUSED: {words} (to resume: {resume})" in plan.output and plan.exit_code == 4
        assert "a run omits: STOPPED_ON_REQUEST: the checkpoint connector is stopped since" in plan.output


def test_a_run_once_ends_and_says_that_it_is_paused(tmp_path: Path, clusters) -> None:
    source, target = clusters
    path = write_flow(tmp_path, source, target)
    ask("pause", path, "--topic", "orders")
    with running_flow(path, RunOptions(once=True)) as flow:
        flow.thread.join(30)
        assert not flow.thread.is_alive()
    status = status_of(flow)
    assert copied(target) == [[], [], [b"1"]]
    [line] = stop_lines([status], 10)
    assert line.startswith("A->B 2 of 3 partitions were not copied: topic orders is paused since")
    assert exit_status([status], [], once=True, interrupted=False) == 4


@pytest.mark.parametrize("verb", ["set", "reset"])
def test_a_position_is_moved_while_the_flow_is_stopped_and_nothing_is_copied_until_it_is_resumed(
    tmp_path: Path, clusters, verb: str
) -> None:
    source, target = clusters
    path = write_flow(tmp_path, source, target)
    to = ("--to", "0") if verb == "set" else ()
    with running_flow(path) as flow:
        await_copied(flow, target, 1, 1, 1)
        ask("stop", path)
        moved = CliRunner().invoke(
            app, ["offsets", verb, str(path), "--topic", "orders", "--partition", "0", *to, "--yes"], env={"NO_COLOR": "1"}
        )
        assert moved.exit_code == 0, (moved.output, moved.exception)
        flow.await_true(lambda: set(states(flow).values()) == {"paused"})
        flow.await_true(lambda: flow.partition("orders").lag == 1)
        assert copied(target) == [[b"1"]] * 3
        ask("resume", path)
        await_copied(flow, target, 2, 1, 1)


def test_what_cannot_be_copied_stays_stopped_while_it_is_paused_and_is_not_tried(tmp_path: Path, clusters) -> None:
    source, target = clusters
    target.create_topic("A.orders", partitions=2, configs={"max.message.bytes": "2000"})
    path = write_flow(tmp_path, source, target)
    with running_flow(path) as flow:
        append(source, "orders", BIG)
        flow.await_true(lambda: states(flow).get("orders-0") == "stopped")
        told = ask("pause", path)
        assert told["open_partitions"] == 0
        flow.await_true(lambda: states(flow)["orders-1"] == "paused")
        before = flow.conductor._context.placed[TopicPartition("orders", 0)].attempt
        flow.on_thread(flow.conductor._healing.look)
        assert flow.conductor._context.placed[TopicPartition("orders", 0)].attempt == before
        assert states(flow)["orders-0"] == "stopped" and flow_state(status_of(flow)) == "paused"
        target.topics["A.orders"].configs["max.message.bytes"] = "100000"
        ask("resume", path)
        flow.on_thread(flow.conductor._healing.look)
        flow.await_true(lambda: values_of(target, "A.orders") == [b"1", BIG])


def test_a_request_that_makes_no_sense_is_answered_so(tmp_path: Path, clusters) -> None:
    source, target = clusters
    path = write_flow(tmp_path, source, target)
    bad = [
        ("pause", {"arguments": {"connector": "sink"}}, "expected connector source, checkpoint or heartbeat"),
        ("stop", {"arguments": {"connector": "heartbeat"}, "topic": "orders"}, "has no topics of its own"),
        ("resume", {"arguments": {"more": 1}}, "expected connector source"),
        ("pause", {"partition": 1}, "a partition needs its topic"),
    ]
    with running_flow(path) as flow, closing(ClusterClient(load(str(path)).flow(FlowName("A", "B")).target)) as client:
        await_copied(flow, target, 1, 1, 1)
        for at, (verb, more, message) in enumerate(bad):
            until = target.now_ms() + 60_000
            asked = OwnerRequest(str(at), verb, "ann", target.now_ms(), until, **more)
            append_records(client, TopicPartition("mm2-ledger.A.internal", 0), [encode(asked)], target.now_ms())
            answers = flow.conductor._context.ledger.view.answers
            flow.await_true(lambda at=at, answers=answers: str(at) in answers)
            assert answers[str(at)].state == "refused" and message in answers[str(at)].text, answers[str(at)]
        assert status_of(flow).wishes == () and "paused" not in states(flow).values()


@contextmanager
def impatient() -> Iterator[None]:
    """Requests to clusters that never come back are not tried again for long."""
    before = PATIENCE.retry_s
    object.__setattr__(PATIENCE, "retry_s", 0.5)
    try:
        yield
    finally:
        object.__setattr__(PATIENCE, "retry_s", before)


@pytest.mark.parametrize("state", [SOURCE_GONE, TARGET_GONE, LOGIN_REFUSED, LEADERLESS])
def test_a_flow_is_paused_while_its_source_is_away_and_a_dead_target_is_named(tmp_path: Path, state: str) -> None:
    with worst_night(state, tmp_path, is_released=True) as night, impatient():
        paused = night.call("pause", "FILE", "--json")
        if state == TARGET_GONE:
            assert paused.status == 2 and "cluster B is unreachable" in paused.text
            return
        assert paused.status == 0 and json.loads(paused.out)["text"] == "the flow is paused", paused.text
        assert night.call("resume", "FILE").status == 0


def test_status_says_the_same_from_the_clusters(tmp_path: Path, clusters) -> None:
    source, target = clusters
    path = write_flow(tmp_path, source, target, {"emit.heartbeats.enabled": "false"})
    with running_flow(path) as flow:
        await_copied(flow, target, 1, 1, 1)
        [wish] = ask("pause", path)["wishes"]
        told = call("status", path, "--json")
        [shown] = json.loads(told.stdout)["flows"]
        assert (shown["state"], shown["wishes"], shown["partitions"]) == ("paused", [wish], {"paused": 3})
        assert wish["text"] in shown["reason"] and told.exit_code in (2, 3)
        assert f"{wish['text']} (to resume: sparkmirror resume {path})" in call("status", path).output
    [shown] = json.loads(call("status", path, "--json").stdout)["flows"]
    assert (shown["state"], shown["wishes"], shown["partitions"]) == ("not running", [wish], {"paused": 3})


def test_a_position_that_is_moved_while_paused_counts_for_an_owner_that_found_an_older_one(tmp_path: Path, clusters) -> None:
    source, target = clusters
    path = write_flow(tmp_path, source, target)
    with running_flow(path) as flow:
        await_copied(flow, target, 1, 1, 1)
        ask("pause", path, "--topic", "orders")
    with running_flow(path) as flow:  # it reads MirrorMaker 2's positions at its start
        flow.await_true(lambda: states(flow).get("orders-0") == "paused")
        words = ["offsets", "reset", str(path), "--topic", "orders", "--partition", "0", "--yes"]
        assert CliRunner().invoke(app, words).exit_code == 0
        words = ["offsets", "reset", str(path), "--topic", OTHER, "--partition", "0", "--yes"]
        assert CliRunner().invoke(app, words).exit_code == 0
        ask("resume", path)
        await_copied(flow, target, 2, 1, 2)
