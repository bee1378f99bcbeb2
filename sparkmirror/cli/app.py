"""The `sparkmirror` command."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence

import typer

from sparkmirror.cli.demo import demo
from sparkmirror.cli.doctor import doctor
from sparkmirror.cli.inspect import InspectCommand, inspect
from sparkmirror.cli.offsets import offsets
from sparkmirror.cli.plan import plan
from sparkmirror.cli.run import PIPE_CLOSED, run, silence_stdout
from sparkmirror.cli.text import printable
from sparkmirror.cli.translate import translate
from sparkmirror.cli.trying import try_command
from sparkmirror.cli.usage import UsageCommand
from sparkmirror.cli.why import why_command
from sparkmirror.errors import InternalError, SparkmirrorError

__all__ = ["error_lines", "main", "spread_clusters"]

CLUSTERS = "--clusters"
# Options whose next word is a value and no argument.
VALUED = frozenset({
    CLUSTERS, "--master", "--conf", "--records", "--size", "--topic", "--partition", "--to", "--flow", "--metrics-file",
    "--connector", "--offsets-topic", "--worker-group", "--undo-file",
    "--limit", "--sql", "--only", "--skip", "--explain", "--baseline", "--wait",
})  # fmt: skip

BUG_HINT = "this is a bug of ours; SPARKMIRROR_TRACEBACK=1 shows where"

app = typer.Typer(
    name="sparkmirror",
    help="Mirrors Kafka topics between clusters with Spark tasks, from MirrorMaker 2's own configuration.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(run)
app.command()(plan)
app.command(cls=InspectCommand, context_settings={"help_option_names": ["-h", "--help"]})(inspect)
app.command(cls=UsageCommand)(translate)
app.command()(demo)
app.command(cls=UsageCommand)(doctor)
app.command("why", cls=UsageCommand)(why_command)
app.command("try")(try_command)
app.add_typer(offsets, name="offsets")


def main() -> None:
    """Entry point: one clear line and an exit status for every error we know."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name must not end the program in an old locale
    try:
        app(spread_clusters(sys.argv[1:]))
    except SparkmirrorError as error:
        for line in error_lines(error):
            print(line, file=sys.stderr)
        sys.exit(error.exit_status)
    except BrokenPipeError:
        silence_stdout()
        sys.exit(PIPE_CLOSED)
    except Exception as error:
        if os.environ.get("SPARKMIRROR_TRACEBACK"):
            raise
        lines = error_lines(InternalError(f"{type(error).__name__}: {error}", hint=BUG_HINT))
        print("\n".join(lines), file=sys.stderr)
        sys.exit(InternalError.exit_status)


def spread_clusters(words: Sequence[str]) -> list[str]:
    """`FILE --clusters A B`, as MirrorMaker 2 writes it, as `FILE --clusters A --clusters B`.

    Only behind FILE: before it, a second word could be the file itself.
    """
    found: list[str] = []
    arguments, awaited, is_list = 0, "", False
    for word in words:
        if awaited:  # the value of the option before
            is_list, awaited = awaited == CLUSTERS and arguments >= 2, ""
            found.append(word)
        elif word.startswith("-"):
            is_list, awaited = False, word if word in VALUED else ""
            found.append(word)
        elif is_list:
            found += [CLUSTERS, word]
        else:
            arguments += 1
            found.append(word)
    return found


def error_lines(error: SparkmirrorError) -> list[str]:
    """What the user reads: the error, what it lists below it, and the hint. Only our own first line is not indented."""
    first, *rest = error.message.split("\n")
    hint = [error.hint] if error.hint else []
    return [f"sparkmirror: {printable(first)}", *(f"  {printable(line.strip())}" for line in (*rest, *hint))]
