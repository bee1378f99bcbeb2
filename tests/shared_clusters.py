"""One pair of clusters for all of pytest's processes: the first that opens it is asked for it, by files in a folder.

Brokers are children of the process that opens them, and a worker of xdist may end before the others. So the process that
started the workers opens them, as soon as one of the workers asks, and closes them when all have ended.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sparkmirror.local import LocalCluster, open_clusters
from sparkmirror.local.processes import ScratchFolder

FOLDER = "SPARKMIRROR_SHARED_CLUSTERS"  # in the environment of workers
WANTED, OPENED = "wanted", "opened.json"
NAMES = ("source", "target")
POLL_S = 0.1
# The brokers may have to be fetched first.
OPEN_S_MAX = 600.0


@dataclass(frozen=True)
class SharedCluster:
    """What a test may use of a cluster that is not its own: it cannot stop or break it."""

    name: str
    bootstrap: str
    log_dirs: dict[int, Path]

    @property
    def ids(self) -> list[int]:
        """The brokers."""
        return list(self.log_dirs)


class ClusterHost:
    """Opens the pair when it is asked for. Belongs to the process that starts the workers."""

    def __init__(self) -> None:
        self._folder = ScratchFolder("shared")
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="shared clusters", daemon=True)
        os.environ[FOLDER] = str(self._folder.path)
        self._thread.start()

    def close(self) -> None:
        """Closes what was opened."""
        self._end.set()
        self._thread.join()
        del os.environ[FOLDER]
        self._folder.remove()

    def _serve(self) -> None:
        while not (self._folder.path / WANTED).exists():
            if self._end.wait(POLL_S):
                return
        with ExitStack() as stack:
            try:
                clusters = stack.enter_context(open_clusters(*map(LocalCluster, NAMES)))
                told: object = [_as_json(cluster) for cluster in clusters]
            except Exception as error:  # noqa: BLE001  border to the workers: each test that waits fails with it
                told = str(error)
            part = self._folder.path / "part"
            part.write_text(json.dumps(told))
            part.rename(self._folder.path / OPENED)
            self._end.wait()


@contextmanager
def two_shared_clusters() -> Iterator[tuple[LocalCluster | SharedCluster, LocalCluster | SharedCluster]]:
    """The pair: that of all workers, or one of our own where there are none."""
    if FOLDER not in os.environ:
        with open_clusters(*map(LocalCluster, NAMES)) as (source, target):
            yield source, target
        return
    folder = Path(os.environ[FOLDER])
    (folder / WANTED).touch()
    deadline = time.monotonic() + OPEN_S_MAX
    while not (folder / OPENED).exists():
        assert time.monotonic() < deadline, f"no shared clusters within {OPEN_S_MAX:.0f} s"
        time.sleep(POLL_S)
    told = json.loads((folder / OPENED).read_text())
    assert isinstance(told, list), f"the shared clusters do not open: {told}"
    source, target = (_from_json(**cluster) for cluster in told)
    yield source, target


def _as_json(cluster: LocalCluster) -> dict[str, object]:
    return {
        "name": cluster.name,
        "bootstrap": cluster.bootstrap,
        "log_dirs": {broker: str(path) for broker, path in cluster.log_dirs.items()},
    }


def _from_json(name: str, bootstrap: str, log_dirs: dict[str, str]) -> SharedCluster:
    return SharedCluster(name, bootstrap, {int(broker): Path(path) for broker, path in log_dirs.items()})
