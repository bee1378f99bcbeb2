"""The side of the tests: starts the host when it is first needed, and a run on it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from sparkmirror.local.processes import Child, ScratchFolder

__all__ = ["Hosted", "close_host", "host_suits", "hosted_command", "start_hosted"]

START_S = 120.0
POLL_S = 0.02
KILL_S = 30.0
# What differs from test to test and no run looks at.
NOT_LOOKED_AT = frozenset({"PYTEST_CURRENT_TEST"})

_lock = threading.Lock()
_hosts: list[_Host] = []


class _Host:
    def __init__(self) -> None:
        self._folder = ScratchFolder("host")
        self.path, self._log = self._folder.path / "socket", self._folder.path / "log"
        self.environment = _environment()
        command = [sys.executable, str(Path(__file__).with_name("server.py")), str(self.path)]
        self._child = Child("host", command, log_file=self._log)
        deadline = time.monotonic() + START_S
        while not self.path.exists():
            assert self._child.is_running and time.monotonic() < deadline, f"no host: {self.log}"
            time.sleep(POLL_S)

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def is_running(self) -> bool:
        return self._child.is_running

    def close(self) -> None:
        self._child.kill()  # its forks follow it, and its JVM ends when its standard input does
        self._folder.remove()


def _environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key not in NOT_LOOKED_AT}


def host_suits() -> bool:
    """False where a test has changed the environment: a run on the host has that of the host's start."""
    with _lock:
        return not _hosts or _hosts[0].environment == _environment()


def close_host() -> None:
    """Ends the host; the next run starts another one."""
    with _lock:
        while _hosts:
            _hosts.pop().close()


def start_hosted(words: Sequence[str], *, stdout: Path, stderr: Path, spark: bool) -> Hosted:
    """`sparkmirror WORDS…`; `spark` tells whether it may need one."""
    with _lock:
        if _hosts and not _hosts[0].is_running:
            _hosts.pop().close()
        if not _hosts:
            _hosts.append(_Host())
        host = _hosts[0]
    for file in (stdout, stderr):
        file.touch()  # whoever reads it may be quicker than the run
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(host.path))
    request = {"words": list(words), "stdout": str(stdout), "stderr": str(stderr), "spark": spark}
    connection.sendall(json.dumps(request).encode() + b"\n")
    told = b""
    while b"\n" not in told:
        told += (more := connection.recv(4096))
        assert more, f"the host ended: {host.log}"
    first, rest = told.split(b"\n", 1)
    return Hosted(connection, rest, **json.loads(first))


class Hosted:
    """A run; as local.processes.Child is one."""

    def __init__(self, connection: socket.socket, said: bytes, *, pid: int, jvm: int) -> None:
        self.pid = pid
        self.jvm = jvm  # the process that its Spark is in, 0 if that is its own child
        self._connection = connection
        self._said = said
        self._status: int | None = None
        self._looking = threading.Lock()

    @property
    def is_running(self) -> bool:
        """False once it has ended."""
        return self.exit_status is None

    @property
    def exit_status(self) -> int | None:
        """None while it runs; negative is the signal that ended it."""
        with self._looking:
            if self._status is None:
                self._look()
            return self._status

    def _look(self) -> None:
        said = b""
        if b"\n" not in self._said:
            try:
                said = self._connection.recv(64, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            self._said += said
        if not said or b"\n" in self._said:
            self._status = int(self._said or -signal.SIGKILL)  # a host that was killed takes its runs with it
            self._connection.close()

    def send(self, number: signal.Signals) -> None:
        """Sends a signal if it still runs."""
        if self.is_running:
            os.kill(self.pid, number)

    def wait(self, seconds: float) -> int | None:
        """Waits for the end for so long; returns the exit status, None if it still runs."""
        deadline = time.monotonic() + seconds
        while self.is_running and time.monotonic() < deadline:
            time.sleep(POLL_S)
        return self.exit_status

    def kill(self) -> None:
        """Ends it at once, and waits for the end."""
        self.send(signal.SIGKILL)
        self.wait(KILL_S)


def hosted_command(*words: str, seconds: float = 120.0) -> subprocess.CompletedProcess[str]:
    """A command that needs no Spark, to its end, as subprocess.run tells of it."""
    with tempfile.TemporaryDirectory(prefix="command-") as folder:
        out, err = Path(folder) / "out", Path(folder) / "err"
        run = start_hosted(words, stdout=out, stderr=err, spark=False)
        status = run.wait(seconds)
        if status is None:
            run.kill()
            raise subprocess.TimeoutExpired(list(words), seconds, out.read_bytes(), err.read_bytes())
        return subprocess.CompletedProcess(list(words), status, out.read_text(), err.read_text())
