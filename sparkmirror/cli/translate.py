"""sparkmirror translate FILE: where consumers of one cluster resume on the other."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sparkmirror.cli.run import FILE_HELP
from sparkmirror.cli.text import amount, json_text, printable
from sparkmirror.cli.usage import load
from sparkmirror.config import choose_flow
from sparkmirror.diagnose.wording import moment
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.proof import WalkLimits
from sparkmirror.positions.translating import (
    TranslatedPosition,
    TranslateRequest,
    Translations,
    translate_positions,
    translations_json,
)
from sparkmirror.topology import require_custom_classes

FORMATS = ("table", "csv", "json")
WORDS = {"checkpoint": "by checkpoint"}  # where the JSON has another one
PLACE = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+):(?P<partition>[0-9]{1,10})=(?P<offset>[0-9]{1,19})")
AT_HELP = "Translate this position instead of the group's; repeatable."
BACK_HELP = "Translate from the flow's target to its source, to fail back after a failover."


def translate(
    file: Annotated[str, typer.Argument(help=FILE_HELP, metavar="FILE")],
    group: Annotated[list[str] | None, typer.Option(help="The group to translate; repeatable.", metavar="GROUP")] = None,
    at: Annotated[list[str] | None, typer.Option(help=AT_HELP, metavar="TOPIC:PARTITION=OFFSET")] = None,
    flow: Annotated[str | None, typer.Option(help="The flow, if FILE has several.", metavar="A->B")] = None,
    back: Annotated[bool, typer.Option("--back", help=BACK_HELP)] = False,
    form: Annotated[str, typer.Option("--format", help="table, csv or json.", metavar="FORMAT")] = "",
    is_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    no_record_reads: Annotated[
        bool, typer.Option("--no-record-reads", help="Do not read records; use only the mirror's own topics.")
    ] = False,
    budget: Annotated[
        int, typer.Option(help="Maximum number of records to read in one partition.", min=0, metavar="RECORDS")
    ] = WalkLimits().records,
) -> None:
    """Translate a group's positions exactly to the other cluster, for flows of sparkmirror or MirrorMaker 2.

    Read-only. `--format csv` is the input of kafka-consumer-groups --reset-offsets --from-file. A group whose commits
    cannot be read is translated from its checkpoints, as of the time they were written.

    Exit status: 0 all exact; 1 wrong options or configuration; 2 some unknown; 3 some are rough, old or lack records.
    """
    chosen = form or ("json" if is_json else "table")
    if chosen not in FORMATS or (is_json and chosen != "json"):
        raise typer.BadParameter(f"expected {', '.join(FORMATS)}, found {printable(chosen)}", param_hint="--format")
    if not group and not at:
        raise typer.BadParameter("expected a group or positions", param_hint="--group")
    places = tuple(_place(text) for text in at or ())
    settings = load(file)
    require_custom_classes(settings, None)
    name = choose_flow(settings, flow).name
    origin, destination = (name.target, name.source) if back else (name.source, name.target)
    request = TranslateRequest(
        origin=origin,
        destination=destination,
        groups=tuple(dict.fromkeys(group or ())),
        at=places,
        limits=None if no_record_reads else WalkLimits(budget),
    )
    found = translate_positions(settings, request)
    _tell(found, chosen)
    sys.exit(found.status)


def _place(text: str) -> tuple[TopicPartition, int]:
    found = PLACE.fullmatch(text)
    if found is None:
        raise typer.BadParameter(f"expected TOPIC:PARTITION=OFFSET, found {printable(text)}", param_hint="--at")
    return TopicPartition(found["topic"], int(found["partition"])), int(found["offset"])


# --- output ------------------------------------------------------------------------------------------------------


def _tell(found: Translations, form: str) -> None:
    console = Console()
    if form == "json":
        print(json_text(translations_json(found)))
    elif form == "csv":
        for line in as_csv(found):
            print(line)
    elif console.is_terminal:
        print_table(found, console)
    else:
        for line in as_lines(found):
            print(line)
    sys.stdout.flush()
    for note in (*found.notes, *found.notes.rest()):
        text = f"{note.message}; needs {note.needs}" if note.needs and "needs" not in note.message else note.message
        print(f"sparkmirror: {printable(text)}", file=sys.stderr)
    if form == "csv":
        for text in (*_unknown_lines(found), *_old_lines(found)):
            print(f"sparkmirror: {printable(text)}", file=sys.stderr)


def _unknown_lines(found: Translations) -> Iterator[str]:
    yield from (f"{group}: unknown ({reason})" for group, reason in found.unknown.items())
    yield from (_sentence(position) for position in found.positions if position.destination_offset is None)


def _old_lines(found: Translations) -> Iterator[str]:
    """One line for each group that is translated as it was last seen."""
    times: dict[str, list[int]] = {}
    for position in found.positions:
        if not position.is_current and position.as_of_ms is not None:
            times.setdefault(position.group, []).append(position.as_of_ms)
    for group, seen in times.items():
        until = f" to {moment(max(seen))}" if moment(max(seen)) != moment(min(seen)) else ""
        yield f"{group}: positions as of {moment(min(seen))}{until}, by its checkpoints; what it read since is read again"


def as_csv(found: Translations) -> Iterator[str]:
    """Kafka's own form: topic, partition, offset, with the group before them if there are several. No header."""
    several = len({position.group for position in found.positions}) > 1
    for position in found.positions:
        if position.destination is not None and position.destination_offset is not None:
            place = f"{position.destination.topic},{position.destination.partition},{position.destination_offset}"
            yield printable(f"{position.group},{place}" if several else place)


def as_lines(found: Translations) -> Iterator[str]:
    """One line for each position."""
    yield printable(f"from {found.origin} to {found.destination}")
    yield from (printable(f"  {_sentence(position)}") for position in found.positions)
    yield from (printable(f"  {group}: unknown ({reason})") for group, reason in found.unknown.items())


def print_table(found: Translations, console: Console) -> None:
    """The same as a table."""
    console.print(Text(printable(f"from {found.origin} to {found.destination}"), style="bold"))
    table = Table(show_edge=False, pad_edge=False)
    for title in ("group", "from", "offset", "to", "offset", "how sure", "remark"):
        table.add_column(title, justify="right" if title == "offset" else "left", overflow="fold")
    styles = {"proven": "green", "ledger": "green", "unknown": "red"}
    for p in found.positions:
        cells = [
            p.group, str(p.origin), str(p.offset), "-" if p.destination is None else str(p.destination),
            "-" if p.destination_offset is None else str(p.destination_offset),
        ]  # fmt: skip
        sure = Text(WORDS.get(p.sureness, p.sureness), style=styles.get(p.sureness, "yellow") if p.is_current else "yellow")
        table.add_row(*[Text(printable(cell)) for cell in cells], sure, Text(printable(_remark(p))))
    for group, reason in found.unknown.items():
        table.add_row(printable(group), "?", "?", "-", "-", Text("unknown", style="red"), Text(printable(reason)))
    console.print(table)


def _sentence(position: TranslatedPosition) -> str:
    where = f"{position.group} {position.origin}".strip()
    remark = _remark(position)
    text = f" ({remark})" if remark else ""
    if position.destination is None or position.destination_offset is None:
        return f"{where} at {position.offset}: unknown{text}"
    there = f"{position.destination} at {position.destination_offset}"
    return f"{where} at {position.offset}: {there}, {WORDS.get(position.sureness, position.sureness)}{text}"


def _remark(position: TranslatedPosition) -> str:
    parts = [position.reason] if position.reason else []
    if position.again:
        parts.append(f"reads {amount(position.again)} records again")
    elif position.sureness in ("rough", "checkpoint") and position.again is None:
        parts.append("may read records again")
    if position.missing:
        parts.append(f"{amount(position.missing)} offsets from there on were never copied")
    if not position.is_current:
        parts += _old_parts(position)
    return "; ".join(parts)


def _old_parts(position: TranslatedPosition) -> Iterator[str]:
    """When the group was seen there, and what it has committed on the destination."""
    when = "" if position.as_of_ms is None else f" {moment(position.as_of_ms)}"
    yield f"as of{when or ' an unknown time'}"
    if not position.is_committed_known:
        yield "its commit there is unknown"
    elif position.committed is None:
        yield "not committed there"
    else:
        count = position.committed_again
        again = f", from where it reads {amount(count)} records before that" if count else ""
        yield f"committed there at {position.committed}{again}"
