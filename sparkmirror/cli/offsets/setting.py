"""sparkmirror offsets set FILE: set the source offset at which copying resumes."""

from __future__ import annotations

from typing import Annotated

import typer

from sparkmirror.cli.offsets.words import (
    All,
    Connector,
    DryRun,
    Flow,
    ForceUnseen,
    IsJson,
    OffsetsTopics,
    Partition,
    RequestId,
    Topic,
    UndoFile,
    Wait,
    WithTarget,
    WorkerGroup,
    Yes,
    asking_of,
    carry_out,
    goal_of,
    is_wanted,
    require_topic,
    storage_of,
)
from sparkmirror.cli.run import FILE_HELP
from sparkmirror.driver import WAIT_S
from sparkmirror.positions import MoveRequest

TO_HELP = "The next upstream offset to copy: earliest, latest, an offset, or a time such as 2026-01-31T12:00:00Z."


def set_(
    file: Annotated[str, typer.Argument(help=FILE_HELP, metavar="FILE")],
    to: Annotated[str, typer.Option(help=TO_HELP, metavar="WHERE")],
    topic: Topic = None,
    is_all: All = False,
    partition: Partition = None,
    flow: Flow = None,
    with_target: WithTarget = False,
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
    """Set the source offset at which copying resumes: the next one to copy.

    MirrorMaker 2 itself stores the *last* offset that it copied: to go on at 41, {"offset":40} is written, and to go on
    at 0 its position is forgotten. {"offset":0} would begin at 1 and never copy the first record.

    A running owner is asked to do it, and only the partitions that are concerned pause meanwhile.

    Exit status: 0 changed, nothing to change, or dry run; 2 refused; 5 MirrorMaker 2 runs the flow, or no answer.
    """
    require_topic(topic, is_all=is_all)
    storage = storage_of(connector, offsets_topic, worker_group)
    request = MoveRequest(
        "set", topic, partition, goal_of(to), flow, storage,
        force_unseen=force_unseen, with_target=with_target, undo_file=undo_file,
    )  # fmt: skip
    carry_out(file, request, asking_of(request_id, wait), yes=is_wanted(yes=yes, dry_run=dry_run), is_json=is_json)
