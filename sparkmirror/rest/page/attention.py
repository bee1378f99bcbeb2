"""What needs attention, worst first: what does not copy, what else cannot be done, and what the doctor found. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sparkmirror.diagnose import Finding, FlowReport, Severity
from sparkmirror.rest.page.tones import tone_of
from sparkmirror.status import FlowStatus, Trouble, flow_state, grouped, is_healthy, troubles
from sparkmirror.status.resuming import Resumption, resumption

ITEMS_MAX = 40
NAMED_MAX = 5
# A reason names the command behind its cause: "… (to accept the gap: sparkmirror offsets skip …)".
_COMMAND = re.compile(r"\(([^()]*?:\s+)?(sparkmirror [^()]+|kafka-[a-z]+(?:\.sh)? [^()]+)\)\s*$")
_SEVERITIES = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "info", Severity.FINE: "info"}


@dataclass(frozen=True, slots=True)
class AttentionItem:
    """One cause: in one word how bad, what it is about, why, and what mends it.

    `topic` and `partition` are what an action on it would be about; `is_live` unless it was read a while ago.
    """

    word: str
    title: str
    reason: str
    where: tuple[str, ...] = ()
    more: int = 0
    code: str = ""
    mend: str = ""
    goal: str = ""  # of the command, in the words of the reason: "to skip it"
    command: str = ""
    topic: str = ""
    partition: int | None = None
    lag: int | None = None
    is_live: bool = True

    @property
    def tone(self) -> str:
        """How it is shown."""
        return tone_of(self.word)


def attention(flow: FlowStatus, report: FlowReport | None, file_words: str) -> list[AttentionItem]:
    """Everything that somebody should look at, and nothing else."""
    findings = [] if report is None else [f for f in report.findings if f.severity >= Severity.WARNING]
    found = [*_of_flow(flow), *_of_troubles(flow, findings, file_words), *_of_chores(flow)]
    known = {item.topic for item in found if item.topic}
    stopped = {trouble.what for trouble in troubles(flow)}
    found += _of_findings(findings, known, stopped)
    ranks = ("bad", "unknown", "warn", "busy", "idle", "good")
    return sorted(found, key=lambda item: (not item.is_live, ranks.index(item.tone)))


def _of_flow(flow: FlowStatus) -> Iterator[AttentionItem]:
    state = flow_state(flow)
    is_partial = state in ("degraded", "stopped") and flow.state == "running"  # the partitions say why
    if not is_healthy(flow) and not is_partial and (flow.reason or flow.state == state):
        reason, goal, command = split_command(flow.reason)
        yield AttentionItem(state, f"the flow is {state}", reason or f"The flow is {state}.", goal=goal, command=command)


def _of_troubles(flow: FlowStatus, findings: Sequence[Finding], file_words: str) -> Iterator[AttentionItem]:
    by_place = {str(finding.subject): finding for finding in findings if not finding.subject.group}
    for group in grouped(troubles(flow)):
        first = group.first
        what = first.what.removeprefix("topic ")
        is_topic = first.what.startswith("topic ")
        topic, partition = (what, None) if is_topic else _split_place(what)
        reason, goal, command = split_command(first.reason)
        finding = by_place.get(what)
        mend = _mends(first)
        if finding is not None:
            mend = finding.mend or mend
            goal, command = ("", finding.command) if finding.command else (goal, command)
        if not command:
            command = f"sparkmirror why {file_words} {topic}"
            if first.state == "stopped":
                place = f" --topic {topic}" + ("" if partition is None else f" --partition {partition}")
                command = f"sparkmirror restart {file_words}{place}"
        names = tuple(trouble.what.removeprefix("topic ") for trouble in group.troubles)
        noun = "topic" if is_topic else "partition"
        count = len(names)
        title = f"{what} is {first.state}" if count == 1 else f"{count} {noun}s are {first.state}"
        lags = [trouble.lag for trouble in group.troubles]
        yield AttentionItem(
            first.state, title, reason, names[:NAMED_MAX] if count > 1 else (), max(count - NAMED_MAX, 0), first.code,
            mend, goal, command, topic if count == 1 or is_topic else "", partition if count == 1 else None,
            None if None in lags else sum(lag or 0 for lag in lags),
        )  # fmt: skip


def _mends(trouble: Trouble) -> str:
    """What ends it, in words."""
    if trouble.state != "stopped":
        return "It goes on by itself once the cause is gone."
    match resumption(trouble.code):
        case Resumption.SETTINGS:
            return "It goes on by itself once the settings of the target topic allow it; a restart tries at once."
        case Resumption.RETRY:
            return "It is tried again by itself from time to time; a restart tries at once."
        case Resumption.FILE:
            return "Change the transforms in the file, then start the flow again."
    return "It waits for a decision: the command goes on, and says before what it changes."


def _of_chores(flow: FlowStatus) -> Iterator[AttentionItem]:
    for chore, trouble in sorted(flow.chores.items()):
        if trouble:
            reason, goal, command = split_command(trouble)
            yield AttentionItem("warning", chore, reason, goal=goal, command=command)


def _of_findings(findings: Iterable[Finding], topics: set[str], places: set[str]) -> Iterator[AttentionItem]:
    """Findings of one cause together; what is shown live already is not shown twice."""
    causes: dict[tuple[object, ...], list[Finding]] = {}
    for finding in findings:
        subject = finding.subject
        is_shown = not subject.group and (str(subject) in places or f"topic {subject}" in places or str(subject) in topics)
        if not is_shown:
            causes.setdefault((finding.id, finding.severity, finding.cause), []).append(finding)
    for same in causes.values():
        first = same[0]
        names = tuple(dict.fromkeys(str(finding.subject) for finding in same))
        yield AttentionItem(
            _SEVERITIES[first.severity], first.cause, first.message, names[:NAMED_MAX], max(len(names) - NAMED_MAX, 0),
            first.id, first.mend, "", first.command, is_live=False,
        )  # fmt: skip


def split_command(reason: str) -> tuple[str, str, str]:
    """A reason without the command that it ends with, what the command is for, and the command."""
    found = _COMMAND.search(reason)
    if found is None:
        return reason, "", ""
    return reason[: found.start()].rstrip(), (found[1] or "").strip().removesuffix(":"), found[2].strip()


def _split_place(what: str) -> tuple[str, int | None]:
    topic, _, number = what.rpartition("-")
    return (topic, int(number)) if topic and number.isascii() and number.isdigit() else (what, None)
