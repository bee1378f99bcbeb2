"""One verification: plans every flow, compares in Spark tasks, and keeps what is equal as it becomes known."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

from sparkmirror.comparison import ComparedRange, Difference, DifferenceKind, Why
from sparkmirror.config import FlowSettings, Settings
from sparkmirror.errors import SparkmirrorError
from sparkmirror.model import TopicPartition
from sparkmirror.session import SparkSlots, SparkWork
from sparkmirror.state import FlowState, now_ms
from sparkmirror.verification.memory import Verified, remember, verified_topic
from sparkmirror.verification.planning import Planner, VerifyScope
from sparkmirror.verification.report import VerifiedFlow, VerifiedPartition, VerifyReport
from sparkmirror.verification.task import KeySearch, RangeOutcome, Work, run_work

POLL_S = 0.1
REMEMBER_S = 10.0  # how much work a kill may cost


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """What is verified, and on which Spark."""

    scope: VerifyScope = field(default_factory=VerifyScope)
    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a verification is: ranges, and the records that they may hold."""

    flow: str
    ranges: int
    ranges_done: int
    records: int
    records_done: int
    seconds: float

    @property
    def seconds_left(self) -> float | None:
        """By the pace so far; None while there is none."""
        if not self.records_done:
            return None
        return self.seconds * (self.records - self.records_done) / self.records_done


def slots_of(master: str) -> int:
    """How many ranges are read at once: one for each core of this machine, or as many as `local[N]` says."""
    words = master.removeprefix("local[").rstrip("]").partition(",")[0]
    return int(words) if master.startswith("local[") and words.isdigit() else os.cpu_count() or 1


def verify(
    settings: Settings,
    flows: Sequence[FlowSettings],
    options: VerifyOptions,
    show: Callable[[Progress], None],
    is_stopped: Callable[[], bool],
) -> VerifyReport:
    """Verifies the flows one after the other. Writes nothing but what it verified; raises only if Spark does not start."""
    report = VerifyReport(settings.path, now_ms())
    spark: SparkSlots | None = None
    try:
        for flow in flows:
            if is_stopped():
                report.is_interrupted = True
                break
            planned = _planned(flow, options.scope)
            report.flows.append(planned)
            if not any(partition.plan.ranges for partition in planned.partitions):
                continue
            if spark is None:
                spark = SparkSlots(master=options.master, conf=options.conf, slots=options.scope.slots)
                spark.wait()
            run = _Run(settings, flow, planned, spark, options.scope.slots)
            report.is_interrupted |= not run.go(show, is_stopped)
    finally:
        if spark is not None:
            spark.stop()
    report.ended_ms = now_ms()
    return report


def _planned(flow: FlowSettings, scope: VerifyScope) -> VerifiedFlow:
    """What is to be compared; an error is the report's."""
    report = VerifiedFlow(flow.name)
    try:
        with closing(FlowState(flow)) as state:
            plan = Planner(state, scope).plan()
    except SparkmirrorError as error:
        report.trouble, report.hint = error.message, error.hint
        return report
    report.partitions = [VerifiedPartition(partition) for partition in plan.partitions]
    report.left_out = plan.left_out
    return report


class _Run:
    """The ranges of one flow."""

    def __init__(self, settings: Settings, flow: FlowSettings, report: VerifiedFlow, spark: SparkSlots, slots: int) -> None:
        self._settings, self._flow, self._report, self._spark, self._slots = settings, flow, report, spark, slots
        self._began = time.monotonic()
        self._wrote_at, self._written = self._began, dict[TopicPartition, int]()
        self._done, self._records_done = 0, 0

    def go(self, show: Callable[[Progress], None], is_stopped: Callable[[], bool]) -> bool:
        """Compares all ranges; False if it was stopped before the end. What is equal is kept in any case."""
        partitions = self._report.partitions
        owners = [(partition, one) for partition in partitions for one in partition.plan.ranges]
        total = sum(one.records_max for _, one in owners)
        show(self._progress(len(owners), total))
        is_whole = True
        for number, outcome in self._compute([one for _, one in owners], is_stopped):
            partition, one = owners[number]
            partition.outcomes.append((one, outcome))
            partition.troubles += [f"{one}: {outcome.trouble}"] * bool(outcome.trouble)
            self._done, self._records_done = self._done + 1, self._records_done + one.records_max
            show(self._progress(len(owners), total))
            if time.monotonic() - self._wrote_at > REMEMBER_S:
                self._remember()
        for partition in partitions:
            partition.outcomes.sort(key=lambda found: (found[0].start, found[0].target_start))
        is_whole = self._done == len(owners) and self._settle(is_stopped)
        self._remember()
        return is_whole

    def _progress(self, ranges: int, records: int) -> Progress:
        seconds = time.monotonic() - self._began
        return Progress(str(self._report.name), ranges, self._done, records, self._records_done, seconds)

    def _compute(
        self, wanted: Sequence[ComparedRange | KeySearch], is_stopped: Callable[[], bool]
    ) -> Iterator[tuple[int, RangeOutcome]]:
        """Outcomes as they come, with the number of the item; ends early if it is stopped."""
        settings, name = self._settings, self._flow.name
        items = [Work(number, settings.path, settings.digest, name, one) for number, one in enumerate(wanted)]
        work = SparkWork(
            self._spark, run_work, lambda item, reason: RangeOutcome(item.number, trouble=reason), items, self._slots
        )
        while not work.is_over:
            if is_stopped():
                work.stop()
                return
            found = work.poll(POLL_S)
            if found is not None:
                yield found.number, found

    # --- keys of records that compaction took ---------------------------------------------------------------------

    def _settle(self, is_stopped: Callable[[], bool]) -> bool:
        """Looks whether a later record of the same key explains each record that a compacted target lacks."""
        waiting = [partition for partition in self._report.partitions if _unsettled(partition)]
        searches = [_search(partition) for partition in waiting]
        settled = 0
        for number, outcome in self._compute(searches, is_stopped):
            settled += 1
            partition = waiting[number]
            if outcome.trouble:
                partition.troubles.append(f"{partition.plan.source}: keys were not looked up: {outcome.trouble}")
            else:
                _take(partition, set(outcome.newest))
        return settled == len(searches)

    # --- memory --------------------------------------------------------------------------------------------------

    def _remember(self) -> None:
        """Writes what is equal so far, for partitions of which there is more than before."""
        self._wrote_at, now = time.monotonic(), now_ms()
        found: dict[TopicPartition, Verified] = {}
        for partition in self._report.partitions:
            plan, equal = partition.plan, list(partition.verified())
            if equal and len(equal) != self._written.get(plan.source):
                self._written[plan.source] = len(equal)
                found[plan.source] = Verified(*plan.ids, tuple(plan.known), now).with_ranges(equal, now)
        if not found:
            return
        factor = min(self._flow.offset_storage_replication_factor, 3)
        try:
            with closing(FlowState(self._flow)) as state:
                remember(state.clients["target"], verified_topic(self._flow.name.source), factor, found)
        except SparkmirrorError as error:
            text = f"what was verified could not be kept, so the next run reads it again: {error.message}"
            self._report.partitions[0].troubles.append(text)


def _unsettled(partition: VerifiedPartition) -> list[tuple[int, int, bytes]]:
    return [entry for _, outcome in partition.outcomes for entry in outcome.findings.unsettled]


def _search(partition: VerifiedPartition) -> KeySearch:
    end = max(partition.plan.copied_end, max(one.end for one, _ in partition.outcomes))
    keys = tuple((upstream, digest) for upstream, _, digest in _unsettled(partition))
    return KeySearch(partition.plan.source, end, keys)


def _take(partition: VerifiedPartition, newest: set[int]) -> None:
    """A record that is the newest of its key is missing; compaction explains the others."""
    for _, outcome in partition.outcomes:
        findings = outcome.findings
        for upstream, _, _ in findings.unsettled:
            if upstream in newest:
                detail = "the newest record of its key, so compaction does not explain it"
                findings.differs(Difference(DifferenceKind.MISSING, upstream, None, detail=detail))
            else:
                findings.explain(Why.TARGET_COMPACTED)
        findings.unsettled.clear()


def with_slots(scope: VerifyScope, master: str) -> VerifyScope:
    """The same, for as many slots as the master has."""
    return replace(scope, slots=slots_of(master))
