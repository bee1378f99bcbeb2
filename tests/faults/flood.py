"""Callers that ask a mirror over HTTP as often as they may, each time on a connection of its own.

`python -m faults.flood PORT PER_SECOND SECONDS` prints, as JSON, how many seconds it took and how often each
status was answered.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections import Counter

CALLERS = 8
TIMEOUT_S = 10.0
PATHS = ("/metrics", "/flows", "/health/ready", "/nothing")


def ask(port: int, path: str) -> str:
    """The status of one answer, or what came instead."""
    try:
        with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as caller:
            caller.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
            words = caller.recv(65536).split(b" ", 2)
            while caller.recv(65536):
                pass
    except OSError as error:
        return type(error).__name__
    return words[1].decode() if len(words) > 1 else "nothing"


def flood(port: int, per_second: float, seconds: float) -> Counter[str]:
    """Asks at this rate, however slow the answers are to come."""
    counts, lock = Counter[str](), threading.Lock()

    def call(at: int) -> None:
        mine, began = Counter[str](), time.monotonic()
        for number in range(int(per_second * seconds / CALLERS)):
            due = began + (number * CALLERS + at) / per_second
            time.sleep(max(due - time.monotonic(), 0.0))
            mine[ask(port, PATHS[number % len(PATHS)])] += 1
        with lock:
            counts.update(mine)

    callers = [threading.Thread(target=call, args=(at,)) for at in range(CALLERS)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    return counts


if __name__ == "__main__":
    begun = time.monotonic()
    answered = flood(int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]))
    print(json.dumps([time.monotonic() - begun, answered]))
