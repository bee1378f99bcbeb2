"""The one door to Spark on the driver: the session, and one long job per slot."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

from pyspark import InheritableThread, SparkConf, SparkContext
from pyspark.sql import SparkSession

from sparkmirror.errors import EnvironmentUnfit
from sparkmirror.pipeline.slot import SlotOrder
from sparkmirror.pipeline.task import run_slot

__all__ = ["SparkSlots"]

OUR_SETTINGS = {
    "spark.app.name": "sparkmirror",
    "spark.scheduler.mode": "FAIR",
    "spark.speculation": "false",
    "spark.task.maxFailures": "1",
    "spark.stage.maxConsecutiveAttempts": "1",
    "spark.dynamicAllocation.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
LOCAL_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.ui.enabled": "false",
}


class SparkSlots:
    """Starts Spark in the background and runs slots on it."""

    def __init__(self, *, master: str, conf: Mapping[str, str], slots: int) -> None:
        self._master = master
        self._conf = dict(conf)
        self._slots = slots
        self._context: SparkContext | None = None
        self._failed: Exception | None = None
        self._ready = threading.Event()
        self._threads: list[threading.Thread] = []
        threading.Thread(target=self._start, name="spark", daemon=True).start()

    def _start(self) -> None:
        try:
            self._context = self._session().sparkContext
        except Exception as error:  # noqa: BLE001  border to Spark: whoever waits for a slot gets it
            self._failed = error
        self._ready.set()

    def _session(self) -> SparkSession:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        settings = dict(OUR_SETTINGS)
        master = self._conf.pop("spark.master", self._master)
        if master in ("local", "local[*]"):
            # Slots wait on the network more than they compute: as many threads as slots, and one for short jobs.
            master = f"local[{max(self._slots + 1, os.cpu_count() or 1)}]"
        if master.startswith("local"):
            settings |= LOCAL_SETTINGS
        if "spark.remote" in self._conf or self._conf.get("spark.api.mode", "classic") != "classic":
            raise EnvironmentUnfit(
                "Spark Connect has no long tasks of our kind: sparkmirror needs classic mode",
                hint="remove spark.remote and set spark.api.mode=classic",
            )
        settings |= self._conf
        conf = SparkConf().setMaster(master).setAll(list(settings.items()))
        return SparkSession.builder.config(conf=conf).getOrCreate()

    def wait(self) -> SparkContext:
        """The running context; raises what kept Spark from starting."""
        self._ready.wait()
        if self._context is None:
            if isinstance(self._failed, EnvironmentUnfit):
                raise self._failed
            raise EnvironmentUnfit(f"Spark does not start: {self._failed}", hint="check --master, --conf and java -version")
        return self._context

    def launch(self, order: SlotOrder, ended: Callable[[SlotOrder, str], None]) -> None:
        """Runs a slot as a job of its own; `ended` is called on its thread when the driver's call returns."""
        thread = threading.Thread(target=self._run, args=(order, ended), name=_title(order), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _run(self, order: SlotOrder, ended: Callable[[SlotOrder, str], None]) -> None:
        try:
            context = self.wait()
        except EnvironmentUnfit as error:
            ended(order, f"failed: {error}")
            return
        outcome: list[str] = []

        def job() -> None:
            try:
                context.setJobGroup(_title(order), _title(order), interruptOnCancel=False)
                results: list[Any] = context.parallelize([order], 1).mapPartitions(run_slot).collect()
                outcome.append(str(results[0]) if results else "ended without a word")
            except Exception as error:  # noqa: BLE001  border to Spark: a dead worker is an end like others
                lines = str(error).strip().splitlines() or [type(error).__name__]
                outcome.append(f"died: {lines[0]}")

        inner = InheritableThread(target=job)
        inner.start()
        inner.join()
        ended(order, outcome[0])

    def cancel(self, order: SlotOrder) -> None:
        """Kills a slot that does not end; only the fence makes sure of its silence."""
        if self._context is not None:
            self._context.cancelJobGroup(_title(order))

    def stop(self) -> None:
        """Ends Spark."""
        self._ready.wait()
        if self._context is not None:
            self._context.stop()
            gateway = self._context._gateway
            self._context = None
            if gateway is not None:
                gateway.shutdown()
                process = getattr(gateway, "proc", None)
                if process is not None:
                    process.stdin.close()
                    process.wait(timeout=20)


def _title(order: SlotOrder) -> str:
    return f"{order.source}->{order.target} slot {order.slot}.{order.incarnation}"
