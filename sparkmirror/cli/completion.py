"""sparkmirror completion bash|zsh|fish: a script with which a shell completes commands, options and their values."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer
from typer.completion import completion_init, get_completion_script  # type: ignore[attr-defined]

PROGRAM = "sparkmirror"
VARIABLE = "_SPARKMIRROR_COMPLETE"


class CompletedShell(StrEnum):
    """A shell that can complete."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[CompletedShell, typer.Argument(help="The shell.")]) -> None:
    """Print the completion script of a shell: `source <(sparkmirror completion bash)`.

    zsh: the same, after `compinit`. fish: `sparkmirror completion fish | source`.
    """
    print(get_completion_script(prog_name=PROGRAM, complete_var=VARIABLE, shell=shell.value))
    sys.stdout.flush()


def prepare_completion() -> None:
    """Registers the forms in which the shells' scripts ask."""
    completion_init()
