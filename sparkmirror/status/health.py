"""How a flow stands: its state in one word, its partitions counted, its troubles worst first. Pure; all views show it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from sparkmirror.ledger import SOURCE, flow_wish
from sparkmirror.status.flow_status import FlowStatus
from sparkmirror.status.lag import partition_lag
from sparkmirror.status.state_code import StateCode

# Worst first.
_RANKS = {"stopped": 0, "recovering": 1, "waiting": 2, "opening": 3, "copying": 4, "paused": 5, "closed": 6}
_TROUBLED = ("stopped", "recovering", "waiting")
# A flow in one of these states is as it should be, or about to be.
_HEALTHY = frozenset({"running", "standby", "starting", "taking ownership", "recovering", "opening", "stopping", "paused"})
_NUMBERS = re.compile(r"\d[\d,.]*")


@dataclass(frozen=True, slots=True)
class Trouble:
    """One partition or topic that does not copy."""

    what: str
    state: str
    code: str
    reason: str
    lag: int | None

    @property
    def kind(self) -> tuple[str, str, str]:
        """The same for troubles of one reason, whose texts differ in the partition and in numbers."""
        return self.state, self.code, _NUMBERS.sub("#", self.reason.replace(self.what, ""))


@dataclass(frozen=True, slots=True)
class TroubleGroup:
    """Troubles of one reason."""

    troubles: tuple[Trouble, ...]

    @property
    def first(self) -> Trouble:
        """The one whose reason is shown."""
        return self.troubles[0]

    def names(self, count: int) -> str:
        """The first of them, and how many more there are."""
        rest = len(self.troubles) - count
        named = ", ".join(trouble.what for trouble in self.troubles[:count])
        return f"{named} and {rest} more" if rest > 0 else named


def grouped(troubles: Iterable[Trouble]) -> list[TroubleGroup]:
    """Troubles of the same reason together, in the order of the first of each."""
    found: dict[tuple[str, str, str], list[Trouble]] = {}
    for trouble in troubles:
        found.setdefault(trouble.kind, []).append(trouble)
    return [TroubleGroup(tuple(group)) for group in found.values()]


def troubles(flow: FlowStatus) -> list[Trouble]:
    """Everything that does not copy: stopped before recovering before waiting, then the largest lag first."""
    lags = _topic_lags(flow) if flow.stopped_topics else {}
    found = [
        Trouble(f"topic {topic}", "stopped", StateCode.TOPIC, reason, lags.get(topic))
        for topic, reason in flow.stopped_topics.items()
    ]
    found += [
        Trouble(str(p.partition), p.state, p.code, p.reason, partition_lag(flow, p))
        for p in flow.partitions.values()
        if p.state in _TROUBLED and p.code != StateCode.TOPIC
    ]
    return sorted(found, key=lambda t: (_RANKS[t.state], -(t.lag or 0), t.what))


def _topic_lags(flow: FlowStatus) -> dict[str, int | None]:
    """The sum of the partitions' lags, None if one of them is not known."""
    found: dict[str, int | None] = {}
    for status in flow.partitions.values():
        topic, lag = status.partition.topic, partition_lag(flow, status)
        before = found.get(topic, 0)
        found[topic] = None if lag is None or before is None else before + lag
    return found


def counted_states(flow: FlowStatus) -> list[tuple[str, int]]:
    """How many partitions are in each state, worst first."""
    counts = Counter(p.state for p in flow.partitions.values())
    return sorted(counts.items(), key=lambda item: (_RANKS.get(item[0], len(_RANKS)), item[0]))


def stopped_partitions(flow: FlowStatus) -> int:
    """How many partitions are stopped; a stopped topic of whose partitions nothing is known counts as one."""
    stopped = [p.partition for p in flow.partitions.values() if p.state == "stopped"]
    return len(stopped) + len(flow.stopped_topics.keys() - {partition.topic for partition in stopped})


def flow_state(flow: FlowStatus) -> str:
    """The flow's state: degraded if some of it is stopped, and never running if no partition copies.

    Paused if that is why none does: somebody asked for it.
    """
    states = {p.state for p in flow.partitions.values()}
    is_stopped = bool(stopped_partitions(flow))
    if flow.state != "running":
        return flow.state
    if is_stopped and states <= {"stopped"}:
        return "stopped"
    if not states and flow_wish(flow.wishes, SOURCE) is not None:
        return "paused"
    if not states or "copying" in states or states <= {"closed", "stopped"}:
        return "degraded" if is_stopped else "running"
    return min(states - {"closed", "stopped"}, key=lambda state: _RANKS.get(state, len(_RANKS)))


def is_healthy(flow: FlowStatus) -> bool:
    """Whether the flow is as it should be, or about to be: not degraded, stopped, failed or waiting for a cluster."""
    return not stopped_partitions(flow) and (flow.is_given_back or flow_state(flow) in _HEALTHY)
