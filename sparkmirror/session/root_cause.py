"""The one line of a Spark error that states its cause: the rest is the path by which Spark passed it on."""

from __future__ import annotations

import re
from collections.abc import Sequence

OURS = "a task ended: "  # before an error of our own code that a task raised
LENGTH_MAX = 400
IN_MAIN = 'Exception in thread "main" '
_LOST_TASK = re.compile(r"Lost task \S+ in stage \S+ \(TID \d+\) \([^)]*\): (.*)")
_JAVA = ("java.", "javax.", "org.", "scala.", "py4j.", "com.")
_NOT_TOLD = ("at ", "JVM", "File ", "Traceback", "==", "...", "An error occurred while calling")


def root_cause(error: Exception) -> str:
    """The last line of a Python traceback, else what Spark says of the lost task, else its own error."""
    return cause_in(str(error)) or type(error).__name__


def cause_in(text: str) -> str:
    """The same of the end of Spark's log; empty if it says nothing."""
    lines = [line.strip().removeprefix(IN_MAIN) for line in text.splitlines() if line.strip()]
    return _named([line for line in lines if not line.startswith(_NOT_TOLD)])[:LENGTH_MAX]


def _named(lines: Sequence[str]) -> str:
    heads = [(line.partition(":")[0], line) for line in lines]
    ours = [line.partition(": ")[2] for head, line in heads if head.startswith("sparkmirror.") and " " not in head]
    if ours:
        return f"{OURS}{ours[-1]}"
    named = [line for head, line in heads if head.endswith(("Error", "Exception")) and " " not in head]
    python = [line for line in named if not line.startswith(_JAVA)]
    if python:
        return python[-1]
    lost = [found[1] for line in lines if (found := _LOST_TASK.search(line))]
    spark = [line for line in lines if line.startswith("[")]
    found_lines = lost[:1] or spark[:1] or named[-1:] or [line.removeprefix(": ") for line in lines[-1:]]
    return _without_class(found_lines[0]) if found_lines else ""


def _without_class(line: str) -> str:
    """`java.io.IOException: Cannot run program …` as its message alone."""
    head, _, message = line.partition(": ")
    return message if message and head.startswith(_JAVA) and " " not in head else line
