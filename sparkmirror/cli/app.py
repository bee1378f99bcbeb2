"""The `sparkmirror` command."""

from __future__ import annotations

import sys

import typer

from sparkmirror.cli.run import run
from sparkmirror.errors import SparkmirrorError

__all__ = ["main"]

app = typer.Typer(
    name="sparkmirror",
    help="Mirrors Kafka topics between clusters with Spark tasks, from MirrorMaker 2's own configuration.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(run)


@app.callback()
def _verbs() -> None:
    """Keeps the verbs named even while there is only one."""


def main() -> None:
    """Entry point: one clear line and an exit status for every error we know."""
    try:
        app()
    except SparkmirrorError as error:
        print(f"sparkmirror: {error.message}", file=sys.stderr)
        if error.hint:
            print(f"  {error.hint}", file=sys.stderr)
        sys.exit(error.exit_status)
