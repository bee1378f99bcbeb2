"""What the verbs take, and how a request is carried out."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated

import typer

from sparkmirror.cli.offsets.report import as_json, as_lines
from sparkmirror.cli.text import json_text
from sparkmirror.cli.usage import load
from sparkmirror.driver import Asking
from sparkmirror.errors import MoveRefused
from sparkmirror.positions import Goal, MoveRequest, StoragePlace, apply, parse_goal, preview

WITH_TARGET_HELP = "Also delete the remote topics, their group offsets, checkpoints and offset syncs."

Topic = Annotated[str | None, typer.Option(help="The topic, by its name on the source.", metavar="NAME")]
All = Annotated[bool, typer.Option("--all", help="Every topic of the flow.")]
Partition = Annotated[int | None, typer.Option(help="Only this partition.", metavar="NUMBER", min=0)]
Flow = Annotated[str | None, typer.Option(help="Which flow, if FILE has several.", metavar="A->B")]
Yes = Annotated[bool, typer.Option("--yes", help="Apply the change (default: dry run).")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would change (the default).")]
IsJson = Annotated[bool, typer.Option("--json", help="Print JSON with a schema number.")]
UndoFile = Annotated[
    str | None, typer.Option(help="Save the old state to this new file (default: one next to FILE).", metavar="PATH")
]
ForceUnseen = Annotated[
    bool, typer.Option("--force-unseen", help="MirrorMaker 2: also write keys that do not exist yet.")
]
WithTarget = Annotated[
    bool, typer.Option("--with-target", help=WITH_TARGET_HELP)
]
Connector = Annotated[
    str | None, typer.Option(help="MirrorMaker 2 on a Connect cluster: the source connector's name.", metavar="NAME")
]
OffsetsTopics = Annotated[
    list[str] | None,
    typer.Option("--offsets-topic", help="Its workers' offset.storage.topic; again for one of the connector's own.",
                 metavar="NAME"),
]  # fmt: skip
WorkerGroup = Annotated[
    str | None, typer.Option(help="Its workers' group.id; by default every Connect group is checked.", metavar="NAME")
]

RequestId = Annotated[
    str | None, typer.Option(help="Repeat this request: nothing is done twice, the first answer is shown.", metavar="ID")
]
Wait = Annotated[
    float, typer.Option(help="How long to wait for the answer of a running owner.", metavar="SECONDS", min=1.0)
]


def asking_of(request_id: str | None, wait: float) -> Asking:
    """How a running owner is asked."""
    return Asking(request_id or "", wait, command_text())


def storage_of(connector: str | None, offsets_topics: list[str] | None, worker_group: str | None) -> StoragePlace:
    """Where MirrorMaker 2 keeps its positions."""
    default = StoragePlace()
    return StoragePlace(connector or default.connector, tuple(offsets_topics or ()), worker_group)


def require_topic(topic: str | None, *, is_all: bool) -> None:
    """Raises unless exactly one of both was given."""
    if (topic is None) is not is_all:
        raise typer.BadParameter("give a topic, or --all for the whole flow", param_hint="--topic")


def goal_of(text: str) -> Goal:
    """The value of `--to`."""
    try:
        return parse_goal(text)
    except MoveRefused as error:
        raise typer.BadParameter(error.message, param_hint="--to") from error


def is_wanted(*, yes: bool, dry_run: bool) -> bool:
    """Whether to do it."""
    if yes and dry_run:
        raise typer.BadParameter("cannot be combined with --yes", param_hint="--dry-run")
    return yes


def command_text() -> str:
    """The command as it was typed, for the undo file."""
    return " ".join(["sparkmirror", *(shlex.quote(word) for word in sys.argv[1:])])


def carry_out(file: str, request: MoveRequest, asking: Asking, *, yes: bool, is_json: bool) -> None:
    """Shows what would change, or changes it."""
    settings = load(file)
    verdict = apply(settings, request, asking) if yes else preview(settings, request)
    print(json_text(as_json(verdict)) if is_json else "\n".join(as_lines(verdict)))
    sys.stdout.flush()
