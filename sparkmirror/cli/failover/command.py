"""sparkmirror failover FILE: move the applications of one flow to its target."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from sparkmirror.cli.failover.words import as_json, done_lines, plan_lines
from sparkmirror.cli.offsets.words import DryRun, Flow, IsJson, Yes, asking_of, is_wanted
from sparkmirror.cli.run import FILE_HELP
from sparkmirror.cli.text import json_text, printable
from sparkmirror.cli.usage import load
from sparkmirror.config import choose_flow
from sparkmirror.driver import WAIT_S
from sparkmirror.errors import MoveRefused, SparkmirrorError
from sparkmirror.failover import FailoverOptions, FailoverRun, abandon, look, refuse_obstacles, steps_of
from sparkmirror.topology import require_custom_classes

ATTENTION = 3
UNPLANNED_HELP = "The source is gone: go on from what the target holds, and say what may be lost."
LEAVE_HELP = "Go on although consumers still read the source; they read those records again."
QUIET_HELP = "How long no producer may have written."
WAIT_HELP = "How long a step waits without progress."
REPORT_HELP = "Write the report to this new file, as JSON."


def failover(
    file: Annotated[str, typer.Argument(help=FILE_HELP, metavar="FILE")],
    flow: Flow = None,
    unplanned: Annotated[bool, typer.Option("--unplanned", help=UNPLANNED_HELP)] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    wait: Annotated[float, typer.Option(help=WAIT_HELP, metavar="SECONDS", min=1.0)] = 120.0,
    quiet: Annotated[float, typer.Option(help=QUIET_HELP, metavar="SECONDS", min=0.5)] = 5.0,
    leave_consumers: Annotated[bool, typer.Option("--leave-consumers", help=LEAVE_HELP)] = False,
    grant: Annotated[bool, typer.Option("--grant", help="Grant the source's rights to write on the target.")] = False,
    report: Annotated[str | None, typer.Option(help=REPORT_HELP, metavar="PATH")] = None,
    is_abandon: Annotated[bool, typer.Option("--abandon", help="Take a failover back; the flow may run again.")] = False,
    is_json: IsJson = False,
) -> None:
    """Move the applications of a flow to its target: nothing lost, nothing read again, or exactly how much.

    Without --yes only the plan is shown. Each step looks at the clusters again, so the command can be killed at any time and
    repeated, on another machine too. Afterwards nothing copies the flow until it is failed back or abandoned.

    Exit status: 0 done, or the plan has no obstacle; 2 refused, nothing was changed; 3 done, and something needs attention;
    4 a step could not end in time: the same command goes on; 5 the flow's owner did not answer.
    """
    settings = load(file)
    require_custom_classes(settings, None)
    chosen, is_wanted_now = choose_flow(settings, flow), is_wanted(yes=yes, dry_run=dry_run)
    if is_abandon:
        found = abandon(settings, chosen, is_wanted=is_wanted_now)
        verb = "was taken back; sparkmirror run starts the flow again" if is_wanted_now else "would be; --yes does it"
        print_lines([f"the {found.kind} failover of {chosen.name} by {found.who}: {verb}"])
        return
    options = FailoverOptions(
        kind="unplanned" if unplanned else "planned",
        wait_s=wait, quiet_s=quiet, leave_consumers=leave_consumers, grant=grant,
    )  # fmt: skip
    if not is_wanted_now:
        plan = look(settings, chosen, options.kind)
        value = as_json(plan, steps_of(options.kind), None)
        print(json_text(value)) if is_json else print_lines(plan_lines(plan, steps_of(options.kind)))
        if not is_json:
            refuse_obstacles(plan)
        sys.exit(2 if plan.obstacles else 0)
    with reserved(report) as path:
        done = FailoverRun(settings, chosen, options, asking_of(None, WAIT_S), StepLines(is_shown=not is_json)).run()
    value = as_json(done.plan, steps_of(options.kind), done)
    if path is not None:
        write_report(path, value)
    print(json_text(value)) if is_json else print_lines(done_lines(done, str(path) if path is not None else ""))
    sys.exit(ATTENTION if done.needs_attention else 0)


class StepLines:
    """Each step as it ends; what is waited for each few seconds."""

    EVERY_S = 5.0

    def __init__(self, *, is_shown: bool) -> None:
        self._is_shown, self._due = is_shown, 0.0

    def __call__(self, name: str, number: int, count: int, words: str) -> None:
        is_waiting = words.startswith("…")
        if not self._is_shown or (is_waiting and time.monotonic() < self._due):
            return
        self._due = time.monotonic() + self.EVERY_S if is_waiting else 0.0
        print(printable(f"{number}/{count} {name}: {words}"), flush=True)


def print_lines(lines: list[str]) -> None:
    """Prints them, safely."""
    print("\n".join(printable(line) for line in lines), flush=True)


@contextmanager
def reserved(name: str | None) -> Iterator[Path | None]:
    """The report's file, refused before anything is done if it cannot be written or holds something.

    It is gone again if the block fails, and an empty one that a killed command left is used: the same command goes on.
    """
    if name is None:
        yield None
        return
    path = Path(name)
    try:
        with path.open("a") as file:
            is_used = file.tell() > 0
    except OSError as error:
        raise _unwritable(name, str(error.strerror or error)) from error
    if is_used:
        raise _unwritable(name, "it exists already")
    try:
        yield path
    except BaseException:
        with suppress(OSError):
            path.unlink()
        raise


def _unwritable(name: str, why: str) -> MoveRefused:
    return MoveRefused(f"the report {name} cannot be written: {why}", hint="give --report another path")


def write_report(path: Path, value: dict[str, Any]) -> None:
    """Writes a report as JSON."""
    try:
        path.write_text(json_text(value) + "\n")
    except OSError as error:
        raise SparkmirrorError(f"all steps are done, but the report {path} cannot be written: {error.strerror}") from error
