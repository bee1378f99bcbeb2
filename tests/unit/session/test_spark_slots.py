"""A Spark that is stopped while somebody waits for it."""

from __future__ import annotations

import threading

import pytest

from sparkmirror.errors import EnvironmentUnfit
from sparkmirror.session import SparkSlots
from sparkmirror.session import spark_slots as spark_module


def test_whoever_waits_for_a_spark_that_was_stopped_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    started = threading.Event()
    monkeypatch.setattr(SparkSlots, "_start", lambda self: (started.wait(10), self._ready.set()))
    monkeypatch.delenv(spark_module.JVM_PORT, raising=False)
    slots = SparkSlots(master="local", conf={}, slots=1, jvm_option="")
    started.set()
    slots.stop()
    with pytest.raises(EnvironmentUnfit, match="was stopped"):
        slots.wait()
