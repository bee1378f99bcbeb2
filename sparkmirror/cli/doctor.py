"""sparkmirror doctor FILE: what is wrong with the flows of a file, and how to fix it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console

from sparkmirror.cli.findings_view import report_lines, report_value
from sparkmirror.cli.run import FILE_HELP
from sparkmirror.cli.styled_lines import print_lines
from sparkmirror.cli.text import printable
from sparkmirror.cli.usage import load
from sparkmirror.diagnose import RULES, explain, rule_ids
from sparkmirror.examination.examine import Examination, examine, wanted_ids
from sparkmirror.state.gathering import GatherOptions

ONLY_HELP = "Run only these checks (ids such as D6, C01); repeat the option or separate ids with commas."
SKIP_HELP = "Skip the checks with these ids."
EXPLAIN_HELP = "Explain the check with this id; with FILE also show its findings and all their evidence."
BASELINE_HELP = "Append this sample to a file, and compare it with the earlier samples in that file."
WAIT_HELP = "Seconds between two samples of a running flow; 0 takes one sample."
READS_HELP = "Do not read records from topics."
REDELIVERY = "--no-record-reads"


def doctor(
    file: Annotated[str | None, typer.Argument(help=FILE_HELP, metavar="FILE")] = None,
    flow: Annotated[list[str] | None, typer.Option(help="Only this flow; repeatable.", metavar="A->B")] = None,
    only: Annotated[list[str] | None, typer.Option(help=ONLY_HELP, metavar="IDS")] = None,
    skip: Annotated[list[str] | None, typer.Option(help=SKIP_HELP, metavar="IDS")] = None,
    explain_id: Annotated[str | None, typer.Option("--explain", help=EXPLAIN_HELP, metavar="ID")] = None,
    baseline: Annotated[str | None, typer.Option(help=BASELINE_HELP, metavar="PATH")] = None,
    wait: Annotated[float, typer.Option(help=WAIT_HELP, metavar="SECONDS", min=0.0, max=3600.0)] = 3.0,
    no_record_reads: Annotated[bool, typer.Option(REDELIVERY, help=READS_HELP)] = False,
    is_json: Annotated[bool, typer.Option("--json", help="Print JSON with a schema number.")] = False,
) -> None:
    """Report what is wrong with the flows of FILE, worst first, with the command that fixes it. Read-only.

    Works on running flows of sparkmirror and of MirrorMaker 2, and does not start Spark. docs/doctor.md lists every id.

    Exit status: 0 nothing wrong; 1 usage or configuration error; 2 a check could not run; 3 warnings; 4 errors.
    """
    chosen = _ids(only, "--only"), _ids(skip, "--skip")
    explained = _ids([explain_id], "--explain") if explain_id is not None else []
    if explained:
        print_lines(([(line, "")] for line in explain(RULES[explained[0]])), Console())
        if file is None:
            return
        print()
    if file is None:
        raise typer.BadParameter("expected the properties file of the flows, found none", param_hint="FILE")
    wanted = Examination(
        flows=flow,
        ids=wanted_ids([*chosen[0], *explained], chosen[1]),
        baseline=baseline,
        wait_s=wait,
        gather=GatherOptions(records=not no_record_reads, proofs=not no_record_reads),
    )
    report = examine(load(file), wanted)
    if is_json:
        print(json.dumps(report_value(report), indent=2))
    else:
        print_lines(report_lines(report, facts_of=explained[0] if explained else ""), Console())
    sys.stdout.flush()
    sys.exit(report.status)


def _ids(words: Sequence[str] | None, option: str) -> list[str]:
    found: list[str] = []
    for word in words or ():
        try:
            found += rule_ids(word)
        except ValueError as error:
            known = ", ".join(RULES)
            raise typer.BadParameter(f"expected one of {known}, found {printable(str(error))}", param_hint=option) from error
    return found
