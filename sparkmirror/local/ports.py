"""Free TCP ports of the loopback address."""

from __future__ import annotations

import random
import socket
import sys
import threading

from sparkmirror.errors import EnvironmentUnfit

HOST = "127.0.0.1"
# Below Linux's ephemeral ports (32768 and up), on purpose: a client that keeps dialling the port of a stopped broker
# could be given that very port as its own end, connect to itself, and keep the broker from coming back.
PORTS = range(20_000, 32_000)
TRIES_MAX = 1_000

_given: dict[int, socket.socket | None] = {}
_lock = threading.Lock()


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now and that were not given out before, by this process or by another one that lives."""
    chooser = random.SystemRandom()  # two processes must not try the same ports in the same order
    found: list[int] = []
    with _lock:
        for _ in range(TRIES_MAX):
            if len(found) == count:
                return found
            port = chooser.choice(PORTS)
            if port not in _given and _can_bind(port) and _claim(port):
                found.append(port)
    raise EnvironmentUnfit(f"found {len(found)} of {count} free ports on {HOST} in {PORTS.start}-{PORTS.stop - 1}")


def is_listening(port: int) -> bool:
    """True if somebody accepts connections there."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((HOST, port)) == 0


def _claim(port: int) -> bool:
    """Marks a port as given out until this process ends: seconds pass before its broker listens there."""
    if sys.platform != "linux":
        _given[port] = None
        return True
    mark = socket.socket(socket.AF_UNIX)
    try:
        mark.bind(f"\0sparkmirror-port-{port}")  # a name in the kernel, not a file: it goes when the process does
    except OSError:
        mark.close()
        return False
    _given[port] = mark
    return True


def _can_bind(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
