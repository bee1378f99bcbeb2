"""sparkmirror try FILE --topic T: shows real records before and after the transforms of a flow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sparkmirror.cli.run import FILE_HELP
from sparkmirror.cli.text import printable
from sparkmirror.cli.usage import load
from sparkmirror.config import FlowSettings, Settings, TransformSettings, require_enabled_flow
from sparkmirror.errors import ConfigInvalid
from sparkmirror.topology import name_filter

if TYPE_CHECKING:
    from sparkmirror.transforms.trial import Shown, Trial, TriedRecord

SHOWN_MAX = 400
LIMIT_MAX = 10_000
SQL_HELP = "Try this query over the view `records` instead of the transforms in FILE."
STYLES = {"left out": "red", "elsewhere": "cyan", "changed": "yellow", "as it is": "dim"}


def try_command(
    file: Annotated[str, typer.Argument(help=FILE_HELP, metavar="FILE")],
    topic: Annotated[str, typer.Option(help="A topic on the source.", metavar="TOPIC")],
    limit: Annotated[int, typer.Option(help="How many of the newest records to read.", min=1, max=LIMIT_MAX)] = 20,
    flow: Annotated[str | None, typer.Option(help="The flow, if there are several.", metavar="A->B")] = None,
    sql: Annotated[str | None, typer.Option(help=SQL_HELP, metavar="SELECT")] = None,
) -> None:
    """Show what transforms would do to the newest records of a topic. Nothing is written.

    Exit status: 0 shown; 2 configuration, cluster or command line error.
    """
    settings = load(file)
    chosen = _flow(settings, flow)
    given = TransformSettings("--sql", (topic,), sql, "", 0) if sql is not None else None
    transforms = (given,) if given is not None else _of_topic(settings, chosen, topic)
    from sparkmirror.transforms.trial import try_transforms  # importing Spark and Arrow is slow

    _show(try_transforms(settings, chosen, transforms, topic, limit), topic, Console())


def _flow(settings: Settings, wanted: str | None) -> FlowSettings:
    require_enabled_flow(settings, None)
    flows = settings.enabled_flows(None)
    found = [flow for flow in flows if wanted in (None, str(flow.name))]
    if len(found) != 1:
        names = ", ".join(str(flow.name) for flow in flows)
        raise ConfigInvalid(settings.path, [f"--flow: expected one of {names}, found {wanted or 'none'}"])
    return found[0]


def _of_topic(settings: Settings, flow: FlowSettings, topic: str) -> tuple[TransformSettings, ...]:
    found = tuple(t for t in flow.record_transforms if name_filter(t.topics, ()).wants(topic))
    if not found and not flow.connect_transforms:
        text = f"no transform of {flow.name} is for {topic}"
        raise ConfigInvalid(settings.path, [f"{text}; write {flow.name}.transform.NAME.topics and .sql, or give --sql"])
    return found


def _show(trial: Trial, topic: str, console: Console) -> None:
    table = Table(title=None, show_lines=True, expand=False)
    for heading in ("record", "what", "before", "after"):
        table.add_column(heading, overflow="fold")
    counts: Counter[str] = Counter()
    for record in trial.records:
        what = _what(record)
        counts[what] += 1
        before, after = _sides(record)
        place = f"{topic}-{record.before.partition} @ {record.offset}"
        table.add_row(Text(place), Text(what, STYLES[what]), Text(before), Text(after))
    names = ", ".join(trial.names)
    console.print(table)
    console.print(Text(f"{len(trial.records)} records through {names}: {_summary(counts)}. Nothing was written."))
    console.print(Text(f"\n{trial.plan}", "dim"))


def _summary(counts: Counter[str]) -> str:
    words = {"changed": "changed", "left out": "left out", "elsewhere": "sent elsewhere", "as it is": "as they are"}
    return ", ".join(f"{counts[what]} {word}" for what, word in words.items())


def _what(record: TriedRecord) -> str:
    before, after = record.before, record.after
    if after is None:
        return "left out"
    if (after.topic, after.partition) != (before.topic, before.partition):
        return "elsewhere"
    return "as it is" if after == before else "changed"


def _sides(record: TriedRecord) -> tuple[str, str]:
    """The fields that differ, and always the value."""
    before, after = dict(_parts(record.before)), dict(_parts(record.after)) if record.after is not None else {}
    names = [name for name in before if name == "value" or (after and before[name] != after[name])]
    left = "\n".join(f"{name} {before[name]}" for name in names)
    return left, "\n".join(f"{name} {after[name]}" for name in names) if after else "–"


def _parts(shown: Shown) -> Iterator[tuple[str, str]]:
    yield "to", f"{shown.topic}-{shown.partition}"
    yield "key", _text(shown.key)
    yield "value", _text(shown.value)
    yield "headers", ", ".join(f"{name}={_text(value)}" for name, value in shown.headers) or "none"
    yield "timestamp", str(shown.timestamp)


def _text(content: bytes | None) -> str:
    if content is None:
        return "null"
    text = printable(content.decode("utf-8", "backslashreplace"))
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}… ({len(content):,} bytes)"
