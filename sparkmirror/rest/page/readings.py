"""What is read from the clusters for the page: positions of groups, findings, and who asked for what.

The copying knows nothing of groups' positions, so these are read as `inspect`, `doctor` and `history` read them, in one
thread of their own, and only while somebody looks at the page.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

from sparkmirror.config import FlowSettings, Settings
from sparkmirror.diagnose import FlowReport
from sparkmirror.errors import SparkmirrorError
from sparkmirror.examination import FlowInspection, InspectOptions
from sparkmirror.examination.examine import Examination, examine
from sparkmirror.positions import HistoryEntry, history_of
from sparkmirror.rest.page.readiness import Readiness, readiness_of

LOOKED_AT_S = 90.0  # somebody looks at the page as long after it was asked for; its events ask all the time
REST_S = 15.0  # between two readings of a flow
REST_TIMES = 20.0  # or so many times as long as the reading took: it costs a twentieth of a core at most
CLOSE_S = 1.0


@dataclass(frozen=True, slots=True)
class FlowReading:
    """What was read of one flow, each part as it was read last; `read_ms` 0: never. `trouble` says why it could not be."""

    read_ms: int = 0
    took_s: float = 0.0
    readiness: Readiness | None = None
    outages: tuple[str, ...] = ()
    report: FlowReport | None = None
    history: tuple[HistoryEntry, ...] = ()
    trouble: str = ""


NOT_READ = FlowReading()


def read_flow(settings: Settings, flow: FlowSettings) -> FlowReading:
    """Everything of one flow. Reads only; raises SparkmirrorError."""
    began = time.monotonic()
    with closing(FlowInspection(flow, InspectOptions(includes_inactive=True))) as inspection:
        readiness = readiness_of(inspection.rows())
        outages = inspection.health().outages
    report = examine(settings, Examination(flows=[str(flow.name)], wait_s=0.0)).flows[0]
    history = tuple(history_of(flow)) if not outages else ()
    return FlowReading(int(time.time() * 1000), time.monotonic() - began, readiness, outages, report, history)


@dataclass(slots=True)
class Readings:
    """The newest reading of each flow, renewed while somebody looks."""

    settings: Settings
    flows: Sequence[FlowSettings]
    read: Callable[[Settings, FlowSettings], FlowReading] = read_flow
    _found: dict[str, FlowReading] = field(default_factory=dict)
    _due: dict[str, float] = field(default_factory=dict)
    _looked: float = -LOOKED_AT_S
    _wake: threading.Event = field(default_factory=threading.Event)
    _closing: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def of(self, flow: str) -> FlowReading:
        """What is known of a flow; asking keeps it new."""
        self._looked = time.monotonic()
        if self._thread is None and not self._closing.is_set():
            self._thread = threading.Thread(target=self._run, name="page readings", daemon=True)
            self._thread.start()
        self._wake.set()
        return self._found.get(flow, NOT_READ)

    def soon(self, flow: str) -> None:
        """Something was changed: the next reading need not wait."""
        self._due[flow] = 0.0
        self._wake.set()

    def close(self) -> None:
        """A reading that is under way ends with the process."""
        self._closing.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(CLOSE_S)

    def _run(self) -> None:
        while not self._closing.is_set():
            now = time.monotonic()
            if now - self._looked > LOOKED_AT_S:
                self._wake.clear()
                self._wake.wait()
                continue
            due = [flow for flow in self.flows if self._due.get(str(flow.name), 0.0) <= now]
            if due:
                self._renew(str(due[0].name), due[0])
            else:
                self._closing.wait(min(max(min(self._due.values()) - now, 0.05), 1.0))

    def _renew(self, name: str, flow: FlowSettings) -> None:
        began = time.monotonic()
        self._due[name] = began + LOOKED_AT_S  # until it is known how long it took; `soon` may shorten it meanwhile
        try:
            found = self.read(self.settings, flow)
        except SparkmirrorError as error:
            found = replace(self._found.get(name, NOT_READ), trouble=str(error))
        except Exception as error:  # noqa: BLE001  border of a thread: the page says that it does not know
            found = replace(self._found.get(name, NOT_READ), trouble=f"{type(error).__name__}: {error}")
        self._found[name] = found
        now = time.monotonic()
        if self._due[name] > 0.0:
            self._due[name] = now + max(REST_S, REST_TIMES * (now - began))
