"""README.md and docs/: their blocks, links, paths and commands, as text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PROMPT", "ROOT", "ConsoleBlock", "Fence", "console_blocks", "fences", "filled", "pages", "prose", "slugs"]

ROOT = Path(__file__).parents[2]
PROMPT = "$ "
# A block that the script fills stands right below a comment with its name.
_MARKER = re.compile(r"<!-- console: (?P<name>[a-z0-9-]+) -->\s*\Z")
_FENCE = re.compile(r"^```(?P<language>[\w-]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Fence:
    """One fenced block of a page, and what stands before it."""

    language: str
    text: str
    before: str


@dataclass(frozen=True, slots=True)
class ConsoleBlock:
    """A console block; `name` is None where no marker names it."""

    name: str | None
    lines: tuple[str, ...]

    @property
    def commands(self) -> list[str]:
        """What is typed, in order."""
        return [line.removeprefix(PROMPT) for line in self.lines if line.startswith(PROMPT)]

    @property
    def output(self) -> list[str]:
        """What the commands print."""
        return [line for line in self.lines if not line.startswith(PROMPT)]


def pages() -> list[Path]:
    """Every page that a user reads, the README first."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def fences(text: str) -> Iterator[Fence]:
    """The fenced blocks of a page."""
    for found in _FENCE.finditer(text):
        yield Fence(found["language"], found["text"], text[: found.start()])


def prose(text: str) -> str:
    """A page without its fenced and indented blocks."""
    return re.sub(r"^(?: {4}|\t).*$", "", _FENCE.sub("", text), flags=re.MULTILINE)


def console_blocks(text: str) -> Iterator[ConsoleBlock]:
    """The console blocks of a page, in order."""
    for fence in fences(text):
        if fence.language == "console":
            marker = _MARKER.search(fence.before)
            yield ConsoleBlock(marker["name"] if marker else None, tuple(fence.text.splitlines()))


def filled(text: str, name: str, lines: list[str]) -> str:
    """The page with other lines in one console block."""
    pattern = re.compile(rf"(<!-- console: {name} -->\n```console\n).*?(^```$)", re.MULTILINE | re.DOTALL)
    return pattern.sub(lambda found: found[1] + "".join(f"{line}\n" for line in lines) + found[2], text)


def slugs(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    found: set[str] = set()
    for heading in _HEADING.findall(_FENCE.sub("", text)):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        found.add(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return found
