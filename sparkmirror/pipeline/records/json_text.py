"""JSON changed at one place: everything else keeps its bytes, its order, its spaces and its numbers. Does no I/O."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from json.decoder import scanstring  # type: ignore[attr-defined]  # Python's own reader of one string
from typing import Any

__all__ = ["Path", "json_path", "masked", "replaced"]

# `*` is every member or element.
Path = tuple[str | int, ...]
EVERY = "*"
STEP = re.compile(r"\.([^\W\d][\w-]*|\*)|\[(\d+|\*)\]|\[['\"](.+?)['\"]\]")
SPACE = re.compile(r"[ \t\n\r]*")
MASK = "***"
_decode = json.JSONDecoder().raw_decode

Span = tuple[int, int, str]


def json_path(text: str) -> Path:
    """`$.customer.cards[*].number` as steps. Raises ValueError for what is no path."""
    steps: list[str | int] = []
    at = 1
    while at < len(text):
        match = STEP.match(text, at)
        if match is None:
            break
        name, index, quoted = match.groups()
        steps.append(int(index) if index and index != EVERY else quoted or name or EVERY)
        at = match.end()
    if not text.startswith("$") or at < len(text) or not steps:
        raise ValueError(f"expected a path such as $.customer.cards[*].number, found {text!r}")
    return tuple(steps)


def masked(text: str, path: Path) -> str:
    """What lies at the path made unreadable, each by something of its own type; null stays null."""
    return _changed(text, path, lambda found: json.dumps(_mask(found)))


def replaced(text: str, path: Path, new: str) -> str:
    """What lies at the path, by this JSON."""
    return _changed(text, path, lambda _: new)


def _mask(found: Any) -> Any:
    match found:
        case None:
            return None
        case bool():
            return False
        case int() | float():
            return 0
        case str():
            return MASK
        case list():
            return []
        case _:
            return {}


def _changed(text: str, path: Path, change: Callable[[Any], str]) -> str:
    spans: list[Span] = []
    end = _skip(text, _walk(text, _skip(text, 0), path, change, spans))
    if end != len(text):
        raise ValueError(f"is no JSON: something follows at character {end}")
    parts: list[str] = []
    at = 0
    for start, stop, new in spans:
        parts += (text[at:start], new)
        at = stop
    return "".join((*parts, text[at:])) if spans else text


def _skip(text: str, at: int) -> int:
    match = SPACE.match(text, at)
    return match.end() if match is not None else at


def _walk(text: str, at: int, path: Path, change: Callable[[Any], str], spans: list[Span]) -> int:
    """Reads one value and returns its end; spans are what is to be changed in it."""
    first = text[at : at + 1]
    if not path or first not in ("{", "["):
        found, end = _value(text, at)
        if not path:
            spans.append((at, end, change(found)))
        return end
    closing, at = "}" if first == "{" else "]", _skip(text, at + 1)
    if text[at : at + 1] == closing:
        return at + 1
    step, index = path[0], 0
    while True:
        name: str | int = index
        if first == "{":
            name, at = _name(text, at)
        if step in (EVERY, name):
            at = _walk(text, at, path[1:], change, spans)
        else:
            _, at = _value(text, at)
        at, index = _skip(text, at), index + 1
        sign = text[at : at + 1]
        if sign == closing:
            return at + 1
        if sign != ",":
            raise ValueError(f"is no JSON: expected , or {closing} at character {at}")
        at = _skip(text, at + 1)


def _name(text: str, at: int) -> tuple[str, int]:
    if text[at : at + 1] != '"':
        raise ValueError(f"is no JSON: expected a name at character {at}")
    name, at = scanstring(text, at + 1)
    at = _skip(text, at)
    if text[at : at + 1] != ":":
        raise ValueError(f"is no JSON: expected : at character {at}")
    return name, _skip(text, at + 1)


def _value(text: str, at: int) -> tuple[Any, int]:
    try:
        return _decode(text, at)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"is no JSON at character {at}: {error}") from error
