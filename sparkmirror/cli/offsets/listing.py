"""sparkmirror offsets list FILE: what is stored of the flows' positions."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sparkmirror import positions as stored_positions
from sparkmirror.cli.offsets.words import Connector, Flow, IsJson, OffsetsTopics, Topic, storage_of
from sparkmirror.cli.run import FILE_HELP
from sparkmirror.cli.text import amount, fields_of, json_text, printable
from sparkmirror.cli.usage import load
from sparkmirror.config import require_enabled_flow
from sparkmirror.topology import require_custom_classes

SCHEMA = 1  # of the JSON; raised when a field changes its meaning or goes away, not when one comes
UNREACHABLE = 2
TITLES = ("partition", "MM2 last", "ledger next", "source", "target end", "lag", "stored in", "written")


def list_(
    file: Annotated[str, typer.Argument(help=FILE_HELP, metavar="FILE")],
    topic: Topic = None,
    flow: Flow = None,
    connector: Connector = None,
    offsets_topic: OffsetsTopics = None,
    is_json: IsJson = False,
) -> None:
    """Show what is stored: MirrorMaker 2's position, the ledger's, and what both clusters hold. Reads only.

    MirrorMaker 2 stores the last offset that it copied, the ledger the next one to be copied. `lag` is what the source has
    behind whichever is further. `?` is unknown, `-` is nothing.

    Status: 0 everything was read; 2 something was not, with what is known; 255 FILE cannot be read.
    """
    settings = load(file)
    require_enabled_flow(settings, None)
    require_custom_classes(settings, None)
    flows = [stored_positions.choose_flow(settings, flow)] if flow is not None else list(settings.enabled_flows(None))
    storage = storage_of(connector, offsets_topic, None)
    found = [stored_positions.list_positions(one, storage, topic) for one in flows]
    console = Console()
    if is_json:
        print(json_text(as_json(found)))
    elif console.is_terminal:
        _print_tables(found, console)
    else:
        print("\n".join(as_lines(found)))
    sys.stdout.flush()
    sys.exit(0 if all(listing.is_complete for listing in found) else UNREACHABLE)


def as_json(found: Sequence[stored_positions.FlowListing]) -> dict[str, Any]:
    """The listings as JSON, field by field."""
    return {"schema": SCHEMA, "flows": [_flow_json(listing) for listing in found]}


def _flow_json(listing: stored_positions.FlowListing) -> dict[str, Any]:
    positions = [
        fields_of(position) | {"places": [place._asdict() for place in position.places]} for position in listing.positions
    ]
    return fields_of(listing) | {"positions": positions}


def as_lines(found: Sequence[stored_positions.FlowListing]) -> list[str]:
    """The listings as plain text in columns."""
    lines: list[str] = []
    for listing in found:
        lines += [f"flow {listing.flow}", *(f"  {line}" for line in _state_lines(listing))]
        if not listing.positions:
            lines.append("  ?" if listing.unknown else "  nothing is copied and nothing is stored")
            continue
        rows = [TITLES, *(_row(position) for position in listing.positions)]
        widths = [max(len(row[at]) for row in rows) for at in range(len(TITLES))]
        for row in rows:
            cells = [cell.ljust(width) if at in (0, 6) else cell.rjust(width) for at, (cell, width) in _paired(row, widths)]
            lines.append(f"  {'  '.join(cells)}".rstrip())
        lines += [f"  {_name(p)}: {p.trouble}" for p in listing.positions if p.trouble]
    return [printable(line) for line in lines]


def _paired(row: Sequence[str], widths: Sequence[int]) -> Iterator[tuple[int, tuple[str, int]]]:
    return enumerate(zip(row, widths, strict=True))


def _print_tables(found: Sequence[stored_positions.FlowListing], console: Console) -> None:
    for listing in found:
        console.print(Text(printable(listing.flow), style="bold"))
        for line in _state_lines(listing):
            console.print(Text(printable(f"  {line}")))
        table = Table(show_edge=False, pad_edge=False)
        for title in TITLES:
            table.add_column(title, justify="left" if title in ("partition", "stored in") else "right", overflow="fold")
        for position in listing.positions:
            style = "yellow" if position.trouble else ""
            table.add_row(*(Text(printable(cell), style=style) for cell in _row(position)))
        console.print(table)
        for position in listing.positions:
            if position.trouble:
                console.print(Text(printable(f"{_name(position)}: {position.trouble}"), style="yellow"))


def _state_lines(listing: stored_positions.FlowListing) -> Iterator[str]:
    workers, unknown = listing.workers, listing.unknown
    if workers is not None:
        runs = f"{amount(workers.members)} members: it runs" if workers.members else "no members: it does not run"
        yield f"MirrorMaker 2: group {workers.name} has {runs}"
    elif "workers" in unknown:
        yield f"MirrorMaker 2: unknown whether it runs: {unknown['workers']}"
    at = f"{', '.join(listing.offsets_topics)}, connector {listing.connector}"
    yield f"positions: {at}" + (f": unknown: {unknown['positions']}" if "positions" in unknown else "")
    if "ledger" in unknown:
        yield f"sparkmirror: ledger unknown: {unknown['ledger']}"
    elif listing.owner is not None:
        yield f"sparkmirror: {'released by' if listing.is_released else 'owned by'} {listing.owner}"
    else:
        yield "sparkmirror: no ledger"
    if "topics" in unknown:
        seen_ms = listing.source_seen_ms
        seen = "" if seen_ms is None else f"; last seen {_moment(seen_ms)}"
        yield f"source: unknown: {unknown['topics']}{seen}"
    for note in listing.notes:
        yield f"note: {note}"


def _row(position: stored_positions.ListedPosition) -> tuple[str, ...]:
    unknown = position.unknown
    span = f"{_known(position.source_first)} to {_known(position.source_end)}" if position.source_end is not None else "-"
    ended = "" if position.last_source_end is None else f" (ended at {position.last_source_end})"
    lagged = "" if position.last_lag is None else f" ({position.last_lag})"
    return (
        _name(position),
        "?" if "mm2" in unknown else _known(position.mm2_offset),
        "?" if "ledger" in unknown else _known(position.ledger_next),
        f"?{ended}" if "source" in unknown else span,
        "?" if "target" in unknown else _known(position.target_end),
        f"?{lagged}" if "lag" in unknown else _known(position.lag),
        "?" if "mm2" in unknown else ", ".join(str(place.partition) for place in position.places) or "-",
        "?" if "mm2" in unknown else _moment(position.mm2_time_ms),
    )


def _name(position: stored_positions.ListedPosition) -> str:
    return f"{position.topic}-{position.partition}"


def _known(number: int | None) -> str:
    return "-" if number is None else str(number)


def _moment(time_ms: int | None) -> str:
    if time_ms is None:
        return "-"
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
