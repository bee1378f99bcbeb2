"""The configuration file of a running mirror: watched, read again when it or a secret of its providers changed, and taken.

A change is seen by what the file and its providers say, not by their timestamps, so it does not matter how it was made: in
place, by a rename, or by a Kubernetes ConfigMap that moves a link. It is taken once two looks have seen the same, since an
editor may be in the middle of writing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

from sparkmirror.config import Settings, load, merge, read_content, resolved_texts
from sparkmirror.config.properties import parse_properties
from sparkmirror.errors import ConfigError, ConfigInvalid, InternalError, SparkmirrorError
from sparkmirror.status import ReloadResult

LOOK_S = 2.0
RETRY_S = 10.0  # a login is tried again, and brokers may count the ones that failed
SENT_CHARACTERS_MAX = 500_000  # the ledger carries them in one record


class FileLook:
    """What the file says, with what its providers make of it; cheap while nothing changed."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._content = b""
        self._written: dict[str, str] = {}

    def look(self) -> object:
        """A value that is another one when the file says something else. Raises nothing."""
        try:
            content = read_content(self._path)
        except ConfigError as error:
            return error.message
        if content != self._content:
            found = parse_properties(content.decode("iso-8859-1")).last()
            self._content, self._written = content, {key: entry.value for key, entry in found.items()}
        return content, resolved_texts(self._written)


class Reloads:
    """Reads the file again; `take` is given settings with which all flows can go on, and raises if they cannot."""

    def __init__(self, settings: Settings, take: Callable[[Settings, ReloadResult], None]) -> None:
        self.result = ReloadResult(applied_ms=_now_ms())
        self._settings, self._take = settings, take
        self._file = FileLook(settings.path)
        self._read = self._seen = self._file.look()  # at the last reload, and at the last look
        self._retry_due = 0.0
        self._lock = threading.Lock()
        self._wake = threading.Event()

    def soon(self) -> None:
        """Has whoever watches reload at once."""
        self._wake.set()

    def watch(self, is_over: Callable[[], bool]) -> None:
        """Reloads whenever the file has changed, or when asked to."""
        while not is_over():
            if self._wake.wait(LOOK_S) or self._is_due():
                self._wake.clear()
                self.reload()

    def _is_due(self) -> bool:
        before, self._seen = self._seen, self._file.look()
        if self._seen == before != self._read:
            return True
        return bool(self.result.error) and self._seen == self._read and 0 < self._retry_due <= time.monotonic()

    def reload(self) -> ReloadResult:
        """What became of the file as it is now."""
        with self._lock:
            self._read = self._seen = self._file.look()
            self._retry_due = 0.0
            before = self.result
            try:
                self._take_file()
            except SparkmirrorError as error:
                self._refuse(before, error)
                if not isinstance(error, ConfigError):  # a cluster that does not answer, or not yet to a new password
                    self._retry_due = time.monotonic() + RETRY_S
            except Exception as error:  # noqa: BLE001  border of a thread: it must not end in silence
                self._refuse(before, InternalError(f"{type(error).__name__}: {error}"))
            return self.result

    def _take_file(self) -> None:
        now = self._settings
        new = load(now.path, allow_unknown_keys=now.allows_unknown_keys)
        if sum(map(len, (*new.written, *new.written.values()))) > SENT_CHARACTERS_MAX:
            raise ConfigInvalid(now.path, ["the file is too large to be taken while the flows run: restart sparkmirror"])
        merged = merge(now, new)
        result = replace(self.result, error="", refused=merged.refused, changed_ms=self._since(differs=bool(merged.refused)))
        if merged.changed:
            result = replace(result, applied_ms=_now_ms(), taken=merged.changed)
        if result != self.result:
            self._take(merged.settings, result)
            self._settings, self.result = merged.settings, result

    def _refuse(self, before: ReloadResult, error: SparkmirrorError) -> None:
        """The former settings stay in force, and everybody hears why."""
        problems = error.problems if isinstance(error, ConfigInvalid) else [str(error)]
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        text = f"{self._settings.path} was changed and cannot be used: {problems[0]}{more}"
        result = replace(before, error=text, refused=(), changed_ms=self._since(differs=True))
        if result != before:
            self._take(self._settings, result)
            self.result = result

    def _since(self, *, differs: bool) -> int:
        since = self.result.changed_ms
        return -1 if not differs else since if since >= 0 else _now_ms()


def _now_ms() -> int:
    return int(time.time() * 1000)
