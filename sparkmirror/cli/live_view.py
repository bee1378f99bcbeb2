"""The live terminal view of a run."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from sparkmirror.cli.lag_text import lag_words
from sparkmirror.cli.log_view import NoteLog, chore_lines, reload_lines
from sparkmirror.cli.run_status import Meter, Rate
from sparkmirror.cli.text import amount, duration, megabytes, printable
from sparkmirror.model import FlowName
from sparkmirror.status import (
    FlowLag,
    FlowStatus,
    TroubleGroup,
    counted_states,
    flow_lag,
    flow_reason,
    flow_state,
    grouped,
    stopped_partitions,
    troubles,
    wish_reasons,
)

REFRESH_S = 0.25
WISHES_MAX = 4
TROUBLES_MAX = 8  # what fits above a prompt; the rest is counted
CATCHING_UP_RECORDS = 1_000  # a smaller lag is only what arrived since the last receipt

_STYLES = {
    "running": "bold green",
    "degraded": "bold yellow",
    "unknown": "bold yellow",
    "opening": "yellow",
    "copying": "green",
    "closed": "cyan",
    "paused": "cyan",
    "stopped": "bold red",
    "failed": "bold red",
    "failed over": "bold yellow",
    "recovering": "yellow",
    "waiting": "yellow",
}


def flow_picture(flow: FlowStatus, rate: Rate) -> RenderableType:
    """One flow, for a terminal of any width."""
    lag = flow_lag(flow)
    parts: list[RenderableType] = [_headline(flow), _numbers(flow, lag, rate)]
    if flow.partitions:
        parts.append(_partitions(flow))
    if flow.settings.trouble:
        parts.append(Text(f"  configuration file: {printable(flow.settings.trouble)}", style="yellow"))
    if lag.is_current and lag.known >= CATCHING_UP_RECORDS:
        parts.append(_progress(flow, lag, rate))
    shown = flow_reason(flow)
    wishes = [reason for reason in wish_reasons(flow) if reason != shown]
    parts += [Text(f"  {printable(reason)}", style="cyan") for reason in wishes[:WISHES_MAX]]
    if wishes[WISHES_MAX:]:
        parts.append(Text(f"  and {amount(len(wishes) - WISHES_MAX)} more that are paused", style="cyan"))
    found = grouped(troubles(flow))
    parts += [_trouble(group) for group in found[:TROUBLES_MAX]]
    rest = sum(len(group.troubles) for group in found[TROUBLES_MAX:])
    if rest:
        parts.append(Text(f"  and {amount(rest)} more that do not copy", style="red"))
    return Group(*parts)


def _headline(flow: FlowStatus) -> Text:
    state = flow_state(flow)
    line = Text(f"{printable(str(flow.name))}  ", style="bold")
    line.append(state, style=_STYLES.get(state, "bold"))
    stopped = stopped_partitions(flow)
    if stopped:
        line.append(f" ({amount(stopped)} stopped)", style="red")
    reason = flow_reason(flow) or flow.waits_for_spark
    if reason:
        line.append(f": {printable(reason)}", style="yellow")
    return line


def _numbers(flow: FlowStatus, lag: FlowLag, rate: Rate) -> Text:
    speed = f"  {amount(rate.records)} records/s  {megabytes(rate.record_bytes)}/s"
    gaps = f"  gaps {amount(flow.gaps)}" if flow.gaps else ""
    line = Text(speed)
    line.append(f"  {lag_words(lag)}", style="" if lag.is_current else "dim")
    line.append(f"  copied {amount(flow.records)} ({megabytes(flow.record_bytes)}){gaps}")
    return line


def _partitions(flow: FlowStatus) -> Text:
    line = Text("  partitions: ")
    for at, (state, count) in enumerate(counted_states(flow)):
        line.append(", " if at else "")
        line.append(f"{amount(count)} {state}", style=_STYLES.get(state, ""))
    return line


def _progress(flow: FlowStatus, lag: FlowLag, rate: Rate) -> RenderableType:
    row = Table.grid(padding=(0, 1), expand=False)
    total = flow.records + lag.known
    left = f"about {duration(lag.known / rate.records)}" if rate.records >= 1 else ""
    words = f"{100 * flow.records // total} % {left}".rstrip()
    row.add_row(Text("  catching up"), ProgressBar(total=total, completed=flow.records, width=30), Text(words))
    return row


def _trouble(group: TroubleGroup) -> Text:
    trouble = group.first
    line = Text("  ")
    line.append(trouble.state, style=_STYLES.get(trouble.state, ""))
    line.append(f"  {printable(group.names(1))}  {trouble.code}  {printable(trouble.reason)}")
    return line


class LiveView:
    """Redraws all flows in place; log lines scroll above them."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=False, redirect_stdout=False)
        self._meters: dict[FlowName, Meter] = {}
        self._notes: dict[FlowName, NoteLog] = {}
        self._seen: dict[FlowName, FlowStatus] = {}
        self._due = 0.0

    def __enter__(self) -> LiveView:
        self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):  # here and below: the terminal is gone, and copying does not need it
            self._live.stop()

    def say(self, level: str, about: str, text: str) -> None:
        """Prints one line above the flows."""
        style = {"WARN": "yellow", "ERROR": "red"}.get(level, "")
        with contextlib.suppress(OSError):
            self._console.print(Text(printable(text if about == "-" else f"{about} {text}"), style=style))

    def show(self, flows: Sequence[FlowStatus], now: float) -> None:
        """Redraws, at most once in `REFRESH_S`."""
        if now >= self._due:
            self._due = now + REFRESH_S
            self._draw(flows, now)

    def end(self, flows: Sequence[FlowStatus]) -> None:
        """Draws the final state, which stays on the terminal."""
        self._draw(flows, time.monotonic())

    def _draw(self, flows: Sequence[FlowStatus], now: float) -> None:
        for flow in flows:
            notes = self._notes.setdefault(flow.name, NoteLog()).lines(flow.notes, now)
            before = self._seen.get(flow.name, FlowStatus(flow.name))
            chores, reloads = chore_lines(before.chores, flow.chores), reload_lines(before.settings, flow.settings)
            for line in (*notes, *chores, *reloads):
                self.say(line.level, str(flow.name), line.text)
            self._seen[flow.name] = flow
        pictures = [
            flow_picture(flow, self._meters.setdefault(flow.name, Meter()).take(now, flow.records, flow.record_bytes))
            for flow in flows
        ]
        with contextlib.suppress(OSError):
            self._live.update(Group(*pictures), refresh=True)
