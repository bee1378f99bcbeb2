"""What runs inside a Spark task: the entry point of a slot. Imported by Spark's Python workers."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator

from sparkmirror.config import load
from sparkmirror.errors import SparkmirrorError
from sparkmirror.model import FlowName
from sparkmirror.pipeline.slot import Slot, SlotOrder

__all__ = ["run_slot"]

# glibc's mallopt: keep freed memory for the next fetch instead of giving it back to the kernel. Without it some runs took
# 500 000 page faults and 1.4 s of system time per GB, with it 5 000. A slot holds no more than its bounds either way.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEPT_BYTES_MAX, MMAP_FROM_BYTES = 256 << 20, 32 << 20


def run_slot(orders: Iterable[SlotOrder]) -> Iterator[str]:
    """Runs one slot to its end and yields why it ended. Never raises for anything that a partition does."""
    from pyspark import TaskContext  # not needed before a task runs: see spark.py

    wanted = list(orders)  # a worker is reused only if its task consumed its input (R20)
    context = TaskContext.get()
    if context is not None and context.attemptNumber() > 0:
        # Spark started the task again by itself (a lost executor): the first one may still write (D9). A stage that is
        # started again begins at attempt 0; the slot then sees the first one's beats in the ledger and leaves.
        yield "refused: started again by Spark"
        return
    _keep_freed_memory()
    for order in wanted:
        try:
            settings = load(order.config_path)
            if settings.digest != order.config_digest:
                yield f"refused: {order.config_path} changed since the flow was started"
                return
            flow = settings.flow(FlowName(order.source, order.target))
            yield Slot(order, flow).run()
        except SparkmirrorError as error:
            yield f"failed: {error}"


def _keep_freed_memory() -> None:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have none, and need none
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, MMAP_FROM_BYTES)
        mallopt(M_TRIM_THRESHOLD, KEPT_BYTES_MAX)
