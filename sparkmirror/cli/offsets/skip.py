"""sparkmirror offsets skip FILE: resume after what cannot be copied."""

from __future__ import annotations

from typing import Annotated

import typer

from sparkmirror.cli.offsets.words import (
    Connector,
    DryRun,
    Flow,
    IsJson,
    OffsetsTopics,
    Partition,
    RequestId,
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
from sparkmirror.driver import WAIT_S
from sparkmirror.positions import Goal, MoveRequest

TO_HELP = "The next upstream offset to copy; by default the first one that the source still holds."


def skip(
    file: Annotated[str, typer.Argument(help=FILE_HELP, metavar="FILE")],
    topic: Annotated[str, typer.Option(help="The topic, by its name on the source.", metavar="NAME")],
    partition: Partition = None,
    to: Annotated[int | None, typer.Option(help=TO_HELP, metavar="OFFSET", min=0)] = None,
    flow: Flow = None,
    connector: Connector = None,
    offsets_topic: OffsetsTopics = None,
    worker_group: WorkerGroup = None,
    undo_file: UndoFile = None,
    request_id: RequestId = None,
    wait: Wait = WAIT_S,
    dry_run: DryRun = False,
    yes: Yes = False,
    is_json: IsJson = False,
) -> None:
    """Accept a gap: records that the source deleted, or that cannot be copied. The ledger keeps it, and `plan` shows it.

    Also resumes after foreign records on the target. MirrorMaker 2's position is set to the offset before --to, the last
    one copied: to skip a record at 41, use --to 42.

    A running owner is asked to do it, and only the partitions that are concerned pause meanwhile.

    Exit status: 0 changed, nothing to change, or dry run; 2 refused; 5 MirrorMaker 2 runs the flow, or no answer.
    """
    goal = None if to is None else Goal("offset", to)
    storage = storage_of(connector, offsets_topic, worker_group)
    request = MoveRequest("skip", topic, partition, goal, flow, storage, undo_file=undo_file)
    carry_out(file, request, asking_of(request_id, wait), yes=is_wanted(yes=yes, dry_run=dry_run), is_json=is_json)
