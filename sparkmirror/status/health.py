"""How a flow stands: its state in one word, its partitions counted, its troubles worst first. Pure; all views show it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from sparkmirror.status.flow_status import FlowStatus

# Worst first.
_RANKS = {"stopped": 0, "recovering": 1, "waiting": 2, "opening": 3, "copying": 4, "closed": 5}
_TROUBLED = ("stopped", "recovering", "waiting")


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
    if flow.state == "running" and not states and flow.stopped_topics:
        return "stopped"
    if flow.state != "running" or not states or "copying" in states:
        return flow.state
    if states <= {"closed", "stopped"}:
        return "stopped" if states == {"stopped"} else flow.state
    return min(states - {"closed", "stopped"}, key=lambda state: _RANKS.get(state, len(_RANKS)))
