"""A producer that never rests, and a mirror that can be killed: what the fault tests stage."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil
from host import start_hosted
from kafka import KafkaProducer

import sparkmirror.local

SPARKMIRROR = str(Path(sys.executable).parent / "sparkmirror")
# The mirror must not outlive a test run that is itself killed.
LEASH = str(Path(sparkmirror.local.__file__).parent / "leash.py")


def wait_until(condition: Callable[[], bool], what: str | Callable[[], str], seconds: float = 120.0) -> None:
    """Waits for a condition; says what was missing when it does not come."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what if isinstance(what, str) else what()}")
        time.sleep(0.05)


class Workload:
    """Self-describing records (partition, number) at a steady rate, until stopped."""

    def __init__(self, bootstrap: str, topic: str, *, partitions: int, per_second: int, timestamp_ms: int | None = None):
        self._producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=10)
        self._topic, self._partitions, self._per_second, self._timestamp_ms = topic, partitions, per_second, timestamp_ms
        self._stop = threading.Event()
        self.sent = 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Workload:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()

    def finish(self) -> None:
        """Stops and flushes."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        self._producer.close()

    def _run(self) -> None:
        started = time.monotonic()
        while not self._stop.is_set():
            due = int((time.monotonic() - started) * self._per_second)
            while self.sent < due:
                partition = self.sent % self._partitions
                self._producer.send(
                    self._topic,
                    value=f"{partition}:{self.sent}:".encode() + b"x" * (self.sent % 700),
                    key=None if self.sent % 5 == 0 else str(self.sent % 97).encode(),
                    partition=partition,
                    timestamp_ms=self._timestamp_ms,
                )
                self.sent += 1
            time.sleep(0.005)
        self._producer.flush()


class MirrorProcess:
    """`sparkmirror run` as an operator starts it."""

    def __init__(self, properties: Path, *arguments: str, faults: str = "", env: Mapping[str, str] | None = None) -> None:
        self._log = open(properties.with_suffix(f".{time.monotonic_ns()}.log"), "w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, LEASH, str(os.getpid()), SPARKMIRROR, "run", str(properties), *arguments],
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env=os.environ | {"SPARKMIRROR_FAULTS": faults} | dict(env or {}),
        )

    def __enter__(self) -> MirrorProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def output(self) -> str:
        """Everything it has said."""
        return Path(self._log.name).read_text()

    def workers(self) -> list[psutil.Process]:
        """The Python processes in which slots run: forks of PySpark's daemon."""
        found = []
        for child in self._children():
            try:
                family = [process for process in (child, child.parent()) if process is not None]
                if len(family) == 2 and all("sparkmirror.worker_daemon" in one.cmdline() for one in family):
                    found.append(child)
            except psutil.Error:
                continue
        return found

    def _children(self) -> list[psutil.Process]:
        try:
            return psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def kill(self) -> None:
        """kill −9 of the driver, and waits until everything it started is gone."""
        children = self._children()
        self.process.kill()
        self.process.wait()
        _, alive = psutil.wait_procs(children, timeout=20)
        assert not alive, f"left behind: {alive}"

    def wait(self, seconds: float) -> int:
        """Its exit status."""
        return self.process.wait(seconds)

    def interrupt(self) -> int:
        """One Ctrl-C; its exit status."""
        os.kill(self.process.pid, signal.SIGINT)
        return self.process.wait(60)

    def end(self) -> None:
        """Whatever it takes."""
        if self.process.poll() is None:
            self.kill()
        self._log.close()


def run_once(properties: Path, *arguments: str, seconds: float = 120.0) -> tuple[int, str]:
    """`run --once` to its end: exit status and output."""
    output = properties.with_suffix(f".{time.monotonic_ns()}.log")
    run = start_hosted(["run", str(properties), "--once", *arguments], stdout=output, stderr=output, spark=True)
    status = run.wait(seconds)
    if status is None:
        run.kill()
        raise AssertionError(f"still running after {seconds:g} s: {output.read_text()}")
    return status, output.read_text()


def write_properties(
    folder: Path, source: str, target: str, *, alias: str, topics: str, to: str = "target", more: str = ""
) -> Path:
    """A small but real mm2.properties with the flow `alias->to`; in `more`, `{flow}` is its name."""
    path, flow = folder / f"{alias}.properties", f"{alias}->{to}"
    path.write_text(
        f"""
clusters = {alias}, {to}
{alias}.bootstrap.servers = {source}
{to}.bootstrap.servers = {target}
{flow}.enabled = true
{flow}.topics = {topics}
{to}->{alias}.emit.heartbeats.enabled = false
{flow}.emit.heartbeats.enabled = false
heartbeats.replication.enabled = false
replication.factor = 1
offset-syncs.topic.replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset.storage.replication.factor = 1
status.storage.replication.factor = 1
config.storage.replication.factor = 1
{more.replace("{flow}", flow)}
"""
    )
    return path
