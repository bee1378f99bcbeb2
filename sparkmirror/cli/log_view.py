"""A run as log lines: a summary per flow every few seconds, a line for every change, a repeated note once a minute."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from sparkmirror.cli.lag_text import lag_fields
from sparkmirror.cli.run_status import NAMES_MAX, Meter, Rate
from sparkmirror.cli.text import printable
from sparkmirror.model import FlowName
from sparkmirror.status import (
    FlowNotes,
    FlowStatus,
    PartitionStatus,
    ReloadResult,
    TroubleGroup,
    counted_states,
    flow_lag,
    flow_state,
    grouped,
    troubles,
)

SUMMARY_S = 5.0
REPEAT_S = 60.0  # a repeated note is logged at most this often
LEFT_OUT = ""  # the key for the count of dropped notes
TROUBLES_MAX = 50  # trouble lines per update: an unreachable cluster stops thousands of partitions

_LEVELS = {"stopped": "ERROR", "recovering": "WARN", "waiting": "WARN"}  # of a partition
_SUMMARY_LEVELS = _LEVELS | {"degraded": "WARN"}
# Of a flow: recovering and stopping are normal states.
_FLOW_LEVELS = {"failed": "ERROR", "failed over": "WARN", "waiting": "WARN", "unknown": "WARN"}


class LogFormat(StrEnum):
    """How a run is shown."""

    AUTO = "auto"
    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """Levels of log lines, from the lowest on."""

    INFO = "info"
    WARN = "warn"
    ERROR = "error"

    @property
    def rank(self) -> int:
        """A higher one is worse."""
        return list(LogLevel).index(self)


@dataclass(frozen=True, slots=True)
class Line:
    """One log message and its level."""

    level: str
    text: str


def summary(flow: FlowStatus, rate: Rate) -> Line:
    """A one-line summary of a flow."""
    state = flow_state(flow)
    counts = " ".join(f"{name}={count}" for name, count in counted_states(flow))
    text = (
        f"{state} records={flow.records} bytes={flow.record_bytes} records/s={rate.records:.0f} "
        f"MB/s={rate.record_bytes / 1e6:.1f} {lag_fields(flow_lag(flow))} partitions={len(flow.partitions)}"
    )
    if flow.waits_for_spark:
        text += f" slots={flow.slots_started}/{flow.slots}"
    if flow.gaps:
        text += f" gaps={flow.gaps}"
    if flow.stopped_topics:
        text += f" stopped_topics={len(flow.stopped_topics)}"
    # A state that differs from the flow's own state is the state of all its partitions.
    level = (_FLOW_LEVELS if state == flow.state else _SUMMARY_LEVELS).get(state, "INFO")
    return Line(level, f"{text} {counts}".rstrip())


def changes(before: FlowStatus | None, now: FlowStatus) -> list[Line]:
    """The lines about what changed in a flow between two updates."""
    old = before if before is not None else FlowStatus(now.name, state="")
    lines = []
    if (old.state, old.reason) != (now.state, now.reason):
        text = f"{now.state}: {now.reason}" if now.reason else now.state
        lines.append(Line(_FLOW_LEVELS.get(now.state, "INFO"), text))
    lines += chore_lines(old.chores, now.chores)
    lines += reload_lines(old.settings, now.settings)
    known = {(t.what, t.state, t.code, t.reason) for t in troubles(old)}
    fresh = grouped(t for t in troubles(now) if (t.what, t.state, t.code, t.reason) not in known)
    lines += [_trouble_line(group) for group in fresh[:TROUBLES_MAX]]
    rest = sum(len(group.troubles) for group in fresh[TROUBLES_MAX:])
    if rest:
        lines.append(Line("WARN", f"and {rest} more that do not copy"))
    return lines + _quiet_changes(old, now)


def chore_lines(old: Mapping[str, str], now: Mapping[str, str]) -> list[Line]:
    """Lines about chores that started to fail or that work again."""
    lines = []
    for chore, trouble in now.items():
        before = old.get(chore, "")
        if trouble and trouble != before:
            lines.append(Line("WARN", f"{chore}: {trouble}"))
        elif before and not trouble:
            lines.append(Line("INFO", f"{chore}: works again"))
    return lines


def reload_lines(old: ReloadResult, now: ReloadResult) -> list[Line]:
    """Lines about what was taken of a file that changed, and what was not."""
    lines = []
    if now.taken and (now.applied_ms, now.taken) != (old.applied_ms, old.taken):
        lines.append(Line("INFO", f"configuration file: {now.news}"))
    if now.trouble and now.trouble != old.trouble:
        lines.append(Line("WARN", f"configuration file: {now.trouble}"))
    elif old.trouble and not now.trouble:
        lines.append(Line("INFO", "configuration file: the flow runs with what it says"))
    return lines


def _trouble_line(group: TroubleGroup) -> Line:
    trouble = group.first
    words = f"{group.names(NAMES_MAX)} {trouble.state} {trouble.code}".rstrip()
    return Line(_LEVELS[trouble.state], f"{words}: {trouble.reason}" if trouble.reason else words)


def _quiet_changes(old: FlowStatus, now: FlowStatus) -> list[Line]:
    """One line for each normal state that partitions changed to."""
    moved: dict[str, list[PartitionStatus]] = {}
    for partition, status in now.partitions.items():
        seen = old.partitions.get(partition)
        if status.state not in _LEVELS and (seen is None or seen.state != status.state):
            moved.setdefault(status.state, []).append(status)
    lines = []
    for state, found in sorted(moved.items(), key=lambda item: min(status.partition for status in item[1])):
        found.sort(key=lambda status: status.partition)
        names = ", ".join(str(status.partition) for status in found[:NAMES_MAX])
        rest = f" and {len(found) - NAMES_MAX} more" if len(found) > NAMES_MAX else ""
        lines.append(Line("INFO", f"{names}{rest} {state}"))
    return lines


class NoteLog:
    """Selects the notes of one flow to log: new notes, and repeated ones at most once in `REPEAT_S`."""

    def __init__(self) -> None:
        self._logged: dict[str, tuple[int, float]] = {}  # the number of the logged note, and when it was logged

    def lines(self, notes: FlowNotes, now: float) -> list[Line]:
        """The lines to log now, which count as logged."""
        numbered = notes.numbered() | ({LEFT_OUT: notes.left_out} if notes.left_out else {})
        self._logged = {note: seen for note, seen in self._logged.items() if note in numbered or now < seen[1] + REPEAT_S}
        due = [note for note, number in numbered.items() if self._is_due(note, number, now)]
        self._logged |= {note: (numbered[note], now) for note in due}
        return [Line("WARN", f"{notes.left_out} older notes were dropped" if note == LEFT_OUT else note) for note in due]

    def _is_due(self, note: str, number: int, now: float) -> bool:
        logged, when = self._logged.get(note, (0, -math.inf))
        return number > logged and now >= when + REPEAT_S


class LogView:
    """Writes lines of time, program, level, flow and message, from `level` on, which may be changed at any time."""

    def __init__(
        self, write: Callable[[str], None], *, as_json: bool = False, level: LogLevel = LogLevel.INFO
    ) -> None:
        self.level = level
        self.allows: Callable[[str, str], bool] | None = None  # decides by level and flow, if something else does
        self._write, self._as_json = write, as_json
        self._seen: dict[FlowName, FlowStatus] = {}
        self._notes: dict[FlowName, NoteLog] = {}
        self._meters: dict[FlowName, Meter] = {}
        self._due: dict[FlowName, float] = {}

    def __enter__(self) -> LogView:
        return self

    def __exit__(self, *_: object) -> None:
        """Does nothing: there is nothing to release."""

    def say(self, level: str, about: str, text: str) -> None:
        """Writes one line, unless its level is too low."""
        is_low = LogLevel[level].rank < self.level.rank
        if is_low if self.allows is None else not self.allows(level, about):
            return
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        if self._as_json:
            flow = None if about == "-" else about
            fields = {"timestamp": now, "program": "sparkmirror", "level": level, "flow": flow, "message": text}
            self._write(json.dumps(fields))
            return
        self._write(printable(f"{now} sparkmirror {level} {about} {text}"))

    def show(self, flows: Sequence[FlowStatus], now: float) -> None:
        """Logs what changed since the last update, and the summary of each flow when it is due."""
        for flow in flows:
            notes = self._notes.setdefault(flow.name, NoteLog()).lines(flow.notes, now)
            for line in (*changes(self._seen.get(flow.name), flow), *notes):
                self.say(line.level, str(flow.name), line.text)
            self._seen[flow.name] = flow
            rate = self._meters.setdefault(flow.name, Meter()).take(now, flow.records, flow.record_bytes)
            if now >= self._due.setdefault(flow.name, now + SUMMARY_S):
                self._due[flow.name] = now + SUMMARY_S
                self._log_summary(flow, rate)

    def end(self, flows: Sequence[FlowStatus]) -> None:
        """Logs the final summary of each flow."""
        for flow in flows:
            rate = self._meters.setdefault(flow.name, Meter()).take(time.monotonic(), flow.records, flow.record_bytes)
            self._log_summary(flow, rate)

    def _log_summary(self, flow: FlowStatus, rate: Rate) -> None:
        line = summary(flow, rate)
        self.say(line.level, str(flow.name), line.text)
