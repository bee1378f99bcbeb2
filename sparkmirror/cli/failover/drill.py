"""sparkmirror drill FILE: rehearse a failover beside production."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from sparkmirror.cli.failover.command import (
    ATTENTION,
    REPORT_HELP,
    WAIT_HELP,
    StepLines,
    print_lines,
    reserved,
    write_report,
)
from sparkmirror.cli.failover.words import as_json, group_words
from sparkmirror.cli.offsets.words import Flow, IsJson
from sparkmirror.cli.run import FILE_HELP
from sparkmirror.cli.text import json_text
from sparkmirror.cli.usage import load
from sparkmirror.config import choose_flow
from sparkmirror.errors import MoveRefused
from sparkmirror.failover import Drill, DrillReport
from sparkmirror.failover.drilling import STEPS
from sparkmirror.topology import require_custom_classes

LAST_HELP = "Compare with the report of an earlier drill."
ROWS_MAX = 20


def drill(
    file: Annotated[str, typer.Argument(help=FILE_HELP, metavar="FILE")],
    flow: Flow = None,
    wait: Annotated[float, typer.Option(help=WAIT_HELP, metavar="SECONDS", min=1.0)] = 120.0,
    report: Annotated[str | None, typer.Option(help=REPORT_HELP, metavar="PATH")] = None,
    last: Annotated[str | None, typer.Option(help=LAST_HELP, metavar="PATH")] = None,
    is_json: IsJson = False,
) -> None:
    """Rehearse a planned failover while everything runs: how long it would take, and what each group would read again.

    Groups are placed under shadow names (sparkmirror-drill.…), read back and removed; nothing else is written.

    Exit status: 0 a failover now would be exact; 2 a cluster did not answer; 3 it would be refused, or not exact;
    4 what the source holds was not copied in time.
    """
    settings = load(file)
    require_custom_classes(settings, None)
    before = _earlier(last)
    with reserved(report) as path:
        done = Drill(settings, choose_flow(settings, flow), wait, StepLines(is_shown=not is_json)).run()
    value = drill_value(done)
    if path is not None:
        write_report(path, value)
    print(json_text(value)) if is_json else print_lines(list(drill_lines(done, before, str(path) if path else "")))
    sys.exit(ATTENTION if done.needs_attention else 0)


def _earlier(name: str | None) -> dict[str, Any] | None:
    if name is None:
        return None
    try:
        found: dict[str, Any] = json.loads(Path(name).read_text())["drill"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        hint = "give --last the file of an earlier --report"
        raise MoveRefused(f"{name} is no report of a drill: {error}", hint=hint) from error
    return found


def drill_lines(done: DrillReport, before: dict[str, Any] | None, path: str) -> Iterator[str]:
    """What was measured, beside the drill before."""
    plan = done.plan
    if plan.obstacles:
        yield f"{plan.flow}: a failover now would be refused"
        yield from (f"  obstacle at {o.step}: {o.text}{f' ({o.hint})' if o.hint else ''}" for o in plan.obstacles)
    else:
        was = "" if before is None else f" (last time {_seconds(before['failover_s'])})"
        yield f"{plan.flow}: a failover now would take {_seconds(done.failover_s)}{was}"
        was = "" if before is None else f" (last time {_count(before['records_again'])})"
        yield f"  its {len(plan.groups):,} groups would read {_count(done.again)} records again{was}"
    for group in plan.groups[:ROWS_MAX]:
        yield f"  group {group.name}: {'; '.join(group_words(plan.source, group))}"
    if len(plan.groups) > ROWS_MAX:
        yield f"  and {len(plan.groups) - ROWS_MAX:,} more groups: --json has all of them"
    yield from (f"  group {group} could not be placed: {reason}" for group, reason in done.refused.items())
    yield from (f"  access: {text}" for text in plan.access[:ROWS_MAX])
    yield from (f"  shadow group left behind: {text}" for text in done.left_behind)
    if path:
        yield f"report: {path}"


def _seconds(value: float | None) -> str:
    return "an unknown time" if value is None else f"{value:.1f} s"


def _count(value: int | None) -> str:
    return "an unknown number of" if value is None else f"{value:,}"


def drill_value(done: DrillReport) -> dict[str, Any]:
    """The same as JSON."""
    return as_json(done.plan, STEPS, None) | {
        "drill": {
            "began_ms": done.began_ms,
            "ended_ms": done.ended_ms,
            "failover_s": done.failover_s,
            "copied_s": done.copied_s,
            "groups_s": done.groups_s,
            "records_again": done.again,
            "placed": done.placed,
            "refused": done.refused,
            "left_behind": list(done.left_behind),
            "needs_attention": done.needs_attention,
        }
    }
