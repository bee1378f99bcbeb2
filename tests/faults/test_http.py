"""What callers of the HTTP door can do to the copying: nothing."""

from __future__ import annotations

import json
import re
import socket
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from faults import flood
from faults.staging import Flow
from faults.workload import MirrorProcess, wait_until, write_properties
from sparkmirror.local import LocalCluster, create_topic

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]

PARTITIONS = 2
PER_SECOND = 1500
REQUESTS_PER_SECOND = 1000
SECONDS = 30.0
SLOW_CALLERS = 10
BEHIND_MAX = 0.05  # of the records that come meanwhile
GROWTH_MB_MAX = 32.0  # of the driver: a third of one of the bodies that are sent to it
HEAD = b"POST /flows HTTP/1.1\r\nHost: 127.0.0.1\r\n"
LARGE_BODY = HEAD + b"Content-Length: 100000000\r\n\r\n"
MANY_HEADERS = HEAD + b"".join(b"X-Header-%d: some value\r\n" % number for number in range(10_000)) + b"\r\n"


class Pace:
    """How far the copy is behind, looked at all the time."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow

    def over(self, seconds: float) -> tuple[list[int], int, int]:
        """Records that were missing at each look; records that came in that time, and that were proven copied."""
        missing, began, deadline = [], None, time.monotonic() + seconds
        with self._flow.positions() as copied:
            while time.monotonic() < deadline:
                there, arrived = sum(copied().values()), sum(self._flow.ends().values())
                began = began or (arrived, there)
                missing.append(arrived - there)
                time.sleep(0.05)
        return missing, arrived - began[0], there - began[1]


def status_of(caller: socket.socket) -> str:
    """What is answered, or what comes instead."""
    try:
        return caller.recv(65536).split(b" ", 2)[1].decode()
    except (OSError, IndexError) as error:
        return type(error).__name__


def send_slowly(port: int) -> str:
    """A sign a second, until it is answered."""
    with socket.create_connection(("127.0.0.1", port), 1.0) as caller:
        for sign in b"GET /flows HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n":
            caller.sendall(bytes([sign]))
            try:
                return caller.recv(65536).split(b" ", 2)[1].decode()
            except TimeoutError:
                continue
    return "never"


def send_large_body(port: int) -> str:
    """100 MB, or as much of it as is taken."""
    with socket.create_connection(("127.0.0.1", port), 10.0) as caller:
        try:
            caller.sendall(LARGE_BODY)
            for _ in range(1526):
                caller.sendall(bytes(65536))
        except OSError:
            pass
        return status_of(caller)


def send_many_headers(port: int) -> str:
    """10,000 of them."""
    with socket.create_connection(("127.0.0.1", port), 10.0) as caller:
        caller.sendall(MANY_HEADERS)
        return status_of(caller)


EXPECTED = {send_slowly: "408", send_large_body: "413", send_many_headers: "431"}


class Callers:
    """Threads that call again and again until they are asked to stop."""

    def __init__(self, port: int, *calls: Callable[[int], str]) -> None:
        self._stop = threading.Event()
        self.answers: dict[str, Counter[str]] = {call.__name__: Counter() for call in calls}
        self._threads = [threading.Thread(target=self._call, args=(port, call)) for call in calls]

    def _call(self, port: int, call: Callable[[int], str]) -> None:
        while not self._stop.is_set():
            self.answers[call.__name__][call(port)] += 1
            self._stop.wait(0.5)

    def __enter__(self) -> Callers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


@pytest.mark.fault("F46")
def test_F46_callers_who_ask_too_much_too_often_or_too_slowly_do_not_hold_up_the_copying(
    source_cluster: LocalCluster, target_cluster: LocalCluster, topic_name, tmp_path: Path, row
) -> None:
    topic = topic_name("http")
    alias = topic.replace("-", "")
    create_topic(source_cluster.bootstrap, topic, partitions=PARTITIONS)
    addresses = source_cluster.bootstrap, target_cluster.bootstrap
    path = write_properties(tmp_path, *addresses, alias=alias, topics=topic, more="refresh.topics.interval.seconds = 1")
    flow = Flow(source_cluster, target_cluster, alias=alias, topic=topic, partitions=PARTITIONS)
    with MirrorProcess(path, "--listen", "0") as mirror:
        wait_until(lambda: "listening on http://127.0.0.1:" in mirror.output, "it listens")
        port = int(re.findall(r"listening on http://127\.0\.0\.1:(\d+)", mirror.output)[0])
        with flow.load(PER_SECOND):
            flow.await_copying(why=lambda: mirror.output)
            before, _, _ = Pace(flow).over(SECONDS)
            driver = psutil.Process(mirror.process.pid).children()[0]
            size = driver.memory_info().rss
            words = [sys.executable, "-m", flood.__name__, str(port), str(REQUESTS_PER_SECOND), str(SECONDS)]
            flooding = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
            with Callers(port, *[send_slowly] * SLOW_CALLERS, *EXPECTED) as callers:
                during, arrived, copied = Pace(flow).over(SECONDS)
                grown_mb = (driver.memory_info().rss - size) / 1e6
                alive = flood.ask(port, "/health/live")
            took, answers = json.loads(flooding.communicate(timeout=120)[0])
        flow.await_copied(lambda: mirror.output[-3000:])
        wait_until(lambda: ready(port), "it says that it copies")
        assert mirror.interrupt() == 0, mirror.output
        said = mirror.output
        assert not [word for word in (" ERROR ", "Traceback", "could not be answered") if word in said], said
    assert copied >= (1 - BEHIND_MAX) * arrived, (copied, arrived, statistics.mean(before), statistics.mean(during))
    assert set(answers) <= {"200", "429", "404", "503"} and answers["429"] >= 0.9 * REQUESTS_PER_SECOND * SECONDS, answers
    for call, status in EXPECTED.items():  # or that there is no room for more connections
        answered = callers.answers[call.__name__]
        assert set(answered) <= {status, "503"} and answered[status], (call.__name__, answered)
    assert (alive, grown_mb < GROWTH_MB_MAX) == ("200", True), (alive, grown_mb)
    row.seen = (
        f"{sum(answers.values())} requests in {took:.0f} s ({answers['429']} × 429), 408, 413 and 431 where due; "
        f"{copied} of {arrived} records that came meanwhile were copied meanwhile; missing at a look: "
        f"{statistics.mean(before):.0f} before, {statistics.mean(during):.0f} then; {flow.judge()} records, none twice"
    )


def ready(port: int) -> bool:
    """Whether it says that all flows copy, as it does when the flood is over."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/health/ready", timeout=10) as answer:
        return bool(answer.status == 200)
