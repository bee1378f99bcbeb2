"""Java `.properties` text as ordered entries with line numbers.

The rules are java.util.Properties': `=`, `:` or a blank ends the key; blanks before a value are dropped and blanks
after it are kept; `#` and `!` start a comment only as the first character of a line; a line that ends in an odd
number of backslashes goes on in the next one. Bytes are ISO-8859-1, other characters are written `\\uXXXX`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import javaproperties

_LINE_END = re.compile(r"\r\n|\n|\r")
_CONTINUED = re.compile(r"(?<!\\)(?:\\\\)*\\\Z")
_COMMENT = re.compile(r"[ \t\f]*[#!]")
_BYTE_ORDER_MARKS = ("\ufeff", "\xef\xbb\xbf")


@dataclass(frozen=True, slots=True)
class Entry:
    """One `key = value` of the file; `line` is where it starts, counted from 1."""

    key: str
    value: str
    line: int


@dataclass(frozen=True, slots=True)
class PropertiesFile:
    """All entries in the order of the file, repeated keys included, and what could not be read, with its line."""

    entries: tuple[Entry, ...]
    problems: tuple[tuple[int, str], ...]
    has_byte_order_mark: bool

    def last(self) -> dict[str, Entry]:
        """Key to entry; of a repeated key the last one counts, as in Java."""
        return {entry.key: entry for entry in self.entries}


def parse_properties(text: str) -> PropertiesFile:
    """The entries of `text`; a malformed `\\u` escape is a problem and its entry is left out."""
    entries: list[Entry] = []
    problems: list[tuple[int, str]] = []
    for line, logical in _logical_lines(text):
        try:
            found = [part for part in javaproperties.parse(logical) if isinstance(part, javaproperties.KeyValue)]
        except javaproperties.InvalidUEscapeError as error:
            # The message holds the escape alone, never the value around it, which may be a password.
            message = f"line {line}: expected four hexadecimal digits after \\u, found {error.escape[:6]!r}"
            problems.append((line, message))
            continue
        entries.extend(Entry(part.key, part.value, line) for part in found)
    return PropertiesFile(tuple(entries), tuple(problems), text.startswith(_BYTE_ORDER_MARKS))


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """(first line number, text with its continuation lines) of every line that is neither blank nor a comment."""
    lines = _LINE_END.split(text)
    position = 0
    while position < len(lines):
        start = position
        position += 1
        # Java lets a comment follow a line of nothing but a backslash, so such a line is as good as blank.
        if _COMMENT.match(lines[start]) or lines[start].lstrip(" \t\f") in ("", "\\"):
            continue
        while _CONTINUED.search(lines[position - 1]) and position < len(lines):
            position += 1
        yield start + 1, "\n".join(lines[start:position])
