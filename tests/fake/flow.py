"""A flow on its own thread between two fake clusters: the driver and its slots as they are, without Spark."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kafka.record import MemoryRecords

from fake.cluster import FakeCluster
from fake.spark import ThreadSlots
from sparkmirror.config import load
from sparkmirror.control import RunOptions, place_of
from sparkmirror.control.topics import TopicControl
from sparkmirror.driver import Conductor
from sparkmirror.model import TopicPartition
from sparkmirror.positions import LIVE_VERBS
from sparkmirror.status import PartitionStatus
from sparkmirror.wire import Record, build_batch

__all__ = ["FakeFlow", "append", "running_flow", "values_of", "write_flow"]

CONTROL_BIT = 0x20
FACTORS = ("offset.storage", "offset-syncs.topic", "checkpoints.topic", "heartbeats.topic")


@dataclass
class FakeFlow:
    """What a test sees of the flow, and may do to it."""

    conductor: Conductor
    thread: threading.Thread
    work: queue.SimpleQueue[Callable[[], None]] = field(default_factory=queue.SimpleQueue)

    def partition(self, topic: str, index: int = 0) -> PartitionStatus:
        """As it is shown now."""
        place = TopicPartition(topic, index)
        return self.conductor.status.partitions.get(place, PartitionStatus(place))

    def on_thread(self, action: Callable[[], object]) -> None:
        """Does it on the flow's own thread, between two turns, and waits for it."""
        done = threading.Event()
        self.work.put(lambda: (action(), done.set())[0])
        self.await_true(done.is_set)

    def await_true(self, condition: Callable[[], object], seconds: float = 20.0) -> None:
        """Fails if it is not true in time, or if the flow ends meanwhile."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, (self.conductor.status, list(self.conductor.status.notes))
            assert self.thread.is_alive(), self.conductor.failure
            time.sleep(0.02)


def write_flow(folder: Path, source: FakeCluster, target: FakeCluster, more: Mapping[str, str] | None = None) -> Path:
    """The file of a flow from A to B."""
    keys = {"clusters": "A, B", "A.bootstrap.servers": source.bootstrap, "B.bootstrap.servers": target.bootstrap}
    keys |= {"A->B.enabled": "true", "tasks.max": "1", "replication.factor": "1"}
    keys |= {f"{topic}.replication.factor": "1" for topic in FACTORS} | dict(more or {})
    path = folder / "mm2.properties"
    path.write_text("".join(f"{key} = {value}\n" for key, value in keys.items()))
    return path


@contextmanager
def running_flow(
    path: Path, options: RunOptions | None = None, slots: ThreadSlots | None = None, count: int = 1
) -> Iterator[FakeFlow]:
    """Runs in the block; drained at its end."""
    settings = load(str(path))
    [flow] = settings.enabled_flows(None)
    place = place_of(settings, flow, options or RunOptions(), slots=count)
    conductor = Conductor(flow, place, slots or ThreadSlots(), TopicControl(flow).discover, LIVE_VERBS)
    found = FakeFlow(conductor, threading.Thread(target=conductor.run, name=str(flow.name), daemon=True))
    turn = conductor._turn

    def turn_and_work() -> None:
        while not found.work.empty():
            found.work.get()()
        turn()

    conductor._turn = turn_and_work  # type: ignore[method-assign]
    found.thread.start()
    try:
        yield found
    finally:
        conductor.stop()
        found.thread.join(30)
        assert not found.thread.is_alive(), "the flow did not end"


def append(cluster: FakeCluster, topic: str, *values: bytes, timestamp: int | None = None, partition: int = 0) -> None:
    """One batch of records, as another producer appends it."""
    stamp = cluster.now_ms() if timestamp is None else timestamp
    batch = build_batch([Record(at, stamp, b"k", value) for at, value in enumerate(values)], codec=0)
    with cluster.lock:
        error, _ = cluster.topics[topic].logs[partition].append(bytes(batch))
    assert error == 0, error


def values_of(cluster: FakeCluster, topic: str, partition: int = 0) -> list[bytes]:
    """The records' values in the order of the log, read by a public client's code."""
    with cluster.lock:
        raw = [raw for _, raw in cluster.topics[topic].logs[partition].batches]
    batches = [batch for data in raw for batch in MemoryRecords(data) if not batch.attributes & CONTROL_BIT]
    return [bytes(record.value) for batch in batches for record in batch]
