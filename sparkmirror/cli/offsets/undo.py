"""sparkmirror offsets undo FILE SAVED: write back what a command saved before it changed anything."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from sparkmirror import positions as stored_positions
from sparkmirror.cli.offsets.report import undo_json, undo_lines
from sparkmirror.cli.offsets.words import (
    DryRun,
    IsJson,
    RequestId,
    UndoFile,
    Wait,
    WorkerGroup,
    Yes,
    asking_of,
    is_wanted,
)
from sparkmirror.cli.run import FILE_HELP
from sparkmirror.cli.text import json_text
from sparkmirror.cli.usage import load
from sparkmirror.driver import WAIT_S


def undo(
    file: Annotated[str, typer.Argument(help=FILE_HELP, metavar="FILE")],
    saved: Annotated[str, typer.Argument(help="The undo file that a command named.", metavar="SAVED")],
    worker_group: WorkerGroup = None,
    undo_file: UndoFile = None,
    request_id: RequestId = None,
    wait: Wait = WAIT_S,
    dry_run: DryRun = False,
    yes: Yes = False,
    is_json: IsJson = False,
) -> None:
    """Bring the old positions back: the very records that stood where a command wrote others.

    A move in sparkmirror's ledger is taken back only while nothing was copied after it. Copies that --with-target deleted
    do not come back.

    Exit status: 0 changed, or dry run; 2 refused; 5 MirrorMaker 2 runs the flow, or no answer.
    """
    request = stored_positions.UndoRequest(saved, worker_group, undo_file)
    asking, yes = asking_of(request_id, wait), is_wanted(yes=yes, dry_run=dry_run)
    verdict = stored_positions.undo(load(file), request, is_applied=yes, asking=asking)
    print(json_text(undo_json(verdict)) if is_json else "\n".join(undo_lines(verdict)))
    sys.stdout.flush()
