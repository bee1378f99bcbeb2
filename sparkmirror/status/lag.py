"""How far a flow is behind, and as of when that is known. Pure; every view shows it."""

from __future__ import annotations

from dataclasses import dataclass

from sparkmirror.status.flow_status import FlowStatus, PartitionStatus

# In these states the clusters do not say where the source ends or what is proven copied.
_SILENT_STATES = frozenset({"waiting", "unknown"})


@dataclass(frozen=True, slots=True)
class FlowLag:
    """The lag of a flow's partitions together: what is known of it, and of how many partitions it is not known now.

    `known` has the last known lag of those, too. `oldest_ms` is the age of the oldest record not yet copied, of the
    partitions of which that is known.
    """

    known: int = 0
    unknown: int = 0
    oldest_ms: int | None = None
    unknown_ages: int = 0
    as_of_ms: int = -1  # when the source last told its ends
    is_current: bool = False  # else `known` is as of then

    @property
    def records(self) -> int | None:
        """Source offsets not yet proven copied; None if it is not known of every partition now."""
        return self.known if self.is_current and not self.unknown else None

    @property
    def seconds(self) -> float | None:
        """The age of the oldest record not yet copied, 0 if all are; None if it is not known of every partition."""
        return None if self.oldest_ms is None or self.unknown_ages else self.oldest_ms / 1000


def is_current(flow: FlowStatus, status: PartitionStatus) -> bool:
    """Whether what is shown of a partition's lag is so now; else it was so when its end was last seen."""
    if status.state == "closed" or status.is_gone:
        return True  # its end is the one that it was to be copied to
    return flow.state not in _SILENT_STATES and flow.taken_ms - status.end_seen_ms <= flow.fresh_ms


def partition_lag(flow: FlowStatus, status: PartitionStatus) -> int | None:
    """Source offsets not yet proven copied, None if that is not known now."""
    return status.lag if is_current(flow, status) else None


def partition_lag_ms(flow: FlowStatus, status: PartitionStatus) -> int | None:
    """The age of the oldest record not yet copied, 0 if there is none; None if that is not known now.

    It grows with the clock also while the source does not answer: what it held then is not copied.
    """
    lag = status.lag
    if not lag:
        return 0 if lag == 0 and is_current(flow, status) else None
    since = status.ends.oldest_ms(status.next_upstream, status.newest_timestamp, flow.taken_ms)
    return None if since is None else max(flow.taken_ms - since, 1)


def flow_lag(flow: FlowStatus) -> FlowLag:
    """The sum, and the oldest."""
    known = unknown = unknown_ages = 0
    ages: list[int] = []
    for status in flow.partitions.values():
        lag, age = status.lag, partition_lag_ms(flow, status)
        known += lag or 0
        unknown += lag is None or not is_current(flow, status)
        unknown_ages += age is None
        if age is not None:
            ages.append(age)
    hidden = len(flow.stopped_topics.keys() - {p.topic for p in flow.partitions})
    unknown, unknown_ages = unknown + hidden, unknown_ages + hidden
    has_looked = flow.source_seen_ms >= 0 or bool(flow.partitions)
    is_late = flow.source_seen_ms >= 0 and flow.taken_ms - flow.source_seen_ms > flow.fresh_ms
    is_known_now = flow.state not in _SILENT_STATES and not is_late
    return FlowLag(
        known=known,
        unknown=unknown,
        oldest_ms=max(ages, default=None if unknown_ages or not has_looked else 0),
        unknown_ages=unknown_ages,
        as_of_ms=flow.source_seen_ms,
        is_current=has_looked and (is_known_now or (bool(flow.partitions) and not unknown)),
    )
