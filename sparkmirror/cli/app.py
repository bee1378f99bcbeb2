"""The `sparkmirror` command."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence

import typer

from sparkmirror.cli.demo import demo
from sparkmirror.cli.plan import plan
from sparkmirror.cli.run import PIPE_CLOSED, run, silence_stdout
from sparkmirror.cli.text import printable
from sparkmirror.errors import ConfigInvalid, SparkmirrorError

__all__ = ["error_lines", "main", "spread_clusters"]

CLUSTERS = "--clusters"
# Options whose next word is a value and no argument.
VALUED = frozenset({CLUSTERS, "--master", "--conf", "--records", "--size"})

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
app.command()(demo)


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


def spread_clusters(words: Sequence[str]) -> list[str]:
    """`FILE --clusters A B`, as MirrorMaker 2 writes it, as `FILE --clusters A --clusters B`.

    Only behind FILE: before it, a second word could be the file itself.
    """
    found: list[str] = []
    arguments = 0
    previous = ""
    for word in words:
        is_option = word.startswith("-")
        if previous == CLUSTERS and not is_option and found[-1] != CLUSTERS and arguments >= 2:
            found += [CLUSTERS, word]
            continue
        if not is_option and previous not in VALUED:
            arguments += 1
        found.append(word)
        if is_option or found[-2:-1] != [CLUSTERS]:
            previous = word if is_option else ""
    return found


def error_lines(error: SparkmirrorError) -> list[str]:
    """What the user reads: the error, each problem of a configuration below it, and the hint."""
    if isinstance(error, ConfigInvalid):
        problems = [f"  {problem}" for problem in error.problems]
        head = error.message.removesuffix("\n" + "\n".join(problems))
    else:
        problems, head = [], error.message
    hint = [f"  {error.hint}"] if error.hint else []
    return [printable(line) for line in (f"sparkmirror: {head}", *problems, *hint)]
