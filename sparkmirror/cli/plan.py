"""sparkmirror plan FILE: what a run would do. Reads both clusters and changes neither."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sparkmirror.cli.findings_view import clock
from sparkmirror.cli.run import CLUSTERS_HELP, FILE_HELP
from sparkmirror.cli.text import amount, fields_of, json_text, printable
from sparkmirror.cli.usage import load
from sparkmirror.diagnose import Severity
from sparkmirror.examination import FlowPlan, Plan, PlanFinding, PlannedTopic, make_plan
from sparkmirror.state import OwnerStatus

SCHEMA = 1  # of the JSON; raised when a field is removed or changes its meaning, not when a field is added
GAPS_NAMED_MAX = 3

_OWNERS = {
    "nobody": "no owner yet",
    "released": "released by {name}",
    "alive": "owned by {name}, which is alive: a run ends with status 5 unless --take-over is given",
    "dead": "owned by {name}, which is dead: a run recovers its open partitions",
    "silent": "owned by {name}, liveness unknown: a run watches it for 15 s, then recovers its open partitions",
    "unknown": "owner unknown: the ledger could not be read",
}
_ACTIONS = {"nothing": "ready", "stop": "STOP"}
_EFFECTS = {
    "refuses": "a run does not start this flow", "stops": "a run stops", "waits": "a run waits", "risks": "a run may stop",
    "omits": "a run omits",
}  # fmt: skip


def plan(
    file: Annotated[str, typer.Argument(help=FILE_HELP, metavar="FILE")],
    clusters: Annotated[list[str] | None, typer.Option(help=CLUSTERS_HELP, metavar="ALIAS")] = None,
    is_json: Annotated[bool, typer.Option("--json", help="Print JSON with a schema number.")] = False,
) -> None:
    """Show what `run` would do, and what it would stop or wait at. Read-only: creates, writes and commits nothing, and
    does not start Spark.

    Exit status: 0 ready; 2 a cluster could not be read (the plan is partial); 3 a run may stop later; 4 a run would not
    start a flow, or would stop or wait; 255 FILE cannot be read.
    """
    found = make_plan(load(file), clusters)
    console = Console()
    if is_json:
        print(json_text(as_json(found)))
    elif console.is_terminal:
        print_tables(found, console)
    else:
        print("\n".join(as_lines(found)))
    sys.stdout.flush()
    for reason in dict.fromkeys(reason for flow in found.flows for reason in flow.unreachable):
        print(f"sparkmirror: {printable(reason)}", file=sys.stderr)
    sys.exit(found.status)


def as_json(found: Plan) -> dict[str, Any]:
    """The plan as JSON, field by field."""
    return {"schema": SCHEMA, **fields_of(found), "complete": found.is_complete, "status": found.status}


def as_lines(found: Plan) -> list[str]:
    """The plan as plain text, one line for each fact."""
    lines = [f"warning: {warning}" for warning in found.warnings]
    for flow in found.flows:
        lines += [f"flow {flow.source}->{flow.target}", *(f"  {line}" for line in _state_lines(flow))]
        lines += [f"  {text}" for _, text in _finding_lines(flow)]
        for topic in flow.topics:
            lines.append(f"  {_verdict(topic)}: {' -> '.join(_names(topic))}: {'; '.join(_topic_facts(flow, topic))}")
    return [printable(line) for line in lines]


def print_tables(found: Plan, console: Console) -> None:
    """The plan as one table per flow."""
    for warning in found.warnings:
        console.print(Text(printable(f"warning: {warning}"), style="yellow"))
    for flow in found.flows:
        console.print(Text(printable(f"{flow.source}->{flow.target}"), style="bold"))
        for line in _state_lines(flow):
            console.print(Text(printable(f"  {line}")))
        for worst, line in _finding_lines(flow):
            console.print(Text(printable(f"  {line}"), style="red" if worst is Severity.ERROR else "yellow"))
        if not flow.topics:
            continue
        table = Table(show_edge=False, pad_edge=False)
        for title in ("topic", "remote topic", "on the target", "starts at", "behind", "why"):
            table.add_column(title, justify="right" if title == "behind" else "left", overflow="fold")
        for topic in flow.topics:
            table.add_row(*_row(flow, topic), style="" if topic.replicated else "dim")
        console.print(table)


def _row(flow: FlowPlan, topic: PlannedTopic) -> Sequence[Text]:
    style = "red" if _is_stopped(flow, topic) else ""
    if not topic.replicated:
        return [Text(printable(topic.topic)), Text("not copied"), *[Text("")] * 3, Text(printable(topic.reason))]
    reason = topic.reason if topic.action in ("nothing", "create") else topic.action_reason
    why = "; ".join([reason, *_passed(topic), *_gaps(topic)])
    cells = [topic.topic, topic.remote, _action(flow, topic), _starts(topic), _behind(topic) + _as_of(topic), why]
    return [Text(printable(cell), style=style) for cell in cells]


def _state_lines(flow: FlowPlan) -> Iterable[str]:
    for reason in flow.unreachable:
        yield f"unknown: {reason}"
    ledger = {None: "unknown", True: "found", False: "none yet"}[flow.ledger_found]
    yield f"ledger: {ledger}; {owner_text(flow.owner)}"
    stored = "unknown" if flow.mm2_positions is None else amount(flow.mm2_positions)
    yield f"MirrorMaker 2: {stored} stored positions"
    for topic in flow.internal_topics:
        if topic.exists is False:
            yield (
                f"would create internal topic {topic.name} on {topic.cluster}: "
                f"{_counted(topic.partitions, 'partition')}, replication factor {_factor(topic.replication_factor)}"
            )


def _finding_lines(flow: FlowPlan) -> Iterable[tuple[Severity, str]]:
    """What a run would stop or wait at: one line for each code of a topic, with a count where partitions share it."""
    alike: dict[tuple[str, str, str], list[PlanFinding]] = {}
    for found in flow.findings:
        alike.setdefault((found.topic, found.effect, found.code), []).append(found)
    for (_, effect, _), group in alike.items():
        shown = group[:1] if group[0].partition is not None else group
        for found in shown:
            rest = f"; {_counted(len(group) - 1, 'more partition')} alike" if len(group) > len(shown) else ""
            yield found.severity, f"{_EFFECTS[effect]}: {found}{rest}"


def _is_stopped(flow: FlowPlan, topic: PlannedTopic) -> bool:
    """Whether a run would not copy all of the topic."""
    return topic.action == "stop" or any(found.severity is Severity.ERROR for found in flow.findings_of(topic.topic))


def owner_text(owner: OwnerStatus) -> str:
    """The last owner of the flow, as a sentence."""
    return _OWNERS[owner.state].format(name=owner.name)


def _verdict(topic: PlannedTopic) -> str:
    return "copied" if topic.replicated else "not copied"


def _names(topic: PlannedTopic) -> list[str]:
    return [topic.topic, topic.remote] if topic.replicated else [topic.topic]


def _topic_facts(flow: FlowPlan, topic: PlannedTopic) -> list[str]:
    if not topic.replicated:
        return [topic.reason]
    starts = f"starts at {_starts(topic)}, {_behind(topic)} behind{_as_of(topic)}"
    more = [*([topic.action_reason] if topic.action_reason else []), *_passed(topic), *_gaps(topic)]
    return [topic.reason, _action(flow, topic), starts, *more]


def _passed(topic: PlannedTopic) -> list[str]:
    return [f"as records, through {', '.join(topic.transforms)}"] if topic.transforms else []


def _action(flow: FlowPlan, topic: PlannedTopic) -> str:
    if topic.action != "unknown" and _is_stopped(flow, topic):
        wrong = [found for found in flow.findings_of(topic.topic) if found.severity is Severity.ERROR]
        is_waiting = bool(wrong) and all(found.effect == "waits" for found in wrong)
        return " ".join(["WAIT" if is_waiting else "STOP", *dict.fromkeys(found.code for found in wrong)])
    if topic.action == "create":
        configs = ", ".join(f"{key}={value}" for key, value in sorted(topic.configs.items()))
        factor = _factor(topic.replication_factor if topic.replication_factor is not None else -1)
        made = f"create with {_counted(topic.partitions, 'partition')}, replication factor {factor}"
        return f"{made}, {configs}" if configs else made
    if topic.action == "extend":
        return f"extend from {topic.found_partitions} to {topic.partitions} partitions"
    return _ACTIONS.get(topic.action, topic.action)


def _starts(topic: PlannedTopic) -> str:
    """Where the partitions start: the offset of a single partition, else the number of partitions per basis."""
    if len(topic.starts) == 1:
        start = topic.starts[0]
        where = "?" if start.next_upstream_offset is None else amount(start.next_upstream_offset)
        return f"{where} ({start.basis})"
    counts = Counter(start.basis for start in topic.starts)
    return ", ".join(f"{basis} ×{count}" if len(counts) > 1 else basis for basis, count in counts.items())


def _gaps(topic: PlannedTopic) -> list[str]:
    """The accepted gaps, in one line however many there are."""
    found = [(start.partition, gap) for start in topic.starts for gap in start.gaps]
    if not found:
        return []
    named = [f"partition {partition} offsets {gap.first} to {gap.last}" for partition, gap in found[:GAPS_NAMED_MAX]]
    rest = f" and {amount(len(found) - GAPS_NAMED_MAX)} more" if len(found) > GAPS_NAMED_MAX else ""
    return [f"never copied, as accepted: {', '.join(named)}{rest}"]


def _behind(topic: PlannedTopic) -> str:
    known = [start.behind for start in topic.starts if start.behind is not None]
    return amount(sum(known)) if len(known) == len(topic.starts) else "?"


def _as_of(topic: PlannedTopic) -> str:
    seen = [start.as_of_ms for start in topic.starts if start.as_of_ms is not None]
    return f" as of {clock(min(seen))}" if seen else ""


def _factor(factor: int) -> str:
    return "of the target's default" if factor == -1 else str(factor)


def _counted(count: int, noun: str) -> str:
    return f"{amount(count)} {noun}{'' if count == 1 else 's'}"
