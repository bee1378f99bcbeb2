"""sparkmirror offsets reset FILE: copy once more, from the beginning or from another source offset on."""

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


def reset(
    file: Annotated[str, typer.Argument(help=FILE_HELP, metavar="FILE")],
    topic: Topic = None,
    is_all: All = False,
    partition: Partition = None,
    to: Annotated[str, typer.Option(help=TO_HELP, metavar="WHERE")] = "earliest",
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
    """Copy from another offset on, behind what the target holds: after a topic was created again, or on purpose.

    A flow of sparkmirror's moves in its ledger, and MirrorMaker 2's position is set with it. A flow of MirrorMaker 2's
    has only its own records: the position is forgotten by a tombstone in the very partition that holds its key.

    A running owner is asked to do it, and only the partitions that are concerned pause meanwhile.

    Exit status: 0 changed, nothing to change, or dry run; 2 refused; 5 MirrorMaker 2 runs the flow, or no answer.
    """
    require_topic(topic, is_all=is_all)
    storage = storage_of(connector, offsets_topic, worker_group)
    request = MoveRequest(
        "reset", topic, partition, goal_of(to), flow, storage,
        force_unseen=force_unseen, with_target=with_target, undo_file=undo_file,
    )  # fmt: skip
    carry_out(file, request, asking_of(request_id, wait), yes=is_wanted(yes=yes, dry_run=dry_run), is_json=is_json)
