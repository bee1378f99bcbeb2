"""Tasks that Spark cannot start: the run ends with their cause after some that are alike, and goes on otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fake.cluster import FakeCluster
from fake.flow import append, running_flow, write_flow
from fake.spark import ThreadSlots

from sparkmirror.driver import slot_watch
from sparkmirror.errors import SparkTaskFailed
from sparkmirror.session.spark_slots import DIED
from sparkmirror.slot.slot import SlotOrder

NO_MODULE = "ModuleNotFoundError: No module named 'sparkmirror'"


class FailingSlots(ThreadSlots):
    """Tasks that end at once, each with the next of these reasons; none ends after the last one."""

    def __init__(self, reasons: Iterator[str]) -> None:
        super().__init__()
        self.launched = 0
        self._reasons = reasons

    def launch(self, order: SlotOrder, ended: Callable[[SlotOrder, str], None]) -> None:
        self.launched += 1
        if reason := next(self._reasons, ""):
            ended(order, reason)


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    with FakeCluster() as source, FakeCluster() as target:
        source.create_topic("orders")
        append(source, "orders", b"1")
        yield write_flow(tmp_path, source, target)


def test_three_failures_that_are_alike_end_the_run_with_their_cause(path: Path) -> None:
    slots = FailingSlots(iter([DIED + NO_MODULE] * 9))
    with running_flow(path, slots=slots) as flow:
        flow.thread.join(30)
        assert not flow.thread.is_alive()
    failure = flow.conductor.failure
    assert isinstance(failure, SparkTaskFailed)
    assert (failure.exit_status, slots.launched) == (6, 3)
    assert failure.message == f"A->B: Spark cannot start its tasks, 3 in a row failed: {NO_MODULE}"
    assert "PYSPARK_PYTHON" in failure.hint


@pytest.mark.parametrize(
    "reasons",
    [
        [DIED + NO_MODULE, DIED + NO_MODULE, DIED + "another cause", DIED + NO_MODULE, DIED + NO_MODULE],
        ["failed: cluster B is unreachable"] * 5,  # waiting mends it
    ],
    ids=["other causes", "a cluster that is away"],
)
def test_other_failures_are_tried_again(path: Path, reasons: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_watch, "RESTART_MAX_S", 0.2)
    slots = FailingSlots(iter(reasons))
    with running_flow(path, slots=slots) as flow:
        flow.await_true(lambda: slots.launched == len(reasons) + 1)
    assert flow.conductor.failure is None


def test_tasks_that_no_executor_takes_are_reported(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_watch, "LATE_S", 0.2)
    with running_flow(path, slots=FailingSlots(iter([]))) as flow:
        flow.await_true(lambda: "has not started 1 of 1 tasks" in flow.conductor.status.chores.get("spark", ""))
