"""sparkmirror verify FILE: whether the copy holds the same records as the source, record by record."""

from __future__ import annotations

import os
import re
import sys
import time
from datetime import datetime
from typing import Annotated

import typer
from rich.console import Console

from sparkmirror.cli.run import FILE_HELP, settings_of
from sparkmirror.cli.signals import Interrupted, Signals
from sparkmirror.cli.styled_lines import print_lines
from sparkmirror.cli.text import json_text, printable
from sparkmirror.cli.usage import load
from sparkmirror.cli.verify.html import as_html
from sparkmirror.cli.verify.progress import ProgressView
from sparkmirror.cli.verify.table import as_json, report_lines
from sparkmirror.config import choose_flows
from sparkmirror.topology import RegexRefused, compile_list, require_custom_classes
from sparkmirror.verification import VerifyOptions, VerifyScope, verify, with_slots

TOPICS_HELP = "Only these source topics: names or patterns, separated by commas."
SINCE_HELP = "Only records from this time on: 2026-01-31T12:00:00Z, or how long ago, such as 90m, 24h or 7d."
SAMPLE_HELP = "Compare only so many percent of the ranges, drawn at random."
FULL_HELP = "Also read again what earlier runs verified."
HTML_HELP = "Write the report to this file, as one page without links."
AGO = re.compile(r"(?P<number>[0-9]{1,6})(?P<unit>[smhd])")
UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
SAMPLE = re.compile(r"(?P<percent>[0-9]{1,3}(?:\.[0-9]{1,4})?)%?")


def verify_command(
    file: Annotated[str, typer.Argument(help=FILE_HELP, metavar="FILE")],
    flow: Annotated[list[str] | None, typer.Option(help="Only this flow; repeatable.", metavar="A->B")] = None,
    topics: Annotated[list[str] | None, typer.Option(help=TOPICS_HELP, metavar="LIST")] = None,
    since: Annotated[str | None, typer.Option(help=SINCE_HELP, metavar="TIME")] = None,
    sample: Annotated[str | None, typer.Option(help=SAMPLE_HELP, metavar="PERCENT")] = None,
    is_full: Annotated[bool, typer.Option("--full", help=FULL_HELP)] = False,
    is_json: Annotated[bool, typer.Option("--json", help="Print JSON with a schema number.")] = False,
    html: Annotated[str | None, typer.Option(help=HTML_HELP, metavar="PATH")] = None,
    master: Annotated[str, typer.Option(help="Spark master.")] = "local[*]",
    conf: Annotated[list[str] | None, typer.Option(help="A Spark setting; repeatable.", metavar="K=V")] = None,
) -> None:
    """Compare the copy with its source, record by record, for flows of sparkmirror or MirrorMaker 2.

    Reads both clusters with Spark and writes only what it verified, to mm2-verified.<source>.internal on the target: the
    next run reads what is new. The first Ctrl-C ends it, and what was verified by then is kept.

    Exit status: 0 the same; 1 wrong options or configuration; 2 something was not read; 3 something was not compared; 4
    records differ; 130 interrupted.
    """
    settings = load(file)
    flows = choose_flows(settings, flow)
    require_custom_classes(settings, None)
    scope = VerifyScope(_patterns(topics), _moment(since), _share(sample), is_full)
    options = VerifyOptions(with_slots(scope, master), master, settings_of(conf or []))
    _require_writable(html)
    with Signals() as signals:
        signals.is_deferred = True
        try:
            with ProgressView(Console(stderr=True)) as view:
                report = verify(settings, flows, options, view.show, lambda: signals.asked)
        except Interrupted:
            sys.exit(130)
    if html is not None:
        with open(html, "w", encoding="utf-8") as page:
            page.write(as_html(report))
    if is_json:
        print(json_text(as_json(report)))
    else:
        print_lines(report_lines(report), Console())
    sys.stdout.flush()
    for found in report.flows:
        if found.trouble:
            print(f"sparkmirror: {printable(found.trouble)}", file=sys.stderr)
            if found.hint:
                print(f"  {printable(found.hint)}", file=sys.stderr)
    sys.exit(report.status)


def _patterns(topics: list[str] | None) -> tuple[str, ...]:
    found = tuple(word.strip() for text in topics or () for word in text.split(",") if word.strip())
    try:
        compile_list(found)
    except RegexRefused as error:
        raise typer.BadParameter(printable(str(error)), param_hint="--topics") from error
    if topics and not found:
        raise typer.BadParameter("expected a topic, found none", param_hint="--topics")
    return found


def _moment(text: str | None) -> int | None:
    """A time in ms."""
    if text is None:
        return None
    now = time.time()
    ago = AGO.fullmatch(text)
    if ago is not None:
        return round((now - int(ago["number"]) * UNIT_S[ago["unit"]]) * 1000)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:  # whose zone would it be: this machine's, the brokers', the reader's?
        expected = "expected a time with its zone such as 2026-01-31T12:00:00Z, or how long ago such as 24h"
        raise typer.BadParameter(f"{expected}, found {printable(text)}", param_hint="--since")
    if found.timestamp() > now:
        raise typer.BadParameter(f"expected a time in the past, found {printable(text)}", param_hint="--since")
    return round(found.timestamp() * 1000)


def _share(text: str | None) -> float:
    """A share between 0 and 1."""
    if text is None:
        return 1.0
    found = SAMPLE.fullmatch(text)
    share = float(found["percent"]) / 100 if found is not None else 0.0
    if not 0 < share <= 1:
        expected = "expected a percentage above 0 and up to 100"
        raise typer.BadParameter(f"{expected}, found {printable(text)}", param_hint="--sample")
    return share


def _require_writable(path: str | None) -> None:
    """Says before hours of reading that the report has no place; an existing file stays as it is until then."""
    if path is None:
        return
    try:
        is_new = not os.path.exists(path)
        with open(path, "a", encoding="utf-8"):
            pass
        if is_new:
            os.unlink(path)
    except OSError as error:
        raise typer.BadParameter(f"{printable(path)} cannot be written: {error.strerror}", param_hint="--html") from error
