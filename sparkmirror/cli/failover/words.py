"""A failover's plan and report as lines and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from sparkmirror.diagnose.wording import moment
from sparkmirror.failover import FailoverPlan, FailoverReport, GroupPlan, GroupPosition

SCHEMA = 1  # of the JSON; raised when a field changes its meaning or goes away, not when one comes
ROWS_MAX = 20
WORDS = {
    "check": "both clusters, the flow and its topics are looked at",
    "producers": "waits until no producer writes on {source} and no transaction is open",
    "copied": "waits until every record is copied",
    "consumers": "waits until no group reads from {source}",
    "stop": "the flow is stopped; nothing copies it again until it is failed back",
    "groups": "writes the exact position of each group on {target}, and reads it back",
    "access": "compares rights and settings that applications need on {target}",
    "record": "the failover is recorded in the flow's ledger",
}
UNPLANNED = {"check": "{target} is looked at, and what it knows of {source}"}


def plan_lines(plan: FailoverPlan, steps: Sequence[str]) -> list[str]:
    """What would be done."""
    lines = [f"{plan.kind} failover of {plan.flow}: {plan.source} to {plan.target}, owner {_owner(plan)}"]
    if plan.recorded is not None:
        lines.append(f"  on record: {plan.recorded.state}, by {plan.recorded.who} at {moment(plan.recorded.time_ms)}")
    lines += _source_lines(plan)
    names = {"source": plan.source, "target": plan.target}
    words = WORDS | (UNPLANNED if plan.kind == "unplanned" else {})
    lines += [f"  {at}. {name}: {words[name].format(**names)}" for at, name in enumerate(steps, 1)]
    lines += _group_lines(plan)
    lines += [f"  access: {text}" for text in plan.access[:ROWS_MAX]]
    lines += [f"  note: {text}" for text in plan.notes[:ROWS_MAX]]
    lines += [f"  obstacle at {o.step}: {o.text}" for o in plan.obstacles]
    lines.append("nothing was changed" + ("" if plan.obstacles else "; --yes carries it out"))
    return lines


def done_lines(report: FailoverReport, path: str) -> list[str]:
    """What was done, and what applications use now."""
    plan = report.plan
    when = moment(report.ended_ms)
    verb = "was failed over before, at" if report.is_repeated else "is failed over at"
    lines = [f"{plan.flow} {verb} {when}" + ("" if report.is_repeated else f", after {_seconds(report)}")]
    lines += _loss_lines(plan)
    lines += _group_lines(plan)
    lines += [f"  group {group}: not placed: {reason}" for group, reason in report.refused.items()]
    lines += [f"  access: {text}" for text in plan.access[:ROWS_MAX]]
    lines.append(f"applications now use {plan.target}: bootstrap.servers={plan.target_bootstrap}")
    lines += [f"  {topic} is {remote}" for topic, remote in list(plan.topics.items())[:ROWS_MAX] if topic != remote]
    if len(plan.topics) > ROWS_MAX:
        lines.append(f"  and {len(plan.topics) - ROWS_MAX:,} more topics: --json has all of them")
    if path:
        lines.append(f"report: {path}")
    lines.append(f"request {report.request_id}")
    return lines


def _seconds(report: FailoverReport) -> str:
    return f"{(report.ended_ms - report.began_ms) / 1000:.1f} s"


def _owner(plan: FailoverPlan) -> str:
    return f"{plan.owner} ({plan.owner_state})" if plan.owner else plan.owner_state


def _source_lines(plan: FailoverPlan) -> Iterator[str]:
    if plan.source_down:
        seen = "" if plan.source_seen_ms is None else f"; the mirror last saw it at {moment(plan.source_seen_ms)}"
        yield f"  {plan.source_down}{seen}"
    yield from _loss_lines(plan)


def _loss_lines(plan: FailoverPlan) -> Iterator[str]:
    """What is not copied: now, or at the last look."""
    missing = [copy for copy in plan.copies if copy.missing]
    unknown = [copy for copy in plan.copies if copy.missing is None]
    if not plan.source_down:
        total = sum(copy.missing or 0 for copy in plan.copies)
        yield f"  {total:,} records are not copied" if total else "  every record is copied"
        return
    for copy in missing[:ROWS_MAX]:
        when = "" if copy.last_seen_ms is None else f" at {moment(copy.last_seen_ms)}"
        yield (
            f"  {copy.partition}: records after offset {(copy.reached or 0) - 1:,} are not on {plan.target}; "
            f"at the last look{when} there were {copy.missing:,}"
        )
    if len(missing) > ROWS_MAX:
        yield f"  and {len(missing) - ROWS_MAX:,} more partitions: --json has all of them"
    if unknown:
        yield f"  of {len(unknown):,} partitions nobody knows where they ended"
    if not missing and not unknown:
        yield "  what the source held at the last look is copied"
    yield "  records that were written later were never seen by the mirror"


def _group_lines(plan: FailoverPlan) -> Iterator[str]:
    for group in plan.groups[:ROWS_MAX]:
        yield f"  group {group.name}: {'; '.join(group_words(plan.source, group))}"
    if len(plan.groups) > ROWS_MAX:
        yield f"  and {len(plan.groups) - ROWS_MAX:,} more groups: --json has all of them"
    if not plan.groups:
        yield "  no group of the flow has a position"


def group_words(cluster: str, group: GroupPlan) -> Iterator[str]:
    """What becomes of a group that comes from this cluster."""
    if group.left_alone:
        yield f"left alone: {group.left_alone}"
        return
    if group.source_state not in ("", "Empty", "Dead", "Unknown"):
        yield f"is {group.source_state} on {cluster}"
    again, positions = group.again, len(group.positions)
    proven = "each proven" if group.is_proven else "not all proven"
    yield f"{positions} position{'s' if positions != 1 else ''}, {proven}"
    yield "reads an unknown number of records again" if again is None else f"reads {again:,} records again"
    old = [p.as_of_ms for p in group.positions if not p.is_current and p.as_of_ms is not None]
    if old:
        yield f"as of {moment(min(old))}, and what it read on {cluster} since"
    yield from _odd(group.positions)


def _odd(positions: Sequence[GroupPosition]) -> Iterator[str]:
    ahead = [p for p in positions if p.action == "ahead"]
    unknown = [p for p in positions if p.action == "unknown"]
    missing = [p for p in positions if p.missing]
    if ahead:
        yield f"its commit in {ahead[0].remote} lies further on and is kept"
    if unknown:
        yield f"no place is known for {unknown[0].origin} at {unknown[0].offset}: {unknown[0].reason}"
    if missing:
        yield f"{sum(p.missing for p in missing):,} offsets from there on were never copied"


def as_json(plan: FailoverPlan, steps: Sequence[str], report: FailoverReport | None) -> dict[str, Any]:
    """The plan, and what became of it."""
    value: dict[str, Any] = {
        "schema": SCHEMA,
        "flow": plan.flow,
        "kind": plan.kind,
        "source": plan.source,
        "target": plan.target,
        "bootstrap_servers": plan.target_bootstrap,
        "owner": {"name": plan.owner, "state": plan.owner_state},
        "source_down": plan.source_down,
        "source_seen_ms": plan.source_seen_ms,
        "topics": plan.topics,
        "partitions": [
            {
                "topic": c.partition.topic, "partition": c.partition.partition, "remote": c.remote.topic,
                "next_upstream_offset": c.reached, "source_end": c.source_end, "last_source_end": c.last_end,
                "last_seen_ms": c.last_seen_ms, "not_copied": c.missing,
            }
            for c in plan.copies
        ],
        "groups": [group_value(group) for group in plan.groups],
        "access": list(plan.access),
        "obstacles": [asdict(obstacle) for obstacle in plan.obstacles],
        "notes": list(plan.notes),
        "steps": list(steps),
        "recorded": None if plan.recorded is None else asdict(plan.recorded),
    }  # fmt: skip
    if report is not None:
        value["done"] = {
            "request_id": report.request_id,
            "began_ms": report.began_ms,
            "ended_ms": report.ended_ms,
            "repeated": report.is_repeated,
            "steps": [{"name": name, "text": words, "ended_ms": ended} for name, words, ended in report.steps],
            "placed": report.placed,
            "refused": report.refused,
            "needs_attention": report.needs_attention,
        }
    return value


def group_value(group: GroupPlan) -> dict[str, Any]:
    """One group as JSON."""
    return {
        "group": group.name,
        "source_state": group.source_state,
        "target_state": group.target_state,
        "left_alone": group.left_alone,
        "records_again": group.again,
        "proven": group.is_proven,
        "positions": [
            {
                "topic": p.origin.topic, "partition": p.origin.partition, "offset": p.offset,
                "remote": None if p.remote is None else p.remote.topic, "remote_offset": p.downstream,
                "committed": p.committed, "action": p.action, "sureness": p.sureness, "records_again": p.again,
                "offsets_missing": p.missing, "as_of_ms": p.as_of_ms, "current": p.is_current, "reason": p.reason,
            }
            for p in group.positions
        ],
    }  # fmt: skip
