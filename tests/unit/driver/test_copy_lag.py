"""What is shown of how far a partition is behind, also if it is stopped, was never copied, or if the source is gone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake.cluster import FakeCluster
from fake.flow import FakeFlow, append, running_flow, write_flow

from sparkmirror.control.flows import _copy
from sparkmirror.driver import conductor, source_ends
from sparkmirror.model import TopicPartition
from sparkmirror.status import FlowLag, FlowStatus, flow_lag, flow_state, partition_lag, partition_lag_ms, stopped_partitions

P = TopicPartition("orders", 0)
BIG = b"b" * 3_000
HOUR_MS = 3_600_000


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[FakeCluster, FakeCluster]]:
    """Two clusters, for flows that look at the source's ends more often than usual."""
    monkeypatch.setattr(source_ends, "LOOK_S", 0.1)
    monkeypatch.setattr(conductor, "RECORD_ENDS_S", 0.2)
    with FakeCluster() as source, FakeCluster() as target:
        yield source, target


def now_of(flow: FakeFlow) -> FlowStatus:
    return _copy(flow.conductor)


def lag_of(flow: FakeFlow) -> FlowLag:
    return flow_lag(now_of(flow))


def age_ms(flow: FakeFlow, index: int = 0) -> int | None:
    status = now_of(flow)
    return partition_lag_ms(status, status.partitions[TopicPartition("orders", index)])


def test_the_lag_of_a_stopped_partition_grows_with_the_source_and_with_the_clock(
    tmp_path: Path, clusters: tuple[FakeCluster, FakeCluster]
) -> None:
    source, target = clusters
    source.create_topic("orders", 2)
    append(source, "orders", b"one", b"two")
    path = write_flow(tmp_path, source, target)
    target.create_topic("A.orders", 2, {"max.message.bytes": "1000"})
    with running_flow(path) as flow:
        flow.await_true(lambda: lag_of(flow).records == 0)
        assert (lag_of(flow).seconds, flow_state(now_of(flow))) == (0.0, "running")
        append(source, "orders", BIG)
        flow.await_true(lambda: flow.partition("orders").code == "RECORD_TOO_LARGE")
        append(source, "orders", b"three", b"four")
        flow.await_true(lambda: lag_of(flow).records == 3)
        first = age_ms(flow)
        assert first is not None and 0 < first < 20_000
        flow.await_true(lambda: (age_ms(flow) or 0) >= first + 1_000)
        status = now_of(flow)
        assert (flow_state(status), stopped_partitions(status)) == ("degraded", 1)
        assert age_ms(flow, 1) == 0


def test_all_of_a_topic_that_was_created_again_is_behind(tmp_path: Path, clusters: tuple[FakeCluster, FakeCluster]) -> None:
    source, target = clusters
    source.create_topic("orders")
    append(source, "orders", *(b"old" for _ in range(9)))
    path = write_flow(tmp_path, source, target)
    with running_flow(path) as flow:
        flow.await_true(lambda: flow.partition("orders").next_upstream == 9)
    again = source.create_topic("orders")
    append(source, "orders", b"a", b"b", b"c", b"d", timestamp=source.now_ms() - HOUR_MS)
    again.logs[0].start = 1
    with running_flow(path) as flow:
        flow.await_true(lambda: flow.partition("orders").code == "SOURCE_TOPIC_RECREATED")
        flow.await_true(lambda: lag_of(flow).records == 3)
        flow.await_true(lambda: (age_ms(flow) or 0) >= HOUR_MS)


def test_a_stopped_topic_that_was_never_copied_is_behind_from_its_log_start_on(
    tmp_path: Path, clusters: tuple[FakeCluster, FakeCluster]
) -> None:
    source, target = clusters
    source.create_topic("orders", 2)
    append(source, "orders", b"one", b"two", timestamp=source.now_ms() - HOUR_MS)
    target.create_topic("A_orders")  # a topic beside which the brokers refuse A.orders
    with running_flow(write_flow(tmp_path, source, target)) as flow:
        flow.await_true(lambda: lag_of(flow).records == 2)
        flow.await_true(lambda: (age_ms(flow) or 0) >= HOUR_MS)
        status = now_of(flow)
        assert list(status.stopped_topics) == ["orders"]
        assert status.remote("orders") == "A.orders"
        assert (flow_state(status), stopped_partitions(status)) == ("stopped", 2)
        append(source, "orders", b"three", partition=1)
        flow.await_true(lambda: lag_of(flow).records == 3)


def test_a_backlog_of_before_the_start_is_as_old_as_its_first_record(
    tmp_path: Path, clusters: tuple[FakeCluster, FakeCluster]
) -> None:
    source, target = clusters
    source.create_topic("orders")
    append(source, "orders", b"one", timestamp=source.now_ms() - 2 * HOUR_MS)
    append(source, "orders", BIG, timestamp=source.now_ms() - HOUR_MS)
    append(source, "orders", b"three")
    target.create_topic("A.orders", 1, {"max.message.bytes": "1000"})
    with running_flow(write_flow(tmp_path, source, target)) as flow:
        flow.await_true(lambda: flow.partition("orders").code == "RECORD_TOO_LARGE")
        flow.await_true(lambda: HOUR_MS <= (age_ms(flow) or 0) < HOUR_MS + 60_000)
        assert lag_of(flow).records == 2


def test_a_topic_that_the_source_deleted_is_not_behind_for_ever(
    tmp_path: Path, clusters: tuple[FakeCluster, FakeCluster]
) -> None:
    source, target = clusters
    source.create_topic("orders")
    source.create_topic("other")
    append(source, "orders", b"one")
    with running_flow(write_flow(tmp_path, source, target, {"refresh.topics.interval.seconds": "1"})) as flow:
        flow.await_true(lambda: lag_of(flow).records == 0)
        del source.topics["orders"]
        flow.await_true(lambda: flow.partition("orders").is_gone)
        flow.await_true(lambda: (lag_of(flow).records, lag_of(flow).unknown) == (0, 0))


def test_what_a_silent_source_holds_is_unknown_within_seconds_and_shown_as_of_when_it_was_seen(
    tmp_path: Path, clusters: tuple[FakeCluster, FakeCluster]
) -> None:
    source, target = clusters
    source.create_topic("orders")
    append(source, "orders", b"one")
    with running_flow(write_flow(tmp_path, source, target)) as flow:
        flow.await_true(lambda: lag_of(flow).records == 0)
        with source.silent():
            began = time.monotonic()
            flow.await_true(lambda: now_of(flow).state != "running", 30.0)
            assert time.monotonic() - began < 15  # 2 s and a turn, on an idle core; a request times out after 30
            status, lag = now_of(flow), lag_of(flow)
            assert status.state == "unknown" and status.reason.startswith("cluster A has not answered since ")
            assert (lag.records, lag.seconds, lag.known) == (None, None, 0)
            assert 0 <= status.taken_ms - lag.as_of_ms < 10_000
            assert partition_lag(status, status.partitions[P]) is None
        flow.await_true(lambda: now_of(flow).state == "running" and lag_of(flow).records == 0, 30.0)


def test_the_age_of_what_was_behind_goes_on_growing_when_the_source_is_gone(
    tmp_path: Path, clusters: tuple[FakeCluster, FakeCluster]
) -> None:
    source, target = clusters
    source.create_topic("orders")
    target.create_topic("A.orders", 1, {"max.message.bytes": "1000"})
    with running_flow(write_flow(tmp_path, source, target)) as flow:
        flow.await_true(lambda: lag_of(flow).records == 0)
        append(source, "orders", BIG)
        flow.await_true(lambda: lag_of(flow).records == 1 and age_ms(flow) is not None)
        source.close()
        flow.await_true(lambda: now_of(flow).state == "waiting")
        found = lag_of(flow)
        assert (found.records, found.known) == (None, 1)
        age = age_ms(flow)
        assert age is not None
        flow.await_true(lambda: (age_ms(flow) or 0) >= age + 1_000)


def test_with_auto_offset_reset_latest_a_topic_that_was_never_copied_has_no_known_lag(
    tmp_path: Path, clusters: tuple[FakeCluster, FakeCluster]
) -> None:
    source, target = clusters
    source.create_topic("orders")
    append(source, "orders", b"one")
    target.create_topic("A_orders")
    more = {"A->B.consumer.auto.offset.reset": "latest"}
    with running_flow(write_flow(tmp_path, source, target, more)) as flow:
        flow.await_true(lambda: flow.partition("orders").end_seen_ms > 0)
        assert (lag_of(flow).records, lag_of(flow).unknown) == (None, 1)
