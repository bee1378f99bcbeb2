"""The flow's topics as rows, with what is wrong first; partitions and groups of the open one. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparkmirror.model import TopicPartition
from sparkmirror.rest.page.readiness import GroupAtTopic, Readiness
from sparkmirror.rest.page.wanted import PageQuery
from sparkmirror.status import FlowStatus, PartitionStatus, partition_lag, partition_lag_ms

ROWS_OF_PAGE = 50
PARTITIONS_OF_PAGE = 100
FOLDED_FROM = 13  # fewer topics than this are shown, also if nothing is wrong with them
WORST_FIRST = (
    "stopped", "recovering", "waiting", "opening", "paused", "copying", "closed",
)  # fmt: skip
AS_IT_SHOULD_BE = frozenset({"copying", "closed"})


@dataclass(slots=True)
class TopicRow:
    """One topic: the worst of its partitions, and their sums; None where one of them is not known."""

    topic: str
    remote: str
    state: str = ""
    code: str = ""
    reason: str = ""
    partitions: int = 0
    not_copying: int = 0
    lag: int | None = 0
    age_ms: int | None = 0
    records: int = 0
    record_bytes: int = 0
    groups: int | None = None

    def take(self, flow: FlowStatus, status: PartitionStatus) -> None:
        """One more partition."""
        if not self.state or rank(status.state) < rank(self.state):
            self.state, self.code, self.reason = status.state, status.code, status.reason
        self.partitions += 1
        self.not_copying += status.state not in AS_IT_SHOULD_BE
        lag, age = partition_lag(flow, status), partition_lag_ms(flow, status)
        self.lag = None if lag is None or self.lag is None else self.lag + lag
        self.age_ms = None if age is None or self.age_ms is None else max(self.age_ms, age)
        self.records += status.records
        self.record_bytes += status.record_bytes

    @property
    def is_as_it_should_be(self) -> bool:
        """Whether it may be folded: what is not known may not."""
        return self.state in AS_IT_SHOULD_BE and self.lag is not None


def rank(state: str) -> int:
    """0 is the worst; a word that is not known comes behind those that are wrong."""
    return WORST_FIRST.index(state) if state in WORST_FIRST else WORST_FIRST.index("opening")


def topic_rows(flow: FlowStatus) -> dict[str, TopicRow]:
    """Every topic, also a stopped one of which no partition is known."""
    found: dict[str, TopicRow] = {}
    for place, status in flow.partitions.items():
        row = found.get(place.topic)
        if row is None:
            row = found[place.topic] = TopicRow(place.topic, flow.remote(place.topic))
        row.take(flow, status)
    for topic, reason in flow.stopped_topics.items():
        row = found.setdefault(topic, TopicRow(topic, flow.remote(topic), lag=None, age_ms=None))
        row.state, row.code, row.reason = "stopped", "TOPIC", reason
        row.not_copying = row.partitions
    return found


@dataclass(frozen=True, slots=True)
class TopicPage:
    """A page of rows; `folded` rows are as they should be and are not shown."""

    rows: tuple[TopicRow, ...]
    found: int
    folded: int
    total: int
    page: int
    pages: int


def page_of(rows: Sequence[TopicRow], wanted: PageQuery, readiness: Readiness | None) -> TopicPage:
    """What somebody wants to see of all rows."""
    chosen = [row for row in rows if _fits(row, wanted, readiness)]
    kept = chosen
    if not wanted.is_all and not wanted.is_filtered and len(chosen) >= FOLDED_FROM:
        kept = [row for row in chosen if not row.is_as_it_should_be or row.topic == wanted.topic]
    ordered = sorted(kept, key=lambda row: _order(row, wanted))
    pages = max(-(-len(ordered) // ROWS_OF_PAGE), 1)
    page = min(wanted.page, pages)
    shown = ordered[(page - 1) * ROWS_OF_PAGE : page * ROWS_OF_PAGE]
    for row in shown:
        row.groups = None if readiness is None else len(readiness.topics.get(row.topic, ()))
    return TopicPage(tuple(shown), len(ordered), len(chosen) - len(kept), len(rows), page, pages)


def _fits(row: TopicRow, wanted: PageQuery, readiness: Readiness | None) -> bool:
    if wanted.state and row.state != wanted.state:
        return False
    text = wanted.text.lower()
    if not text or text in row.topic.lower() or text in row.remote.lower():
        return True
    groups = () if readiness is None else readiness.topics.get(row.topic, ())
    return any(text in group.lower() for group in groups)


def _order(row: TopicRow, wanted: PageQuery) -> tuple[object, ...]:
    lag = row.lag is not None, -(row.lag or 0)  # what is not known comes first
    match wanted.sort:
        case "name":
            return (row.topic,)
        case "lag":
            return *lag, row.topic
        case "age":
            return row.age_ms is not None, -(row.age_ms or 0), row.topic
    return rank(row.state), *lag, row.topic


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """One partition of the open topic."""

    partition: int
    state: str
    code: str
    reason: str
    slot: int | None
    next_upstream: int | None
    source_end: int | None
    lag: int | None
    age_ms: int | None
    records: int
    gap_offsets: int


@dataclass(frozen=True, slots=True)
class OpenTopic:
    """The row that is open: a page of its partitions, the worst first, and its groups; None: they are not known yet."""

    topic: str
    remote: str
    partitions: tuple[PartitionRow, ...]
    page: int
    pages: int
    groups: tuple[GroupAtTopic, ...] | None


def open_topic(flow: FlowStatus, wanted: PageQuery, readiness: Readiness | None) -> OpenTopic | None:
    """The topic that the URL names; None if the flow does not have it."""
    own = [status for place, status in flow.partitions.items() if place.topic == wanted.topic]
    if not own and wanted.topic not in flow.stopped_topics:
        return None
    own.sort(key=lambda status: (status.state in AS_IT_SHOULD_BE, rank(status.state), status.partition))
    pages = max(-(-len(own) // PARTITIONS_OF_PAGE), 1)
    page = min(wanted.part, pages)
    shown = own[(page - 1) * PARTITIONS_OF_PAGE : page * PARTITIONS_OF_PAGE]
    groups = None
    if readiness is not None:
        found = readiness.topics.get(wanted.topic, {}).values()
        groups = tuple(sorted(found, key=lambda group: (-group.severity, -(group.lag or 0), group.group)))
    return OpenTopic(
        wanted.topic, flow.remote(wanted.topic), tuple(_partition(flow, status) for status in shown), page, pages, groups
    )


def _partition(flow: FlowStatus, status: PartitionStatus) -> PartitionRow:
    return PartitionRow(
        partition=status.partition.partition,
        state=status.state,
        code=status.code,
        reason=status.reason,
        slot=status.slot,
        next_upstream=status.next_upstream if status.next_upstream >= 0 else None,
        source_end=status.source_end if status.source_end >= 0 else None,
        lag=partition_lag(flow, status),
        age_ms=partition_lag_ms(flow, status),
        records=status.records,
        gap_offsets=status.gap_offsets,
    )


def place_of(topic: str, partition: int | None) -> str:
    """`orders` or `orders-3`."""
    return topic if partition is None else str(TopicPartition(topic, partition))
