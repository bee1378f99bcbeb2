"""Styled lines for a terminal or a file, as inspect, doctor and why print them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.text import Text

from sparkmirror.diagnose.findings import Severity

Line = list[tuple[str, str]]  # text and its style

LABELS = {Severity.ERROR: "ERROR", Severity.WARNING: "WARNING", Severity.INFO: "INFO", Severity.FINE: "OK"}
STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.INFO: "cyan", Severity.FINE: "green"}
INDENT = " " * 9
HANGING_MAX = 16
COMMANDS = ("$ ", "sparkmirror", "kafka")


def print_lines(lines: Iterable[Line], console: Console) -> None:
    """Prints lines, wrapped to the width of a terminal."""
    width = console.width if console.is_terminal else None
    for line in lines:
        for part in _wrapped(line, width):
            text = Text()
            for words, style in part:
                text.append(words, style=style)
            console.print(text, soft_wrap=True, highlight=False)


def _wrapped(line: Line, width: int | None) -> Iterator[Line]:
    """A line wrapped at spaces to fit the width, continuation lines indented. A command is not wrapped."""
    text = "".join(words for words, _ in line)
    is_command = any(words.lstrip().startswith(COMMANDS) for words, style in line if style in ("green", "cyan"))
    if width is None or len(text) <= width or is_command:
        yield line
        return
    lead = len(text) - len(text.lstrip()) if len(line) == 1 else min(len(line[0][0]), HANGING_MAX)
    pieces = textwrap.wrap(text, max(width, 40), subsequent_indent=" " * lead, break_long_words=False)
    at = 0
    for number, piece in enumerate(pieces):
        body = piece if not number else piece[lead:]
        start = text.index(body, at)
        styled = list(_slice(line, start, start + len(body)))
        at = start + len(body)
        yield [(" " * lead, ""), *styled] if number else styled


def _slice(line: Line, start: int, stop: int) -> Iterator[tuple[str, str]]:
    at = 0
    for words, style in line:
        part = words[max(start - at, 0) : max(stop - at, 0)]
        if part:
            yield part, style
        at += len(words)
