"""From the last look at the flows to what the page shows; made once for all readers, not for each of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from sparkmirror.ledger import Wish
from sparkmirror.positions import HistoryEntry
from sparkmirror.rest.page.attention import AttentionItem, attention
from sparkmirror.rest.page.axes import Axis, copying, failover
from sparkmirror.rest.page.charts import LineChart, charts
from sparkmirror.rest.page.readings import NOT_READ, FlowReading, Readings
from sparkmirror.rest.page.samples import FlowEvent, FlowRecorder, merged
from sparkmirror.rest.page.tones import tone_of
from sparkmirror.rest.page.topics import TopicRow, place_of, topic_rows
from sparkmirror.status import FlowStatus, flow_state
from sparkmirror.status.wishes import in_order

LOOK_S = 1.0
LOOK_TIMES = 40.0  # or so many times as long as a look took
KEPT_S = 0.9  # a view is renewed once a second
KEPT_TIMES = 10.0  # or so many times as long as it took to make
EVENTS_SHOWN = 60



@dataclass(frozen=True, slots=True)
class FlowView:
    """One flow, ready to be written as HTML."""

    name: str
    flow: FlowStatus
    state: str
    copying: Axis
    failover: Axis
    items: tuple[AttentionItem, ...]
    charts: tuple[LineChart, ...]
    topics: dict[str, TopicRow]
    events: tuple[FlowEvent, ...]
    wishes: tuple[Wish, ...]
    reading: FlowReading
    file_words: str
    as_of_ms: int

    @property
    def tone(self) -> str:
        """Of the state."""
        return tone_of(self.state)

    @property
    def bad(self) -> int:
        """How many things need attention."""
        return len(self.items)


@dataclass(slots=True)
class FlowViews:
    """Takes looks from the main loop, and makes views for the readers."""

    readings: Readings | None = None
    _flows: Sequence[FlowStatus] = ()
    _recorders: dict[str, FlowRecorder] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _look_due: float = 0.0
    _kept: dict[str, tuple[float, FlowView]] = field(default_factory=dict)

    def show(self, flows: Sequence[FlowStatus]) -> None:
        """Called often; most looks are left out."""
        self._flows = flows
        began = time.monotonic()
        if began < self._look_due:
            return
        with self._lock:
            for flow in flows:
                self._recorders.setdefault(str(flow.name), FlowRecorder()).take(flow)
        took = time.monotonic() - began
        self._look_due = began + max(LOOK_S, LOOK_TIMES * took)

    @property
    def names(self) -> list[str]:
        """Of all flows, in the file's order."""
        return [str(flow.name) for flow in self._flows]

    def status(self, name: str) -> FlowStatus | None:
        """The last look at a flow."""
        return next((flow for flow in self._flows if str(flow.name) == name), None)

    def of(self, name: str) -> FlowView | None:
        """A flow as it is now, or was a moment ago; None if there is none of this name."""
        began = time.monotonic()
        due, kept = self._kept.get(name, (0.0, None))
        if kept is not None and began < due:
            return kept
        flow = self.status(name)
        if flow is None:
            return None
        made = self._view(flow)
        now = time.monotonic()
        self._kept[name] = (now + max(KEPT_S, KEPT_TIMES * (now - began)), made)
        return made

    def renew(self, name: str) -> None:
        """Something was changed: neither the view nor the readings are kept."""
        self._kept.pop(name, None)
        if self.readings is not None:
            self.readings.soon(name)

    def _view(self, flow: FlowStatus) -> FlowView:
        name = str(flow.name)
        reading = NOT_READ if self.readings is None else self.readings.of(name)
        with self._lock:
            recorder = self._recorders.setdefault(name, FlowRecorder())
            samples, seen = list(recorder.samples), list(recorder.events)
        rate = samples[-1].records_per_s if samples else None
        words = flow.file_words or "FILE"
        return FlowView(
            name=name,
            flow=flow,
            state=flow_state(flow),
            copying=copying(flow, rate),
            failover=failover(flow, reading),
            items=tuple(attention(flow, reading.report, words)),
            charts=tuple(charts(samples, flow.taken_ms)),
            topics=topic_rows(flow),
            events=tuple(merged(seen, map(_event_of, reading.history), limit=EVENTS_SHOWN)),
            wishes=tuple(in_order(flow.wishes)),
            reading=reading,
            file_words=words,
            as_of_ms=flow.taken_ms,
        )


def _event_of(entry: HistoryEntry) -> FlowEvent:
    """A request of the ledger, or offsets that were given up."""
    where = place_of(entry.topic, None if entry.partition < 0 else entry.partition) if entry.topic else "all topics"
    result = f"{entry.text} ({entry.state})" if entry.text and entry.state != "done" else entry.text or entry.state
    return FlowEvent(entry.time_ms, entry.verb, f"{where}: {result}", entry.who)
