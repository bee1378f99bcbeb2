"""sparkmirror failback FILE: bring home what applications wrote on the target since a failover."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any

import typer

from sparkmirror.cli.failover.command import ATTENTION, LEAVE_HELP, QUIET_HELP, WAIT_HELP, StepLines, print_lines
from sparkmirror.cli.failover.words import group_value, group_words
from sparkmirror.cli.offsets.words import DryRun, Flow, IsJson, Yes, asking_of, is_wanted
from sparkmirror.cli.run import FILE_HELP, settings_of
from sparkmirror.cli.text import json_text
from sparkmirror.cli.usage import load
from sparkmirror.config import choose_flow
from sparkmirror.control import RunOptions
from sparkmirror.diagnose.wording import moment
from sparkmirror.driver import WAIT_S
from sparkmirror.failover import FailbackOptions, FailbackPlan, FailbackReport, FailbackRun, look_back
from sparkmirror.topology import require_custom_classes

SCHEMA = 1  # of the JSON; raised when a field changes its meaning or goes away, not when one comes
ROWS_MAX = 20
KEEP_HELP = "Groups read what never reached the target before what comes home."
SKIP_HELP = "Groups continue behind what never reached the target."
WORDS = {
    "check": "both clusters, the failover on record, and where each partition ended",
    "producers": "waits until no producer writes on {target} and no transaction is open",
    "home": "copies what was written on {target} since to the topics of {source}, each record once",
    "consumers": "waits until no group reads from {target}",
    "groups": "writes the exact position of each group on {source}, and reads it back",
    "resume": "the flow continues behind what both clusters hold; it may run again",
}


def failback(
    file: Annotated[str, typer.Argument(help=FILE_HELP, metavar="FILE")],
    flow: Flow = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    keep: Annotated[bool, typer.Option("--keep", help=KEEP_HELP)] = False,
    skip: Annotated[bool, typer.Option("--skip", help=SKIP_HELP)] = False,
    wait: Annotated[float, typer.Option(help=WAIT_HELP, metavar="SECONDS", min=1.0)] = 120.0,
    quiet: Annotated[float, typer.Option(help=QUIET_HELP, metavar="SECONDS", min=0.5)] = 5.0,
    leave_consumers: Annotated[bool, typer.Option("--leave-consumers", help=LEAVE_HELP)] = False,
    master: Annotated[str, typer.Option(help="Spark master.")] = "local[*]",
    conf: Annotated[list[str] | None, typer.Option(help="A Spark setting; repeatable.", metavar="K=V")] = None,
    is_json: IsJson = False,
) -> None:
    """Bring home what applications wrote on the flow's target since its failover, and let the flow run again.

    Records go to the topics that they belong to, whatever the target calls them, each once; the flow does not copy them
    back. Groups continue on the source exactly where they were. Without --yes only the plan is shown. Killed at any step,
    the same command goes on.

    Exit status: 0 done, or the plan has no obstacle; 2 refused, nothing was changed; 3 done, and something needs attention;
    4 a step could not end in time: the same command goes on; 5 another process owns the flow.
    """
    if keep and skip:
        raise typer.BadParameter("cannot be combined with --keep", param_hint="--skip")
    settings = load(file)
    require_custom_classes(settings, None)
    chosen, is_wanted_now = choose_flow(settings, flow), is_wanted(yes=yes, dry_run=dry_run)
    options = FailbackOptions(
        wait_s=wait, quiet_s=quiet, leave_consumers=leave_consumers, keep=keep, skip=skip,
        run=RunOptions(once=True, master=master, conf=settings_of(conf or [])),
    )  # fmt: skip
    if not is_wanted_now:
        plan = look_back(settings, chosen, options)
        print(json_text(as_json(plan, None))) if is_json else print_lines(list(plan_lines(plan)))
        sys.exit(2 if plan.obstacles else 0)
    done = FailbackRun(settings, chosen, options, asking_of(None, WAIT_S), StepLines(is_shown=not is_json)).run()
    print(json_text(as_json(done.plan, done))) if is_json else print_lines(list(done_lines(done)))
    sys.exit(ATTENTION if done.needs_attention else 0)


def plan_lines(plan: FailbackPlan) -> Iterator[str]:
    """What would be done."""
    yield f"failback of {plan.flow}: {plan.target} to {plan.source}"
    if plan.recorded is not None:
        yield f"  failed over ({plan.recorded.kind}) by {plan.recorded.who} at {moment(plan.recorded.time_ms)}"
        yield from _partition_lines(plan)
        yield f"  {len(plan.groups):,} groups have positions on {plan.target}"
        names = {"source": plan.source, "target": plan.target}
        yield from (f"  {at}. {name}: {text.format(**names)}" for at, (name, text) in enumerate(WORDS.items(), 1))
    yield from (f"  obstacle at {o.step}: {o.text} ({o.hint})" for o in plan.obstacles)
    yield "nothing was changed" + ("" if plan.obstacles else "; --yes carries it out")


def _partition_lines(plan: FailbackPlan) -> Iterator[str]:
    written = [home for home in plan.partitions if home.written]
    for home in written[:ROWS_MAX]:
        yield (
            f"  {home.remote} of {plan.target}: offsets {home.downstream:,} to {home.target_end - 1:,} go to "
            f"{home.partition} of {plan.source}"
        )
    if len(written) > ROWS_MAX:
        yield f"  and {len(written) - ROWS_MAX:,} more partitions: --json has all of them"
    if not written:
        yield f"  nothing was written into the copies on {plan.target} since"
    for home in plan.diverged[:ROWS_MAX]:
        yield (
            f"  {home.partition} of {plan.source}: offsets {home.upstream:,} to {home.source_end - 1:,} never reached "
            f"{plan.target} and stay on {plan.source} alone"
        )


def done_lines(report: FailbackReport) -> Iterator[str]:
    """What was done, and what applications use now."""
    plan = report.plan
    yield (
        f"{plan.flow} is failed back at {moment(report.ended_ms)}, "
        f"after {(report.ended_ms - report.began_ms) / 1000:.1f} s: "
        f"{report.records_home:,} records came home"
    )
    for group in report.groups[:ROWS_MAX]:
        yield f"  group {group.name}: {'; '.join(group_words(plan.target, group))}"
    if len(report.groups) > ROWS_MAX:
        yield f"  and {len(report.groups) - ROWS_MAX:,} more groups: --json has all of them"
    yield from (f"  group {group}: not placed: {reason}" for group, reason in report.refused.items())
    yield f"applications now use {plan.source}: bootstrap.servers={plan.source_bootstrap}"
    yield f"sparkmirror run starts {plan.flow} again"


def as_json(plan: FailbackPlan, report: FailbackReport | None) -> dict[str, Any]:
    """The plan, and what became of it."""
    value: dict[str, Any] = {
        "schema": SCHEMA,
        "flow": plan.flow,
        "source": plan.source,
        "target": plan.target,
        "bootstrap_servers": plan.source_bootstrap,
        "topics": plan.topics,
        "partitions": [
            {
                "topic": h.partition.topic, "partition": h.partition.partition, "remote": h.remote.topic,
                "upstream_offset": h.upstream, "downstream_offset": h.downstream, "source_end": h.source_end,
                "target_end": h.target_end, "diverged": h.diverged, "written": h.written,
            }
            for h in plan.partitions
        ],
        "groups": list(plan.groups),
        "obstacles": [asdict(obstacle) for obstacle in plan.obstacles],
        "recorded": None if plan.recorded is None else asdict(plan.recorded),
        "steps": list(WORDS),
    }  # fmt: skip
    if report is not None:
        value["done"] = {
            "began_ms": report.began_ms,
            "ended_ms": report.ended_ms,
            "records_home": report.records_home,
            "groups": [group_value(group) for group in report.groups],
            "placed": report.placed,
            "refused": report.refused,
            "steps": [{"name": name, "text": words, "ended_ms": ended} for name, words, ended in report.steps],
            "needs_attention": report.needs_attention,
        }
    return value
