"""`/admin/loggers`: how much the mirror logs, changed while it runs. Connect's names are accepted and mean the mirror."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from starlette.requests import Request

from sparkmirror.rest.bodies import BadBody, parsed
from sparkmirror.rest.messages import HttpAnswer, compact_answer, empty_answer, refusal
from sparkmirror.rest.paths import Paths

LEVELS = ("OFF", "FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE", "ALL")
ROOT, OURS, MIRROR = "root", "sparkmirror", "org.apache.kafka.connect.mirror"
KEPT_MAX = 1000  # names that somebody set a level for


class LogLevels:
    """The level of each logger: `root`, `sparkmirror`, and below it one for each flow. Thread-safe."""

    def __init__(self, flows: Iterable[str]) -> None:
        self._names = (ROOT, OURS, MIRROR, *(f"{OURS}.{flow}" for flow in flows))
        self.default = "INFO"
        self._set: dict[str, tuple[str, int]] = {}
        self._lock = threading.Lock()

    def allows(self, level: str, about: str) -> bool:
        """Whether a line of this level about a flow, or about the process ("-"), is logged."""
        name = OURS if about == "-" else f"{OURS}.{about}"
        return LEVELS.index(level) <= LEVELS.index(self.level(name))

    def level(self, name: str) -> str:
        """The level that counts for a logger: its own, or that of the nearest one above it."""
        with self._lock:
            found = [above for above in self._set if above == ROOT or name == above or name.startswith(f"{above}.")]
            if MIRROR in self._set and name.startswith(OURS) and OURS not in found:
                found.append(MIRROR)
            nearest = max(found, key=lambda above: (above != ROOT, above != MIRROR, len(above)), default=None)
            return self._set[nearest][0] if nearest is not None else self.default

    def document(self, name: str) -> dict[str, object]:
        """As Connect shows a logger."""
        changed = self._set.get(name)
        return {"level": self.level(name), "last_modified": changed[1] if changed is not None else None}

    def names(self) -> list[str]:
        """Those that there are, and those that somebody set."""
        with self._lock:
            return sorted({*self._names, *self._set})

    def set(self, name: str, level: str) -> list[str]:
        """Sets it for the logger and those below it; returns their names."""
        now = int(time.time() * 1000)
        below = [known for known in self.names() if name in (known, ROOT) or known.startswith(f"{name}.")]
        names = sorted({name, *below, *((OURS,) if name == MIRROR else ())})
        with self._lock:
            for each in names:
                self._set[each] = (level, now)
            while len(self._set) > KEPT_MAX:
                del self._set[next(iter(self._set))]
        return names

    # --- the paths -------------------------------------------------------------------------------------------------

    def paths(self) -> Paths:
        """What these paths answer."""
        at = "/admin/loggers"
        return {at: {"GET": self.show_all}, f"{at}/{{logger}}": {"GET": self.show_one, "PUT": self.change}}

    def show_all(self, request: Request) -> HttpAnswer:
        """Every logger with its level, and when it was changed."""
        return compact_answer(200, {name: self.document(name) for name in self.names()})

    def show_one(self, request: Request) -> HttpAnswer:
        """One logger."""
        name = request.path_params["logger"]
        if name not in self.names():
            return refusal(404, f"Logger {name} not found.")
        return compact_answer(200, self.document(name))

    async def change(self, request: Request) -> HttpAnswer:
        """Sets a level at once; with `scope=cluster` Connect answers 204, else with the names of the loggers."""
        try:
            content = parsed(await request.body())
        except BadBody as error:
            return refusal(500, str(error))
        level = content.get("level") if isinstance(content, dict) else None
        if level is None:
            return refusal(400, "Desired 'level' parameter was not specified in request.")
        if not isinstance(level, str) or level.upper() not in LEVELS:
            return refusal(404, f"invalid log level '{level}'.")
        names = self.set(request.path_params["logger"], level.upper())
        is_for_all = request.query_params.get("scope", "worker").lower() == "cluster"
        return empty_answer(204) if is_for_all else compact_answer(200, names)
