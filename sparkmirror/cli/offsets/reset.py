"""sparkmirror offsets reset FILE: copy from another source offset on."""

from __future__ import annotations

from typing import Annotated

import typer

from sparkmirror.cli.offsets.words import Flow, Partition, Topic, Yes, carry_out
from sparkmirror.cli.run import FILE_HELP
from sparkmirror.cli.text import printable
from sparkmirror.tools import MoveRequest

__all__ = ["reset"]

TO_HELP = "The next upstream offset to copy, or earliest or latest."
NAMED = ("earliest", "latest")


def reset(
    file: Annotated[str, typer.Argument(help=FILE_HELP, metavar="FILE")],
    topic: Topic,
    partition: Partition = None,
    to: Annotated[str, typer.Option(help=TO_HELP, metavar="earliest|latest|OFFSET")] = "earliest",
    flow: Flow = None,
    yes: Yes = False,
) -> None:
    """Copy from another offset on, behind what the target holds: after a topic was created again, or on purpose.

    MirrorMaker 2's stored position is set too, so that it would go on at the same offset.

    Status: 0 changed, or with nothing to change, or told without --yes; 2 refused; 5 another process owns the flow.
    """
    if to not in NAMED and not (to.isascii() and to.isdigit()):
        raise typer.BadParameter(f"expected earliest, latest or an offset, found {printable(to)}", param_hint="--to")
    carry_out(file, MoveRequest("reset", topic, partition, to, flow), yes=yes)
