"""sparkmirror offsets …: lists and changes the stored positions of flows."""

import typer

from sparkmirror.cli.offsets.exporting import export
from sparkmirror.cli.offsets.importing import import_
from sparkmirror.cli.offsets.listing import list_
from sparkmirror.cli.offsets.reset import reset
from sparkmirror.cli.offsets.setting import set_
from sparkmirror.cli.offsets.skip import skip
from sparkmirror.cli.offsets.undo import undo

__all__ = ["export", "import_", "list_", "offsets", "reset", "set_", "skip", "undo"]

offsets = typer.Typer(
    help="Show the positions of a flow, and change them while the flow is stopped.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
offsets.command("list")(list_)
offsets.command("export")(export)
offsets.command("set")(set_)
offsets.command("reset")(reset)
offsets.command("skip")(skip)
offsets.command("import")(import_)
offsets.command("undo")(undo)
