"""A flow between two fake clusters whose offsets topic is deleted, or loses keys, while it is stopped or runs."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake.cluster import FakeCluster
from fake.flow import FakeFlow, append, running_flow, values_of, write_flow

from sparkmirror.control import RunOptions
from sparkmirror.driver import conductor, recorder
from sparkmirror.driver.moves import position_memory
from sparkmirror.driver.moves.copy_states import copy_states
from sparkmirror.errors import InternalError
from sparkmirror.ledger import reset
from sparkmirror.model import TopicPartition
from sparkmirror.wire import Record, build_batch, connect_partition, source_key

OFFSETS, REMOTE = "mm2-offsets.A.internal", "A.orders"
P = TopicPartition("orders", 0)
FIRST, MORE = [b"one", b"two", b"three"], [b"four", b"five"]
ONCE, TAKE_OVER = RunOptions(once=True), RunOptions(once=True, take_over=True)


@pytest.fixture
def clusters(monkeypatch) -> Iterator[tuple[FakeCluster, FakeCluster]]:
    """A source with records in orders-0 and none in orders-1; positions are written often."""
    monkeypatch.setattr(conductor, "POSITIONS_S", 0.2)
    with FakeCluster() as source, FakeCluster() as target:
        source.create_topic("orders", partitions=2)
        append(source, "orders", *FIRST)
        yield source, target


def run_once(path: Path, options: RunOptions = ONCE) -> FakeFlow:
    with running_flow(path, options) as flow:
        flow.thread.join(30)
    assert flow.conductor.failure is None, flow.conductor.failure
    return flow


def notes(flow: FakeFlow) -> str:
    return "\n".join(flow.conductor.status.notes)


def key_of(partition: TopicPartition = P) -> bytes:
    return source_key("MirrorSourceConnector", "A", partition)


def put(target: FakeCluster, value: bytes | None, partition: TopicPartition = P) -> None:
    """A record for the partition's key, as an operator writes it."""
    log = target.topics[OFFSETS].logs[connect_partition(key_of(partition), len(target.topics[OFFSETS].logs))]
    with target.lock:
        log.append(bytes(build_batch([Record(0, target.now_ms(), key_of(partition), value)], codec=0)))


def replace_offsets_topic(target: FakeCluster) -> uuid.UUID:
    with target.lock:
        old = target.topics.pop(OFFSETS)
    return old.topic_id


@pytest.fixture
def path(clusters, tmp_path: Path) -> Path:
    """The file of a flow that has copied everything once."""
    source, target = clusters
    path = write_flow(tmp_path, source, target, {"A->B.topics": "orders"})
    run_once(path)
    assert values_of(target, REMOTE) == FIRST
    return path


def with_choice(clusters, tmp_path: Path, choice: str) -> Path:
    return write_flow(tmp_path, *clusters, {"A->B.topics": "orders", "on.positions.removed": choice})


def test_a_tombstone_restarts_its_partition_once(clusters, path: Path) -> None:
    _, target = clusters
    put(target, None)
    assert f"{OFFSETS} lost positions while the flow was stopped: 1 partitions (orders-0)" in notes(run_once(path))
    assert values_of(target, REMOTE) == FIRST * 2
    assert "while the flow was stopped" not in notes(run_once(path))
    assert values_of(target, REMOTE) == FIRST * 2


def test_a_deleted_offsets_topic_restarts_the_flow_once(clusters, path: Path) -> None:
    _, target = clusters
    replace_offsets_topic(target)
    assert f"{OFFSETS} was deleted while the flow was stopped" in notes(run_once(path))
    assert "while the flow was stopped" not in notes(run_once(path))
    assert values_of(target, REMOTE) == FIRST * 2


def test_a_position_that_was_written_after_the_tombstone_counts(clusters, path: Path) -> None:
    _, target = clusters
    put(target, None)
    put(target, b'{"offset":2}')
    run_once(path)
    assert values_of(target, REMOTE) == FIRST


def test_a_topic_that_has_fewer_partitions_now_holds_up_nothing(clusters, path: Path) -> None:
    source, target = clusters
    append(source, "orders", *MORE, partition=1)
    run_once(path)
    with source.lock:
        source.create_topic("orders", partitions=1)
    append(source, "orders", b"new")
    replace_offsets_topic(target)
    run_once(path)
    assert values_of(target, REMOTE) == [*FIRST, b"new"]


def test_latest_gives_up_what_lies_before_it(clusters, path: Path, tmp_path: Path) -> None:
    source, target = clusters
    put(target, None)
    append(source, "orders", *MORE)
    path = write_flow(tmp_path, source, target, {"A->B.topics": "orders", "A.consumer.auto.offset.reset": "latest"})
    run_once(path)
    append(source, "orders", b"six")
    run_once(path)
    assert values_of(target, REMOTE) == [*FIRST, b"six"]


def test_an_offsets_topic_that_is_deleted_while_the_flow_runs_is_written_anew(clusters, path: Path) -> None:
    source, target = clusters
    with running_flow(path) as flow:
        flow.await_true(lambda: flow.conductor.status.state == "running")
        replace_offsets_topic(target)
        flow.await_true(lambda: "its positions are written again" in notes(flow))
        append(source, "orders", *MORE)
        flow.await_true(lambda: len(values_of(target, REMOTE)) == 5)
    run_once(path)
    assert values_of(target, REMOTE) == [*FIRST, *MORE]


def test_the_syncs_topic_that_is_deleted_while_the_flow_runs_is_written_anew(clusters, path: Path) -> None:
    source, _ = clusters
    syncs = "mm2-offset-syncs.B.internal"
    with running_flow(path) as flow:
        flow.await_true(lambda: flow.conductor.status.state == "running")
        with source.lock:
            del source.topics[syncs]
        flow.await_true(lambda: syncs in source.topics and source.topics[syncs].logs[0].batches)


def test_ignore_continues_and_writes_the_position_anew(clusters, path: Path, tmp_path: Path) -> None:
    _, target = clusters
    put(target, None)
    assert "orders-0); 1 partitions continue" in notes(run_once(with_choice(clusters, tmp_path, "ignore")))
    assert "while the flow was stopped" not in notes(run_once(with_choice(clusters, tmp_path, "reset")))
    assert values_of(target, REMOTE) == FIRST


def test_stop_waits_for_a_decision_and_a_move_is_one(clusters, path: Path, tmp_path: Path) -> None:
    source, target = clusters
    put(target, None)
    path = with_choice(clusters, tmp_path, "stop")
    for _ in range(2):
        flow = run_once(path)
        assert (flow.partition("orders").code, values_of(target, REMOTE)) == ("POSITION_REMOVED", FIRST)
        assert "sparkmirror offsets reset" in flow.partition("orders").reason
    append(source, "orders", *MORE)
    with running_flow(path) as flow:
        flow.await_true(lambda: flow.partition("orders").state == "stopped")
        flow.on_thread(lambda: move_to(flow, "1"))
        flow.await_true(lambda: len(values_of(target, REMOTE)) == 7)
    assert values_of(target, REMOTE) == [*FIRST, *FIRST[1:], *MORE]
    assert run_once(path).partition("orders").state == "closed"


def move_to(flow: FakeFlow, offset: str) -> None:
    """As a request to the owner moves a partition."""
    context = flow.conductor._context
    [state] = copy_states(context, context.topics, [P])
    move = reset(state, offset)
    assert move is not None
    context.move([move], "test")
    flow.conductor._placing.open([P])


class Killed(InternalError):
    """The process died before this write."""


@pytest.mark.parametrize("after", range(6))
@pytest.mark.parametrize("removal", ["nothing", "tombstone", "delete"])
def test_dying_before_any_write_of_positions_and_names_copies_nothing_twice(
    clusters, tmp_path: Path, monkeypatch, after: int, removal: str
) -> None:
    """Names in the ledger and positions are written by two functions: the run dies before their write number `after`."""
    source, target = clusters
    path = write_flow(tmp_path, source, target, {"A->B.topics": "orders"})
    if removal != "nothing":
        run_once(path)
        put(target, None) if removal == "tombstone" else replace_offsets_topic(target)
    left = [after]
    with monkeypatch.context() as patch:
        for owner in (position_memory.PositionMemory, recorder.Recorder):
            write = owner._write

            def dying(self, what, write=write):
                if what:
                    if left[0] == 0:
                        raise Killed("killed")
                    left[0] -= 1
                write(self, what)

            patch.setattr(owner, "_write", dying)
        with running_flow(path, ONCE) as flow:
            flow.thread.join(30)
        assert isinstance(flow.conductor.failure, Killed | None)
    run_once(path, TAKE_OVER)
    assert values_of(target, REMOTE) == FIRST * (1 if removal == "nothing" else 2)
