"""Tasks that Spark cannot start: the run ends with their cause after some that are alike, and goes on otherwise."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fake.cluster import FakeCluster
from fake.flow import append, running_flow, values_of, write_flow
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


def test_slots_that_no_executor_takes_are_reported(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_watch, "WAIT_SHOWN_S", 0.1)
    monkeypatch.setattr(slot_watch, "LATE_S", 0.3)
    told: set[str] = set()
    with running_flow(path, slots=FailingSlots(iter([]))) as flow:
        status = flow.conductor.status

        def is_late() -> bool:
            told.add(status.chores.get("spark", ""))
            return any("no executor has a free core" in words for words in told)

        flow.await_true(is_late)
        assert (status.slots, status.slots_started) == (1, 0)
        assert status.waits_for_spark == "waiting for Spark: 0 of 1 slots have a core"
    assert told >= {status.waits_for_spark}


class CorelessSlots(ThreadSlots):
    """A cluster with one core too few: the last slot gets one when another slot has ended, or `free` is set."""

    has_core_for_each = False

    def __init__(self) -> None:
        super().__init__()
        self.free = threading.Event()

    def launch(self, order: SlotOrder, ended: Callable[[SlotOrder, str], None]) -> None:
        def start() -> None:
            self.free.wait()
            ThreadSlots.launch(self, order, ended)

        if order.slot == 1:
            threading.Thread(target=start, daemon=True).start()
        else:
            super().launch(order, ended)


def test_partitions_go_only_to_slots_that_have_a_core_and_a_slot_that_gets_one_gets_its_share(tmp_path: Path) -> None:
    slots = CorelessSlots()
    with FakeCluster() as source, FakeCluster() as target:
        source.create_topic("orders", partitions=8)
        for index in range(8):
            append(source, "orders", b"1", partition=index)
        path = write_flow(tmp_path, source, target, {"tasks.max": "2"})
        with running_flow(path, slots=slots, count=2) as flow:
            status = flow.conductor.status

            def shares() -> list[int]:
                found = [p.slot for p in status.partitions.values() if p.state == "copying"]
                return [found.count(0), found.count(1)]

            flow.await_true(lambda: shares() == [8, 0])
            assert status.waits_for_spark == "waiting for Spark: 1 of 2 slots have a core"
            slots.free.set()
            flow.await_true(lambda: shares() == [4, 4])
            assert status.waits_for_spark == ""
            append(source, "orders", b"2", partition=0)
            flow.await_true(lambda: values_of(target, "A.orders", 0) == [b"1", b"2"])
        assert all(values_of(target, "A.orders", index) == [b"1"] for index in range(1, 8))
