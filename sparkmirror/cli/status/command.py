"""sparkmirror status FILE: one screen about every flow."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import orjson
import typer
from rich.console import Console

from sparkmirror.cli.run import FILE_HELP
from sparkmirror.cli.status.asking import NoAnswer, Outline, fetch_outlines, local_outlines
from sparkmirror.cli.status.view import flow_lines, severity_of
from sparkmirror.cli.styled_lines import Line, print_lines
from sparkmirror.cli.text import json_text, printable
from sparkmirror.cli.usage import load
from sparkmirror.config import FlowSettings, Settings
from sparkmirror.config.secrets import Secret
from sparkmirror.config.settings import choose_flows
from sparkmirror.diagnose.exit_status import status_of
from sparkmirror.diagnose.findings import Severity
from sparkmirror.errors import ConfigError
from sparkmirror.examination.flow_status import report_statuses
from sparkmirror.status.outline import SCHEMA, outline, time_text

WATCH_S = 2.0
WATCH_COST = 5.0  # the next look waits at least so many times as long as the last one took
KAFKA = "both clusters"
URL_HELP = "Ask the process that listens there (run --listen). By default its owner is asked if it runs on this machine."
TOKEN_HELP = "A file with the token of --url."
CERTIFICATE_HELP = "A PEM file with the certificate, or its issuer's, that --url must have."
WATCH_HELP = "Show it again every 2 s until Ctrl-C; with --json one line for each look."


@dataclass(frozen=True, slots=True)
class MirrorAddress:
    """The process that is asked, as the options name it."""

    url: str
    token: Secret | None = None
    certificate: str | None = None


@dataclass(frozen=True, slots=True)
class StatusLook:
    """What is known of each flow, who said so, and the exit status."""

    flows: list[tuple[str, Outline]]
    status: int
    time_ms: int
    notes: tuple[str, ...] = ()


def status(
    file: Annotated[str, typer.Argument(help=FILE_HELP, metavar="FILE")],
    flow: Annotated[list[str] | None, typer.Option(help="Only this flow; repeatable.", metavar="A->B")] = None,
    url: Annotated[str | None, typer.Option(help=URL_HELP, metavar="URL")] = None,
    token: Annotated[str | None, typer.Option(help=TOKEN_HELP, metavar="PATH")] = None,
    certificate: Annotated[str | None, typer.Option(help=CERTIFICATE_HELP, metavar="PATH")] = None,
    watch: Annotated[bool, typer.Option("--watch", help=WATCH_HELP)] = False,
    is_json: Annotated[bool, typer.Option("--json", help="Print JSON with a schema number.")] = False,
) -> None:
    """Show how every flow of FILE is: state, owner, lag, partitions, groups, heartbeat. Read-only.

    From the process that runs a flow if it answers, else from both clusters, as `doctor` reads them.

    Exit status: 0 nothing wrong; 1 usage or configuration error; 2 something could not be read; 3 warnings; 4 errors.
    """
    settings = load(file)
    place = _place(url, token, certificate)
    chosen = choose_flows(settings, flow)
    console = Console()
    look = _look(settings, chosen, place)
    _show(look, console, is_json=is_json, is_repeated=watch)
    try:
        while watch:
            took_s = time.time() - look.time_ms / 1000
            time.sleep(max(WATCH_S, WATCH_COST * took_s))
            look = _look(settings, chosen, place)
            _show(look, console, is_json=is_json, is_repeated=True)
    except KeyboardInterrupt:
        pass
    sys.exit(look.status)


def _place(url: str | None, token: str | None, certificate: str | None) -> MirrorAddress | None:
    if url is None:
        if token is not None or certificate is not None:
            raise typer.BadParameter("expected --url with this option, found none", param_hint="--url")
        return None
    if not url.startswith(("http://", "https://")):
        reason = f"expected http://HOST:PORT or https://HOST:PORT, found {printable(url)}"
        raise typer.BadParameter(reason, param_hint="--url")
    secret = None
    for path, option in ((token, "--token"), (certificate, "--certificate")):
        if path is None:
            continue
        try:
            with open(path, encoding="ascii") as opened:
                text = opened.read()
        except (OSError, UnicodeDecodeError) as error:
            found = getattr(error, "strerror", None) or "bytes that are no text"
            raise ConfigError(f"{option} {path}: expected a readable file, found {found}") from None
        secret = Secret(text.strip()) if option == "--token" else secret
    return MirrorAddress(url, secret, certificate)


def _look(settings: Settings, flows: Sequence[FlowSettings], place: MirrorAddress | None) -> StatusLook:
    began_ms = round(time.time() * 1000)
    names = [str(flow.name) for flow in flows]
    answered, notes = _answers(flows, place)
    worst, is_complete, found = Severity.FINE, True, dict[str, tuple[str, Outline]]()
    for name, (url, fields) in answered.items():
        severity, is_whole = severity_of(fields)
        worst, is_complete = max(worst, severity), is_complete and is_whole
        found[name] = url, fields
    rest = [name for name in names if name not in found]
    if rest:
        report, statuses = report_statuses(settings, rest)
        worst = max([worst, *(finding.severity for finding in report.findings)])
        is_complete = is_complete and not report.opens
        found |= {str(flow.name): (KAFKA, outline(flow)) for flow in statuses}
    return StatusLook([found[name] for name in names], status_of(worst, is_complete=is_complete), began_ms, tuple(notes))


def _answers(flows: Sequence[FlowSettings], place: MirrorAddress | None) -> tuple[dict[str, tuple[str, Outline]], list[str]]:
    """What running processes say, by flow, and which one did not."""
    if place is None:
        return local_outlines(flows), []
    try:
        found = {str(fields.get("flow")): fields for fields in fetch_outlines(place.url, place.token, place.certificate)}
    except NoAnswer as error:
        return {}, [f"no answer from {place.url}: {error}"]
    known = {str(flow.name): (place.url, found[str(flow.name)]) for flow in flows if str(flow.name) in found}
    missing = [str(flow.name) for flow in flows if str(flow.name) not in known]
    return known, [f"{place.url} does not run {', '.join(missing)}"] if missing else []


def _show(look: StatusLook, console: Console, *, is_json: bool, is_repeated: bool) -> None:
    if is_json:
        value = _value(look)
        print(orjson.dumps(value).decode() if is_repeated else json_text(value), flush=True)
        return
    if is_repeated and console.is_terminal:
        console.clear()
    lines: list[Line] = [[(f"warning: {printable(note)}", "yellow")] for note in look.notes]
    for place, fields in look.flows:
        lines += flow_lines(fields, place, look.time_ms)
    print_lines(lines, console)
    sys.stdout.flush()


def _value(look: StatusLook) -> dict[str, Any]:
    flows = [{"from": place} | fields for place, fields in look.flows]
    return {"schema": SCHEMA, "as_of": time_text(look.time_ms), "status": look.status, "warnings": list(look.notes),
            "flows": flows}  # fmt: skip
