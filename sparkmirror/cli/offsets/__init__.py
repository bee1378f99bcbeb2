"""sparkmirror offsets …: where a flow's partitions go on."""

import typer

from sparkmirror.cli.offsets.reset import reset
from sparkmirror.cli.offsets.skip import skip

__all__ = ["offsets", "reset", "skip"]

offsets = typer.Typer(
    help="Say where partitions go on, while nobody runs the flow.", no_args_is_help=True, rich_markup_mode=None
)
offsets.command()(skip)
offsets.command()(reset)
