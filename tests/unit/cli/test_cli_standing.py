"""How a flow stands, and the status the process ends with."""

from __future__ import annotations

import pytest
from cli_builders import a_flow, a_partition

from sparkmirror.cli.run_status import Meter, Rate, exit_status, stop_lines
from sparkmirror.errors import ClusterUnreachable, FlowOwnedByAnother, InternalError
from sparkmirror.status import FlowStatus, counted_states, flow_state, stopped_partitions, troubles


def test_rates_are_of_the_last_seconds_only() -> None:
    meter = Meter(window_s=5.0)
    assert meter.take(0.0, 0, 0) == Rate()
    assert meter.take(1.0, 100, 1_000) == Rate(100.0, 1_000.0)
    for second in range(2, 20):
        rate = meter.take(float(second), 100, 1_000)
    assert rate == Rate(0.0, 0.0)


def test_sums_that_begin_anew_give_no_negative_rate() -> None:
    meter = Meter(window_s=5.0)
    meter.take(0.0, 1000, 9000)
    assert meter.take(1.0, 0, 0) == Rate()
    assert meter.take(2.0, 10, 100) == Rate(10.0, 100.0)


def test_troubles_come_worst_first_and_the_largest_lag_before_others() -> None:
    flow = a_flow(
        a_partition("b", state="waiting"),
        a_partition("c", state="stopped", source_end=5),
        a_partition("d", state="stopped", source_end=50),
        a_partition("e", state="copying"),
        a_partition("f", state="recovering"),
        stopped_topics={"gone": "no such topic"},
    )
    assert [t.what for t in troubles(flow)] == ["d-0", "c-0", "topic gone", "f-0", "b-0"]


def test_states_are_counted_worst_first() -> None:
    flow = a_flow(a_partition(number=0), a_partition(number=1), a_partition(number=2, state="stopped"))
    assert counted_states(flow) == [("stopped", 1), ("copying", 2)]


@pytest.mark.parametrize(
    ("states", "shown"),
    [
        ([], "running"),
        (["copying", "stopped"], "degraded"),
        (["stopped", "stopped"], "stopped"),
        (["waiting", "opening"], "waiting"),
        (["opening"], "opening"),
        (["closed", "stopped"], "degraded"),
        (["closed", "opening"], "opening"),
        (["stopped", "waiting"], "waiting"),
    ],
)
def test_a_flow_of_which_nothing_copies_is_not_called_running(states: list[str], shown: str) -> None:
    flow = a_flow(*(a_partition(number=at, state=state) for at, state in enumerate(states)))
    assert flow_state(flow) == shown


def test_a_flow_whose_every_topic_stopped_is_not_called_running() -> None:
    assert flow_state(a_flow(stopped_topics={"orders": "fewer partitions"})) == "stopped"
    assert flow_state(a_flow(a_partition(), stopped_topics={"orders": "fewer partitions"})) == "degraded"


def test_a_flow_that_failed_keeps_its_own_state() -> None:
    assert flow_state(a_flow(a_partition(state="stopped"), state="failed")) == "failed"


STOPPED = a_flow(a_partition(state="stopped", code="CORRUPT_BATCH", reason="bad bytes at offset 3"))
DONE = a_flow(a_partition(state="closed", source_end=0))
HALF = a_flow(a_partition(state="closed", next_upstream=3, source_end=9))


@pytest.mark.parametrize(
    ("flow", "failures", "once", "interrupted", "status"),
    [
        (DONE, [], True, False, 0),
        (STOPPED, [], True, False, 4),
        (STOPPED, [], False, True, 0),
        (a_flow(stopped_topics={"x": "refused"}), [], True, False, 4),
        (HALF, [], False, True, 0),
        (HALF, [], True, True, 130),
        (DONE, [], True, True, 0),
        (a_flow(), [], True, True, 130),
        (STOPPED, [FlowOwnedByAnother("other")], True, False, 5),
        (DONE, [ClusterUnreachable("gone")], False, False, 2),
        (DONE, [InternalError("bug")], False, False, 70),
    ],
)
def test_exit_status(flow: object, failures: list[object], once: bool, interrupted: bool, status: int) -> None:
    assert exit_status([flow], failures, once=once, interrupted=interrupted) == status  # type: ignore[list-item,arg-type]


def test_stopped_things_are_told_with_code_and_reason_and_counted_beyond_the_limit() -> None:
    assert stop_lines([STOPPED], 5) == ["A->B orders-0 stopped: CORRUPT_BATCH: bad bytes at offset 3"]
    many = a_flow(*(a_partition(number=at, state="stopped", reason="abcdefghi"[at]) for at in range(9)))
    assert len(stop_lines([many], 5)) == 6
    assert stop_lines([many], 5)[-1] == "and 4 more stopped"


def test_the_same_reason_on_many_partitions_is_one_line_with_a_count() -> None:
    reasons = [f"orders-{at}: the record at upstream offset {at * 1_000:,} is too large" for at in range(9)]
    many = a_flow(*(a_partition(number=at, state="stopped", code="X", reason=text) for at, text in enumerate(reasons)))
    names = "orders-0, orders-1, orders-2, orders-3, orders-4"
    assert stop_lines([many], 5) == [f"A->B {names} and 4 more stopped: X: {reasons[0]}"]


@pytest.mark.parametrize(
    ("flow", "count"),
    [
        (a_flow(a_partition()), 0),
        (a_flow(a_partition(state="stopped"), a_partition(number=1, state="waiting")), 1),
        (a_flow(stopped_topics={"orders": "no right"}), 1),
        (a_flow(a_partition(state="stopped", code="TOPIC"), a_partition(number=1, state="stopped", code="TOPIC"),
                stopped_topics={"orders": "no right"}), 2),
    ],
)  # fmt: skip
def test_stopped_partitions_are_counted_and_a_topic_of_which_nothing_is_known_is_one(flow: FlowStatus, count: int) -> None:
    assert stopped_partitions(flow) == count


def test_a_stopped_topic_is_one_trouble_with_the_lag_of_its_partitions() -> None:
    parts = [a_partition(number=at, state="stopped", code="TOPIC", reason="no right", source_end=5) for at in range(3)]
    [found] = troubles(a_flow(*parts, stopped_topics={"orders": "no right"}))
    assert (found.what, found.lag) == ("topic orders", 15)
