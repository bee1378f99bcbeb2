"""The `sparkmirror` command, and the commands that MirrorMaker 2's documentation names."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from sparkmirror import __version__
from sparkmirror.cli.completion import VARIABLE, completion, prepare_completion
from sparkmirror.cli.config import config
from sparkmirror.cli.demo import demo
from sparkmirror.cli.doctor import doctor
from sparkmirror.cli.failover import drill, failback, failover
from sparkmirror.cli.history import history
from sparkmirror.cli.inspect import InspectCommand, InspectorCommand, inspect
from sparkmirror.cli.offsets import offsets
from sparkmirror.cli.pausing import pause, resume, stop
from sparkmirror.cli.plan import plan
from sparkmirror.cli.records import records
from sparkmirror.cli.restart import restart
from sparkmirror.cli.run import PIPE_CLOSED, run, silence_stdout
from sparkmirror.cli.ship import ship
from sparkmirror.cli.status import status
from sparkmirror.cli.text import printable
from sparkmirror.cli.translate import translate
from sparkmirror.cli.trying import try_command
from sparkmirror.cli.usage import ClustersCommand, MirrorMakerCommand, UsageCommand, reads_file
from sparkmirror.cli.verify import verify_command
from sparkmirror.cli.why import why_command
from sparkmirror.errors import InternalError, SparkmirrorError

BUG_HINT = "this is a bug in sparkmirror; set SPARKMIRROR_TRACEBACK=1 to see the traceback"


def _app(name: str, *, has_verbs: bool = False) -> typer.Typer:
    return typer.Typer(
        name=name,
        no_args_is_help=has_verbs,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )


HELP_NAMES = {"help_option_names": ["-h", "--help"]}
app = _app("sparkmirror", has_verbs=True)
app.command(cls=ClustersCommand)(reads_file(run))
app.command(cls=ClustersCommand)(reads_file(plan))
app.command(cls=InspectCommand, context_settings=HELP_NAMES)(reads_file(inspect))
app.command(cls=UsageCommand)(reads_file(translate))
app.command()(demo)
app.command(cls=UsageCommand)(reads_file(status))
app.command()(ship)
app.command(cls=UsageCommand)(reads_file(doctor))
app.command("why", cls=UsageCommand)(reads_file(why_command))
app.command("verify", cls=UsageCommand)(reads_file(verify_command))
for asked in (restart, pause, resume, stop):
    app.command()(reads_file(asked))
app.command(cls=UsageCommand)(reads_file(history))
app.command()(reads_file(failover))
app.command()(reads_file(failback))
app.command()(reads_file(drill))
app.command(cls=UsageCommand)(reads_file(records))
app.command("try")(reads_file(try_command))
app.command()(completion)
app.add_typer(offsets, name="offsets")
app.add_typer(config, name="config")


def _print_version(is_asked: bool) -> None:
    if is_asked:
        print(f"sparkmirror {__version__}")
        raise typer.Exit


@app.callback()
def program(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Mirrors Kafka topics between clusters with Spark tasks, from MirrorMaker 2's own configuration."""


# The commands that MirrorMaker 2's documentation names.
inspector_app = _app("kafka-mirrormaker-offset-sync-inspector")
inspector_app.command(cls=InspectorCommand, context_settings=HELP_NAMES)(reads_file(inspect))
mirror_maker_app = _app("connect-mirror-maker")
mirror_maker_app.command(cls=MirrorMakerCommand, context_settings=HELP_NAMES)(reads_file(run))


def main() -> None:
    """`sparkmirror`."""
    if VARIABLE in os.environ:  # a shell asks what may come next
        prepare_completion()
    _call(app)


def offset_sync_inspector() -> None:
    """`kafka-mirrormaker-offset-sync-inspector`: `sparkmirror inspect` with the original's defaults."""
    _call(inspector_app)


def connect_mirror_maker() -> None:
    """`connect-mirror-maker`: `sparkmirror run`."""
    _call(mirror_maker_app)


def _call(command: Callable[[list[str]], None]) -> None:
    """Runs the command; a known error prints its message and sets the exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a topic name must not crash the program in an old locale
    try:
        command(sys.argv[1:])
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


def error_lines(error: SparkmirrorError) -> list[str]:
    """The lines that the user sees: the error, its details and the hint. Only the first line is not indented."""
    first, *rest = error.message.split("\n")
    hint = [error.hint] if error.hint else []
    return [f"sparkmirror: {printable(first)}", *(f"  {printable(line.strip())}" for line in (*rest, *hint))]
