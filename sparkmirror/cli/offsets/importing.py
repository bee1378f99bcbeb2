"""sparkmirror offsets import FILE POSITIONS: set positions from a file."""

from __future__ import annotations

from typing import Annotated

import typer

from sparkmirror.cli.offsets.words import (
    Connector,
    DryRun,
    Flow,
    ForceUnseen,
    IsJson,
    OffsetsTopics,
    RequestId,
    Topic,
    UndoFile,
    Wait,
    WorkerGroup,
    Yes,
    asking_of,
    carry_out,
    is_wanted,
    storage_of,
)
from sparkmirror.cli.run import FILE_HELP
from sparkmirror.cli.usage import load
from sparkmirror.driver import WAIT_S
from sparkmirror.positions import MoveRequest, choose_flow, read_entries, read_text

POSITIONS_HELP = "What `offsets export` wrote, or positions in the form of Connect's REST API."


def import_(
    file: Annotated[str, typer.Argument(help=FILE_HELP, metavar="FILE")],
    positions: Annotated[str, typer.Argument(help=POSITIONS_HELP, metavar="POSITIONS")],
    topic: Topic = None,
    flow: Flow = None,
    connector: Connector = None,
    offsets_topic: OffsetsTopics = None,
    worker_group: WorkerGroup = None,
    force_unseen: ForceUnseen = False,
    undo_file: UndoFile = None,
    request_id: RequestId = None,
    wait: Wait = WAIT_S,
    dry_run: DryRun = False,
    yes: Yes = False,
    is_json: IsJson = False,
) -> None:
    """Set the positions that a file holds, judged by MirrorMaker 2's own rules. Others stay as they are.

    In the file an offset is the *last* one copied, as MirrorMaker 2 stores it: {"offset":40} goes on at 41, and null at
    the beginning.

    A running owner is asked to do it, and only the partitions that are concerned pause meanwhile.

    Exit status: 0 changed, nothing to change, or dry run; 2 refused; 5 MirrorMaker 2 runs the flow, or no answer.
    """
    storage = storage_of(connector, offsets_topic, worker_group)
    alias = choose_flow(load(file), flow).name.source
    entries = read_entries(read_text(positions), positions, alias=alias, storage=storage, topic=topic)
    request = MoveRequest(
        "import", topic, None, None, flow, storage, entries=entries, force_unseen=force_unseen, undo_file=undo_file
    )
    carry_out(file, request, asking_of(request_id, wait), yes=is_wanted(yes=yes, dry_run=dry_run), is_json=is_json)
