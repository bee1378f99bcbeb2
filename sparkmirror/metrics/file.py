"""Figures in a file, for the textfile collector of Prometheus' node exporter and for anybody with `cat`."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from sparkmirror.errors import ConfigError
from sparkmirror.metrics.exposition import exposition
from sparkmirror.metrics.names import Labels
from sparkmirror.metrics.registry import MirrorMetrics
from sparkmirror.status import FlowStatus

WRITE_S = 5.0


class MetricsFile:
    """Rewritten every 5 s, whole or not at all, and removed at the end: no figures of a mirror that is gone."""

    def __init__(self, path: str, labels: Labels = ()) -> None:
        self._path, self._labels = Path(path), labels
        self._metrics = MirrorMetrics()
        self._due = 0.0
        self.trouble = ""  # why the file could not be written, "" if it could
        if not self._path.parent.is_dir() or not os.access(self._path.parent, os.W_OK):
            text = f"--metrics-file {path}: expected a folder that can be written to, found none"
            raise ConfigError(text, hint=f"mkdir -p {self._path.parent}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._path.unlink(missing_ok=True)

    def show(self, flows: Sequence[FlowStatus]) -> None:
        """Takes one snapshot of the flows; called often."""
        now = time.monotonic()
        self._metrics.take(flows, now)
        if now >= self._due:
            self._due = now + WRITE_S
            self._write(exposition(self._metrics.metrics(now), self._labels))

    def _write(self, text: str) -> None:
        fresh = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        try:
            fresh.write_text(text, encoding="utf-8")
            os.replace(fresh, self._path)
            self.trouble = ""
        except OSError as error:  # a full disk must not end the copying
            self.trouble = f"{self._path}: the figures could not be written: {error.strerror}"
