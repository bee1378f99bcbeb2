"""The identity of this process, from which a successor on the same machine can see that it is dead."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Process:
    """host, boot, process-id namespace, process id and its start time: together they never name two processes."""

    host: str
    boot: str
    namespace: str
    pid: int
    started: str

    @classmethod
    def this(cls) -> Process:
        """This process."""
        pid = os.getpid()
        return cls(socket.gethostname(), _boot(), _namespace(), pid, _started(pid))

    @property
    def name(self) -> str:
        """The text that the owner record carries."""
        return f"{self.host}/pid {self.pid}/{self.boot}/{self.namespace}/{self.started}"

    def is_neighbour(self, name: str) -> bool:
        """Whether the named process runs, or ran, on this machine since its start and among the same processes."""
        parts = name.split("/")
        return len(parts) == 5 and (parts[0], parts[2], parts[3]) == (self.host, self.boot, self.namespace)

    def is_dead(self, name: str) -> bool:
        """Whether the named process ran where we can see, and is gone; False whenever that cannot be known."""
        parts = name.split("/")
        if len(parts) != 5 or not parts[1].startswith("pid "):
            return False
        host, pid, boot, namespace, started = parts[0], parts[1][4:], parts[2], parts[3], parts[4]
        if (host, namespace) != (self.host, self.namespace) or "" in (boot, namespace, started) or not pid.isdigit():
            return False
        if boot != self.boot:
            return True  # the machine was restarted since
        return _started(int(pid)) != started


def _boot() -> str:
    return _read("/proc/sys/kernel/random/boot_id").strip()[:8]


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid").removeprefix("pid:").strip("[]")
    except OSError:
        return ""


def _started(pid: int) -> str:
    """The process's start time in clock ticks since boot, empty if there is no such process or it is a zombie."""
    text = _read(f"/proc/{pid}/stat")
    fields = text.rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 and fields[0] not in ("Z", "X") else ""


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
