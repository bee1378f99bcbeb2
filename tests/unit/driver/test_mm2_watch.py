"""A flow that MirrorMaker 2 runs is refused before anything is written, and given up when MirrorMaker 2 comes later."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fake.apis import Handler
from fake.cluster import FakeCluster, FakeGroup
from fake.flow import append, running_flow, values_of, write_flow
from fake.pair import WRITING

from sparkmirror.control import RunOptions
from sparkmirror.driver import mm2_watch
from sparkmirror.errors import FlowOwnedByAnother
from sparkmirror.ledger import LedgerView
from sparkmirror.model import TopicPartition
from sparkmirror.wire import Record, build_batch

GROUP, SETTINGS, HEARTBEATS = "A-mm2", "mm2-configs.A.internal", "A.heartbeats"
GROUP_FORBIDDEN, DESCRIBE_GROUPS = 30, 15


@pytest.fixture
def clusters(monkeypatch) -> Iterator[tuple[FakeCluster, FakeCluster]]:
    """Two clusters with a topic that is copied, for flows that look quickly."""
    for name, seconds in (("LOOK_S", 0.3), ("HELD_LOOK_S", 0.1), ("SESSION_S", 1.0), ("HELD_S_MIN", 1.0)):
        monkeypatch.setattr(mm2_watch, name, seconds)
    with FakeCluster() as source, FakeCluster() as target:
        source.create_topic("orders")
        append(source, "orders", b"one")
        target.create_topic("__consumer_offsets")
        yield source, target


def start_workers(target: FakeCluster, enabled: str | None = "true", protocol: str = "connect") -> None:
    """As a dedicated MirrorMaker 2 shows itself: the settings of its connector, and a member of its group."""
    if enabled is not None:
        write_settings(target, enabled)
    target.groups[GROUP] = FakeGroup(members=["A->B"], protocol=protocol)


def write_settings(target: FakeCluster, enabled: str) -> None:
    topic = target.topics.get(SETTINGS) or target.create_topic(SETTINGS)
    value = json.dumps({"properties": {"name": "MirrorSourceConnector", "enabled": enabled}}).encode()
    batch = build_batch([Record(0, target.now_ms(), b"connector-MirrorSourceConnector", value)], codec=0)
    with target.lock:
        assert topic.logs[0].append(bytes(batch))[0] == 0


def written(cluster: FakeCluster) -> set[int]:
    """Which of its requests changed something."""
    return WRITING & set(cluster.requests)


def opens(target: FakeCluster) -> int:
    return sum(raw.count(b'["open"') for _, raw in target.topics["mm2-ledger.A.internal"].logs[0].batches)


def test_a_live_mirror_maker_is_refused_with_status_5_before_anything_is_written(tmp_path: Path, clusters) -> None:
    source, target = clusters
    start_workers(target)
    before = set(target.topics)
    with running_flow(write_flow(tmp_path, source, target), RunOptions(take_over=True)) as flow:
        flow.thread.join(20)
        error = flow.conductor.failure
    assert isinstance(error, FlowOwnedByAnother) and error.exit_status == 5
    assert error.message == "A->B is run by MirrorMaker 2: group A-mm2 on B has 1 member (A->B at 127.0.0.1)"
    assert "--take-over" in error.hint
    assert (written(source), written(target), set(target.topics)) == (set(), set(), before)


@pytest.mark.parametrize(
    ("enabled", "protocol"), [("false", "connect"), (None, "connect"), ("true", "consumer")]
)
def test_workers_that_do_not_copy_the_flow_keep_nobody_from_it(
    tmp_path: Path, clusters, monkeypatch, enabled, protocol
) -> None:
    """A MirrorMaker 2 of the other direction has workers here, too: they write heartbeats."""
    source, target = clusters
    monkeypatch.setattr(mm2_watch, "UNDECIDED_S_MAX", 1.0)
    start_workers(target, enabled, protocol)
    with running_flow(write_flow(tmp_path, source, target)) as flow:
        flow.await_true(lambda: flow.partition("orders").next_upstream == 1)
    assert flow.conductor.failure is None


def test_a_flow_takes_over_when_a_killed_worker_has_left_its_group(tmp_path: Path, clusters) -> None:
    source, target = clusters
    start_workers(target)
    with running_flow(write_flow(tmp_path, source, target)) as flow:
        flow.await_true(lambda: "is MirrorMaker 2 alive?" in flow.conductor.status.reason)
        target.groups[GROUP].members.clear()
        flow.await_true(lambda: flow.partition("orders").next_upstream == 1)
        assert flow.conductor.status.reason == ""


def test_a_standby_waits_until_mirror_maker_has_ended(tmp_path: Path, clusters) -> None:
    source, target = clusters
    start_workers(target)
    with running_flow(write_flow(tmp_path, source, target), RunOptions(standby=True)) as flow:
        flow.await_true(lambda: flow.conductor.status.state == "standby")
        assert "run by MirrorMaker 2" in flow.conductor.status.reason
        assert written(target) == set()
        target.groups[GROUP].members.clear()
        flow.await_true(lambda: flow.partition("orders").next_upstream == 1)


def test_a_group_that_may_not_be_described_is_a_chore_that_cannot_be_done(tmp_path: Path, clusters) -> None:
    source, target = clusters
    start_workers(target)
    describe = target.handlers[DESCRIBE_GROUPS]

    def forbid(cluster: FakeCluster, request: Any) -> dict[str, Any]:
        empty = {"group_state": "", "protocol_type": "", "protocol_data": "", "members": []}
        return {"groups": [empty | {"group_id": name, "error_code": GROUP_FORBIDDEN} for name in request.groups]}

    kept = {name: getattr(describe, name) for name in ("REQUEST", "RESPONSE", "VERSIONS")}
    target.handlers[DESCRIBE_GROUPS] = cast("Handler", SimpleNamespace(answer=forbid, **kept))
    with running_flow(write_flow(tmp_path, source, target)) as flow:
        flow.await_true(lambda: flow.partition("orders").next_upstream == 1)
        assert "needs Describe on group A-mm2" in flow.conductor.status.chores["MirrorMaker 2"]
        target.groups[GROUP].members.clear()
        target.handlers[DESCRIBE_GROUPS] = describe
        flow.await_true(lambda: flow.conductor.status.chores["MirrorMaker 2"] == "")


def test_a_cluster_without_groups_is_not_asked_for_one(clusters, tmp_path: Path) -> None:
    source, target = clusters
    del target.topics["__consumer_offsets"]
    with running_flow(write_flow(tmp_path, source, target)) as flow:
        flow.await_true(lambda: flow.partition("orders").next_upstream == 1)
        assert DESCRIBE_GROUPS not in target.requests
        target.create_topic("__consumer_offsets")
        flow.await_true(lambda: DESCRIBE_GROUPS in target.requests)


def test_mirror_maker_that_comes_later_ends_the_flow_drained(tmp_path: Path, clusters) -> None:
    source, target = clusters
    with running_flow(write_flow(tmp_path, source, target)) as flow:
        flow.await_true(lambda: flow.partition("orders").next_upstream == 1)
        start_workers(target, enabled=None)  # they have joined, and do not copy yet: nor do we
        flow.await_true(lambda: flow.partition("orders").code == "OTHER_WRITER")
        flow.await_true(lambda: ledger_of(target).of(TopicPartition("orders", 0)).is_closed)
        append(source, "orders", b"two")
        write_settings(target, "true")
        flow.thread.join(20)
        error = flow.conductor.failure
    assert isinstance(error, FlowOwnedByAnother) and "group A-mm2 on B has 1 member" in error.message
    view = ledger_of(target)
    assert view.owner is not None and view.owner.released
    assert view.of(TopicPartition("orders", 0)).position()[:2] == (1, 1)
    assert values_of(target, "A.orders") == [b"one"]


def test_workers_of_the_other_direction_that_come_later_let_the_flow_go_on(tmp_path: Path, clusters) -> None:
    source, target = clusters
    with running_flow(write_flow(tmp_path, source, target)) as flow:
        flow.await_true(lambda: flow.partition("orders").next_upstream == 1)
        start_workers(target, enabled=None)
        flow.await_true(lambda: flow.partition("orders").code == "OTHER_WRITER")
        append(source, "orders", b"two")
        write_settings(target, "false")
        flow.await_true(lambda: flow.partition("orders").next_upstream == 2)
        flow.await_true(lambda: flow.partition("orders").state == "copying")
    assert values_of(target, "A.orders") == [b"one", b"two"]


def ledger_of(target: FakeCluster) -> LedgerView:
    from kafka.record import MemoryRecords

    view = LedgerView()
    for _, raw in target.topics["mm2-ledger.A.internal"].logs[0].batches:
        for batch in MemoryRecords(raw):
            for record in batch:
                view.read(bytes(record.key), None if record.value is None else bytes(record.value))
    return view


def test_a_standby_that_gave_way_to_mirror_maker_gets_its_turn_again(tmp_path: Path, clusters) -> None:
    source, target = clusters
    with running_flow(write_flow(tmp_path, source, target), RunOptions(standby=True)) as flow:
        flow.await_true(lambda: flow.partition("orders").next_upstream == 1)
        start_workers(target)
        flow.await_true(lambda: flow.conductor.status.state == "standby")
        target.groups[GROUP].members.clear()
        append(source, "orders", b"two")
        flow.await_true(lambda: flow.partition("orders").next_upstream == 2)
    assert values_of(target, "A.orders") == [b"one", b"two"]


@pytest.fixture
def beating(clusters) -> Iterator[tuple[FakeCluster, FakeCluster, threading.Event]]:
    """Heartbeats on the source; until the event is set another program copies them, too."""
    source, target = clusters
    source.create_topic("heartbeats")
    append(source, "heartbeats", b"beat")
    silent, over = threading.Event(), threading.Event()

    def beat() -> None:
        while not over.wait(0.2):
            append(source, "heartbeats", b"beat")
            if HEARTBEATS in target.topics and not silent.is_set():
                append(target, HEARTBEATS, b"beat")

    silent.set()
    thread = threading.Thread(target=beat)
    thread.start()
    yield source, target, silent
    over.set()
    thread.join()


def test_a_foreign_heartbeat_holds_every_partition_and_more_of_them_end_the_flow(tmp_path: Path, beating) -> None:
    source, target, silent = beating
    with running_flow(write_flow(tmp_path, source, target)) as flow:
        flow.await_true(lambda: flow.partition("heartbeats").records > 2 and flow.partition("orders").next_upstream == 1)
        silent.clear()
        flow.await_true(lambda: flow.partition("orders").code == "OTHER_WRITER" or not flow.thread.is_alive())
        flow.thread.join(20)
        error = flow.conductor.failure
    assert isinstance(error, FlowOwnedByAnother) and "inside Kafka Connect" in error.message, error
    assert "in A.heartbeats-0 on B" in error.message


def test_a_foreign_heartbeat_that_stays_alone_lets_the_others_go_on(tmp_path: Path, beating) -> None:
    source, target, _ = beating
    with running_flow(write_flow(tmp_path, source, target)) as flow:
        flow.await_true(lambda: flow.partition("heartbeats").records > 2 and flow.partition("orders").next_upstream == 1)
        append(target, HEARTBEATS, b"by hand")
        flow.await_true(lambda: flow.partition("orders").code == "OTHER_WRITER")
        held = opens(target)
        append(source, "orders", b"two")
        flow.await_true(lambda: flow.partition("orders").next_upstream == 2)
        flow.await_true(lambda: flow.partition("orders").state == "copying")
        assert flow.partition("heartbeats").code == "TARGET_HAS_STRANGER"
        assert opens(target) == held + 1
    assert values_of(target, "A.orders") == [b"one", b"two"]
