"""The process that forks: `server.py SOCKET`. One connection is one run; it is told the process id, and the exit status.

Invariant A: there is one thread, and nothing of py4j, in this process: a fork has neither a lock that nobody frees nor a
connection to Java that is not its own.
Invariant B: the JVM serves one run at a time. Who comes meanwhile starts a JVM of its own, as a user's command does.
Invariant C: a JVM is kept only if the run before said, as its last act, that it had ended its Spark. The one of a run that
was killed is killed too, with the workers in it, as it would have ended with its driver.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
import pyspark.sql

import sparkmirror.cli
import sparkmirror.spark
from sparkmirror.local.leash import follow_parent_into_death
from sparkmirror.session.class_archive import archive_option
from sparkmirror.session.spark_settings import JVM_OPTIONS, LOCAL_SETTINGS, QUERY_SETTINGS
from sparkmirror.session.spark_slots import PYTHON

REQUEST_BYTES_MAX = 1 << 20
JVM_START_S = 120.0
CLEAN = b"+"


@dataclass
class Run:
    """One forked command, and who waits for its end."""

    connection: socket.socket
    last_word: int  # the reading end of a pipe on which it says that its Spark has ended
    has_jvm: bool


class Jvm:
    """A JVM that waits for a driver to make a SparkContext in it."""

    def __init__(self) -> None:
        # The room of a JVM with queries, and the compiler of one that lives for seconds: no test sends much through it.
        options = f"{LOCAL_SETTINGS[JVM_OPTIONS]} {archive_option(has_queries=True)}"
        words = ["--driver-memory", QUERY_SETTINGS["spark.driver.memory"], "--conf", f"{JVM_OPTIONS}={options}"]
        words += ["--conf", "spark.ui.showConsoleProgress=false", "pyspark-shell"]
        with tempfile.TemporaryDirectory() as folder:
            told = Path(folder) / "told"
            environment = os.environ | {"_PYSPARK_DRIVER_CONN_INFO_PATH": str(told), "SPARK_LOCAL_IP": "127.0.0.1"}
            self.process = subprocess.Popen(
                [f"{Path(pyspark.__file__).parent}/bin/spark-submit", *words],
                stdin=subprocess.PIPE, env=environment, start_new_session=True,
            )  # fmt: skip
            self.environment = self._await(told)

    def _await(self, told: Path) -> dict[str, str]:
        deadline = time.monotonic() + JVM_START_S
        while not told.exists():  # it appears whole
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"no JVM: status {self.process.poll()}")
            time.sleep(0.02)
        port, length = struct.unpack_from(">ii", data := told.read_bytes())
        return {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": data[8 : 8 + length].decode()}

    def kill(self) -> None:
        """At once; its workers end with it."""
        self.process.kill()
        self.process.wait()


class Host:
    """Takes requests and tells of ends."""

    def __init__(self, path: str) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen()
        self._runs: dict[int, Run] = {}
        self._jvm: Jvm | None = None
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._woken, self._waking = socket.socketpair()
        self._woken.setblocking(False)
        self._waking.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        signal.set_wakeup_fd(self._waking.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def serve(self) -> dict[str, Any]:
        """Returns in a fork alone: with what it is to run."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._listener:
                    connection, _ = self._listener.accept()
                    request = json.loads(connection.makefile().readline(REQUEST_BYTES_MAX))
                    if self._fork(connection, request):
                        return request
                else:
                    with contextlib.suppress(BlockingIOError):
                        self._woken.recv(4096)
            self._reap()

    def _fork(self, connection: socket.socket, request: dict[str, Any]) -> bool:
        """True in the fork."""
        self._reap()
        has_jvm = request["spark"] and not any(run.has_jvm for run in self._runs.values())
        if has_jvm and (self._jvm is None or self._jvm.process.poll() is not None):  # a test may have killed it
            self._jvm = Jvm()
        reading, writing = os.pipe()
        parent = os.getpid()
        if pid := os.fork():
            os.close(writing)
            self._runs[pid] = Run(connection, reading, has_jvm)
            jvm = self._jvm.process.pid if has_jvm and self._jvm else 0
            connection.sendall(json.dumps({"pid": pid, "jvm": jvm}).encode() + b"\n")
            return False
        follow_parent_into_death(parent)
        os.close(reading)
        self._leave(connection)
        request["last_word"] = writing
        if has_jvm and self._jvm:
            os.environ.update(self._jvm.environment)
        return True

    def _leave(self, connection: socket.socket) -> None:
        """A fork holds nothing of its host."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._selector.close()
        for held in (self._listener, self._woken, self._waking, connection):
            held.close()
        for run in self._runs.values():
            run.connection.close()
            os.close(run.last_word)
        if self._jvm is not None and self._jvm.process.stdin is not None:
            self._jvm.process.stdin.close()

    def _reap(self) -> None:
        for pid in list(self._runs):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                run = self._runs.pop(pid)
                os.set_blocking(run.last_word, False)
                try:
                    is_clean = os.read(run.last_word, 1) == CLEAN
                except BlockingIOError:  # a child that it left behind holds the pipe
                    is_clean = False
                os.close(run.last_word)
                if run.has_jvm and not is_clean and self._jvm is not None:
                    self._jvm.kill()
                    self._jvm = None
                with contextlib.suppress(OSError):  # nobody waits any more
                    run.connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
                run.connection.close()


def run_command(request: dict[str, Any]) -> None:
    """Runs the command as if this process had been started for it."""
    os.setsid()
    for number, path in ((1, request["stdout"]), (2, request["stderr"])):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(file, number)
        os.close(file)
    sys.argv = ["sparkmirror", *request["words"]]
    try:
        sparkmirror.cli.main()
    finally:
        context = pyspark.SparkContext
        threads = {thread.name for thread in threading.enumerate()}
        if context._gateway is None and context._active_spark_context is None and "spark" not in threads:
            os.write(request["last_word"], CLEAN)
        os.close(request["last_word"])


if __name__ == "__main__":
    os.environ["SPARKMIRROR_PYTHON"] = sys.executable
    os.environ["PYSPARK_PYTHON"] = str(PYTHON)
    run_command(Host(sys.argv[1]).serve())
