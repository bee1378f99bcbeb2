"""Two clusters with a proxy before each, and a mirror that copies through both: what the rows of the network share."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from faults.proxy import Proxy
from faults.staging import Flow
from faults.workload import MirrorProcess, Workload, wait_until, write_properties
from sparkmirror.local import LocalCluster, create_topic, open_clusters

PER_SECOND = 1500
PARTITIONS = 2


class Doors:
    """Judge and workload go to the clusters themselves, the mirror goes through the proxies."""

    def __init__(self) -> None:
        self.proxies: dict[str, Proxy] = {}
        self.source, self.target = (LocalCluster(f"door-{side}", door=self._door(side)) for side in ("source", "target"))

    def _door(self, side: str):
        def door(_broker: int, port: int) -> int:
            self.proxies[side] = Proxy(port)
            return self.proxies[side].port

        return door

    @property
    def at_source(self) -> Proxy:
        """Before the source."""
        return self.proxies["source"]

    @property
    def at_target(self) -> Proxy:
        """Before the target."""
        return self.proxies["target"]

    def heal(self, rng: random.Random) -> None:
        """No fault is left of the test before; the next ones are drawn from this seed."""
        for proxy in self.proxies.values():
            for armed in proxy.armed:
                armed.release()
            proxy.armed.clear()
            proxy.latency_s = proxy.bytes_per_s = 0.0
            proxy.unclog()
            proxy.rng = rng


@contextmanager
def open_doors() -> Iterator[Doors]:
    """Both clusters and proxies, gone at the end."""
    doors = Doors()
    with open_clusters(doors.source, doors.target):
        try:
            yield doors
        finally:
            for proxy in doors.proxies.values():
                proxy.close()


class Copying:
    """A topic under load, and its mirror, which copies by the time the test begins."""

    def __init__(self, doors: Doors, folder: Path, topic: str, more: str = "", target: LocalCluster | None = None) -> None:
        create_topic(doors.source.bootstrap, topic, partitions=PARTITIONS)
        addresses = doors.source.door_bootstrap, target.bootstrap if target else doors.target.door_bootstrap
        more = f"refresh.topics.interval.seconds = 1\n{more}"
        self.alias = topic.replace("-", "")
        self.path = write_properties(folder, *addresses, alias=self.alias, topics=topic, more=more)
        self.flow = Flow(doors.source, target or doors.target, alias=self.alias, topic=topic, partitions=PARTITIONS)
        self.load = Workload(doors.source.bootstrap, topic, partitions=PARTITIONS, per_second=PER_SECOND)
        self.mirror = MirrorProcess(self.path)

    def __enter__(self) -> Copying:
        self.load.__enter__()
        self.await_copying()
        return self

    def __exit__(self, *_: object) -> None:
        self.mirror.end()
        self.load.finish()

    def await_copying(self) -> None:
        """Records arrive."""
        self.flow.await_copying(why=lambda: self.mirror.output[-3000:])

    def restart(self) -> None:
        """A new process; the one before must be gone."""
        self.mirror.end()
        self.mirror = MirrorProcess(self.path)

    def converge(self, healed_at: float) -> float:
        """Ends the load; seconds from the end of the fault until everything is copied."""
        self.load.finish()
        self.flow.await_copied(lambda: self.mirror.output[-3000:])
        return time.monotonic() - healed_at

    def end_well(self) -> str:
        """Stops the mirror, which has nothing to complain of; what it said."""
        assert self.mirror.interrupt() == 0, self.mirror.output
        said = self.mirror.output
        assert not [word for word in ("CORRUPT", "Traceback", " ERROR ") if word in said], said
        assert not re.search(rf"{self.flow.topic}-\d+ stopped", said), said
        return said

    def await_said(self, word: str, *, after: int, seconds: float = 60.0) -> float:
        """Seconds until the mirror says it."""
        began = time.monotonic()
        wait_until(lambda: word in self.mirror.output[after:], f"{word!r}: {self.mirror.output[after:]}", seconds)
        return time.monotonic() - began
