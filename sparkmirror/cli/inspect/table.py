"""The report as text: each flow in two lines, then its causes, worst first: what it is, what it means, what to do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TextIO

from rich.console import Console

from sparkmirror.cli.findings_view import clock
from sparkmirror.cli.inspect.actions import action_of
from sparkmirror.cli.styled_lines import INDENT, LABELS, STYLES, Line, print_lines
from sparkmirror.cli.text import amount, duration, printable
from sparkmirror.diagnose.findings import Severity
from sparkmirror.examination import CauseTally, FlowHealth, FlowTally, InspectedFlow, InspectedRow
from sparkmirror.state import Notes

# From best to worst.
RESULTS = (
    "exact", "synced", "behind", "moving", "unproven", "the target's own", "empty", "too old", "not synced", "ahead",
    "beyond end", "unknown",
)  # fmt: skip


class TableForm:
    """Ignores rows, which the tally counts; prints at the end."""

    def __init__(self, out: TextIO, *, includes_ok: bool, path: str) -> None:
        self._console = Console(file=out, highlight=False, soft_wrap=True)
        self._includes_ok, self._path = includes_ok, path
        self._before: dict[str, InspectedFlow] = {}

    def begin(self, path: str) -> None:
        """Clears the terminal for the next sample."""
        if self._before and self._console.is_terminal:
            self._console.clear()

    def row(self, row: InspectedRow) -> None:
        """Does nothing: the tally has the rows."""

    def end(self, reports: list[tuple[InspectedFlow, Notes]], status: int) -> None:
        """Everything."""
        for number, (report, _) in enumerate(reports):
            if number:
                print_lines([[("", "")]], self._console)
            before = self._before.get(report.flow)
            print_lines(flow_lines(report, self._path, includes_ok=self._includes_ok, before=before), self._console)
            self._before[report.flow] = report


def flow_lines(
    report: InspectedFlow, path: str, *, includes_ok: bool = False, before: InspectedFlow | None = None
) -> Iterator[Line]:
    """One flow."""
    yield [(printable(report.flow), "bold"), (f"  {_health(report, before)}", "")]
    tally = report.tally
    if report.health is not None and report.health.outages:
        yield [(f"  {printable(_outages(report.health))}", "bold red")]
    if tally.positions:
        yield [(f"  {amount(tally.positions)} positions: ", ""), *_results(tally)]
        yield from _failover(tally)
    for cause in tally.causes:
        if cause.severity > Severity.FINE or includes_ok:
            yield [("", "")]
            yield from _cause_lines(cause, path, before)
    if not report.is_complete:
        yield [("", "")]
        yield [("not complete: ", "bold yellow"), ("some checks could not run, see the notes", "")]


def _health(report: InspectedFlow, before: InspectedFlow | None) -> str:
    health = report.health
    if report.skipped or health is None:
        return report.skipped
    inspected = f"{_counted(health.groups, 'group')} inspected" if health.groups or not health.outages else "groups unknown"
    words = [_written(health), _lag(health, before), inspected]
    if health.groups_left_out:
        words.append(f"{amount(health.groups_left_out)} without members left out (--include-inactive-groups)")
    return ", ".join(word for word in words if word)


def _outages(health: FlowHealth) -> str:
    seen_ms, which = health.source_seen_ms, "it holds is" if len(health.outages) == 1 else "they hold is"
    seen = "" if seen_ms is None else f"; the mirror last saw the source at {clock(seen_ms)}"
    return f"{', '.join(health.outages)}: what {which} unknown{seen}"


def _written(health: FlowHealth) -> str:
    if health.last_written_ms is None and health.outages:
        return "who runs it is unknown"
    if health.last_written_ms is None:
        return "no mirror has written anything yet"
    ago_s = max(health.read_at_ms - health.last_written_ms, 0) / 1000
    return f"{health.runner or 'by whom is unknown'}, last written {duration(ago_s)} ago"


def _lag(health: FlowHealth, before: InspectedFlow | None) -> str:
    if health.copy_lag is None:
        if not health.outages:
            unknown = _counted(health.unknown_lags, "partition")
            return f"copy lag ? ({unknown} unknown)" if health.unknown_lags else ""
        last, seen_ms = health.last_copy_lag, health.source_seen_ms
        seen = "" if seen_ms is None else f" at {clock(seen_ms)}"
        return "copy lag ?" if last is None else f"copy lag ? ({amount(last)}{seen})"
    words = f"copy lag {amount(health.copy_lag)} in {_counted(health.partitions, 'partition')}"
    if before is None or before.health is None or before.health.copy_lag is None:
        return words
    change = health.copy_lag - before.health.copy_lag
    seconds = (health.read_at_ms - before.health.read_at_ms) / 1000
    trend = f"{change:+,} in {duration(seconds)}"
    if change < 0 and health.copy_lag and seconds > 0:
        trend += f", done in about {duration(health.copy_lag / (-change / seconds))}"
    return f"{words} ({trend})"


def _results(tally: FlowTally) -> Line:
    bad = {"ahead": STYLES[Severity.ERROR], "beyond end": STYLES[Severity.ERROR], "exact": STYLES[Severity.FINE]}
    words: Line = []
    for result in RESULTS:
        if tally.results[result]:
            words += [(", " if words else "", ""), (f"{amount(tally.results[result])} {result}", bad.get(result, ""))]
    return words


def _failover(tally: FlowTally) -> Iterator[Line]:
    """What it would cost to fail over now."""
    parts = []
    if tally.again:
        parts.append(f"reads {_counted(tally.again, 'record')} again in {_counted(tally.groups_again, 'group')}")
    if tally.skipped:
        parts.append(f"skips {_counted(tally.skipped, 'record')} in {_counted(tally.groups_skipping, 'group')}")
    if not parts:
        if tally.results["exact"]:
            unknown = f", as far as is known ({_counted(tally.unknown, 'position')} unproven)" if tally.unknown else ""
            yield [(f"  a failover now reads nothing again and skips nothing{unknown}", "")]
        return
    named = "; ".join(
        f"{printable(cost.group)} {' and '.join(_cost_words(cost.again, cost.skipped))}" for cost in tally.costs
    )
    yield [(f"  a failover now {' and '.join(parts)}", ""), (f": {named}", "dim")]


def _cost_words(again: int, skipped: int) -> list[str]:
    return [f"{amount(count)} {word}" for count, word in ((skipped, "skipped"), (again, "again")) if count]


def _cause_lines(tally: CauseTally, path: str, before: InspectedFlow | None) -> Iterator[Line]:
    cause = tally.cause
    count = f"{_counted(tally.rows, 'row')}, {_counted(tally.groups, 'group')}{_change(tally, before)}"
    label = f"{LABELS[tally.severity]:<{len(INDENT)}}"
    yield [(label, STYLES[tally.severity]), (cause.title, "bold"), (f"  {count}", "")]
    yield [(f"{INDENT}means  ", "dim"), (cause.means, "")]
    action = action_of(tally.examples[0], path)
    if action:
        yield [(f"{INDENT}do     ", "dim"), (printable(action), "green")]
    for number, row in enumerate(tally.examples):
        facts = row.facts
        yield [
            (f"{INDENT}{'rows' if not number else '    '}   ", "dim"),
            (printable(f"{facts.group}  {facts.source}  "), ""),
            (printable(row.finding.detail if row.finding is not None else ""), "dim"),
        ]
    rest = tally.rows - len(tally.examples)
    if rest > 0:
        yield [(f"{INDENT}       and {amount(rest)} more (--format csv-ext --include-ok-groups lists every row)", "dim")]


def _change(tally: CauseTally, before: InspectedFlow | None) -> str:
    """How many rows more or fewer than in the sample before."""
    if before is None:
        return ""
    same = [known.rows for known in before.tally.causes if known.cause is tally.cause and known.severity is tally.severity]
    change = tally.rows - sum(same)
    return f" ({change:+,})" if change else ""


def _counted(count: int, noun: str) -> str:
    return f"{amount(count)} {noun}{'' if count == 1 else 's'}"

