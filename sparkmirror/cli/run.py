"""sparkmirror run FILE: copies until it is stopped, or once up to the end offsets."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple, Protocol, Self

import typer
from rich.console import Console

from sparkmirror.cli.live_view import LiveView
from sparkmirror.cli.log_view import LogFormat, LogLevel, LogView
from sparkmirror.cli.run_status import exit_status, stop_lines
from sparkmirror.cli.signals import Interrupted, Signals
from sparkmirror.cli.text import printable
from sparkmirror.cli.usage import load
from sparkmirror.config import Settings
from sparkmirror.control import Mirror, RunOptions
from sparkmirror.failover import OWNER_VERBS
from sparkmirror.metrics import MetricsFile
from sparkmirror.slot.heap import FreedMemory, return_freed_memory
from sparkmirror.status import FlowStatus

if TYPE_CHECKING:
    from sparkmirror.rest import HttpDoor

TICK_S = 0.1
# Showing thousands of partitions takes milliseconds; the next update waits this many times as long.
SHOW_COST = 40
SHOW_S_MAX = 10.0
DRAIN_S = 30.0  # flows stop draining after 10 s by themselves
STOP_LINES_MAX = 50
PIPE_CLOSED = 1  # typer's own exit status for a closed pipe

METRICS_HELP = "Write Prometheus metrics under MirrorMaker 2's names to this file every 5 s."
LOG_FORMAT_HELP = "Log lines as text, or each as one JSON object; auto: a live view on a terminal, else text."
LOG_LEVEL_HELP = "Only log lines of this level and above."
LISTEN_HELP = "Serve health, flows and Prometheus metrics over HTTP; on loopback unless HOST is given."
TOKEN_HELP = "A file with the token that callers must send to read (Authorization: Bearer …)."
OPERATE_HELP = "A file with the token that callers must send to change something; it may read, too."
CERTIFICATE_HELP = "A PEM file with certificate and key: HTTPS instead of HTTP."
OPEN_HELP = "Let anyone who can reach HOST read, without a token or TLS."
TAKE_OVER_HELP = "Take over the flow even if its owner is alive. Nothing fences MirrorMaker 2."
FILE_HELP = "MirrorMaker 2's properties file."
CLUSTERS_HELP = "Only flows into these target clusters; repeatable, or list several as in MirrorMaker 2."


class RunView(Protocol):
    """Shows the user what happens."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def say(self, level: str, about: str, text: str) -> None:
        """Shows one line."""

    def show(self, flows: Sequence[FlowStatus], now: float) -> None:
        """Shows the status of the flows; called often."""

    def end(self, flows: Sequence[FlowStatus]) -> None:
        """Shows the final status of the flows."""


def run(
    file: Annotated[str, typer.Argument(help=FILE_HELP, metavar="FILE")],
    once: Annotated[bool, typer.Option("--once", help="Stop at the end offsets seen at the start.")] = False,
    clusters: Annotated[list[str] | None, typer.Option(help=CLUSTERS_HELP, metavar="ALIAS")] = None,
    take_over: Annotated[bool, typer.Option("--take-over", help=TAKE_OVER_HELP)] = False,
    standby: Annotated[bool, typer.Option("--standby", help="Wait until no other process owns it.")] = False,
    master: Annotated[str, typer.Option(help="Spark master.")] = "local[*]",
    conf: Annotated[list[str] | None, typer.Option(help="A Spark setting; repeatable.", metavar="K=V")] = None,
    metrics_file: Annotated[str | None, typer.Option(help=METRICS_HELP, metavar="PATH")] = None,
    listen: Annotated[str | None, typer.Option(help=LISTEN_HELP, metavar="[HOST:]PORT")] = None,
    listen_token: Annotated[str | None, typer.Option(help=TOKEN_HELP, metavar="PATH")] = None,
    listen_operate_token: Annotated[str | None, typer.Option(help=OPERATE_HELP, metavar="PATH")] = None,
    listen_certificate: Annotated[str | None, typer.Option(help=CERTIFICATE_HELP, metavar="PATH")] = None,
    log_format: Annotated[LogFormat, typer.Option(help=LOG_FORMAT_HELP)] = LogFormat.AUTO,
    log_level: Annotated[LogLevel, typer.Option(help=LOG_LEVEL_HELP, case_sensitive=False)] = LogLevel.INFO,
    listen_open: Annotated[bool, typer.Option("--listen-open-read", "--listen-open", help=OPEN_HELP)] = False,
) -> None:
    """Copy every enabled flow of FILE.

    The first Ctrl-C or SIGTERM drains and exits with status 0; the second exits at once with status 130. A second SIGTERM
    within one second counts as the first. SIGHUP reads FILE again, which also happens when it changes; on a terminal
    SIGHUP drains.

    Exit status: 0 done; 2 configuration, cluster or command line; 255 FILE cannot be read; with --once also 4 something
    stopped and 130 interrupted before the end; 5 another process owns the flow or MirrorMaker 2 runs it; 6 Spark
    cannot start its tasks.
    """
    settings = load(file)
    if standby and take_over:
        raise typer.BadParameter("cannot be combined with --take-over", param_hint="--standby")
    options = RunOptions(once, clusters, take_over, standby, master, settings_of(conf or []), OWNER_VERBS)
    return_freed_memory()
    mirror = Mirror(settings, options)
    access = AccessOptions(listen_token, listen_operate_token, listen_certificate, listen_open)
    door = _door(settings, listen, access)
    with contextlib.ExitStack() as watching:
        watchers: list[Watcher] = []
        if metrics_file is not None:
            watchers.append(watching.enter_context(MetricsFile(metrics_file, settings.metric_labels)))
        shown = view_for(Console(), log_format, log_level)
        if door is not None and isinstance(shown, LogView):
            door.levels.default, shown.allows = log_level.name, door.levels.allows
        view: RunView = WatchedView(shown, watchers)
        for warning in settings.warnings:
            view.say("WARN", settings.path, warning)
        if door is not None:
            door.say = view.say
            watchers.append(watching.enter_context(door))
            mirror.url = door.url
            view.say("INFO", "-", f"listening on {door.url}: /health/ready, /flows, /metrics")
        with Signals() as signals:
            status = drive(mirror, view, signals, once=once)
            leave_nothing_to_write()
            sys.exit(status)


class AccessOptions(NamedTuple):
    """Who may read and change over HTTP, as given on the command line."""

    token: str | None
    operate_token: str | None
    certificate: str | None
    is_open: bool


def _door(settings: Settings, listen: str | None, access: AccessOptions) -> HttpDoor | None:
    if listen is None:
        if any(access):
            raise typer.BadParameter("expected --listen with this option, found none", param_hint="--listen")
        return None
    from sparkmirror.rest import AccessFiles, HttpDoor, address_of  # imported only here: asyncio takes 50 ms

    return HttpDoor(address_of(listen, AccessFiles(**access._asdict())), settings)


class Watcher(Protocol):
    """Receives every update of the flows, as the view does."""

    @property
    def trouble(self) -> str:
        """The current failure, "" if there is none."""

    def show(self, flows: Sequence[FlowStatus]) -> None:
        """Takes an update of the flows; called often."""


class WatchedView:
    """A view whose updates are also written as metrics, or served."""

    def __init__(self, view: RunView, watchers: Sequence[Watcher]) -> None:
        self._view = view
        self._watchers, self._shown = watchers, dict[int, str]()

    def __enter__(self) -> Self:
        self._view.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._view.__exit__(*error)

    def say(self, level: str, about: str, text: str) -> None:
        """Shows one line."""
        self._view.say(level, about, text)

    def show(self, flows: Sequence[FlowStatus], now: float) -> None:
        """Shows the status of the flows; called often."""
        self._view.show(flows, now)
        for at, watcher in enumerate(self._watchers):
            watcher.show(flows)
            if watcher.trouble != self._shown.get(at, ""):
                self._shown[at] = watcher.trouble
                self._view.say("WARN", "-", watcher.trouble or "the metrics are written again")

    def end(self, flows: Sequence[FlowStatus]) -> None:
        """Shows the final status of the flows."""
        self._view.end(flows)


def settings_of(pairs: Sequence[str]) -> dict[str, str]:
    """`--conf` arguments as a mapping."""
    for pair in pairs:
        if not pair.partition("=")[1] or not pair.partition("=")[0].strip():
            raise typer.BadParameter(f"expected key=value, found {printable(pair)}", param_hint="--conf")
    return {key.strip(): value for key, _, value in (pair.partition("=") for pair in pairs)}


def view_for(
    console: Console, log_format: LogFormat = LogFormat.AUTO, log_level: LogLevel = LogLevel.INFO
) -> RunView:
    """A live view on a terminal that supports it, else log lines, or the lines that were asked for."""
    if log_format is LogFormat.AUTO and console.is_terminal and not console.is_dumb_terminal:
        return LiveView(console)
    return LogView(_write_line, as_json=log_format is LogFormat.JSON, level=log_level)


def _write_line(line: str) -> None:
    try:
        print(line, flush=True)
    except BrokenPipeError:
        raise
    except OSError:  # a full disk: copying continues without this log line
        return


def leave_nothing_to_write() -> None:
    """Output that could not be written must not change the exit status."""
    try:
        sys.stdout.flush()
    except OSError:
        silence_stdout()


def drive(
    mirror: Mirror,
    view: RunView,
    signals: Signals,
    *,
    once: bool,
    is_enough: Callable[[Sequence[FlowStatus]], bool] = lambda flows: False,
) -> int:
    """Runs to the end, shows what happens, and returns the exit status. `is_enough` may end the run as a signal does."""
    try:
        mirror.check()
        signals.is_deferred = True
    except Interrupted:
        return 0
    mirror.start()
    if mirror.spark_log:
        view.say("INFO", "-", f"Spark's log: {mirror.spark_log}")
    is_piped = True
    try:
        is_piped = _follow(mirror, view, signals, is_enough)
    finally:
        mirror.stop()
        mirror.join(DRAIN_S)
        mirror.close()
    flows, failures = mirror.statuses, mirror.failures()
    for failure in failures:
        _print_error(failure.message, failure.hint)
    if once:
        for line in stop_lines(flows, STOP_LINES_MAX):
            _print_error(line)
    return exit_status(flows, failures, once=once, interrupted=signals.asked) if is_piped else PIPE_CLOSED


def _follow(mirror: Mirror, view: RunView, signals: Signals, is_enough: Callable[[Sequence[FlowStatus]], bool]) -> bool:
    """Shows the flows until they have ended; returns False if the output pipe was closed, which stops them."""
    is_draining = False
    try:
        with view:
            due, freed = 0.0, FreedMemory(time.monotonic())
            while mirror.is_running:
                mirror.join(TICK_S)
                began = time.monotonic()
                if signals.take_reload():
                    view.say("INFO", "-", "SIGHUP: reading the configuration file again")
                    mirror.reload_soon()
                if began < due and not signals.asked:
                    continue
                if freed.is_due(began):
                    freed.look(0, began)
                flows = mirror.statuses
                view.show(flows, began)
                due = began + min(SHOW_COST * (time.monotonic() - began), SHOW_S_MAX)
                if not is_draining and (signals.asked or is_enough(flows)):
                    is_draining = True
                    mirror.stop()
                    view.say("INFO", "-", "draining…")
            view.end(mirror.statuses)
    except BrokenPipeError:
        silence_stdout()
        mirror.stop()
        while mirror.is_running:
            mirror.join(TICK_S)
        return False
    return True


def silence_stdout() -> None:
    """Redirects stdout to /dev/null, so that the interpreter does not report the closed pipe at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print_error(message: str, hint: str = "") -> None:
    with contextlib.suppress(OSError):  # stderr is closed: the exit status still reports the failure
        print(f"sparkmirror: {printable(message)}", file=sys.stderr)
        if hint:
            print(f"sparkmirror:   {printable(hint)}", file=sys.stderr)
