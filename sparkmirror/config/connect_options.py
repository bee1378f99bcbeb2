"""What the options of Connect's transforms hold beyond plain text, read as Kafka 4.3.1 and Java read it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal

# Letters of java.text.SimpleDateFormat that are numbers, whatever the locale of the JVM. A topic name with a locale's words
# or weeks in it would depend on the machine.
DATE_LETTERS = "yMLdDFuHkKhmsS"
_DATE_TOKEN = re.compile(r"'((?:[^']|'')*)'|([a-zA-Z])\2*|[^a-zA-Z']+")
_REGEX_TOKEN = re.compile(r"\\Q.*?(?:\\E|\Z)|\\.|\[\^?\]?|\]|\(\?<([a-zA-Z][a-zA-Z0-9]*)>|\(\??", re.DOTALL)
_REFERENCE = re.compile(r"\$(?:\{([a-zA-Z][a-zA-Z0-9]*)\}|([0-9]))")
_LITERAL_END = re.compile(r"[:,{}\[\]\"\\]")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\Z")
_DATE = re.compile(r"[0-9]+-[0-9]+-[0-9]")
_TIME = re.compile(r"(?:[0-9]+-[0-9]+-[0-9]+T)?[0-9]+:[0-9]+:[0-9]")
_PLAIN_INTEGER = re.compile(r"(?:0|-?[1-9][0-9]{0,17})\Z")
_PLAIN_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]*)\.[0-9]*[1-9]\Z")
# A 32-bit float shows so many digits, and no exponent, exactly as they were written.
_DECIMAL_DIGITS_MAX = 6
_DECIMAL_LOW = Decimal("0.001")
_DATE_LENGTH = 10


class OptionRefused(ValueError):
    """A text that is no value of its option; `str` says what was expected."""


def check_replacement(replacement: str, regex: str) -> None:
    """Raises unless Java can put `replacement` in the place of what `regex` matches."""
    count, names = _groups(regex)
    at = 0
    while at < len(replacement):
        if replacement[at] == "\\":
            if at + 1 == len(replacement):
                raise OptionRefused("a character after the last `\\`")
            at += 2
        elif replacement[at] == "$":
            match = _REFERENCE.match(replacement, at)
            if match is None:
                raise OptionRefused("a group such as $1 or ${name} after each `$` (a dollar itself is `\\$`)")
            if match[1] is not None and match[1] not in names:
                raise OptionRefused(f"groups of the regex, which has none called {match[1]}")
            if match[2] is not None and int(match[2]) > count:
                raise OptionRefused(f"groups of the regex, which has {count}")
            at = match.end()
        else:
            at += 1


def _groups(regex: str) -> tuple[int, set[str]]:
    """How many groups a Java regex captures, and the names of those that have one."""
    count, names, inside = 0, set[str](), 0
    for token in _REGEX_TOKEN.finditer(regex):
        text = token[0]
        if text.startswith("["):
            inside += 1
        elif text == "]":
            inside = max(0, inside - 1)
        elif text.startswith("(") and not inside and (text == "(" or token[1]):
            count += 1
            names |= {token[1]} if token[1] else set()
    return count, names


def date_parts(pattern: str) -> tuple[tuple[str, int], ...]:
    """A pattern of SimpleDateFormat: letter and how many of it, or a text and 0. Raises for what is not understood."""
    found: list[tuple[str, int]] = []
    at = 0
    while at < len(pattern):
        match = _DATE_TOKEN.match(pattern, at)
        if match is None:
            raise OptionRefused("a second `'` after each `'`")
        text, letter = match[0], match[2]
        if letter is None:
            quoted = match[1]
            found.append((text if quoted is None else quoted.replace("''", "'") or "'", 0))
        elif letter not in DATE_LETTERS or (letter in "ML" and len(text) > 2):
            numbers = f"{', '.join(DATE_LETTERS)}, of them M and L at most twice"
            raise OptionRefused(f"letters for numbers of date and time ({numbers}) and no `{text}`")
        else:
            found.append((letter, len(text)))
        at = match.end()
    return tuple(found)


def header_value(literal: str) -> bytes | None:
    """The bytes of a header for `value.literal`; raises for a literal that Kafka would write in another form.

    Kafka's SimpleHeaderConverter reads a value out of the text (a number, a date, a list, a map) and writes that value as
    text again. Where this gives the same text, and for everything that is just text, the bytes are those of the text.
    """
    if literal == "null":
        return None
    expected = "a text, a whole number, a short decimal number, true, false or null"
    if literal[:1] in ("[", "{"):
        raise OptionRefused(f"{expected}; Kafka takes this for a list or a map and writes it in another form")
    if literal[:1].isdigit() or literal[:1] in ("+", "-"):
        first = _LITERAL_END.split(literal, maxsplit=1)[0].strip()
        if _TIME.match(literal) or (_DATE.match(first) and len(first) == _DATE_LENGTH):
            raise OptionRefused(f"{expected}; Kafka takes this for a date or a time and writes it in another form")
        if _NUMBER.match(first) and not (first == literal and _is_plain_number(literal)):
            raise OptionRefused(f"{expected}; Kafka takes this for a number and writes it in another form")
    return literal.encode()


def _is_plain_number(text: str) -> bool:
    if _PLAIN_INTEGER.match(text):
        return True
    digits = text.lstrip("-").replace(".", "").lstrip("0")
    is_short = len(digits) <= _DECIMAL_DIGITS_MAX and abs(Decimal(text)) >= _DECIMAL_LOW
    return _PLAIN_DECIMAL.match(text) is not None and is_short


def field_path(text: str, version: str) -> tuple[str, ...]:
    """The steps of a field: one in V1; in V2 (KIP-821) split at dots, where backticks keep a name with dots together."""
    if version.upper() == "V1":
        return (text,)
    if not text:
        raise OptionRefused("the name of a field")
    steps: list[str] = []
    at = 0
    while at < len(text):
        if text[at] == "`":
            step, at = _quoted_step(text, at + 1)
        else:
            end = text.find(".", at)
            step, at = (text[at:], len(text)) if end < 0 else (text[at:end], end + 1)
        steps.append(step)
    if text.endswith("."):
        steps.append("")
    return tuple(steps)


def _quoted_step(text: str, start: int) -> tuple[str, int]:
    """A name in backticks and where the next one begins. A backtick ends it only before a dot or at the end."""
    step, at = "", start
    while True:
        at = text.find("`", at)
        is_last = at == len(text) - 1
        escaped = at > 0 and text[at - 1] == "\\"
        if at < 0 or (is_last and escaped):
            raise OptionRefused("a second backtick for each backtick")
        if is_last:
            return step + text[start:at], at + 1
        if text[at + 1] == ".":
            if not escaped:
                return step + text[start:at], at + 2
            step, start = step + text[start : at - 1] + "`", at + 1
        at += 1


def rename_pairs(items: Sequence[str]) -> dict[str, str]:
    """`old:new` of each item; raises for one that is no such pair."""
    found: dict[str, str] = {}
    for item in items:
        # Java's split drops what is empty at the end, and keeps what is empty at the start.
        parts = item.split(":")
        while parts and not parts[-1]:
            parts.pop()
        if len(parts) != 2:
            raise OptionRefused("pairs such as old:new, separated by commas")
        found[parts[0]] = parts[1]
    return found
