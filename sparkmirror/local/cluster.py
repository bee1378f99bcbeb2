"""A real Kafka cluster on this machine: one or three KRaft nodes, each broker and controller at once.

Nothing listens outside 127.0.0.1. Broker ids are 1, 2, 3. Ports and data stay the same over `stop`, `kill` and `start`.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

from sparkmirror.errors import ClusterUnreachable, InternalError
from sparkmirror.local.broker_settings import BrokerPorts, Listener, broker_settings
from sparkmirror.local.class_archive import archive_options
from sparkmirror.local.jars import kafka_jars
from sparkmirror.local.java import QUICK_START, JavaCall, log_settings, log_tail, scratch_option
from sparkmirror.local.live_brokers import live_brokers
from sparkmirror.local.ports import HOST, free_ports, is_listening
from sparkmirror.local.processes import Child, ScratchFolder
from sparkmirror.local.storage import feature_levels, keep_feature_levels, new_id, write_storage

START_SECONDS = 90.0  # two clusters start in 7 s on two idle cores and took 19 s on busy ones
POLL_SECONDS = 0.1
# Most clusters here live for minutes and carry little: without the second compiler and a collector of many threads a broker
# starts with six tenths of the CPU time, and takes its first 60 MB with half of it. A bench asks for one as in production.
LASTING = ("-XX:+UseG1GC",)
HEAP_MB = {1: 384, 3: 256}  # by number of brokers; enough for a million records of test data

Door = Callable[[int, int], int]


class LocalCluster:
    """One cluster, started by `with` or `open`, gone with its data afterwards.

    `overrides` are broker settings that win over ours. `door`, if given, adds a second listener to each broker: it is
    called with the broker's id and that listener's real port, and returns the port to advertise instead (a proxy's).
    `listeners` are further ones, mostly with TLS or a login; `address_of` tells where they are. `launcher` are words that
    stand before a broker's command, such as those that run it in another namespace. `lasting` ones start more slowly and
    carry more.
    """

    def __init__(
        self,
        name: str,
        *,
        brokers: int = 1,
        heap_mb: int | None = None,
        overrides: Mapping[str, str] | None = None,
        jvm_options: Sequence[str] = (),
        door: Door | None = None,
        listeners: Sequence[Listener] = (),
        launcher: Sequence[str] = (),
        lasting: bool = False,
    ) -> None:
        if brokers not in HEAP_MB:
            raise InternalError(f"local cluster {name}: {brokers} brokers wanted; only 1 and 3 are possible")
        self.name = name
        self.ids = list(range(1, brokers + 1))
        self._heap_mb = heap_mb or HEAP_MB[brokers]
        self._overrides = dict(overrides or {})
        self._jvm_options = list(jvm_options)
        self._door = door
        self._listeners = tuple(listeners)
        self._launcher = list(launcher)
        self._life = LASTING if lasting else QUICK_START
        self._ports: dict[int, BrokerPorts] = {}
        self._children: dict[int, Child] = {}
        self._scratch: ScratchFolder | None = None

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"LocalCluster({self.name!r}, brokers={len(self.ids)})"

    @property
    def bootstrap(self) -> str:
        """Addresses of the direct listeners, as `bootstrap.servers` wants them."""
        return ",".join(self._direct_address(broker) for broker in self.ids)

    @property
    def door_bootstrap(self) -> str:
        """Addresses that the second listeners advertise; empty without a door."""
        return ",".join(f"{HOST}:{self._ports[broker].advertised}" for broker in self.ids if self._door)

    @property
    def log_dirs(self) -> dict[int, Path]:
        """Each broker's data folder."""
        return {broker: self._folder(broker) / "data" for broker in self.ids}

    @property
    def log_files(self) -> dict[int, Path]:
        """Each broker's own log, for a person to read."""
        return {broker: self._folder(broker) / "broker.log" for broker in self.ids}

    @property
    def pids(self) -> dict[int, int]:
        """Process ids of the brokers that run."""
        return {broker: child.pid for broker, child in self._children.items() if child.is_running}

    def address_of(self, listener: str) -> str:
        """Addresses of one of `listeners`, as `bootstrap.servers` wants them."""
        return ",".join(f"{HOST}:{self._ports[broker].more[listener]}" for broker in self.ids)

    def open(self) -> Self:
        """Formats the data folders, starts all brokers and waits until each of them answers as a live one."""
        jars = kafka_jars()
        self._scratch = ScratchFolder(self.name)
        try:
            self._choose_ports()
            self._write_settings()
            self._format(jars)
            for broker in self.ids:
                self._launch(broker)
            self._await_live(set(self.ids))
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Kills the brokers and removes their data; a second call does nothing."""
        for child in self._children.values():
            child.kill()
        self._children.clear()
        if self._scratch is not None:
            self._scratch.remove()
            self._scratch = None

    def kill(self, broker: int) -> None:
        """Ends the broker at once (SIGKILL), as a crash of its process would."""
        self._children[broker].kill()

    def stop(self, broker: int) -> None:
        """Ends the broker in an orderly way: it hands over its leaderships first."""
        self._children[broker].stop()

    def start(self, broker: int) -> None:
        """Starts a stopped or killed broker again, on the same port and data, and waits until it answers."""
        if self._children[broker].is_running:
            raise InternalError(f"local cluster {self.name}: broker {broker} runs already")
        self._launch(broker)
        self._await_live({broker})

    def suspend(self, broker: int) -> None:
        """Freezes the broker (SIGSTOP): its connections stay open and nothing answers."""
        self._children[broker].send(signal.SIGSTOP)

    def resume(self, broker: int) -> None:
        """Resumes a frozen broker (SIGCONT)."""
        self._children[broker].send(signal.SIGCONT)

    def _folder(self, broker: int) -> Path:
        if self._scratch is None:
            raise InternalError(f"local cluster {self.name} is not open")
        return self._scratch.path / f"broker-{broker}"

    def _direct_address(self, broker: int) -> str:
        return f"{HOST}:{self._ports[broker].direct}"

    def _choose_ports(self) -> None:
        for broker in self.ids:
            direct, controller, behind_door = free_ports(3)
            advertised = self._door(broker, behind_door) if self._door else behind_door
            names = [listener.name for listener in self._listeners]
            more = dict(zip(names, free_ports(len(names)), strict=True))
            self._ports[broker] = BrokerPorts(direct, controller, behind_door, advertised, more)

    def _write_settings(self) -> None:
        for broker in self.ids:
            folder = self._folder(broker)
            folder.mkdir()
            settings = broker_settings(
                broker, self._ports, folder / "data", with_door=self._door is not None, listeners=self._listeners
            )
            settings |= self._overrides
            text = "".join(f"{key}={value}\n" for key, value in settings.items())
            (folder / "server.properties").write_text(text, encoding="utf-8")

    def _format(self, jars: Path) -> None:
        cluster_id = new_id()
        # A launcher may give the broker folders that we do not see.
        is_ours = not self._launcher and "log.dirs" not in self._overrides
        if is_ours and feature_levels(jars).is_file():
            for broker, data in self.log_dirs.items():
                write_storage(jars, data, cluster_id=cluster_id, broker=broker)
            return
        formatting = {broker: self._start_format(jars, broker, cluster_id) for broker in self.ids}
        for broker, child in formatting.items():
            if child.wait(START_SECONDS) != 0:
                raise InternalError(f"formatting {self.name} failed:\n{log_tail(self._folder(broker) / 'format.log')}")
        if is_ours:
            keep_feature_levels(jars, self.log_dirs[self.ids[0]])

    def _start_format(self, jars: Path, broker: int, cluster_id: str) -> Child:
        folder = self._folder(broker)
        # An id may begin with a dash, so it is tied to its option.
        arguments = ["format", f"--cluster-id={cluster_id}", "--config", str(folder / "server.properties")]
        log_option = log_settings(folder / "format.properties", log_file=None, level="error")
        options = [*QUICK_START, *archive_options(jars), log_option]
        call = JavaCall(jars, "kafka.tools.StorageTool", arguments, options=options)
        return Child(f"format {self.name} {broker}", self._launcher + call.command(), log_file=folder / "format.log")

    def _launch(self, broker: int) -> None:
        folder = self._folder(broker)
        log_option = log_settings(folder / "log4j2.properties", log_file=folder / "broker.log", level="info")
        options = [*self._life, log_option, scratch_option(folder), *archive_options(kafka_jars()), *self._jvm_options]
        arguments = [str(folder / "server.properties")]
        call = JavaCall(kafka_jars(), "kafka.Kafka", arguments, heap_mb=self._heap_mb, options=options)
        command, output = self._launcher + call.command(), folder / "stdout.log"
        self._children[broker] = Child(f"broker {self.name} {broker}", command, log_file=output)

    def _await_live(self, wanted: set[int]) -> None:
        """Waits until every wanted broker accepts connections and the cluster counts it among the live ones."""
        deadline = time.monotonic() + START_SECONDS
        silent = set(wanted)
        while silent:
            for broker in wanted:
                if not self._children[broker].is_running:
                    raise self._not_started(broker, f"ended with status {self._children[broker].exit_status}")
            if time.monotonic() > deadline:
                raise self._not_started(min(silent), f"did not answer within {START_SECONDS:.0f} s")
            silent = {broker for broker in silent if not is_listening(self._ports[broker].direct)}
            if not silent:
                silent = {broker for broker in wanted if not wanted <= live_brokers(self._direct_address(broker))}
            time.sleep(POLL_SECONDS if silent else 0)

    def _not_started(self, broker: int, what: str) -> ClusterUnreachable:
        folder = self._folder(broker)
        tail = log_tail(folder / "stdout.log") + log_tail(folder / "broker.log")
        return ClusterUnreachable(f"local cluster {self.name}: broker {broker} {what}; its log ends:\n{tail}")


@contextlib.contextmanager
def open_clusters(*clusters: LocalCluster) -> Iterator[tuple[LocalCluster, ...]]:
    """Opens clusters at the same time, and closes all of them, also when one of them fails to open."""
    with contextlib.ExitStack() as closing:
        for cluster in clusters:
            closing.callback(cluster.close)
        with ThreadPoolExecutor(max_workers=len(clusters)) as pool:
            list(pool.map(LocalCluster.open, clusters))
        yield clusters
