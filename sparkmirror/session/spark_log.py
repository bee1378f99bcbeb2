"""What Spark and its Python processes write: one file of bounded size, removed at the end unless an error names it."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import threading
import time
from pathlib import Path

# Spark logs errors only; a task that fails every 30 s for a day stays below. The older half goes when it is full.
LOG_BYTES_MAX = 1 << 20
CHUNK_BYTES = 1 << 16
TAIL_BYTES = 4096
DROPPED = b"[earlier lines were dropped]\n"
JOIN_S = 2.0
# What a run that was killed left behind; a day is enough to read it.
LEFT_S = 86_400.0
_NAME = re.compile(r"sparkmirror-spark-(\d+)-\w+\.log\Z")


class SparkLog:
    """The log of the JVM that this process starts: what it writes into `sink` is in the file at `path`."""

    def __init__(self) -> None:
        folder = Path(tempfile.gettempdir())
        _sweep(folder)
        self._file, name = tempfile.mkstemp(prefix=f"sparkmirror-spark-{os.getpid()}-", suffix=".log", dir=folder)
        self.path = name
        self.is_kept = False  # whether the file stays when this process ends
        self._source, self.sink = os.pipe()
        self._thread = threading.Thread(target=self._copy, name="spark log", daemon=True)
        self._thread.start()

    def is_handed_over(self) -> None:
        """The JVM has the other end now, and the log ends with it."""
        os.close(self.sink)
        self.sink = -1

    def tail(self) -> str:
        """The last lines."""
        size = os.fstat(self._file).st_size
        return os.pread(self._file, TAIL_BYTES, max(size - TAIL_BYTES, 0)).decode(errors="replace")

    def close(self) -> None:
        """Ends it; what the JVM wrote last is still taken."""
        if self.sink >= 0:
            self.is_handed_over()
        self._thread.join(JOIN_S)
        if not self.is_kept:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path)

    def _copy(self) -> None:
        """The JVM must never wait for us, nor end because the disk is full."""
        while chunk := os.read(self._source, CHUNK_BYTES):
            with contextlib.suppress(OSError):
                self._write(chunk)
        os.close(self._source)

    def _write(self, chunk: bytes) -> None:
        size = os.fstat(self._file).st_size
        if size + len(chunk) > LOG_BYTES_MAX:
            kept = os.pread(self._file, LOG_BYTES_MAX // 2, size - LOG_BYTES_MAX // 2)
            os.ftruncate(self._file, 0)
            os.lseek(self._file, 0, os.SEEK_SET)
            os.write(self._file, DROPPED + kept)
        os.lseek(self._file, 0, os.SEEK_END)
        os.write(self._file, chunk)


def _sweep(folder: Path) -> None:
    """Removes logs of former processes that are old."""
    for entry in folder.glob("sparkmirror-spark-*.log"):
        with contextlib.suppress(OSError):  # somebody else's, or gone meanwhile
            if _NAME.match(entry.name) and time.time() - entry.stat().st_mtime > LEFT_S:
                entry.unlink()
