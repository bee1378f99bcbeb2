"""Short tasks on Spark, some at a time: each is a job of its own, so that results come as soon as they are there."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

from sparkmirror.errors import EnvironmentUnfit
from sparkmirror.session.root_cause import root_cause
from sparkmirror.session.spark_slots import SparkSlots

T = TypeVar("T")
R = TypeVar("R")

TITLE = "sparkmirror verify"


class SparkWork(Generic[T, R]):
    """Runs `function` on each item in Spark tasks, `at_once` at a time. `failed` makes a result of one that Spark lost."""

    def __init__(
        self,
        spark: SparkSlots,
        function: Callable[[Iterable[T]], Iterator[R]],
        failed: Callable[[T, str], R],
        items: Sequence[T],
        at_once: int,
    ) -> None:
        self._spark, self._function, self._failed = spark, function, failed
        self._waiting: queue.SimpleQueue[T] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[R] = queue.SimpleQueue()
        self._left, self._stopped = len(items), threading.Event()
        for item in items:
            self._waiting.put(item)
        for number in range(min(at_once, len(items))):
            threading.Thread(target=self._run, name=f"{TITLE} {number}", daemon=True).start()

    @property
    def is_over(self) -> bool:
        """Whether every result was taken."""
        return not self._left

    def poll(self, timeout_s: float) -> R | None:
        """The next result, None if there is none in time."""
        try:
            found = self._results.get(timeout=timeout_s)
        except queue.Empty:
            return None
        self._left -= 1
        return found

    def stop(self) -> None:
        """Starts no further task and ends those that run."""
        self._stopped.set()
        self._spark.wait().cancelJobGroup(TITLE)

    def _run(self) -> None:
        from pyspark import InheritableThread

        try:
            self._spark.wait()
        except EnvironmentUnfit as error:
            self._give_up(str(error))
            return
        inner = InheritableThread(target=self._work)
        inner.start()
        inner.join()

    def _give_up(self, reason: str) -> None:
        while (item := self._next()) is not None:
            self._results.put(self._failed(item, reason))

    def _next(self) -> T | None:
        try:
            return self._waiting.get_nowait()
        except queue.Empty:
            return None

    def _work(self) -> None:
        context = self._spark.wait()
        context.setJobGroup(TITLE, TITLE, interruptOnCancel=False)
        while not self._stopped.is_set() and (item := self._next()) is not None:
            try:
                results = context.parallelize([item], 1).mapPartitions(self._function).collect()
                self._results.put(results[0])
            except Exception as error:  # noqa: BLE001  border to Spark: a task that Spark lost is a result like others
                self._results.put(self._failed(item, f"Spark: {root_cause(error)}"))
