"""How a flow stands: its state in one word, its partitions counted, its troubles worst first, its rates. Pure."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass

from sparkmirror.errors import SparkmirrorError
from sparkmirror.pipeline import FlowStatus

__all__ = [
    "INTERRUPTED",
    "Meter",
    "Rate",
    "Trouble",
    "counted_states",
    "exit_status",
    "flow_state",
    "stop_lines",
    "troubles",
]

INTERRUPTED = 130  # 128 and the number of SIGINT, as shells say it
STOPPED = 4
RATE_WINDOW_S = 5.0  # receipts come once a second; five of them make a steady number

# Worst first.
_RANKS = {"stopped": 0, "recovering": 1, "waiting": 2, "opening": 3, "copying": 4, "closed": 5}
_TROUBLED = ("stopped", "recovering", "waiting")


@dataclass(frozen=True, slots=True)
class Rate:
    """What was copied a second."""

    records: float = 0.0
    record_bytes: float = 0.0


class Meter:
    """Turns growing sums into rates over the last seconds."""

    def __init__(self, window_s: float = RATE_WINDOW_S) -> None:
        self._window_s = window_s
        self._samples: deque[tuple[float, int, int]] = deque()

    def take(self, now: float, records: int, record_bytes: int) -> Rate:
        """The rate now, with this sample counted. Sums begin anew when a process that stood by gets its flow back."""
        if self._samples and records < self._samples[-1][1]:
            self._samples.clear()
        self._samples.append((now, records, record_bytes))
        # The first sample stays until the second is as old as the window: a rate is never of less than the window.
        while len(self._samples) > 2 and self._samples[1][0] <= now - self._window_s:
            self._samples.popleft()
        since, old_records, old_bytes = self._samples[0]
        seconds = now - since
        if seconds <= 0:
            return Rate()
        return Rate((records - old_records) / seconds, (record_bytes - old_bytes) / seconds)


@dataclass(frozen=True, slots=True)
class Trouble:
    """One partition or topic that does not copy."""

    what: str
    state: str
    code: str
    reason: str
    lag: int


def troubles(flow: FlowStatus) -> list[Trouble]:
    """Everything that does not copy: stopped before recovering before waiting, then the largest lag first."""
    found = [Trouble(f"topic {topic}", "stopped", "TOPIC", reason, 0) for topic, reason in flow.stopped_topics.items()]
    found += [
        Trouble(str(p.partition), p.state, p.code, p.reason, p.lag)
        for p in flow.partitions.values()
        if p.state in _TROUBLED
    ]
    return sorted(found, key=lambda t: (_RANKS[t.state], -t.lag, t.what))


def counted_states(flow: FlowStatus) -> list[tuple[str, int]]:
    """How many partitions are in each state, worst first."""
    counts = Counter(p.state for p in flow.partitions.values())
    return sorted(counts.items(), key=lambda item: (_RANKS.get(item[0], len(_RANKS)), item[0]))


def flow_state(flow: FlowStatus) -> str:
    """The flow's state; one of which no partition copies is never called running."""
    states = {p.state for p in flow.partitions.values()}
    if flow.state != "running" or not states or "copying" in states:
        return flow.state
    if states <= {"closed", "stopped"}:
        return "stopped" if states == {"stopped"} else flow.state
    return min(states - {"closed", "stopped"}, key=lambda state: _RANKS.get(state, len(_RANKS)))


def exit_status(
    flows: Sequence[FlowStatus], failures: Sequence[SparkmirrorError], *, once: bool, interrupted: bool
) -> int:
    """0 unless a flow failed; a run that was to finish also tells that it was cut short or left something out."""
    if failures:
        return failures[0].exit_status
    if not once:
        return 0
    stopped = any(f.stopped_topics or any(p.state == "stopped" for p in f.partitions.values()) for f in flows)
    unfinished = any(p.lag > 0 and p.state != "stopped" for f in flows for p in f.partitions.values())
    if interrupted and (unfinished or not any(f.partitions for f in flows)):
        return INTERRUPTED
    return STOPPED if stopped else 0


def stop_lines(flows: Sequence[FlowStatus], lines_max: int) -> list[str]:
    """One line for each thing that stopped, at most so many."""
    found = [
        f"{flow.name} {trouble.what} stopped: {trouble.code}: {trouble.reason}"
        for flow in flows
        for trouble in troubles(flow)
        if trouble.state == "stopped"
    ]
    rest = len(found) - lines_max
    return found if rest <= 0 else [*found[:lines_max], f"and {rest} more stopped"]
