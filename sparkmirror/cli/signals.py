"""SIGINT and SIGTERM: the first requests a graceful shutdown, another one ends the process at once. SIGHUP: a reload.

A SIGTERM within a second of the first signal is the same request: GNU `timeout` signals its child and then the group of
both. On a terminal SIGHUP says that it was closed, and is a request like SIGTERM.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from types import FrameType

from sparkmirror.diagnose.exit_status import INTERRUPTED

SHOW_CURSOR = "\x1b[?25h"
SAME_REQUEST_S = 1.0
_WATCHED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """The user asked to stop while nothing was running yet."""


class Signals:
    """Catches the signals while it is entered; a SIGHUP that the caller ignores, as `nohup` does, stays ignored."""

    def __init__(self) -> None:
        self.asked = False
        self.is_reload_asked = False
        self.is_deferred = False  # whether a graceful shutdown must do more than exit
        self._asked_at = 0.0
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> Signals:
        for number in _WATCHED:
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._take)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # what signal.signal itself returned

    def take_reload(self) -> bool:
        """Whether a reload was requested since this was asked last."""
        was_asked, self.is_reload_asked = self.is_reload_asked, False
        return was_asked

    def _take(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGHUP and not sys.stdout.isatty():
            self.is_reload_asked = True
            return
        if self.asked:
            if number != signal.SIGINT and time.monotonic() - self._asked_at < SAME_REQUEST_S:
                return
            if sys.stdout.isatty():
                os.write(sys.stdout.fileno(), SHOW_CURSOR.encode())
            os._exit(INTERRUPTED)  # child processes die with this one; the next start recovers what was in flight
        self.asked, self._asked_at = True, time.monotonic()
        if not self.is_deferred:
            raise Interrupted
