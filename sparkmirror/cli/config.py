"""sparkmirror config schema: what a configuration may hold, for programs."""

from __future__ import annotations

import sys

import typer

from sparkmirror.config.schema import schema_text

config = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None, help="What FILE may hold.")


@config.callback()
def group() -> None:
    """What a configuration may hold."""


@config.command()
def schema() -> None:
    """Print a JSON Schema (draft 2020-12) of every key, for editors and for checks in CI.

    A file is one object of its written keys and values. `plan` also checks what lies between keys.
    """
    print(schema_text())
    sys.stdout.flush()
