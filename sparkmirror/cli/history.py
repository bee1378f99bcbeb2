"""sparkmirror history FILE: what was asked of a flow's owners, by whom, and what became of it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from sparkmirror.cli.offsets.words import Flow, IsJson
from sparkmirror.cli.run import FILE_HELP
from sparkmirror.cli.text import fields_of, json_text, printable
from sparkmirror.cli.usage import load
from sparkmirror.positions import HistoryEntry, choose_flow, history_of

SCHEMA = 1  # of the JSON; raised when a field changes its meaning or goes away, not when one comes
LIMIT = 100


def history(
    file: Annotated[str, typer.Argument(help=FILE_HELP, metavar="FILE")],
    flow: Flow = None,
    limit: Annotated[int, typer.Option(help="Only the newest so many.", metavar="NUMBER", min=1)] = LIMIT,
    is_json: IsJson = False,
) -> None:
    """Show the requests to the owners of a flow with their answers, and offsets that were given up, the oldest first.

    The ledger keeps the newest 1,000 requests of the last 90 days. Reads only.

    Status: 0 shown; 2 a cluster did not answer; 255 FILE cannot be read.
    """
    chosen = choose_flow(load(file), flow)
    found = history_of(chosen)[-limit:]
    name = str(chosen.name)
    print(json_text(as_json(name, found)) if is_json else "\n".join(as_lines(name, found)))
    sys.stdout.flush()


def as_json(flow: str, found: Sequence[HistoryEntry]) -> dict[str, Any]:
    """The entries as JSON, field by field."""
    return {"schema": SCHEMA, "flow": flow, "entries": [fields_of(entry) for entry in found]}


def as_lines(flow: str, found: Sequence[HistoryEntry]) -> list[str]:
    """Each entry: when, who, what, and what became of it."""
    lines = [f"flow {flow}"] if found else [f"flow {flow}: nothing was asked and nothing was given up"]
    for entry in found:
        lines.append(f"  {_time(entry.time_ms)}  {_place(entry)}  {entry.verb}  {entry.state}  {entry.who}".rstrip())
        if entry.command:
            lines.append(f"      {entry.command}")
        if entry.text:
            took = "" if entry.answered_ms is None else f" after {max(entry.answered_ms - entry.time_ms, 0) / 1000:.1f} s"
            lines.append(f"      {entry.text}{f' ({entry.owner}{took})' if entry.owner else ''}")
        if entry.request_id:
            lines.append(f"      request {entry.request_id}")
    return [printable(line) for line in lines]


def _time(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _place(entry: HistoryEntry) -> str:
    if not entry.topic:
        return "all topics"
    return entry.topic if entry.partition < 0 else f"{entry.topic}-{entry.partition}"
