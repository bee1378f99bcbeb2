"""Whether the flow's file still says what it said when the flow was started."""

from __future__ import annotations

import os

from sparkmirror.config import load
from sparkmirror.errors import ConfigError

CONSEQUENCE = "the flow goes on as it was started, but no slot of it can be started again before the file is as it was"


class FileWatch:
    """Looks at a file now and then; reads it only if it was touched."""

    def __init__(self, path: str, digest: str) -> None:
        self._path, self._digest = path, digest
        self._seen: tuple[int, int] | None = self._stamp()
        self._trouble = ""

    def look(self) -> str:
        """What is wrong with the file now, "" if nothing."""
        seen = self._stamp()
        if seen != self._seen:
            self._seen, self._trouble = seen, self._read()
        return self._trouble

    def _stamp(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size

    def _read(self) -> str:
        try:
            if load(self._path, allow_unknown_keys=True).digest == self._digest:
                return ""
            reason = f"{self._path} was changed"
        except ConfigError as error:
            reason = f"{self._path} was changed and cannot be used: {error.message.splitlines()[0]}"
        return f"{reason}; {CONSEQUENCE}, or sparkmirror is restarted"
