"""SIGINT and SIGTERM: the first asks for an orderly end, the second ends the process at once."""

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
        self.is_deferred = False  # whether an orderly end needs more than leaving
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
            os._exit(INTERRUPTED)  # children die with us; whatever was in flight is found out by the next start
        self.asked = True
        if not self.is_deferred:
            raise Interrupted
