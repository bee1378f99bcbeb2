"""How far behind the copy is, and whether it keeps up: C12, D4."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sparkmirror.diagnose.findings import INFO, LIKELY, PROVEN, WARNING, Fact, Rule, Verdicts
from sparkmirror.diagnose.wording import copy_facts, counted, finding, lasting, subject_of
from sparkmirror.model import TopicPartition
from sparkmirror.state.facts import Copy, Facts, Subject, failed_tasks
from sparkmirror.state.parts import Part
from sparkmirror.state.samples import Sample

STALLED_S = 60.0  # a record that waits longer than this without progress is not about to be copied
STORED_INTERVALS = 3  # MirrorMaker 2 stores positions at intervals; what it copied since then seems to wait
BACKLOG_S = 10.0  # of arriving records; a backlog that is smaller comes and goes
LOOK_S_MIN = 1.0


@dataclass(frozen=True, slots=True)
class Pace:
    """One partition between two reads: records a second that arrived on the source and on the target."""

    copy: Copy
    lag: int
    arrived: float
    copied: float

    @property
    def is_growing(self) -> bool:
        """Whether the backlog grows and is more than momentary."""
        return self.arrived > self.copied and self.lag > self.arrived * BACKLOG_S


def paces(facts: Facts, before: Sample) -> Iterator[Pace]:
    """Every partition that both reads cover."""
    seconds = facts.age_s(before.time_ms)
    for copy in facts.copies.values():
        ends, target = copy.source_ends, copy.target_ends
        if ends is None or target is None or copy.lag is None:
            continue
        if copy.partition in before.source_ends and copy.remote in before.target_ends:
            arrived = (ends[1] - before.source_ends[copy.partition]) / seconds
            copied = (target[1] - before.target_ends[copy.remote]) / seconds
            yield Pace(copy, copy.lag, arrived, copied)


def _lag(facts: Facts) -> Verdicts:
    behind = [copy for copy in facts.copies.values() if copy.lag]
    if not behind:
        return
    before = facts.past_before(LOOK_S_MIN)
    known = list(paces(facts, before)) if before is not None else []
    total = sum(copy.lag or 0 for copy in behind)
    arrived, copied = sum(p.arrived for p in known), sum(p.copied for p in known)
    trend = "one read does not show whether it shrinks"
    if known and copied > arrived:
        trend = f"shrinking, done in about {lasting(total / (copied - arrived))}"
    elif known:
        trend = "growing" if arrived > copied else "not moving"
    yield finding(
        facts, "C12", INFO, PROVEN, Subject(),
        cause="records that are not copied yet",
        message=f"{counted(total, 'record')} behind in {counted(len(behind), 'partition')}{_oldest(facts)}; {trend}",
        evidence=_rates(arrived, copied, before),
    )  # fmt: skip
    yield from _stalled(facts, known)


def _rates(arrived: float, copied: float, before: Sample | None) -> tuple[Fact, ...]:
    if before is None:
        return ()
    return (Fact("records a second", f"{arrived:.1f} arrive, {copied:.1f} are copied"), Fact("since", "", before.time_ms))


def _oldest(facts: Facts) -> str:
    return "" if facts.oldest_ms is None else f", the oldest written {lasting(facts.age_s(facts.oldest_ms))} ago"


def _is_explained(facts: Facts, copy: Copy) -> bool:
    """Whether another check says why the partition does not move."""
    if copy.stop is not None or not facts.runner.is_running or facts.wish_on(copy.partition):
        return True
    held = {p for connector, number, _ in failed_tasks(facts) for p in connector.assigned.get(number, ())}
    return copy.partition in held or copy.source_topic_id not in ("", facts.source.topic_id(copy.partition.topic))


def _stalled(facts: Facts, known: Sequence[Pace]) -> Verdicts:
    for pace in known:
        copy, record = pace.copy, facts.reads.next_records.get(pace.copy.partition)
        if not pace.lag or pace.copied or record is None or _is_explained(facts, copy):
            continue
        if facts.age_s(record.timestamp) > max(STALLED_S, STORED_INTERVALS * facts.flow.offset_flush_interval_ms / 1000):
            yield finding(
                facts, "C12", WARNING, LIKELY, subject_of(copy),
                cause="a partition that makes no progress",
                message=f"{copy.partition}: {counted(pace.lag, 'record')} wait, the first since "
                        f"{lasting(facts.age_s(record.timestamp))}, and nothing was copied between two reads",
                evidence=copy_facts(copy, Fact("time of the next record", "", record.timestamp)),
                mend="check the mirror's log for this partition; D11 and D12 say what else was found",
            )  # fmt: skip


# --- D4 --------------------------------------------------------------------------------------------------------


def _too_few_tasks(facts: Facts) -> Verdicts:
    before = facts.past_before(LOOK_S_MIN)
    if before is None or not facts.runner.is_running:
        return
    known = [pace for pace in paces(facts, before) if not _is_explained(facts, pace.copy)]
    growing = [pace for pace in known if pace.is_growing]
    if not growing:
        return
    tasks, count = _tasks(facts), len(facts.copies)
    slow = sum(pace.arrived - pace.copied for pace in growing)
    where = _shares(facts, growing)
    idle = [pace for pace in known if pace.arrived > 0 and not pace.lag]
    kind = "some tasks carry more than they can copy" if idle else "all partitions fall behind"
    advice = (
        f"set tasks.max to {min(count, max(tasks * 2, 2))} (at most one task for each of {count} partitions helps)"
        if tasks < count else "tasks.max is as high as it helps: give the mirror more CPU, bandwidth, or a larger quota"
    )  # fmt: skip
    yield finding(
        facts, "D4", WARNING, LIKELY, Subject(),
        cause=kind,
        message=f"{counted(count, 'partition')} on {counted(tasks, 'task')}: {counted(len(growing), 'partition')} fall "
                f"behind by {slow:,.1f} records a second{where}",
        evidence=(
            *_rates(sum(p.arrived for p in growing), sum(p.copied for p in growing), before),
            Fact("falling behind", ", ".join(f"{p.copy.partition} by {p.lag:,}" for p in growing[:5])),
        ),
        mend=advice,
    )  # fmt: skip


def _tasks(facts: Facts) -> int:
    running = [len(c.tasks) for c in facts.connectors.values() if c.kind == "source"]
    return max([*running, 0] if not facts.is_ours else [0]) or facts.flow.tasks_max or 1


def _shares(facts: Facts, growing: Sequence[Pace]) -> str:
    """Which tasks they belong to, if MirrorMaker 2 says so."""
    owners: dict[TopicPartition, int] = {
        partition: number
        for connector in facts.connectors.values()
        if connector.kind == "source"
        for number, partitions in connector.assigned.items()
        for partition in partitions
    }
    counts = Counter(owners[pace.copy.partition] for pace in growing if pace.copy.partition in owners)
    named = [f"task {number}: {count}" for number, count in sorted(counts.items())]
    return f" ({', '.join(named[:8])})" if len(named) > 1 or (named and len(owners) > len(growing)) else ""


RULES = (
    Rule(
        "C12", "copy lag", "W I",
        means="How many records are not copied yet, how long the oldest has waited, and whether the lag shrinks.",
        decides="Source end minus position; for MirrorMaker 2, whose positions are a minute old, what lies on the target "
                "behind the newest sync counts as copied. Two reads give the trend. Warning: a partition whose next record "
                "waits for more than a minute (and three of the intervals at which positions are stored) and of which "
                "nothing was copied between two reads, without another finding that says why.",
        needs="Describe on the topics, Read on positions or the ledger; for the age, Read on the source topics",
        mend="None while it shrinks.",
        check=_lag, parts=(Part.POSITIONS, Part.SOURCE_ENDS, Part.TARGET_ENDS),
    ),
    Rule(
        "D4", "too few tasks", "W",
        means="Records arrive faster than they are copied. Too many tasks do no harm: no more are started than there are "
              "partitions.",
        decides="Between two reads more arrives than is copied, and the backlog is more than ten seconds of what "
                "arrives. The tasks' shares, from MirrorMaker 2's config topic, separate imbalance from lack of capacity.",
        needs="as C12; Read on `mm2-configs.A.internal` for the shares",
        mend="Raise tasks.max, or give the mirror more CPU, bandwidth or quota.",
        check=_too_few_tasks, parts=(Part.POSITIONS, Part.SOURCE_ENDS, Part.TARGET_ENDS),
    ),
)  # fmt: skip
