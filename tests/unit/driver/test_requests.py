"""Requests to the owner of a flow, on the fake broker: asked, carried out once, answered, expired, refused."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fake.apis import Handler
from fake.cluster import FakeCluster
from fake.flow import FakeFlow, append, running_flow, values_of, write_flow
from typer.testing import CliRunner, Result

from sparkmirror.cli.app import app
from sparkmirror.clusters import ClusterClient, append_records, log, read_to_end
from sparkmirror.config import load
from sparkmirror.control import RunOptions, place_of
from sparkmirror.driver import Asking, FlowLedger, NextPosition, Repositioning
from sparkmirror.driver.moves import asking, requests
from sparkmirror.errors import FlowOwnedByAnother, RequestRefused, RequestUnanswered
from sparkmirror.ledger import LedgerView, OwnerAnswer, OwnerRequest, encode, reset
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.positions import Goal, MoveRequest, apply
from sparkmirror.process import Process
from sparkmirror.slot.slot import Slot
from sparkmirror.status import MirroredTopic

LEDGER = "mm2-ledger.A.internal"
P = TopicPartition("orders", 0)
MINUTE_MS = 60_000
TOPIC_AUTHORIZATION_FAILED = 29


@pytest.fixture
def clusters(monkeypatch) -> Iterator[tuple[FakeCluster, FakeCluster]]:
    monkeypatch.setattr(asking, "NEXT_OWNER_S", 0.2)
    with FakeCluster() as source, FakeCluster() as target:
        source.create_topic("orders", partitions=2)
        for partition in (0, 1):
            append(source, "orders", *(b"%d" % at for at in range(5)), partition=partition)
        yield source, target


@contextmanager
def copying(path: Path) -> Iterator[FakeFlow]:
    """A flow that has copied everything."""
    with running_flow(path) as flow:
        for partition in (0, 1):
            flow.await_true(lambda partition=partition: flow.partition("orders", partition).next_upstream == 5)
        yield flow


@contextmanager
def ledger_of(target: FakeCluster, path: Path) -> Iterator[tuple[ClusterClient, FlowLedger]]:
    with closing(ClusterClient(load(str(path)).flow(FlowName("A", "B")).target)) as client:
        yield client, FlowLedger(client, LEDGER)


def view_of(target: FakeCluster, path: Path) -> LedgerView:
    with ledger_of(target, path) as (_, ledger):
        return ledger.read_all()


def call(*words: str) -> Result:
    return CliRunner().invoke(app, words, env={"NO_COLOR": "1"})


def request(name: str, verb: str = "offsets.reset", *, expires_in_ms: int = MINUTE_MS, **more: Any) -> OwnerRequest:
    now_ms = int(time.time() * 1000)
    return OwnerRequest(name, verb, "ann@host", now_ms, now_ms + expires_in_ms, **more)


def write(target: FakeCluster, path: Path, *records: OwnerRequest | OwnerAnswer) -> None:
    with ledger_of(target, path) as (client, _):
        append_records(client, TopicPartition(LEDGER, 0), [encode(record) for record in records], target.now_ms())


def answer_to(flow: FakeFlow, name: str) -> OwnerAnswer:
    answers = flow.conductor._context.ledger.view.answers
    flow.await_true(lambda: name in answers)
    return answers[name]


def test_a_running_owner_copies_a_partition_again_and_the_other_one_goes_on(tmp_path: Path, clusters) -> None:
    source, target = clusters
    path = write_flow(tmp_path, source, target)
    with copying(path) as flow:
        before = flow.conductor._context.placed[P._replace(partition=1)].attempt
        ended = call("offsets", "reset", str(path), "--topic", "orders", "--partition", "0", "--yes", "--json")
        assert ended.exit_code == 0, ended.output
        told = json.loads(ended.stdout)
        assert (told["moves"][0]["old_next_offset"], told["moves"][0]["next_offset"], told["applied"]) == (5, 0, True)
        assert told["owner"] == Process.this().name
        flow.await_true(lambda: len(values_of(target, "A.orders")) == 10)
        assert flow.conductor._context.placed[P._replace(partition=1)].attempt == before
        saved = json.loads(Path(told["undo_file"]).read_text())
        assert [record["value"] for record in saved["positions"]] == ['{"offset":4}']
    assert values_of(target, "A.orders") == [b"0", b"1", b"2", b"3", b"4"] * 2
    assert len(values_of(target, "A.orders", 1)) == 5


def test_the_same_id_changes_nothing_and_prints_the_first_answer(tmp_path: Path, clusters) -> None:
    source, target = clusters
    path = write_flow(tmp_path, source, target)
    words = ("offsets", "reset", str(path), "--topic", "orders", "--partition", "0", "--yes", "--request-id", "r1")
    with copying(path) as flow:
        first = call(*words)
        flow.await_true(lambda: len(values_of(target, "A.orders")) == 10)
        again = call(*words)
        assert (first.exit_code, again.exit_code) == (0, 0), again.output
        other = call("offsets", "set", str(path), "--topic", "orders", "--to", "1", "--yes", "--request-id", "r1")
    stopped = call(*words)  # also when nobody runs the flow any more
    moved = [line for line in first.output.splitlines() if "next upstream offset" in line]
    assert moved and all(moved[0] in outcome.output for outcome in (again, stopped)), stopped.output
    assert isinstance(other.exception, RequestRefused) and "was asked for something else" in other.exception.message
    assert len(values_of(target, "A.orders")) == 10


def test_requests_are_carried_out_in_the_order_of_the_ledger_each_once(tmp_path: Path, clusters) -> None:
    source, target = clusters
    path = write_flow(tmp_path, source, target)
    with copying(path) as flow:
        first = request("a", topic="orders", partition=0, arguments={"to": ["offset", 3]})
        second = request("b", "offsets.set", topic="orders", partition=0, arguments={"to": ["offset", 1]})
        write(target, path, first, second, first, second)
        assert (answer_to(flow, "a").state, answer_to(flow, "b").state) == ("done", "done")
        flow.await_true(lambda: flow.partition("orders").next_upstream == 5)
        flow.await_true(lambda: values_of(target, "A.orders")[-4:] == [b"1", b"2", b"3", b"4"])
    found = values_of(target, "A.orders")
    assert found[:5] == [b"0", b"1", b"2", b"3", b"4"]
    assert found[5:] in ([b"1", b"2", b"3", b"4"], [b"3", b"1", b"2", b"3", b"4"], [b"3", b"4", b"1", b"2", b"3", b"4"])
    order = [record for record in _records(target, path) if isinstance(record, OwnerAnswer)]
    assert [answer.id for answer in order] == ["a", "b"]


def _records(target: FakeCluster, path: Path) -> list[Any]:
    with ledger_of(target, path) as (_, ledger):
        return ledger.read_new()


def test_an_expired_request_is_answered_and_never_carried_out(tmp_path: Path, clusters) -> None:
    source, target = clusters
    path = write_flow(tmp_path, source, target)
    with copying(path) as flow:
        write(target, path, request("late", expires_in_ms=-1, topic="orders", arguments={"to": ["earliest", 0]}))
        assert answer_to(flow, "late").state == "expired"
        told = call("offsets", "reset", str(path), "--topic", "orders", "--yes", "--request-id", "late")
        assert isinstance(told.exception, RequestRefused) and "expired by" in told.exception.message
    assert len(values_of(target, "A.orders")) == 5


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (request("x", "flow.dance"), "does not know flow.dance"),
        (request("x", topic="nothing"), "has no topic nothing"),
        (request("x", topic="orders", partition=7), "has partitions 0 to 1, found 7"),
        (request("x", topic="orders", arguments={"to": ["offset", 99]}), "found 99"),
        (request("x", topic="orders", arguments={"to": {"a": 1}}), "Expected `array"),
        (request("x", topic="orders", arguments={"with_target": True}), "--with-target"),
        (request("x", "restart", topic="nothing"), "does not copy it"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_reason_and_stops_nothing(
    tmp_path: Path, clusters, asked: OwnerRequest, text: str
) -> None:
    source, target = clusters
    path = write_flow(tmp_path, source, target)
    with copying(path) as flow:
        before = {p: order.attempt for p, order in flow.conductor._context.placed.items()}
        write(target, path, replace(asked, expires_ms=int(time.time() * 1000) + MINUTE_MS))  # collected long ago
        answer = answer_to(flow, "x")
        assert answer.state == "refused" and text in answer.text, answer
        assert {p: order.attempt for p, order in flow.conductor._context.placed.items()} == before


def test_a_live_move_is_taken_back_while_nothing_was_copied_after_it(tmp_path: Path, clusters) -> None:
    source, target = clusters
    path = write_flow(tmp_path, source, target)
    saved = str(tmp_path / "saved.json")
    with copying(path) as flow:
        moved = call("offsets", "set", str(path), "--topic", "orders", "--to", "latest", "--yes")
        assert "there is nothing more to change" in moved.output
        target.topics["A.orders"].configs["max.message.bytes"] = "0"  # nothing can be copied behind the move
        moved = call(
            "offsets", "set", str(path), "--topic", "orders", "--partition", "0", "--to", "2", "--yes", "--undo-file", saved
        )
        assert moved.exit_code == 0, moved.output
        flow.await_true(lambda: flow.partition("orders").state == "stopped")
        shown = call("offsets", "undo", str(path), saved)
        assert shown.exit_code == 0 and "(running; it would be asked)" in shown.output, shown.output
        undone = call("offsets", "undo", str(path), saved, "--yes")
        assert undone.exit_code == 0, (undone.output, undone.exception)
        target.topics["A.orders"].configs.clear()
        append(source, "orders", b"next")
        flow.await_true(lambda: flow.partition("orders").next_upstream == 6)
        late = call("offsets", "undo", str(path), saved, "--yes")
        assert late.exit_code != 0 and "gone on since" in str(late.exception), late
    assert values_of(target, "A.orders") == [b"0", b"1", b"2", b"3", b"4", b"next"]


def test_an_owner_that_does_not_know_requests_leaves_the_asker_with_its_id(tmp_path: Path, clusters, monkeypatch) -> None:
    source, target = clusters
    path = write_flow(tmp_path, source, target)
    monkeypatch.setattr(requests.Requests, "tend", lambda *_: None)
    with copying(path):
        ended = call("offsets", "reset", str(path), "--topic", "orders", "--yes", "--wait", "1", "--request-id", "r9")
    assert isinstance(ended.exception, RequestUnanswered)
    assert ended.exception.exit_status == 5
    assert f"owner {Process.this().name} may be older than this version" in ended.exception.message
    assert "--request-id r9" in ended.exception.hint
    assert len(values_of(target, "A.orders")) == 5


def test_an_owner_that_ends_before_it_answers_leaves_the_request_to_its_asker(tmp_path: Path, clusters, monkeypatch) -> None:
    source, target = clusters
    path = write_flow(tmp_path, source, target)
    monkeypatch.setattr(requests.Requests, "tend", lambda *_: None)
    with ThreadPoolExecutor(1) as pool:
        with copying(path) as flow:
            words = ("offsets", "reset", str(path), "--topic", "orders", "--partition", "0", "--yes", "--request-id", "r")
            asked = pool.submit(call, *words)
            flow.await_true(lambda: "r" in flow.conductor._context.ledger.view.requests)
        ended = asked.result(60)
    assert ended.exit_code == 0, (ended.output, ended.exception)
    view = view_of(target, path)
    assert (list(view.requests), view.answers["r"].state) == (["r"], "done")
    assert view.unanswered() == []
    monkeypatch.undo()
    with running_flow(path) as flow:
        flow.await_true(lambda: len(values_of(target, "A.orders")) == 10)


def test_without_the_right_to_write_the_ledger_the_error_names_it(tmp_path: Path, clusters) -> None:
    source, target = clusters
    path = write_flow(tmp_path, source, target)
    with copying(path):
        handler = target.handlers[0]
        mine = {"index": 0, "error_code": TOPIC_AUTHORIZATION_FAILED, "base_offset": -1, "log_start_offset": -1}

        def refused(cluster: FakeCluster, asked: Any) -> dict[str, Any]:
            batches = [bytes(part.records) for topic in asked.topic_data for part in topic.partition_data]
            if any(b'["request"' in batch for batch in batches):
                name = {"name": LEDGER, "partition_responses": [mine | {"record_errors": []}]}
                return {"responses": [name]}
            return handler.answer(cluster, asked)

        named = {name: getattr(handler, name) for name in ("REQUEST", "RESPONSE", "VERSIONS")}
        target.handlers[0] = cast("Handler", SimpleNamespace(answer=refused, **named))
        ended = call("offsets", "reset", str(path), "--topic", "orders", "--yes")
        target.handlers[0] = handler
    assert f"needs Write on topic {LEDGER}" in str(ended.exception), ended.exception


def test_restart_needs_a_running_owner(tmp_path: Path, clusters) -> None:
    source, target = clusters
    path = write_flow(tmp_path, source, target)
    with copying(path):
        told = call("restart", str(path))
        assert (told.exit_code, "0 of 2 partitions were stopped" in told.output) == (0, True), told.output
    ended = call("restart", str(path))
    assert isinstance(ended.exception, RequestRefused) and "no process runs A->B" in ended.exception.message


def test_an_owner_whose_source_is_gone_refuses_a_restart_and_goes_on_with_its_heartbeats(
    tmp_path: Path, clusters, monkeypatch
) -> None:
    """It was silent while it tried, so that the asker said that no process runs the flow."""
    monkeypatch.setattr(asking, "SILENT_S", 8.0)
    source, target = clusters
    path = write_flow(tmp_path, source, target)
    with copying(path) as flow:
        source.close()
        flow.await_true(lambda: flow.conductor.status.state == "waiting")
        ended = call("restart", str(path))
        assert isinstance(ended.exception, RequestRefused), ended.output
        assert "cluster A is unreachable" in ended.exception.message
        assert "resume when it answers" in ended.exception.hint
        source.reopen()


# --- a former owner that was paused ----------------------------------------------------------------------------


def owner_of(path: Path) -> Repositioning:
    settings = load(str(path))
    flow = settings.flow(FlowName("A", "B"))
    options = RunOptions(take_over=True)
    return Repositioning.outside(flow, place_of(settings, flow, options, slots=0))


def test_what_a_paused_owner_appends_when_another_has_the_flow_changes_nothing(tmp_path: Path, clusters) -> None:
    """The first has decided and stands before its append; the second answers "expired" and opens nothing."""
    source, target = clusters
    path = write_flow(tmp_path, source, target)
    with copying(path):
        pass
    asked = request("r", topic="orders", partition=0)
    first, second = owner_of(path), owner_of(path)
    try:
        first.own()
        write(target, path, asked)
        state = first.look({"orders": _topic(source, target)}, [P])[0]
        first._context.topics = {"orders": _topic(source, target)}
        move = reset(state, "earliest")
        assert move is not None
        records = first.writer.prepare([move], "sparkmirror offsets reset")
        outcome = requests.Outcome("moved", {}, [encode(record) for record in records])
        entries = [encode(requests.answer_of(asked, outcome, first.owner)), *outcome.entries]
        second.own()
        late = requests.Outcome("too late", state="expired")
        second.writer.renew()
        second.writer.append([encode(requests.answer_of(asked, late, second.owner))])
        with pytest.raises(FlowOwnedByAnother):
            first.writer.append(entries)
    finally:
        second.close()
    view = view_of(target, path)
    assert view.answers["r"].state == "expired"
    newest = view.of(P).newest
    assert newest is not None and not newest.is_move
    first._context.ownership = None
    first.close()


def test_an_answer_and_its_move_are_in_the_ledger_together_or_not_at_all(tmp_path: Path, clusters) -> None:
    source, target = clusters
    path = write_flow(tmp_path, source, target)
    with copying(path):
        told = call("offsets", "reset", str(path), "--topic", "orders", "--yes", "--request-id", "r")
        assert told.exit_code == 0, told.output
    [batch] = [raw for _, raw in target.topics[LEDGER].logs[0].batches if b'["answer","r"' in raw]
    assert batch.count(b'"move":"anew"') == 2 and batch.count(b'["closed"') == 2


def test_a_request_whose_records_do_not_fit_in_one_batch_is_refused(tmp_path: Path, clusters, monkeypatch) -> None:
    source, target = clusters
    path = write_flow(tmp_path, source, target)
    monkeypatch.setattr(log, "APPEND_BATCH_BYTES", 1200)  # an answer of its own fits, one with two moves does not
    with copying(path) as flow:
        told = call("offsets", "reset", str(path), "--topic", "orders", "--yes")
        assert isinstance(told.exception, RequestRefused) and "at once" in told.exception.message
        assert told.exception.hint == "ask for one topic or partition after another: --topic, --partition"
        flow.await_true(lambda: all(flow.partition("orders", at).state == "copying" for at in (0, 1)))
        append(source, "orders", b"next")
        flow.await_true(lambda: flow.partition("orders").next_upstream == 6)
        monkeypatch.setattr(log, "APPEND_PLAIN_BYTES", 100)  # compressed it fits
        monkeypatch.setattr(log, "APPEND_BATCH_BYTES", 2500)
        assert call("offsets", "reset", str(path), "--topic", "orders", "--yes").exit_code == 0
        flow.await_true(lambda: len(values_of(target, "A.orders")) == 12)


def _topic(source: FakeCluster, target: FakeCluster) -> MirroredTopic:
    ids = source.topics["orders"].topic_id.hex, target.topics["A.orders"].topic_id.hex
    return MirroredTopic("orders", "A.orders", 2, *ids, False, False, False)


# --- the audit trail -------------------------------------------------------------------------------------------


def test_the_history_shows_requests_and_answers_and_is_bounded(tmp_path: Path, clusters, monkeypatch) -> None:
    source, target = clusters
    path = write_flow(tmp_path, source, target)
    monkeypatch.setattr(requests, "KEPT_MAX", 2)
    with copying(path) as flow:
        for name, to in (("one", "1"), ("two", "2"), ("three", "3")):
            words = ("--topic", "orders", "--partition", "0", "--to", to, "--yes", "--request-id", name)
            assert call("offsets", "set", str(path), *words).exit_code == 0
        flow.on_thread(flow.conductor._requests.trim)
    told = json.loads(call("history", str(path), "--json").stdout)
    entries = told["entries"]
    assert [(entry["request_id"], entry["state"], entry["verb"]) for entry in entries] == [
        ("two", "done", "offsets.set"), ("three", "done", "offsets.set"),
    ]  # fmt: skip
    assert all("@" in entry["who"] for entry in entries)
    assert "orders-0" in call("history", str(path), "--limit", "1").output


def test_a_move_without_an_owner_leaves_the_same_trail(tmp_path: Path, clusters) -> None:
    source, target = clusters
    path = write_flow(tmp_path, source, target)
    with copying(path):
        pass
    verdict = apply(load(str(path)), MoveRequest("set", "orders", 0, Goal("offset", 2)), Asking(command="typed"))
    assert verdict.is_applied and verdict.owner == ""
    view = view_of(target, path)
    [asked] = view.requests.values()
    assert (asked.command, asked.verb, view.answers[asked.id].state) == ("typed", "offsets.set", "done")


# --- what an owner leaves half done ----------------------------------------------------------------------------


def mm2_position(target: FakeCluster, path: Path) -> bytes | None:
    """MirrorMaker 2's newest position of partition 0."""
    topic, found = target.topics["mm2-offsets.A.internal"], None
    for index in range(len(topic.logs)):
        with closing(ClusterClient(load(str(path)).flow(FlowName("A", "B")).target)) as client:
            for record in read_to_end(client, TopicPartition("mm2-offsets.A.internal", index)):
                found = record.value if b'"partition":0,"topic":"orders"' in (record.key or b"") else found
    return found


def test_the_next_owner_sets_the_position_that_a_move_in_the_ledger_left_behind(tmp_path: Path, clusters) -> None:
    """The owner dies between its answer and MirrorMaker 2's position, and nothing is copied after the move."""
    source, target = clusters
    path = write_flow(tmp_path, source, target)
    with copying(path):
        pass
    append(source, "orders", b"5", b"6", b"7")
    owner = owner_of(path)
    owner.own()
    topics = {"orders": _topic(source, target)}
    owner._context.topics = topics
    move = reset(owner.look(topics, [P])[0], "latest")
    assert move is not None
    records = owner.writer.prepare([move], "sparkmirror offsets set")
    owner.writer.write_back([NextPosition.of(move)])
    owner.writer.append([encode(record) for record in records])
    abandon(owner)
    assert mm2_position(target, path) == b'{"offset":4}'
    with running_flow(path, RunOptions(take_over=True)) as flow:
        flow.await_true(lambda: mm2_position(target, path) == b'{"offset":7}')
    assert len(values_of(target, "A.orders")) == 5


def test_the_next_owner_restates_the_position_of_a_request_that_expired_half_done(tmp_path: Path, clusters) -> None:
    """The owner dies when MirrorMaker 2's position lies further back and the ledger does not say so."""
    source, target = clusters
    path = write_flow(tmp_path, source, target)
    with copying(path):
        pass
    owner = owner_of(path)
    owner.own()
    write(target, path, request("r", "offsets.set", expires_in_ms=-1, topic="orders", partition=0))
    owner.writer.write_back([NextPosition(P, 2, is_back=True)])
    abandon(owner)
    assert mm2_position(target, path) == b'{"offset":1}'
    with running_flow(path, RunOptions(take_over=True)) as flow:
        assert answer_to(flow, "r").state == "expired"
        flow.await_true(lambda: mm2_position(target, path) == b'{"offset":4}')
    assert len(values_of(target, "A.orders")) == 5


def abandon(owner: Repositioning) -> None:
    """As if its process had died."""
    owner._context.ownership = None
    owner.close()


def test_a_partition_that_does_not_close_is_refused_and_opened_again_when_it_has(
    tmp_path: Path, clusters, monkeypatch
) -> None:
    source, target = clusters
    path = write_flow(tmp_path, source, target)
    monkeypatch.setattr(requests, "CLOSE_S", 0.5)
    release, gate = Slot._release, threading.Event()

    def late(slot: Slot, partition: TopicPartition) -> None:
        if gate.is_set():
            release(slot, partition)
        else:
            slot.loop.later(0.05, lambda: late(slot, partition))

    monkeypatch.setattr(Slot, "_release", late)
    with copying(path) as flow:
        before = flow.conductor._context.placed[P].attempt
        write(target, path, request("r", topic="orders", partition=0))
        answer = answer_to(flow, "r")
        assert answer.state == "refused" and "orders-0 did not close within 0.5 s" in answer.text, answer
        gate.set()
        flow.await_true(lambda: (order := flow.conductor._context.placed.get(P)) is not None and order.attempt > before)
        append(source, "orders", b"5")
        flow.await_true(lambda: flow.partition("orders").next_upstream == 6)
        assert not flow.conductor._requests.is_busy
    assert values_of(target, "A.orders") == [b"0", b"1", b"2", b"3", b"4", b"5"]
