"""What the last hour was like: figures every few seconds, and what happened to the flow. Nothing here waits."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sparkmirror.model import TopicPartition
from sparkmirror.status import FlowStatus, flow_lag, flow_state

SAMPLE_MS = 5_000
SAMPLES_MAX = 720  # an hour
EVENTS_MAX = 300
NAMED_MAX = 3  # partitions that an event names; the others are counted
# Ways through these alone are nothing that happened: a partition that opens and copies.
_QUIET = frozenset({"opening", "copying", "closed"})


class FlowSample(NamedTuple):
    """Figures of one moment; None where they are not known."""

    at_ms: int
    records_per_s: float | None
    bytes_per_s: float | None
    lag: int | None
    lag_s: float | None
    latency_s: float | None


class FlowEvent(NamedTuple):
    """Something that happened to a flow. `kind` is the word that it is shown under, `who` did it if anybody did."""

    at_ms: int
    kind: str
    text: str
    who: str = ""


@dataclass(slots=True)
class FlowRecorder:
    """One flow, looked at about once a second."""

    samples: deque[FlowSample] = field(default_factory=lambda: deque(maxlen=SAMPLES_MAX))
    events: deque[FlowEvent] = field(default_factory=lambda: deque(maxlen=EVENTS_MAX))
    _counts: tuple[int, int, int] | None = None  # at_ms, records, bytes
    _state: str = ""
    _states: dict[TopicPartition, tuple[str, str]] = field(default_factory=dict)
    _topics: dict[str, str] = field(default_factory=dict)
    _chores: dict[str, str] = field(default_factory=dict)
    _note: int = 0
    _seen: bool = False

    def take(self, flow: FlowStatus) -> None:
        """One look."""
        self._note_events(flow)
        if self._counts is None or flow.taken_ms - self._counts[0] >= SAMPLE_MS:
            self._sample(flow)

    # --- figures -------------------------------------------------------------------------------------------------

    def _sample(self, flow: FlowStatus) -> None:
        records, size, lag, before = flow.records, flow.record_bytes, flow_lag(flow), self._counts
        self._counts = (flow.taken_ms, records, size)
        is_counted = before is not None and records >= before[1]  # sums begin again when a standby becomes the owner
        seconds = 0.0 if before is None else (flow.taken_ms - before[0]) / 1000
        is_counted = is_counted and seconds > 0
        since_ms = flow.taken_ms - SAMPLE_MS if before is None else before[0]
        latencies = [
            max(p.proven_ms - p.newest_timestamp, 0)
            for p in flow.partitions.values()
            if p.proven_ms > since_ms and p.newest_timestamp >= 0
        ]
        self.samples.append(
            FlowSample(
                at_ms=flow.taken_ms,
                records_per_s=(records - before[1]) / seconds if before is not None and is_counted else None,
                bytes_per_s=(size - before[2]) / seconds if before is not None and is_counted else None,
                lag=lag.records,
                lag_s=lag.seconds,
                latency_s=max(latencies) / 1000 if latencies else None,
            )
        )

    # --- events --------------------------------------------------------------------------------------------------

    def _note_events(self, flow: FlowStatus) -> None:
        now_ms, state = flow.taken_ms, flow_state(flow)
        for text, number in flow.notes.numbered().items():
            if number > self._note:
                self._note = number
                self._add(now_ms, "note", text)
        if state != self._state:
            self._add(now_ms, state, f"flow: {flow.reason or state}")
            self._state = state
        self._note_partitions(flow)
        if flow.stopped_topics != self._topics:
            for topic in flow.stopped_topics.keys() - self._topics.keys():
                self._add(now_ms, "stopped", f"topic {topic}: {flow.stopped_topics[topic]}")
            gone = sorted(self._topics.keys() - flow.stopped_topics.keys())
            if gone:
                self._add(now_ms, "resumed", f"topics {_named(gone)}")
            self._topics = dict(flow.stopped_topics)
        troubled = {chore: text for chore, text in flow.chores.items() if text}
        if troubled != self._chores:
            for chore in sorted(troubled.keys() - self._chores.keys()):
                self._add(now_ms, "warning", f"{chore}: {troubled[chore]}")
            for chore in sorted(self._chores.keys() - troubled.keys()):
                self._add(now_ms, "resumed", chore)
            self._chores = troubled

    def _note_partitions(self, flow: FlowStatus) -> None:
        """Partitions that changed in the same way are one event."""
        changed: dict[tuple[str, str], list[TopicPartition]] = defaultdict(list)
        reasons: dict[tuple[str, str], str] = {}
        known = self._states
        for place, status in flow.partitions.items():
            before, now = known.get(place), (status.state, status.code)
            if before == now:
                continue
            known[place] = now
            if before is None and (not self._seen or status.state in _QUIET):
                if status.state in _QUIET:
                    continue
            elif before is not None and {before[0], status.state} <= _QUIET:
                continue
            key = ("resumed", "") if status.state in _QUIET else now
            changed[key].append(place)
            reasons[key] = status.reason
        if len(known) > len(flow.partitions):
            self._states = {place: state for place, state in known.items() if place in flow.partitions}
        self._seen = True
        for (kind, code), places in changed.items():
            count = "" if len(places) == 1 else f"{len(places)} partitions: "
            reason = f": {code}: {reasons[kind, code]}" if code and len(places) == 1 else f": {code}" if code else ""
            self._add(flow.taken_ms, kind, f"{count}{_named([str(place) for place in sorted(places)])}{reason}")

    def _add(self, at_ms: int, kind: str, text: str) -> None:
        self.events.appendleft(FlowEvent(at_ms, kind, text))


def _named(names: Sequence[str]) -> str:
    rest = len(names) - NAMED_MAX
    return ", ".join(names[:NAMED_MAX]) + (f" and {rest} more" if rest > 0 else "")


def merged(*parts: Iterable[FlowEvent], limit: int) -> list[FlowEvent]:
    """The newest of all, the newest first."""
    return sorted((event for part in parts for event in part), key=lambda event: -event.at_ms)[:limit]
