"""Spark ends when it is told to, and when it cannot hear it."""

from __future__ import annotations

import signal
import time

import psutil
import pytest

from sparkmirror.session import SparkSlots
from sparkmirror.session import spark_slots as spark_module

pytestmark = pytest.mark.timeout(300)
STOP_S = 2.0


def started() -> tuple[SparkSlots, psutil.Process]:
    slots = SparkSlots(master="local[2]", conf={}, slots=1)
    context = slots.wait()
    return slots, psutil.Process(context._gateway.proc.pid)


def test_a_spark_that_does_not_answer_is_gone_soon_and_another_one_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    slots, process = started()
    monkeypatch.setattr(spark_module, "STOP_S", STOP_S)
    process.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    slots.stop()
    assert time.monotonic() - began < 10 * STOP_S
    assert not process.is_running()
    monkeypatch.undo()
    again, process = started()
    assert again.wait().parallelize([1, 2], 1).sum() == 3
    again.stop()
    assert not process.is_running()


def test_a_spark_that_died_is_no_trouble() -> None:
    slots, process = started()
    process.kill()
    process.wait(30)
    slots.stop()
    again, _ = started()
    again.stop()
