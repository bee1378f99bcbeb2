"""What each path tells of the flows."""

from __future__ import annotations

import json

import pytest

from sparkmirror.ledger import Wish
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.rest.answers import KEPT_S, LOOK_S_MAX, FlowAnswers
from sparkmirror.rest.rates import Rates
from sparkmirror.status import FlowStatus, PartitionStatus
from sparkmirror.status.outline import TROUBLES_MAX

ORDERS = TopicPartition("orders", 3)


class Clock:
    """Goes as it is told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def pass_by(self, seconds: float) -> None:
        self.now += seconds


def a_flow(flow_state: str = "running", **fields: object) -> FlowStatus:
    status = PartitionStatus(ORDERS, **({"state": "copying"} | fields))  # type: ignore[arg-type]
    return FlowStatus(FlowName("A", "B"), flow_state, partitions={ORDERS: status}, remotes={"orders": "A.orders"})


def told(answers: FlowAnswers, path: str) -> tuple[int, object]:
    answer = answers.of(path)
    assert answer is not None
    return answer.status, json.loads(answer.body)


def test_a_mirror_that_has_not_looked_yet_is_alive_and_not_ready() -> None:
    answers = FlowAnswers()
    assert told(answers, "/health/live") == (200, {"status": "up"})
    assert told(answers, "/health/ready") == (503, {"status": "starting", "flows": []})
    assert told(answers, "/flows") == (200, {"schema": 1, "flows": []})


@pytest.mark.parametrize(
    ("state", "partition_state", "status", "shown"),
    [
        ("running", "copying", 200, "running"),
        ("standby", "closed", 200, "standby"),
        ("running", "stopped", 503, "stopped"),
        ("running", "waiting", 503, "waiting"),
        ("waiting", "copying", 503, "waiting"),
        ("failed", "copying", 503, "failed"),
        ("stopping", "copying", 503, "stopping"),
    ],
)
def test_ready_means_that_every_flow_copies_or_stands_by(state: str, partition_state: str, status: int, shown: str) -> None:
    answers = FlowAnswers()
    other = FlowStatus(FlowName("B", "A"), "running")
    answers.show([a_flow(state, state=partition_state), other])
    found, content = told(answers, "/health/ready")
    assert (found, content["flows"][0]["state"], content["flows"][1]["state"]) == (status, shown, "running")  # type: ignore[index]
    assert content["status"] == ("ready" if status == 200 else "not ready")  # type: ignore[index, call-overload]


def test_a_paused_flow_is_ready_and_says_by_whom_it_is_paused() -> None:
    answers = FlowAnswers()
    flow = a_flow(state="paused", code="PAUSED")
    flow.wishes, flow.file_words = (Wish("source", "paused", "ann@host", 1_700_000_000_000, "r1"),), "mm2.properties"
    answers.show([flow, FlowStatus(FlowName("B", "A"), "running")])
    status, content = told(answers, "/health/ready")
    reason = "the flow is paused since 2023-11-14T22:13:20Z by ann@host (to resume: sparkmirror resume mm2.properties)"
    assert (status, content["status"], content["flows"][0]) == (  # type: ignore[index, call-overload]
        200, "paused", {"flow": "A->B", "state": "paused", "reason": reason}
    )  # fmt: skip
    assert told(answers, "/health/flows")[0] == 200
    wish = {"connector": "source", "topic": None, "partition": None, "state": "paused", "who": "ann@host"}
    wish |= {"time": "2023-11-14T22:13:20Z", "request_id": "r1"}
    wish |= {"text": reason.partition(" (")[0], "resume": "sparkmirror resume mm2.properties"}
    assert told(answers, "/flows")[1]["flows"][0]["wishes"] == [wish]  # type: ignore[index, call-overload]


def half_stopped() -> FlowStatus:
    flow = a_flow(next_upstream=5, source_end=5)
    other = TopicPartition("orders", 4)
    flow.partitions[other] = PartitionStatus(other, "stopped", "RECORD_TOO_LARGE", next_upstream=1, source_end=9)
    return flow


def test_one_stopped_partition_leaves_a_pod_in_rotation_and_says_degraded() -> None:
    answers = FlowAnswers()
    answers.show([half_stopped()])
    status, content = told(answers, "/health/ready")
    assert (status, content["status"], content["flows"][0]["state"]) == (200, "degraded", "degraded")  # type: ignore[index]


@pytest.mark.parametrize(
    ("flow", "status", "state"),
    [
        (a_flow(next_upstream=5, source_end=5), 200, "running"),
        (half_stopped(), 503, "degraded"),
        (a_flow("unknown"), 503, "unknown"),
        (a_flow("waiting"), 503, "waiting"),
        (a_flow("failed"), 503, "failed"),
        (a_flow(state="stopped"), 503, "stopped"),
        (a_flow("starting"), 200, "starting"),
    ],
)
def test_the_health_of_flows_is_an_answer_of_its_own(flow: FlowStatus, status: int, state: str) -> None:
    answers = FlowAnswers()
    answers.show([flow])
    found, content = told(answers, "/health/flows")
    assert (found, content["flows"][0]["state"]) == (status, state)  # type: ignore[index, call-overload]
    assert content["status"] == ("healthy" if status == 200 else "unhealthy")  # type: ignore[index, call-overload]


def test_a_degraded_flow_says_in_its_health_how_many_partitions_are_stopped_and_how_far_it_is_behind() -> None:
    answers = FlowAnswers()
    answers.show([half_stopped()])
    [flow] = told(answers, "/health/flows")[1]["flows"]  # type: ignore[index, call-overload]
    assert (flow["stopped_partitions"], flow["lag"]) == (1, 8)


def test_figures_of_a_source_that_fell_silent_are_null_with_what_was_known_and_when() -> None:
    answers, flow = FlowAnswers(), a_flow(next_upstream=5, source_end=5, end_seen_ms=1_000)
    flow.source_seen_ms, flow.taken_ms = 1_000, 61_000
    answers.show([flow])
    whole = told(answers, "/flows/A->B")[1]
    [partition] = whole["partition_list"]  # type: ignore[index, call-overload]
    for found in (whole, partition):
        assert (found["lag"], found["lag_seconds"], found["lag_known"]) == (None, None, 0)  # type: ignore[index, call-overload]
        assert found["lag_as_of"] == "1970-01-01T00:00:01.000Z"  # type: ignore[index, call-overload]


def test_a_main_loop_that_hangs_is_told() -> None:
    clock = Clock()
    answers = FlowAnswers(clock)
    answers.show([a_flow()])
    clock.now += LOOK_S_MAX
    assert told(answers, "/health/ready")[0] == 200
    clock.now += 1.0
    status, content = told(answers, "/health/ready")
    assert (status, content["status"]) == (503, "hanging: nobody has looked at the flows for 31 s")  # type: ignore[index, call-overload]


def test_a_flow_tells_how_far_it_is_and_what_does_not_copy() -> None:
    answers = FlowAnswers()
    lost = {"state": "stopped", "code": "SOURCE_OFFSET_LOST", "reason": "10 to 20 are gone"}
    flow = a_flow(**lost, next_upstream=10, source_end=25)
    flow.chores = {"checkpoints": "", "acls": "no rights"}
    flow.stopped_topics = {"bad": "fewer partitions"}
    answers.show([flow])
    [outline] = told(answers, "/flows")[1]["flows"]  # type: ignore[index, call-overload]
    # Nothing is known of the topic, so that the sum is not the whole.
    lag = [outline[name] for name in ("lag", "lag_known", "lag_unknown_partitions", "stopped_partitions")]
    assert lag == [None, 15, 1, 2]
    assert outline["partitions"] == {"stopped": 1}
    assert outline["chores"] == {"acls": "no rights"}
    assert [t["what"] for t in outline["troubles"]] == ["orders-3", "topic bad"]
    status, whole = told(answers, "/flows/A-%3EB")
    assert told(answers, "/flows/A->B") == (status, whole) and status == 200
    [partition] = whole["partition_list"]  # type: ignore[index, call-overload]
    assert (partition["remote_topic"], partition["code"], partition["lag"]) == ("A.orders", "SOURCE_OFFSET_LOST", 15)
    assert whole["stopped_topics"] == [{"topic": "bad", "reason": "fewer partitions"}]  # type: ignore[index, call-overload]


def test_what_is_not_known_is_null_and_not_zero() -> None:
    answers = FlowAnswers()
    answers.show([a_flow()])
    [partition] = told(answers, "/flows/A->B")[1]["partition_list"]  # type: ignore[index, call-overload]
    assert (partition["source_end_offset"], partition["lag"]) == (None, None)


def test_thousands_of_troubles_are_cut_and_the_cut_is_told() -> None:
    flow = a_flow()
    flow.stopped_topics = {f"t{number}": "gone" for number in range(TROUBLES_MAX + 7)}
    answers = FlowAnswers()
    answers.show([flow])
    [outline] = told(answers, "/flows")[1]["flows"]  # type: ignore[index, call-overload]
    assert (len(outline["troubles"]), outline["troubles_left_out"]) == (TROUBLES_MAX, 7)


@pytest.mark.parametrize("path", ["/flow", "/metrics/", "//flows", "/health"])
def test_another_path_is_none_of_ours(path: str) -> None:
    answers = FlowAnswers()
    answers.show([a_flow()])
    assert answers.of(path) is None


@pytest.mark.parametrize("path", ["/flows/A->C", "/flows/../etc", "/flows/"])
def test_another_flow_is_not_found(path: str) -> None:
    answers = FlowAnswers()
    answers.show([a_flow()])
    status, content = told(answers, path)
    assert (status, content["error_code"]) == (404, 404)  # type: ignore[index, call-overload]


def test_figures_are_made_once_a_second_however_often_they_are_asked_for() -> None:
    clock = Clock()
    answers = FlowAnswers(clock)
    answers.show([a_flow(next_upstream=1, source_end=4)])
    first = answers.of("/metrics")
    assert b'sparkmirror_partition_lag{source="A",target="B",topic="A.orders",partition="3"} 3' in first.body
    assert first.content_type == "text/plain; version=0.0.4; charset=utf-8"
    answers.show([a_flow(next_upstream=2, source_end=4)])
    assert answers.of("/metrics") is first
    clock.now += KEPT_S
    assert b'partition="3"} 2' in answers.of("/metrics").body


def test_an_answer_that_took_long_to_make_is_kept_for_longer() -> None:
    clock = Clock()
    answers = FlowAnswers(clock)
    answers.show([a_flow()])
    kept = answers._keep("x", lambda: (clock.pass_by(3.0), answers.of("/flows"))[1])  # type: ignore[func-returns-value]
    clock.now += 29.0
    assert answers._keep("x", lambda: answers.of("/flows")) is kept
    clock.now += 1.0
    assert answers._keep("x", lambda: answers.of("/health/live")) is not kept


def test_a_name_that_is_no_text_is_told_as_an_escape() -> None:
    answers = FlowAnswers()
    answers.show([a_flow(state="stopped", reason="group \udcff")])
    assert b"group \\udcff" in answers.of("/flows").body


def test_a_bucket_empties_and_fills_again_for_each_caller() -> None:
    rates = Rates(per_s=2.0, burst=3.0)
    assert [rates.allows("a", 0.0) for _ in range(4)] == [True, True, True, False]
    assert rates.allows("b", 0.0)
    assert [rates.allows("a", 0.5) for _ in range(2)] == [True, False]
    assert [rates.allows("a", 100.0) for _ in range(4)] == [True, True, True, False]


def test_only_so_many_callers_are_remembered() -> None:
    rates = Rates(per_s=1.0, burst=1.0, callers_max=2)
    assert rates.allows("a", 0.0) and rates.allows("b", 0.0)
    assert not rates.allows("a", 0.0)
    assert rates.allows("c", 0.0)  # b was silent longest
    assert not rates.allows("a", 0.0) and rates.allows("b", 0.0)
