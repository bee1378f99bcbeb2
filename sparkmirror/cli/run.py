"""sparkmirror run FILE: copies until told to stop, or once up to the end."""

from __future__ import annotations

import signal
import sys
import time
from types import FrameType
from typing import Annotated

import typer

from sparkmirror.config import load
from sparkmirror.control import Mirror, RunOptions

__all__ = ["run"]

LOG_S = 5.0


def run(
    file: Annotated[str, typer.Argument(help="MirrorMaker 2's properties file.", metavar="FILE")],
    once: Annotated[bool, typer.Option("--once", help="Stop at the end offsets seen at the start.")] = False,
    clusters: Annotated[list[str] | None, typer.Option(help="Serve only flows into these target clusters.")] = None,
    take_over: Annotated[bool, typer.Option("--take-over", help="Take the flow from an owner that is alive.")] = False,
    master: Annotated[str, typer.Option(help="Spark master.")] = "local[*]",
    conf: Annotated[list[str] | None, typer.Option(help="Spark setting key=value; may be repeated.")] = None,
) -> None:
    """Copy every enabled flow of FILE."""
    settings = load(file)
    for warning in settings.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    pairs = dict(item.split("=", 1) for item in conf or [])
    mirror = Mirror(settings, RunOptions(once, clusters, take_over, master, pairs))
    status = drive(mirror)
    sys.exit(status)


def drive(mirror: Mirror) -> int:
    """Runs to the end, telling what happens; returns the exit status."""

    def ask_to_stop(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        mirror.stop()

    mirror.start()
    signal.signal(signal.SIGINT, ask_to_stop)
    signal.signal(signal.SIGTERM, ask_to_stop)
    told = 0.0
    while mirror.is_running:
        mirror.join(0.2)
        if time.monotonic() - told > LOG_S or not mirror.is_running:
            told = time.monotonic()
            for flow in mirror.statuses:
                print(f"{flow.name} {flow.state} {flow.reason} records={flow.records} bytes={flow.record_bytes} lag={flow.lag} partitions={len(flow.partitions)}", flush=True)
                for p in flow.partitions.values():
                    if p.reason:
                        print(f"  {p.partition} {p.state} {p.code} {p.reason}", flush=True)
                for n in flow.notes: print("  note", n)
    mirror.close()
    failures = mirror.failures()
    for failure in failures:
        print(f"sparkmirror: {failure}", file=sys.stderr)
    return failures[0].exit_status if failures else 0
