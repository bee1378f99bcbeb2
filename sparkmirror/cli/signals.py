"""SIGINT and SIGTERM: the first requests a graceful shutdown, the second ends the process at once."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

from sparkmirror.diagnose.exit_status import INTERRUPTED

SHOW_CURSOR = "\x1b[?25h"
_WATCHED = (signal.SIGINT, signal.SIGTERM)


class Interrupted(BaseException):
    """The user asked to stop while nothing was running yet."""


class Signals:
    """Catches both signals while it is entered."""

    def __init__(self) -> None:
        self.asked = False
        self.is_deferred = False  # whether a graceful shutdown must do more than exit
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> Signals:
        for number in _WATCHED:
            self._before[number] = signal.signal(number, self._take)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # what signal.signal itself returned

    def _take(self, _number: int, _frame: FrameType | None) -> None:
        if self.asked:
            if sys.stdout.isatty():
                os.write(sys.stdout.fileno(), SHOW_CURSOR.encode())
            os._exit(INTERRUPTED)  # child processes die with this one; the next start recovers what was in flight
        self.asked = True
        if not self.is_deferred:
            raise Interrupted
