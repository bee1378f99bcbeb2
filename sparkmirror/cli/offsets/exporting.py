"""sparkmirror offsets export FILE POSITIONS: every stored position in a file."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from sparkmirror import positions as stored_positions
from sparkmirror.cli.offsets.words import Connector, Flow, OffsetsTopics, storage_of
from sparkmirror.cli.run import FILE_HELP
from sparkmirror.cli.text import amount, printable
from sparkmirror.cli.usage import load
from sparkmirror.errors import MoveRefused

STDOUT = "-"


def export(
    file: Annotated[str, typer.Argument(help=FILE_HELP, metavar="FILE")],
    positions: Annotated[str, typer.Argument(help="The file to be written; - for standard output.", metavar="POSITIONS")],
    flow: Flow = None,
    connector: Connector = None,
    offsets_topic: OffsetsTopics = None,
) -> None:
    """Write what is stored now to a file: the newest record of each key, with the partition of the topic it lies in.

    Reads only, also while the flow runs. `offsets import` takes the file.

    Status: 0 written; 2 refused or a cluster did not answer.
    """
    chosen = stored_positions.choose_flow(load(file), flow)
    found = stored_positions.export(chosen, storage_of(connector, offsets_topic, None))
    if positions == STDOUT:
        sys.stdout.write(found.to_json())
        sys.stdout.flush()
        return
    try:
        with open(positions, "x", encoding="utf-8") as out:
            out.write(found.to_json())
    except OSError as error:
        raise MoveRefused(f"{positions} cannot be written: {error.strerror}", hint="give a new file") from error
    text = f"{amount(len(found.positions))} records and {amount(len(found.ledger))} positions of the ledger"
    print(printable(f"flow {found.flow}: {text} are in {positions}"))
