"""Draws dead-source.svg: the source dies while a flow runs, and what the live view, `doctor` and `translate` then show.

    python docs/pictures/dead_source.py [NAME PROGRAM]

PROGRAM is another `sparkmirror` than this one, such as a former version, and NAME the picture of it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType
from stage import LARGE, SETTINGS, _text, client_of, commit, position, wait_for
from terminal import picture, printed

from sparkmirror.local import LocalCluster, create_topic, open_clusters

COLUMNS, LINES = 118, 40
TOPICS = {"orders": 4, "invoices": 1}
FILLED, LEFT = 3000, 17
COMMITTED = 2900
RECORDED_S = 12.0  # the owner writes where the source ends every 5 s
DEAD_S = 5.0  # between the death of the source and the picture of the live view
FRAME = re.compile(r"(?:\r?\x1b\[2K(?:\x1b\[1A\x1b\[2K)*)+")  # rich erases a frame before it draws the next


class Watched:
    """A command on a pseudo-terminal, and what it shows now."""

    def __init__(self, command: list[str]) -> None:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        environment = os.environ | {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
        self._text, self._terminal = "", ours
        self.process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
        os.close(theirs)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # on Linux the end of a terminal is an error
            while chunk := os.read(self._terminal, 65536):
                self._text += chunk.decode("utf-8", "replace")

    @property
    def shown(self) -> str:
        """The last frame that was drawn whole."""
        frames = FRAME.split(self._text.replace("\r\n", "\n"))
        whole = [re.sub(r"\x1b\[\?25[lh]", "", frame).strip("\n\r") for frame in frames[:-1]]
        return next((frame for frame in reversed(whole) if frame.strip()), "")

    def end(self) -> None:
        """Ends the command."""
        self.process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(30)
        self.process.kill()
        self.process.wait()
        os.close(self._terminal)


@contextlib.contextmanager
def running(program: str) -> Iterator[Watched]:
    """The flow of the file in this folder, on a terminal."""
    watched = Watched([program, "run", "mm2.properties"])
    try:
        yield watched
    finally:
        watched.end()


def fill(east: LocalCluster, west: LocalCluster) -> None:
    """Records that are copied; and in `invoices` one that the target does not take, with some behind it."""
    for topic, partitions in TOPICS.items():
        create_topic(east.bootstrap, topic, partitions=partitions)
        create_topic(west.bootstrap, f"east.{topic}", partitions=partitions)
    limit = ConfigResource(ConfigResourceType.TOPIC, "east.invoices", configs={"max.message.bytes": "20000"})
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=west.bootstrap)) as admin:
        admin.alter_configs([limit])
    with contextlib.closing(KafkaProducer(bootstrap_servers=east.bootstrap, linger_ms=20)) as producer:
        for number in range(FILLED):
            for topic, partitions in TOPICS.items():
                for partition in range(partitions):
                    producer.send(topic, b'{"number": %d}' % number, b"k%d" % (number % 97), partition=partition)
        producer.flush()
        producer.send("invoices", b"x" * LARGE, b"scan", partition=0)
        for number in range(LEFT - 1):
            producer.send("invoices", b"%d" % number, b"k", partition=0)
        producer.flush()


def draw(program: str, east: LocalCluster, west: LocalCluster) -> str:
    """The picture of one version."""
    fill(east, west)
    settings = SETTINGS | {"east.bootstrap.servers": east.bootstrap, "west.bootstrap.servers": west.bootstrap}
    settings |= {"topics": ", ".join(TOPICS), "tasks.max": "1"}
    Path("mm2.properties").write_text(_text(settings))
    with (
        contextlib.closing(client_of(east, "east")) as source,
        contextlib.closing(client_of(west, "west")) as target,
        running(program) as watched,
    ):
        commit(source, "billing", "orders", COMMITTED, COMMITTED, COMMITTED, COMMITTED)
        commit(source, "archive", "invoices", FILLED)
        wait_for(lambda: all(position(target, "billing", "east.orders", p) == COMMITTED for p in range(4)), "billing")
        wait_for(lambda: position(target, "archive", "east.invoices", 0) == FILLED, "archive")
        commit(target, "billing", "east.orders", 2877)  # somebody set it back on the target
        time.sleep(RECORDED_S)
        for broker in east.pids:
            east.kill(broker)
        time.sleep(DEAD_S)
        live = watched.shown
        parts = ["$ sparkmirror run mm2.properties", live]
        for words in (["doctor", "mm2.properties"], ["translate", "mm2.properties", "--group", "billing"]):
            parts += ["", " ".join(["$ sparkmirror", *words]), printed([program, *words], COLUMNS).rstrip("\n")]
    return "\n".join(parts)


if __name__ == "__main__":
    drawn, used = sys.argv[1:] or ("dead-source", str(Path(sys.executable).with_name("sparkmirror")))
    place = Path(__file__).resolve().with_name(f"{drawn}.svg")
    with (
        tempfile.TemporaryDirectory() as scratch,
        open_clusters(LocalCluster("east"), LocalCluster("west")) as (first, second),
    ):
        os.chdir(scratch)
        text = draw(used, first, second)
        place.write_text(picture(text, COLUMNS, "the source is gone"), encoding="utf-8")
