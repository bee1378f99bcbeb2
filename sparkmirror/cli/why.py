"""sparkmirror why FILE TOPIC|TOPIC:PARTITION|GROUP: explains why something is not copied or not synced."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console

from sparkmirror.cli.doctor import READS_HELP, REDELIVERY, WAIT_HELP
from sparkmirror.cli.findings_view import SCHEMA, fact_lines, finding_value, merge_same, merged_message, open_value
from sparkmirror.cli.run import FILE_HELP
from sparkmirror.cli.styled_lines import Line, print_lines
from sparkmirror.cli.text import json_text, printable
from sparkmirror.cli.usage import load
from sparkmirror.diagnose import Answer, Finding, Report, Severity, why
from sparkmirror.diagnose.exit_status import ERRORS, status_of
from sparkmirror.examination.examine import Examination, examine
from sparkmirror.state.gathering import GatherOptions

SUBJECT_HELP = "A topic (its name on either cluster), a partition (TOPIC:0), or a group."
MARKS = {True: ("✓", "green"), False: ("✗", "bold red"), None: ("?", "yellow")}


def why_command(
    file: Annotated[str, typer.Argument(help=FILE_HELP, metavar="FILE")],
    subject: Annotated[str, typer.Argument(help=SUBJECT_HELP, metavar="TOPIC|TOPIC:PARTITION|GROUP")],
    flow: Annotated[list[str] | None, typer.Option(help="Only this flow; repeatable.", metavar="A->B")] = None,
    wait: Annotated[float, typer.Option(help=WAIT_HELP, metavar="SECONDS", min=0.0, max=3600.0)] = 3.0,
    no_record_reads: Annotated[bool, typer.Option(REDELIVERY, help=READS_HELP)] = False,
    is_json: Annotated[bool, typer.Option("--json", help="Print JSON with a schema number.")] = False,
) -> None:
    """Explain why a topic, partition or group is not copied or synced, step by step up to the first certain cause.

    Exit status: 0 it is fine; 1 usage or configuration error; 2 a check could not run; 3 a warning; 4 an error, or neither
    cluster has it.
    """
    options = GatherOptions(records=not no_record_reads, proofs=not no_record_reads)
    report = examine(load(file), Examination(flows=flow, wait_s=wait, gather=options))
    answers = _answers(report, subject)
    if is_json:
        print(json_text({"schema": SCHEMA, "subject": subject, "answers": [_value(a) for a in answers],
                         "open": [open_value(o) for o in report.opens], "status": _status(answers)}))  # fmt: skip
    else:
        print_lines(_lines(answers), Console())
    sys.stdout.flush()
    sys.exit(_status(answers))


def _answers(report: Report, subject: str) -> list[Answer]:
    """The answers of every flow that has the subject; of all flows if none has it."""
    found = [answer for flow in report.flows for answer in why(flow, subject)]
    known = [answer for answer in found if answer.is_there]
    return known or found


def _status(answers: Sequence[Answer]) -> int:
    found = [finding for a in answers for finding in ((a.cause, *a.also) if a.cause is not None else a.also)]
    worst = max((finding.severity for finding in found), default=Severity.FINE)
    is_complete = all(answer.is_complete for answer in answers)
    if is_complete and not any(answer.is_there for answer in answers):
        return ERRORS
    return status_of(worst, is_complete=is_complete)


def _lines(answers: Sequence[Answer]) -> Iterator[Line]:
    for number, answer in enumerate(answers):
        if number:
            yield [("", "")]
        yield [(printable(answer.subject), "bold"), (f"  {printable(answer.flow)}", "dim")]
        for step in answer.steps:
            mark, style = MARKS[step.is_good]
            yield [(f"  {mark} ", style), (f"{step.question} ", ""), (printable(step.answer), "" if step.is_good else style)]
        yield [("", "")]
        yield [(f"{printable(_sentence(answer))}", "bold")]
        if answer.cause is not None:
            yield from _cause_lines(answer.cause)
        if answer.also:
            yield [("also:", "bold")]
            for row in merge_same(answer.also):
                yield [(f"  {row[0].id} ({row[0].certainty.value}) {printable(merged_message(row))}", "")]


def _sentence(answer: Answer) -> str:
    if answer.cause is None:
        return f"{answer.conclusion}."
    sure = {"proven": "Certain", "likely": "Likely", "possible": "Possible"}[answer.cause.certainty.value]
    return f"{sure}: {answer.cause.message} ({answer.cause.id})."


def _cause_lines(cause: Finding) -> Iterator[Line]:
    yield from fact_lines(cause.facts)
    if cause.mend:
        yield [(f"  → {printable(cause.mend)}", "")]
    if cause.command:
        yield [(f"    $ {printable(cause.command)}", "cyan")]


def _value(answer: Answer) -> dict[str, Any]:
    return {
        "flow": answer.flow,
        "subject": answer.subject,
        "steps": [{"question": s.question, "answer": s.answer, "good": s.is_good} for s in answer.steps],
        "conclusion": answer.conclusion,
        "complete": answer.is_complete,
        "cause": None if answer.cause is None else finding_value(answer.cause),
        "also": [finding_value(finding) for finding in answer.also],
    }
