"""sparkmirror offsets …: lists and changes the stored positions of flows."""

import typer

from sparkmirror.cli import usage
from sparkmirror.cli.offsets.exporting import export
from sparkmirror.cli.offsets.importing import import_
from sparkmirror.cli.offsets.listing import list_
from sparkmirror.cli.offsets.reset import reset
from sparkmirror.cli.offsets.setting import set_
from sparkmirror.cli.offsets.skip import skip
from sparkmirror.cli.offsets.undo import undo

__all__ = ["export", "import_", "list_", "offsets", "reset", "set_", "skip", "undo"]

offsets = typer.Typer(
    help="Show the positions of a flow, and change them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
offsets.command("list")(usage.reads_file(list_))
offsets.command("export")(usage.reads_file(export))
offsets.command("set")(usage.reads_file(set_))
offsets.command("reset")(usage.reads_file(reset))
offsets.command("skip")(usage.reads_file(skip))
offsets.command("import")(usage.reads_file(import_))
offsets.command("undo")(usage.reads_file(undo))
