"""A plan as values: what a run would do with each topic, and what it would stop or wait at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sparkmirror.diagnose.exit_status import status_of
from sparkmirror.diagnose.findings import Severity
from sparkmirror.state import OwnerStatus

# What a run does about a finding: it does not start the flow, stops a topic or partition, waits; may stop later; or does
# not do something else than copying.
REFUSES, STOPS, WAITS, RISKS, OMITS = "refuses", "stops", "waits", "risks", "omits"
_SEVERITIES = dict.fromkeys((REFUSES, STOPS, WAITS), Severity.ERROR) | dict.fromkeys((RISKS, OMITS), Severity.WARNING)


@dataclass(frozen=True, slots=True)
class AcceptedGap:
    """Upstream offsets that were given up, the last one included, why and when."""

    first: int
    last: int
    reason: str
    time_ms: int


@dataclass(frozen=True, slots=True)
class PlanFinding:
    """What a run would stop or wait at, with the code, the message and the hint that the run itself would show.

    No topic: the whole flow; no partition: the whole topic.
    """

    effect: str  # "refuses", "stops", "waits", "risks" or "omits"
    code: str
    message: str
    hint: str = ""
    topic: str = ""
    partition: int | None = None

    @property
    def severity(self) -> Severity:
        """An error unless the run may go on without it."""
        return _SEVERITIES[self.effect]

    def __str__(self) -> str:
        return f"{self.code}: {self.message}" + (f" ({self.hint})" if self.hint else "")


@dataclass(frozen=True, slots=True)
class PartitionStart:
    """Where copying one partition would start (next upstream offset), on whose word, and how much is behind that.

    What the source holds is known as of now, or as of `as_of_ms` where only the ledger tells.
    """

    partition: int
    next_upstream_offset: int | None
    basis: str  # "ledger", "ledger, to be recovered", "mm2", "earliest", "latest", "unknown"
    behind: int | None
    gaps: tuple[AcceptedGap, ...] = ()
    as_of_ms: int | None = None


@dataclass(frozen=True, slots=True)
class PlannedTopic:
    """One source topic: whether it is copied and why, and what a run would do for it."""

    topic: str
    replicated: bool
    reason: str
    remote: str
    action: str  # "create", "extend", "nothing", "stop", "unknown"; empty if not replicated
    action_reason: str
    partitions: int
    found_partitions: int | None
    replication_factor: int | None  # only for a topic to be created; -1 is the target's default
    configs: Mapping[str, str]
    starts: tuple[PartitionStart, ...]
    transforms: tuple[str, ...] = ()  # by name, in their order; with any it is copied as records


@dataclass(frozen=True, slots=True)
class PlannedInternalTopic:
    """A topic that the mirror keeps its own records in."""

    name: str
    cluster: str
    exists: bool | None
    partitions: int
    replication_factor: int
    key: str = ""  # that sets the replication factor


@dataclass(frozen=True, slots=True)
class FlowPlan:
    """One flow as a run would find it."""

    source: str
    target: str
    unreachable: tuple[str, ...]
    ledger_found: bool | None
    owner: OwnerStatus
    mm2_positions: int | None
    internal_topics: tuple[PlannedInternalTopic, ...]
    topics: tuple[PlannedTopic, ...]
    findings: tuple[PlanFinding, ...] = ()

    def findings_of(self, topic: str) -> tuple[PlanFinding, ...]:
        """What concerns one topic alone; an empty name: the whole flow."""
        return tuple(found for found in self.findings if found.topic == topic)


@dataclass(frozen=True, slots=True)
class Plan:
    """Every enabled flow of one file."""

    path: str
    warnings: tuple[str, ...]
    flows: tuple[FlowPlan, ...]

    @property
    def is_complete(self) -> bool:
        """Whether every cluster could be read."""
        return not any(flow.unreachable for flow in self.flows)

    @property
    def status(self) -> int:
        """By the worst finding, and by whether every cluster could be read."""
        worst = max((found.severity for flow in self.flows for found in flow.findings), default=Severity.FINE)
        return status_of(worst, is_complete=self.is_complete)
