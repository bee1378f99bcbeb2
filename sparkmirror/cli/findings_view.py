"""Findings as text and as JSON: causes worst first, each with its rows, what to do and the command."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from sparkmirror.cli.styled_lines import INDENT, LABELS, STYLES, Line
from sparkmirror.cli.text import amount, duration, printable
from sparkmirror.diagnose import RULES, Fact, Finding, FlowReport, OpenQuestion, Report, Severity
from sparkmirror.state.facts import Facts

SCHEMA = 1  # of the JSON; raised when a field is removed or changes its meaning, not when a field is added
ROWS_MAX = 4  # of one cause; all are in the JSON
NAMES_MAX = 4  # of partitions that a row names
GROUP_ROWS_MAX = 20  # of a failover's groups, each of which somebody must place
_STATES = {
    "running": "running", "released": "stopped in order", "dead": "dead", "silent": "no heartbeat", "never": "never run",
    "unknown": "not known who runs it",
}  # fmt: skip
_PROGRAMS = {"sparkmirror": "sparkmirror", "mm2": "MirrorMaker 2", "": ""}


# --- text ------------------------------------------------------------------------------------------------------


def report_lines(report: Report, *, facts_of: str = "") -> Iterator[Line]:
    """The whole report; findings of the id `facts_of` with all their evidence."""
    for warning in report.warnings:
        yield [("warning: ", "yellow"), (printable(warning), "")]
    for flow in report.flows:
        yield from _flow_lines(flow)
    for cause in _causes(report.findings):
        yield [("", "")]
        yield from _cause_lines(cause, is_whole=bool(facts_of), names_flow=len(report.flows) > 1)
    yield from _open_lines(report.opens)
    yield [("", "")]
    yield _sum_line(report)


def _flow_lines(report: FlowReport) -> Iterator[Line]:
    facts, runner = report.facts, report.facts.runner
    program = _PROGRAMS[runner.program]
    version = ".".join(map(str, facts.mm2_version)) if runner.program == "mm2" else ""
    who = " ".join(word for word in (program, version) if word)
    state = _STATES[runner.state] if runner.program or runner.state != "never" else "nobody has run it"
    style = "green" if runner.is_running else "yellow"
    if runner.is_running and facts.stopped:
        state = f"degraded: {amount(len(facts.stopped))} of {amount(len(facts.copies))} partitions stopped"
    if report.outage or state.startswith("degraded"):
        style = "bold red"
    head = f"  {who} " if who else "  "
    yield [(printable(facts.name), "bold"), (head, ""), (report.outage or state, style), (f"  lag {_lag(facts)}", "")]
    words = [_copied(facts), _groups(report)]
    for side, cluster in (("source", facts.source), ("target", facts.target)):
        brokers = len(cluster.view.brokers) if cluster.view is not None else 0
        release = ", ".join(sorted(set(cluster.versions.values())))
        known = f"{brokers} brokers of Kafka {release}" if brokers != 1 else f"one broker of Kafka {release}"
        outage = next((out for name, out in facts.outages.items() if name == side), None)
        words.append(f"{cluster.alias} {known}" if outage is None else outage.words.removeprefix("cluster "))
    yield [(printable("  " + "; ".join(word for word in words if word)), "dim")]


def _lag(facts: Facts) -> str:
    if facts.lag is not None:
        age = "" if not facts.lag else f", oldest {'?' if facts.lag_seconds is None else duration(facts.lag_seconds)}"
        return amount(facts.lag) + age
    if facts.last_lag is not None:
        return f"? ({amount(facts.last_lag[0])} at {clock(facts.last_lag[1])})"
    return f"? (at least {amount(facts.known_lag)})" if facts.known_lag else "?"


def _copied(facts: Facts) -> str:
    if facts.are_topics_unknown:
        return "topics unknown"
    topics = sum(decision.replicated for decision in facts.decisions)
    source = f" that {facts.target.alias} remembers" if "source" in facts.outages else ""
    return f"{amount(topics)} topics, {amount(len(facts.copies))} partitions{source}"


def _groups(report: FlowReport) -> str:
    facts = report.facts
    if not facts.groups:
        return "groups unknown" if report.are_groups_unknown else ""
    proven = ", ".join(f"{count} {verdict}" for verdict, count in reversed(report.group_counts().items()))
    where = f" that {facts.target.alias} remembers" if report.are_groups_unknown else ""
    return f"{amount(len(facts.groups))} groups{where}" + (f" ({proven})" if proven else "")


def _causes(findings: Sequence[Finding]) -> list[list[Finding]]:
    """Findings grouped by cause, in the order of each group's first finding."""
    found: dict[tuple[object, ...], list[Finding]] = {}
    for finding in findings:
        key = (finding.flow, finding.id, finding.severity, finding.certainty, finding.cause)
        found.setdefault(key, []).append(finding)
    return list(found.values())


def _cause_lines(cause: Sequence[Finding], *, is_whole: bool, names_flow: bool) -> Iterator[Line]:
    first = cause[0]
    head: Line = [
        (f"{LABELS[first.severity]:<8} ", STYLES[first.severity]),
        (f"{first.id} ", "bold"),
        (printable(first.cause), "bold"),
        (f"  {first.certainty.value}", "dim"),
    ]
    if names_flow:
        head.append((f"  {printable(first.flow)}", "dim"))
    if len(cause) > 1:
        head.append((f"  {amount(len(cause))} times", "dim"))
    yield head
    rows_max = GROUP_ROWS_MAX if first.id == "C27" else ROWS_MAX
    rows = [[finding] for finding in cause] if is_whole else merge_same(cause)
    shown = [finding for row in (rows if is_whole else rows[:rows_max]) for finding in row]
    for row in rows if is_whole else rows[:rows_max]:
        yield [(f"{INDENT}{printable(merged_message(row))}", "")]
        if is_whole:
            yield from fact_lines(row[0].facts)
    if len(cause) > len(shown):
        yield [(f"{INDENT}and {amount(len(cause) - len(shown))} more (--json has all)", "dim")]
    if first.mend:
        yield [(f"{INDENT}→ {printable(first.mend)}", "")]
    for command in dict.fromkeys(finding.command for finding in shown if finding.command):
        yield [(f"{INDENT}  $ {printable(command)}" if command.startswith(("sparkmirror", "kafka-")) else
                f"{INDENT}  {printable(command)}", "cyan")]  # fmt: skip


def merge_same(findings: Sequence[Finding]) -> list[list[Finding]]:
    """Findings that say the same of different partitions, together."""
    found: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        found.setdefault((finding.id, _said(finding)), []).append(finding)
    return list(found.values())


def merged_message(findings: Sequence[Finding]) -> str:
    """`orders-0, orders-1, orders-2 and 4 more waiting: …`."""
    first = findings[0]
    if len(findings) == 1:
        return first.message
    names = [f"{finding.subject.topic}-{finding.subject.partition}" for finding in findings[:NAMES_MAX]]
    rest = len(findings) - len(names)
    return f"{', '.join(names)}{f' and {amount(rest)} more' if rest else ''} {_said(first)}"


def _said(finding: Finding) -> str:
    """What is said of a partition, without its name."""
    subject, text = finding.subject, finding.message
    return text if subject.partition is None else text.removeprefix(f"{subject.topic}-{subject.partition} ")


def fact_lines(facts: Sequence[Fact]) -> Iterator[Line]:
    """The evidence of a finding, with the time it was read."""
    for fact in facts:
        when = "" if fact.time_ms is None else f"  {clock(fact.time_ms)}"
        value = f": {fact.value}" if fact.value else ""
        yield [(f"{INDENT}  {printable(fact.name)}{printable(value)}{when}", "dim")]


def clock(time_ms: int) -> str:
    """A time of the day, UTC; with the date if it is not of the last day."""
    try:
        at = time.gmtime(time_ms / 1000)
    except (OverflowError, ValueError, OSError):
        return f"{time_ms} ms"
    is_near = abs(time.time() - time_ms / 1000) < 43_200
    return time.strftime("%H:%M:%S UTC" if is_near else "%Y-%m-%d %H:%M:%S UTC", at)


def _open_lines(opens: Sequence[OpenQuestion]) -> Iterator[Line]:
    """Checks that could not run, one line for each reason."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for question in opens:
        reasons.setdefault((question.reason.partition(": ")[2] or question.reason, question.needs), []).append(question.id)
    if reasons:
        yield [("", "")]
        yield [("not answered", "bold yellow")]
    for (reason, needs), ids in reasons.items():
        named = ", ".join(dict.fromkeys(name for name in ids if name != "V1"))
        is_named = reason.endswith(f"needs {needs}")  # a broker's refusal already names the permission
        yield [(f"{INDENT}{printable(reason)}" + (f"; needs {printable(needs)}" if needs and not is_named else "")
                + (f"  ({named})" if named else ""), "")]  # fmt: skip


def _sum_line(report: Report) -> Line:
    found = [finding.severity for finding in report.findings]
    counts = [(found.count(severity), word) for severity, word in (
        (Severity.ERROR, "error"), (Severity.WARNING, "warning"), (Severity.INFO, "remark"))]  # fmt: skip
    words = ", ".join(f"{amount(count)} {word}{'' if count == 1 else 's'}" for count, word in counts)
    style = STYLES[Severity.ERROR] if counts[0][0] else STYLES[Severity.WARNING] if counts[1][0] or report.opens else "green"
    rest = f", {amount(len(report.opens))} not answered" if report.opens else ""
    seconds = (report.ended_ms - report.began_ms) / 1000
    return [(words + rest, style), (f"  read {clock(report.began_ms)}, in {seconds:.1f} s", "dim")]


# --- JSON ------------------------------------------------------------------------------------------------------


def report_value(report: Report) -> dict[str, Any]:
    """The report as JSON values."""
    return {
        "schema": SCHEMA,
        "path": report.path,
        "warnings": list(report.warnings),
        "began_ms": report.began_ms,
        "ended_ms": report.ended_ms,
        "status": report.status,
        "flows": [_flow_value(flow) for flow in report.flows],
    }


def _flow_value(report: FlowReport) -> dict[str, Any]:
    facts = report.facts
    clusters = {
        side: {
            "alias": cluster.alias,
            "reached": cluster.view is not None,
            "brokers": len(cluster.view.brokers) if cluster.view is not None else None,
            "releases": sorted(set(cluster.versions.values())),
            "clock_skew_ms": cluster.skew_ms,
        }
        for side, cluster in (("source", facts.source), ("target", facts.target))
    }
    return {
        "flow": facts.name,
        "runner": {"program": facts.runner.program, "state": facts.runner.state, "who": facts.runner.who},
        "mm2_version": ".".join(map(str, facts.mm2_version)),
        "clusters": clusters,
        "outage": report.outage or None,
        "source_seen_ms": facts.source_seen_ms,
        "topics": None if facts.are_topics_unknown else sum(decision.replicated for decision in facts.decisions),
        "partitions": None if facts.are_topics_unknown else len(facts.copies),
        "lag": facts.lag,
        "lag_seconds": facts.lag_seconds,
        "lag_at_least": facts.known_lag,
        "stopped_partitions": len(facts.stopped),
        "last_lag": None if facts.last_lag is None else dict(zip(("records", "time_ms"), facts.last_lag, strict=True)),
        "groups": None if report.are_groups_unknown and not facts.groups else len(facts.groups),
        "groups_by_proof": report.group_counts(),
        "findings": [finding_value(finding) for finding in report.findings],
        "open": [open_value(question) for question in report.opens],
    }


def finding_value(finding: Finding) -> dict[str, Any]:
    """A finding as JSON values, with its rule."""
    rule = RULES[finding.id]
    return {
        "id": finding.id,
        "title": rule.title,
        "severity": finding.severity.letter,
        "certainty": finding.certainty.value,
        "flow": finding.flow,
        "subject": asdict(finding.subject),
        "cause": finding.cause,
        "message": finding.message,
        "facts": [asdict(fact) for fact in finding.facts],
        "rule": rule.decides,
        "mend": finding.mend,
        "command": finding.command,
    }


def open_value(question: OpenQuestion) -> dict[str, Any]:
    """A check that could not run, as JSON values."""
    return {
        "id": question.id,
        "flow": question.flow,
        "subject": asdict(question.subject),
        "reason": question.reason,
        "needs": question.needs,
    }
