"""Stopped partitions resume by themselves when the world was mended, and any of them on request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fake.apis import Handler
from fake.cluster import FakeCluster
from fake.flow import FakeFlow, append, running_flow, values_of, write_flow

from sparkmirror.driver import conductor, healing
from sparkmirror.errors import ReplicationError
from sparkmirror.ledger import CopyState, TopicIncarnation, reset
from sparkmirror.model import TopicPartition
from sparkmirror.status import resuming
from sparkmirror.status.resuming import Resumption, resumption

P = TopicPartition("orders", 0)
BIG = b"b" * 3000
POLICY_VIOLATION = 44
DAY_MS = 86_400_000


@pytest.fixture
def clusters(monkeypatch) -> Iterator[tuple[FakeCluster, FakeCluster]]:
    """Two clusters, for flows that look at what is stopped more often than usual."""
    for where in (conductor, healing):
        monkeypatch.setattr(where, "LOOK_S", 0.2)
    monkeypatch.setattr(healing, "RETRY_S", 0.4)
    with FakeCluster() as source, FakeCluster() as target:
        yield source, target


def leaves(kind: type[ReplicationError]) -> Iterator[type[ReplicationError]]:
    if kind.__module__ == ReplicationError.__module__:  # the others are about internal records
        yield kind
    for below in kind.__subclasses__():
        yield from leaves(below)


@pytest.mark.parametrize("kind", list(leaves(ReplicationError)))
def test_the_table_says_of_every_stop_what_ends_it(kind: type[ReplicationError]) -> None:
    assert kind.code in resuming._BY_CODE


def test_a_stop_that_nobody_knows_waits_for_a_decision() -> None:
    assert resumption("NEVER_HEARD_OF") is Resumption.MOVE


def attempts(cluster: FakeCluster) -> int:
    """How often partitions were opened, by the ledger's keys."""
    log = cluster.topics["mm2-ledger.A.internal"].logs[0]
    return sum(raw.count(b'["open"') for _, raw in log.batches)


def looks(flow: FakeFlow, count: int) -> set[str]:
    """Waits for so many looks at what is stopped; the states that the partition was shown in meanwhile."""
    seen = set()
    for _ in range(count):
        due = flow.conductor._due["stopped partitions"]
        flow.await_true(lambda due=due: flow.conductor._due["stopped partitions"] > due)
        seen.add(flow.partition("orders").state)
    return seen


def refuse(cluster: FakeCluster, api: int, topic: str, answer: dict[str, Any]) -> Callable[[], None]:
    """From now on the cluster answers so where a request is about the topic; what it returns ends that."""
    handler = cluster.handlers[api]

    def refused(cluster: FakeCluster, request: Any) -> dict[str, Any]:
        topics = getattr(request, "topic_data", None) or getattr(request, "topics", None) or []
        is_about = any(cluster.topic_of(entry) is cluster.topics.get(topic) for entry in topics)
        return answer if is_about else handler.answer(cluster, request)

    of_handler = {name: getattr(handler, name) for name in ("REQUEST", "RESPONSE", "VERSIONS")}
    cluster.handlers[api] = cast("Handler", SimpleNamespace(answer=refused, **of_handler))
    return lambda: cluster.handlers.__setitem__(api, handler)


def stopped(flow: FakeFlow, code: str) -> None:
    flow.await_true(lambda: (flow.partition("orders").state, flow.partition("orders").code) == ("stopped", code))


def test_a_record_that_was_too_large_is_copied_once_when_the_limit_was_raised(tmp_path: Path, clusters) -> None:
    source, target = clusters
    source.create_topic("orders")
    target.create_topic("A.orders", configs={"max.message.bytes": "2000"})
    append(source, "orders", b"first")
    append(source, "orders", BIG)
    append(source, "orders", b"last")
    with running_flow(write_flow(tmp_path, source, target)) as flow:
        stopped(flow, "RECORD_TOO_LARGE")
        flow.await_true(lambda: attempts(target) == 2)  # it may have been raised just before the first look
        assert (looks(flow, 5), attempts(target)) == ({"stopped"}, 2)
        target.topics["A.orders"].configs["max.message.bytes"] = "100000"
        flow.await_true(lambda: flow.partition("orders").next_upstream == 3)
        flow.await_true(lambda: flow.partition("orders").state == "copying")
        assert "orders-0 resumed: RECORD_TOO_LARGE is no longer there" in list(flow.conductor.status.notes)
    assert values_of(target, "A.orders") == [b"first", BIG, b"last"]


def test_records_of_a_forbidden_time_are_copied_when_the_limit_was_lifted(tmp_path: Path, clusters) -> None:
    source, target = clusters
    source.create_topic("orders")
    limits = {"message.timestamp.before.max.ms": str(DAY_MS)}
    target.create_topic("A.orders", configs=limits)
    append(source, "orders", b"old", timestamp=source.now_ms() - 3 * DAY_MS)
    with running_flow(write_flow(tmp_path, source, target)) as flow:
        stopped(flow, "TARGET_REFUSED_RECORDS")
        limits = target.topics["A.orders"].configs
        limits["message.timestamp.before.max.ms"] = str(9 * DAY_MS)
        flow.await_true(lambda: flow.partition("orders").state == "copying")
    assert values_of(target, "A.orders") == [b"old"]


def test_what_a_policy_refuses_is_tried_again_and_shown_as_stopped_meanwhile(tmp_path: Path, clusters) -> None:
    source, target = clusters
    source.create_topic("orders")
    append(source, "orders", b"first")
    remote = target.create_topic("A.orders")
    verdict = {"index": 0, "error_code": POLICY_VIOLATION, "base_offset": -1, "log_start_offset": -1, "record_errors": []}
    refused = {"name": "A.orders", "topic_id": remote.topic_id, "partition_responses": [verdict]}
    lift = refuse(target, 0, "A.orders", {"responses": [refused]})
    with running_flow(write_flow(tmp_path, source, target)) as flow:
        stopped(flow, "TARGET_REFUSED_RECORDS")
        before, states = attempts(target), set[str]()
        flow.await_true(lambda: states.add(flow.partition("orders").state) or attempts(target) >= before + 3)
        assert states == {"stopped"}
        lift()
        flow.await_true(lambda: flow.partition("orders").state == "copying")
    assert values_of(target, "A.orders") == [b"first"]


def test_a_topic_that_may_not_be_extended_is_copied_when_it_was(tmp_path: Path, clusters) -> None:
    source, target = clusters
    source.create_topic("orders", partitions=2)
    target.create_topic("A.orders", partitions=1)
    append(source, "orders", b"second", partition=1)
    lift = refuse(
        target, 37, "A.orders", {"results": [{"name": "A.orders", "error_code": POLICY_VIOLATION, "error_message": "no"}]}
    )
    with running_flow(write_flow(tmp_path, source, target)) as flow:
        flow.await_true(lambda: "orders" in flow.conductor.status.stopped_topics)
        lift()
        flow.await_true(lambda: flow.partition("orders", 1).next_upstream == 1)
        assert flow.conductor.status.stopped_topics == {}
    assert values_of(target, "A.orders", 1) == [b"second"]


def test_a_topic_that_was_created_again_waits_for_a_move_and_resumes_with_it(tmp_path: Path, clusters) -> None:
    source, target = clusters
    source.create_topic("orders")
    append(source, "orders", b"old")
    with running_flow(write_flow(tmp_path, source, target, {"refresh.topics.interval.seconds": "1"})) as flow:
        flow.await_true(lambda: flow.partition("orders").next_upstream == 1)
        with source.lock:
            source.create_topic("orders")
        append(source, "orders", b"new")
        stopped(flow, "SOURCE_TOPIC_RECREATED")
        topic_id = source.topics["orders"].topic_id.hex
        flow.await_true(lambda: flow.conductor._context.topics["orders"].source_topic_id == topic_id)
        before = attempts(target)
        assert (looks(flow, 3), attempts(target)) == ({"stopped"}, before)
        flow.on_thread(lambda: move_to_start(flow))
        flow.await_true(lambda: flow.partition("orders").state == "copying")
        flow.await_true(lambda: len(values_of(target, "A.orders")) == 2)
    assert values_of(target, "A.orders") == [b"old", b"new"]


def move_to_start(flow: FakeFlow) -> None:
    """As a request does that the owner carries out."""
    context = flow.conductor._context
    history, topic = context.ledger.view.of(P), context.topics["orders"]
    newest, position = history.newest, history.position()
    assert newest is not None and position is not None
    now = TopicIncarnation(topic.source_topic_id, topic.target_topic_id)
    move = reset(CopyState(P, position, newest.topic_incarnation, now, 0, 1, 1), "earliest")
    assert move is not None
    # Under the same producer epoch the sequence numbers go on.
    context.move([replace(move, new=move.new._replace(sequence=position.sequence))], "offsets reset")


def test_a_request_finds_out_anew_what_an_attempt_without_an_end_wrote(tmp_path: Path, clusters) -> None:
    """The foreign record is still there: the partition stops for the same reason, and nothing is sent once more."""
    source, target = clusters
    source.create_topic("orders")
    append(source, "orders", b"first")
    with running_flow(write_flow(tmp_path, source, target)) as flow:
        flow.await_true(lambda: flow.partition("orders").next_upstream == 1)
        append(target, "A.orders", b"foreign")
        append(source, "orders", b"second")
        stopped(flow, "TARGET_HAS_STRANGER")
        context = flow.conductor._context
        epoch, left = context.owned.producer[1], {P}
        flow.on_thread(lambda: left.intersection_update(flow.conductor._healing.retry([P])))
        flow.await_true(lambda: context.owned.producer[1] > epoch)  # the attempt is fenced before the log is read
        stopped(flow, "TARGET_HAS_STRANGER")
        assert left == set()
    assert values_of(target, "A.orders") == [b"first", b"foreign", b"second"]  # sent before the foreign record was seen


def test_any_stop_is_taken_up_at_once_on_request(tmp_path: Path, clusters, monkeypatch) -> None:
    source, target = clusters
    monkeypatch.setattr(conductor, "LOOK_S", 3600.0)
    source.create_topic("orders")
    target.create_topic("A.orders", configs={"max.message.bytes": "2000"})
    append(source, "orders", BIG)
    with running_flow(write_flow(tmp_path, source, target)) as flow:
        stopped(flow, "RECORD_TOO_LARGE")
        left = set()
        flow.on_thread(lambda: left.update(flow.conductor._healing.retry([P])))
        stopped(flow, "RECORD_TOO_LARGE")  # nothing was mended
        flow.await_true(lambda: attempts(target) == 2)
        stopped(flow, "RECORD_TOO_LARGE")
        target.topics["A.orders"].configs["max.message.bytes"] = "100000"
        flow.on_thread(lambda: left.update(flow.conductor._healing.retry([P])))
        flow.await_true(lambda: flow.partition("orders").state == "copying")
        assert left == set()
    assert values_of(target, "A.orders") == [BIG]
