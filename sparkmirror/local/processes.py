"""Child processes and folders that never outlive this process, whatever ends it.

Invariant A: every child is started by one thread that lives as long as the process. Linux sends the parent-death
signal when the *thread* that forked ends, so a child started from a pool's worker would be killed with the worker.
Invariant B: only processes in `_running` are signalled, and only while they are not reaped: a process id cannot be
somebody else's before that.
Invariant C: a scratch folder has a watcher that holds one end of a pipe; when this process dies, the watcher reads
the end of the pipe and removes the folder.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import IO, TypeAlias

from sparkmirror.errors import InternalError

Stream: TypeAlias = int | IO[bytes]
Streams: TypeAlias = tuple[Stream, Stream, Stream]

STOP_SECONDS = 30.0  # an idle broker shuts down within a second, one that waits for others takes longer
POLL_SECONDS = 0.02
SCRATCH_PREFIX = "sparkmirror-"

_running: set[Child] = set()
_folders: set[ScratchFolder] = set()
_launches: SimpleQueue[tuple[list[str], Streams, Future[subprocess.Popen[bytes]]]] = SimpleQueue()
_launcher_lock = threading.Lock()
_launcher: list[threading.Thread] = []


def left_behind() -> list[str]:
    """One line for each child that still runs and each scratch folder that still exists."""
    children = [f"process {child.pid}: {child.name}" for child in _running if child.is_running]
    return children + [f"folder {folder.path}" for folder in _folders if folder.path.exists()]


class Child:
    """One child process in its own session; it dies with this process."""

    def __init__(self, name: str, command: Sequence[str], *, log_file: Path) -> None:
        self.name = name
        with log_file.open("ab") as log:
            self._popen = launch(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        self.pid = self._popen.pid
        self._ended_cpu_seconds: float | None = None
        self._reaping = threading.Lock()
        _running.add(self)

    @property
    def is_running(self) -> bool:
        """False once the process has ended, for whatever reason."""
        if self._popen.returncode is None:
            self._reap_if_ended()
        return self._popen.returncode is None

    @property
    def exit_status(self) -> int | None:
        """None while it runs; negative is the signal that ended it."""
        return None if self.is_running else self._popen.returncode

    def cpu_seconds(self) -> float:
        """User and system time of the process and its reaped children so far, or in all once it has ended."""
        if not self.is_running:
            return self._ended_cpu_seconds or 0.0
        return _cpu_seconds(self.pid)

    def send(self, number: signal.Signals) -> None:
        """Sends a signal if the process still runs."""
        with self._reaping:
            if self._popen.returncode is None:
                os.kill(self.pid, number)

    def wait(self, seconds: float) -> int | None:
        """Waits for the end for so long; returns the exit status, None if the process still runs."""
        deadline = time.monotonic() + seconds
        while self.is_running and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        return self.exit_status

    def kill(self) -> None:
        """Ends the process at once, also while it is suspended, and waits for the end."""
        self.send(signal.SIGKILL)
        self.wait(STOP_SECONDS)

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Asks the process to end in an orderly way; kills it when it has not after `seconds`."""
        self.send(signal.SIGCONT)
        self.send(signal.SIGTERM)
        if self.wait(seconds) is None:
            self.kill()

    def _reap_if_ended(self) -> None:
        """Reads the CPU time of an ended process, which is gone once it is reaped, and reaps it."""
        with self._reaping:
            if self._popen.returncode is not None:
                return
            if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                return
            self._ended_cpu_seconds = _cpu_seconds(self.pid)
            self._popen.wait()
            _running.discard(self)


@dataclass(eq=False)
class ScratchFolder:
    """A temporary folder that is removed by `remove`, at exit, or by its watcher when this process is killed."""

    name: str
    path: Path = field(init=False)

    def __post_init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=f"{SCRATCH_PREFIX}{os.getpid()}-{self.name}-"))
        # The second try is for a child that was still writing while it was being killed.
        script = 'cat >/dev/null; rm -rf -- "$1" || { sleep 1; rm -rf -- "$1"; }'
        command = ["/bin/sh", "-c", script, "sh", str(self.path)]
        self._watcher = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        _folders.add(self)

    def remove(self) -> None:
        """Removes the folder and lets the watcher go; a second call does nothing."""
        if self not in _folders:
            return
        assert self._watcher.stdin is not None
        self._watcher.stdin.close()
        self._watcher.wait()
        shutil.rmtree(self.path, ignore_errors=True)
        _folders.discard(self)


def _cpu_seconds(pid: int) -> float:
    """utime, stime, cutime and cstime of /proc/PID/stat; 0.0 where there is no /proc."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return 0.0
    # The second field is the program's name in parentheses and may itself hold spaces and parentheses.
    ticks = [int(field) for field in stat.rpartition(")")[2].split()[11:15]]
    return sum(ticks) / os.sysconf("SC_CLK_TCK")


def launch(command: Sequence[str], *, stdin: Stream, stdout: Stream, stderr: Stream) -> subprocess.Popen[bytes]:
    """Starts a command that dies with this process, on the launching thread (Invariant A), in its own session."""
    with _launcher_lock:
        if not _launcher:
            _launcher.append(threading.Thread(target=_serve_launches, name="sparkmirror-launcher", daemon=True))
            _launcher[0].start()
    answer: Future[subprocess.Popen[bytes]] = Future()
    _launches.put((list(command), (stdin, stdout, stderr), answer))
    return answer.result()


def _serve_launches() -> None:
    leash = [sys.executable, "-I", "-S", str(Path(__file__).with_name("leash.py")), str(os.getpid())]
    while True:
        command, (stdin, stdout, stderr), answer = _launches.get()
        try:
            popen = subprocess.Popen(
                [*leash, *command], stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True
            )
        except OSError as error:
            answer.set_exception(InternalError(f"cannot start {command[0]}: {error}"))
        else:
            answer.set_result(popen)


def _clean_up(owner: int) -> None:
    """Ends and removes all that is left, but only in the process that started it, not in a fork of it."""
    if os.getpid() != owner:
        return
    for child in list(_running):
        child.kill()
    for folder in list(_folders):
        folder.remove()


atexit.register(_clean_up, os.getpid())
