"""Free TCP ports of the loopback address."""

from __future__ import annotations

import random
import socket
import threading

from sparkmirror.errors import EnvironmentUnfit

HOST = "127.0.0.1"
# Below Linux's ephemeral ports (32768 and up), on purpose: a client that keeps dialling the port of a stopped broker
# could be given that very port as its own end, connect to itself, and keep the broker from coming back.
PORTS = range(20_000, 32_000)
TRIES_MAX = 1_000

_given: set[int] = set()
_lock = threading.Lock()


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now and that were not given out before in this process."""
    chooser = random.SystemRandom()  # two processes must not try the same ports in the same order
    found: list[int] = []
    with _lock:
        for _ in range(TRIES_MAX):
            if len(found) == count:
                return found
            port = chooser.choice(PORTS)
            if port not in _given and _can_bind(port):
                _given.add(port)
                found.append(port)
    raise EnvironmentUnfit(f"found {len(found)} of {count} free ports on {HOST} in {PORTS.start}-{PORTS.stop - 1}")


def is_listening(port: int) -> bool:
    """True if somebody accepts connections there."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((HOST, port)) == 0


def _can_bind(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
