"""What runs inside a Spark task: the entry point of a slot. Imported by Spark's Python workers."""

from __future__ import annotations

import resource
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from sparkmirror.config import SentSettings
from sparkmirror.errors import ConfigError, SparkmirrorError
from sparkmirror.slot.heap import keep_freed_memory
from sparkmirror.slot.program import here, program
from sparkmirror.slot.slot import Slot, SlotOrder

UNFIT = "unfit: "  # before the reason why no task can run where this one did


def task_of(order: SlotOrder, wanted: str) -> dict[str, Any]:
    """What is sent to a task: of plain values, so that another version of the program can still read it."""
    return {"program": wanted, "order": asdict(order)}


def run_slot(tasks: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Runs one slot to its end and yields why it ended. Never raises for anything that a partition does."""
    from pyspark import TaskContext  # not needed before a task runs: see spark.py

    [task] = tasks  # a worker is reused only if its task consumed its input (R20)
    context = TaskContext.get()
    if context is not None and context.attemptNumber() > 0:
        # Spark started the task again by itself (a lost executor): the first one may still write (D9). A stage that is
        # started again begins at attempt 0; the slot then sees the first one's beats in the ledger and leaves.
        yield "refused: started again by Spark"
        return
    if task["program"] and task["program"] != program():
        yield f"{UNFIT}expected {task['program']} as on the driver, found {program()} on {here()}"
        return
    keep_freed_memory()
    order = SlotOrder(**task["order"] | {"settings": SentSettings(**task["order"]["settings"])})
    try:
        flow = order.flow_settings()
    except ConfigError as error:  # the driver could use them: what is missing is missing on this machine
        words = f"{UNFIT}the settings cannot be used on {here()}: {error.message}"
        yield words if task["program"] else f"failed: {error}"
        return
    try:
        yield Slot(order, flow).run()
    except SparkmirrorError as error:
        yield f"failed: {error}"
    except MemoryError:  # the slot is gone, and with it what it held; another slot resumes later
        yield f"failed: out of memory: {_memory_reported()}"


def _memory_reported() -> str:
    """The limit that was reached, what is in use, and what to change."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    bound = "no limit of its own" if limit == resource.RLIM_INFINITY else f"a limit of {limit >> 20} MiB (ulimit -v)"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return f"the worker process has {bound} and held up to {peak} MiB; raise it, or lower the consumer's fetch.max.bytes"
