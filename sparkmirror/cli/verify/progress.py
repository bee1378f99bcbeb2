"""How far a verification is, on stderr: a bar with the time left on a terminal, else a line now and then."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from sparkmirror.cli.text import amount, duration
from sparkmirror.verification import Progress as Seen

LINE_S = 10.0


class ProgressView:
    """Shows what it is given."""

    def __init__(self, console: Console) -> None:
        self._bar: Progress | None = None
        if console.is_terminal and not console.is_dumb_terminal:
            columns = TextColumn("{task.fields[flow]}"), BarColumn(), TextColumn("{task.fields[words]}")
            self._bar = Progress(*columns, console=console, transient=True)
        self._tasks: dict[str, object] = {}
        self._said_at = time.monotonic()

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, seen: Seen) -> None:
        """Shows the progress of one flow; called after each range."""
        if self._bar is None:
            if time.monotonic() - self._said_at >= LINE_S:
                self._said_at = time.monotonic()
                print(f"sparkmirror: {seen.flow}: {words_of(seen)}", file=sys.stderr, flush=True)
            return
        if seen.flow not in self._tasks:
            self._tasks[seen.flow] = self._bar.add_task("", total=None, flow=seen.flow, words="")
        self._bar.update(
            self._tasks[seen.flow],  # type: ignore[arg-type]  # what add_task returned
            total=max(seen.records, 1), completed=seen.records_done, words=words_of(seen),
        )  # fmt: skip


def words_of(seen: Seen) -> str:
    """The same in words."""
    left = seen.seconds_left
    rest = "" if left is None else f", {duration(left)} left"
    return f"{amount(seen.records_done)} of {amount(seen.records)} offsets, {seen.ranges_done} of {seen.ranges} ranges{rest}"
