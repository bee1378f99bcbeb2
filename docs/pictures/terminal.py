"""What a command really prints on a terminal, as an SVG picture.

    python docs/pictures/terminal.py docs/pictures/doctor.svg 118 "sparkmirror doctor mm2.properties" COMMAND WORD…

The command runs on a pseudo-terminal of so many columns; its colours become those of the picture. No fonts are fetched.
"""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

LINES = 200
_FONT_FACES = re.compile(r"\s*@font-face \{.*?\}\s*", re.DOTALL)
_FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"


def printed(command: list[str], columns: int) -> str:
    """Everything that the command writes to its terminal."""
    ours, theirs = pty.openpty()
    size = {"COLUMNS": str(columns), "LINES": str(LINES)}
    environment = os.environ | size | {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL, env=environment) as process:
        os.close(theirs)
        chunks = []
        try:
            while chunk := os.read(ours, 65536):
                chunks.append(chunk)
        except OSError:
            pass  # on Linux the end of a terminal is an error
        process.wait()
    os.close(ours)
    return b"".join(chunks).decode("utf-8", "replace").replace("\r\n", "\n")


def picture(text: str, columns: int, title: str) -> str:
    """The text as a terminal window; a line that is too long goes on in the next one, as on a terminal."""
    console = Console(record=True, width=columns, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for line in Text.from_ansi(text.rstrip("\n")).split(allow_blank=True):
        for part in line.divide(range(columns, len(line), columns)):
            console.print(part, soft_wrap=True)
    drawn = console.export_svg(title=title, unique_id=re.sub(r"\W+", "-", title))
    return re.sub(r"font-family: Fira Code, monospace", f"font-family: {_FONTS}", _FONT_FACES.sub("\n", drawn))


if __name__ == "__main__":
    file, width, name, *words = sys.argv[1:]
    Path(file).write_text(picture(printed(words, int(width)), int(width), name), encoding="utf-8")
