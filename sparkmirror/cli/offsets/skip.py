"""sparkmirror offsets skip FILE: go on behind what cannot be copied."""

from __future__ import annotations

from typing import Annotated

import typer

from sparkmirror.cli.offsets.words import Flow, Partition, Topic, Yes, carry_out
from sparkmirror.cli.run import FILE_HELP
from sparkmirror.tools import MoveRequest

__all__ = ["skip"]

TO_HELP = "The next upstream offset to copy; by default the first one that the source still holds."


def skip(
    file: Annotated[str, typer.Argument(help=FILE_HELP, metavar="FILE")],
    topic: Topic,
    partition: Partition = None,
    to: Annotated[int | None, typer.Option(help=TO_HELP, metavar="OFFSET", min=0)] = None,
    flow: Flow = None,
    yes: Yes = False,
) -> None:
    """Accept a gap: records that the source deleted, or that cannot be copied. The ledger keeps it, and `plan` shows it.

    Also goes on behind what somebody else wrote to the target.

    Status: 0 changed, or with nothing to change, or told without --yes; 2 refused; 5 another process owns the flow.
    """
    carry_out(file, MoveRequest("skip", topic, partition, None if to is None else str(to), flow), yes=yes)
