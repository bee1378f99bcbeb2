"""The command: the options of Aiven's offset sync inspector 0.1 with the same meanings, and our own."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Protocol, TextIO

import typer
from typer.core import TyperCommand

from sparkmirror.cli.inspect.durations import parse_duration
from sparkmirror.cli.inspect.forms import CsvForm, ExtendedCsvForm, JsonForm, is_listed
from sparkmirror.cli.inspect.table import TableForm
from sparkmirror.cli.run import FILE_HELP
from sparkmirror.cli.text import printable
from sparkmirror.cli.usage import load, usage_status
from sparkmirror.clusters.client import Patience
from sparkmirror.config import FlowSettings, choose_flows
from sparkmirror.diagnose.exit_status import USAGE
from sparkmirror.examination import (
    FlowInspection,
    FlowTally,
    InspectedFlow,
    InspectedRow,
    InspectOptions,
    Summary,
    exit_status,
)
from sparkmirror.offsets.proof import WalkLimits
from sparkmirror.state import Note, Notes
from sparkmirror.topology import JavaPattern, RegexRefused, compile_java, require_custom_classes

FORMATS = ("table", "csv", "csv-ext", "json")
STRICT_USAGE = 255
# The original's own options. An abbreviation that matches one of them selects it, whatever other options match.
ORIGINAL = (
    "--mm2-config", "--output-path", "--admin-timeout", "--request-timeout", "--include-inactive-groups",
    "--include-ok-groups", "--emit-summary", "--help",
)  # fmt: skip
CHECKPOINTS_OFF = "not inspected: checkpoints are off (emit.checkpoints.enabled, emit.checkpoints.interval.seconds)"


class InspectCommand(TyperCommand):
    """Accepts any unique prefix of a long option, and exits with the documented status for a wrong command line."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As typer does, with prefixes replaced by full option names."""
        known = [name for parameter in self.params for name in parameter.opts if name.startswith("--")]
        is_strict = any(word.startswith("--compat") for word in args)
        with usage_status(STRICT_USAGE if is_strict else USAGE):
            return super().parse_args(ctx, unabbreviated(args, known))

    def invoke(self, ctx: Any) -> Any:
        """As typer does."""
        is_strict = bool(ctx.params.get("compat"))
        with usage_status(STRICT_USAGE if is_strict else USAGE, of_configuration=not is_strict):
            return super().invoke(ctx)


class InspectorCommand(InspectCommand):
    """The same with the original's defaults: CSV, status 0 whatever the verdicts, 255 for wrong usage."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As typer does."""
        with usage_status(STRICT_USAGE):
            rest = super().parse_args(ctx, args)
        ctx.params["finished_is_zero"] = True
        ctx.params["form"] = ctx.params["form"] or ("json" if ctx.params["is_json"] else "csv")
        return rest

    def invoke(self, ctx: Any) -> Any:
        """As typer does."""
        with usage_status(STRICT_USAGE):
            return super().invoke(ctx)


def unabbreviated(words: Sequence[str], known: Sequence[str]) -> list[str]:
    """`--emit` as `--emit-summary`; a prefix that matches several options is unchanged, so typer refuses it."""
    found = []
    for word in words:
        name, equals, value = word.partition("=")
        if name.startswith("--") and len(name) > 2 and name not in known:
            fits = [option for option in ORIGINAL if option.startswith(name)]
            fits = fits if len(fits) == 1 else [option for option in known if option.startswith(name)]
            name = fits[0] if len(fits) == 1 else name
        found.append(name + equals + value)
    return found


def inspect(
    file: Annotated[str | None, typer.Argument(help=FILE_HELP, metavar="FILE", show_default=False)] = None,
    mm2_config: Annotated[str | None, typer.Option(help="The same as FILE.", metavar="FILE")] = None,
    form: Annotated[str, typer.Option("--format", help="table, csv, csv-ext or json.", metavar="FORMAT")] = "",
    is_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    output_path: Annotated[str | None, typer.Option(help="Write to this file.", metavar="FILE")] = None,
    include_inactive_groups: Annotated[
        bool, typer.Option("--include-inactive-groups", help="Include groups without members.")
    ] = False,
    include_ok_groups: Annotated[bool, typer.Option("--include-ok-groups", help="Include rows with the result OK.")] = False,
    emit_summary: Annotated[bool, typer.Option("--emit-summary", help="Print row counts after the CSV.")] = False,
    flow: Annotated[list[str] | None, typer.Option(help="Only this flow; repeatable.", metavar="A->B")] = None,
    group: Annotated[str | None, typer.Option(help="Only groups that match.", metavar="REGEX")] = None,
    topic: Annotated[str | None, typer.Option(help="Only source topics that match.", metavar="REGEX")] = None,
    no_record_reads: Annotated[
        bool, typer.Option("--no-record-reads", help="Do not read records; positions are estimated.")
    ] = False,
    budget: Annotated[
        int, typer.Option(help="Maximum number of records to read in one partition.", min=0, metavar="RECORDS")
    ] = WalkLimits().records,
    behind_max: Annotated[
        int | None, typer.Option(help="Warn if a group would re-read more records than this.", min=0, metavar="RECORDS")
    ] = None,
    watch: Annotated[float | None, typer.Option(help="Repeat every so many seconds.", min=1, metavar="SECONDS")] = None,
    admin_timeout: Annotated[str, typer.Option(help="How long to retry a request.", metavar="DURATION")] = "PT1M",
    request_timeout: Annotated[str, typer.Option(help="Timeout of one request.", metavar="DURATION")] = "PT30S",
    compat: Annotated[
        str | None, typer.Option(help="strict: behave exactly as the inspector 0.1, defects included.", metavar="strict")
    ] = None,
    exit_zero: Annotated[bool, typer.Option("--exit-zero", help="Exit with status 0 whatever is found.")] = False,
    finished_is_zero: Annotated[bool, typer.Option("--finished-is-zero", hidden=True)] = False,
) -> None:
    """Check the accuracy of each group's offset on the target, for flows of sparkmirror or MirrorMaker 2. Read-only.

    Takes the options of Aiven's offset sync inspector and prints the same columns. See docs/inspector.md.

    Exit status: 0 nothing wrong; 1 wrong options or configuration; 2 incomplete; 3 warnings; 4 errors.
    """
    path = _one_path(file, mm2_config)
    wanted = _Wanted(
        path=path,
        form=_form(form, is_json=is_json, compat=compat, watch=watch),
        is_strict=compat is not None,
        includes_ok=include_ok_groups,
        has_summary=emit_summary,
        output_path=output_path,
        flows=tuple(flow or ()),
        finished_is_zero=finished_is_zero,
    )
    options = InspectOptions(
        is_strict=wanted.is_strict,
        wants_causes=wanted.judges,
        includes_inactive=include_inactive_groups,
        groups=_pattern(group, "--group"),
        topics=_pattern(topic, "--topic"),
        limits=None if no_record_reads or not wanted.judges else WalkLimits(budget),
        patience=_patience(admin_timeout, request_timeout),
        behind_max=behind_max,
    )
    status = _inspect_all(wanted, options, watch)
    sys.stdout.flush()
    sys.exit(0 if exit_zero or wanted.is_strict else status)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """What is printed, and where."""

    path: str
    form: str
    is_strict: bool
    includes_ok: bool
    has_summary: bool
    output_path: str | None
    flows: tuple[str, ...]
    finished_is_zero: bool

    @property
    def knows_more(self) -> bool:
        """Whether the output has more than the original's columns."""
        return self.form != "csv"

    @property
    def judges(self) -> bool:
        """Whether causes are looked for: they decide the status, whatever the format."""
        return self.knows_more or not (self.is_strict or self.finished_is_zero)


class _Form(Protocol):
    def begin(self, path: str) -> None: ...
    def row(self, row: InspectedRow) -> None: ...
    def end(self, reports: list[tuple[InspectedFlow, Notes]], status: int) -> None: ...


# --- options -----------------------------------------------------------------------------------------------------


def _one_path(file: str | None, mm2_config: str | None) -> str:
    path = mm2_config if mm2_config is not None else file
    if path is None or (file is not None and mm2_config is not None):
        raise typer.BadParameter("expected one properties file", param_hint="--mm2-config")
    return path


def _form(form: str, *, is_json: bool, compat: str | None, watch: float | None) -> str:
    if compat not in (None, "strict"):
        raise typer.BadParameter(f"expected strict, found {printable(compat or '')}", param_hint="--compat")
    chosen = form or ("json" if is_json else "csv" if compat is not None else "table")
    if chosen not in FORMATS or (is_json and chosen != "json"):
        raise typer.BadParameter(f"expected {', '.join(FORMATS)}, found {printable(chosen)}", param_hint="--format")
    if compat is not None and chosen != "csv":
        raise typer.BadParameter("strict supports only csv", param_hint="--format")
    if watch is not None and chosen == "csv":
        raise typer.BadParameter("csv has no column for the time; use csv-ext", param_hint="--watch")
    return chosen


def _patience(admin_timeout: str, request_timeout: str) -> Patience:
    found = {}
    for option, text in (("--admin-timeout", admin_timeout), ("--request-timeout", request_timeout)):
        try:
            found[option] = parse_duration(text)
        except ValueError as error:
            raise typer.BadParameter(printable(str(error)), param_hint=option) from error
        if found[option] <= 0:
            raise typer.BadParameter(f"expected a positive duration, found {printable(text)}", param_hint=option)
    if found["--admin-timeout"] < found["--request-timeout"]:
        raise typer.BadParameter("expected at least --request-timeout", param_hint="--admin-timeout")
    return Patience(request_s=found["--request-timeout"], retry_s=found["--admin-timeout"])


def _pattern(text: str | None, option: str) -> JavaPattern | None:
    if text is None:
        return None
    try:
        return compile_java(text)
    except RegexRefused as error:
        raise typer.BadParameter(printable(str(error)), param_hint=option) from error


# --- reading -----------------------------------------------------------------------------------------------------


def _inspect_all(wanted: _Wanted, options: InspectOptions, watch: float | None) -> int:
    settings = load(wanted.path)
    require_custom_classes(settings, None)
    is_empty = wanted.is_strict and not wanted.flows and not settings.enabled_flows(None)
    flows = [] if is_empty else choose_flows(settings, wanted.flows)
    status = 0
    with _output(wanted) as out:
        form = _writer(wanted, out)
        with contextlib.suppress(KeyboardInterrupt) if watch is not None else contextlib.nullcontext():
            while True:
                began = time.monotonic()
                status = _sample(wanted, options, flows, form)
                out.flush()
                if watch is None:
                    break
                time.sleep(max(watch - (time.monotonic() - began), 0.0))
    return status


def _sample(wanted: _Wanted, options: InspectOptions, flows: Sequence[FlowSettings], form: _Form) -> int:
    summary = Summary()
    reports: list[tuple[InspectedFlow, Notes]] = []
    form.begin(wanted.path)
    for flow in flows:
        if not flow.emit_checkpoints_enabled or flow.emit_checkpoints_interval_seconds < 0:
            if not wanted.is_strict:
                reports.append((InspectedFlow(str(flow.name), FlowTally(), skipped=CHECKPOINTS_OFF), Notes()))
            continue
        reports.append(_inspect_flow(wanted, options, flow, form, summary))
    status = exit_status(report for report, _ in reports)
    form.end(reports, status)
    if wanted.has_summary and wanted.form in ("csv", "csv-ext"):
        for line in summary.lines():
            print(printable(line))
    _tell_notes(reports)
    if wanted.finished_is_zero:
        return exit_status(replace(report, tally=FlowTally()) for report, _ in reports)
    return status


def _inspect_flow(
    wanted: _Wanted, options: InspectOptions, flow: FlowSettings, form: _Form, summary: Summary
) -> tuple[InspectedFlow, Notes]:
    inspection, tally = FlowInspection(flow, options), FlowTally()
    try:
        for row in inspection.rows():
            tally.take(row)
            if is_listed(row, includes_ok=wanted.includes_ok, knows_more=wanted.knows_more):
                form.row(row)
                summary.take(row, target_state="Unknown" if wanted.is_strict else row.facts.target_state or "Unknown")
        tally.finish()
        notes = inspection.state.notes
        health = inspection.health() if wanted.knows_more else None
        return InspectedFlow(str(flow.name), tally, health, notes.is_complete), notes
    finally:
        inspection.close()


# --- output ------------------------------------------------------------------------------------------------------


def _writer(wanted: _Wanted, out: TextIO) -> _Form:
    match wanted.form:
        case "csv":
            return CsvForm(out, is_strict=wanted.is_strict)
        case "csv-ext":
            return ExtendedCsvForm(out, wanted.path)
        case "json":
            return JsonForm(out, wanted.path)
    return TableForm(out, includes_ok=wanted.includes_ok, path=wanted.path)


@contextlib.contextmanager
def _output(wanted: _Wanted) -> Iterator[TextIO]:
    if wanted.output_path is None:
        yield sys.stdout
        return
    with contextlib.ExitStack() as opened:
        try:
            path = os.path.abspath(wanted.output_path)
            file = opened.enter_context(open(path, "w", encoding="utf-8", errors="backslashreplace", newline="\n"))
        except OSError as error:
            reason = f"{printable(wanted.output_path)} cannot be written: {error.strerror}"
            raise typer.BadParameter(reason, param_hint="--output-path") from error
        yield file


def _tell_notes(reports: Sequence[tuple[InspectedFlow, Notes]]) -> None:
    for report, notes in reports:
        for note in notes:
            print(f"sparkmirror: {printable(f'{report.flow}: {_note_text(note)}')}", file=sys.stderr)
        if notes.left_out:
            print(f"sparkmirror: {printable(report.flow)}: and {notes.left_out} more notes", file=sys.stderr)


def _note_text(note: Note) -> str:
    return f"{note.message}; needs {note.needs}" if note.needs and "needs" not in note.message else note.message
