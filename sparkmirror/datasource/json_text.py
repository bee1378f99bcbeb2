"""JSON changed at one place: everything else keeps its bytes, its order, its spaces and its numbers. Does no I/O."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from json.decoder import scanstring  # type: ignore[attr-defined]  # Python's own reader of one string
from typing import Any, NamedTuple

import orjson

# `*` is every member or element.
Path = tuple[str | int, ...]
EVERY = "*"
STEP = re.compile(r"\.([^\W\d][\w-]*|\*)|\[(\d+|\*)\]|\[['\"](.+?)['\"]\]")
SPACE = re.compile(r"[ \t\n\r]*")
COLON = re.compile(rb"[ \t\n\r]*:[ \t\n\r]*")
WORD = re.compile(rb"[-+.\w]+")  # a number, true, false or null
# By what Python reads it as.
MASKS = {str: b'"***"', bool: b"false", int: b"0", float: b"0", list: b"[]", dict: b"{}", type(None): b"null"}
_decode = json.JSONDecoder().raw_decode

Span = tuple[int, int, str]


class Member(NamedTuple):
    """One member of an object: its name, where that is written, and where its value begins and ends."""

    name: str
    start: int
    value: int
    end: int


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


def masked(text: bytes, path: Path) -> bytes:
    """What lies at the path made unreadable, each by something of its own type; null stays null. Text is UTF-8."""
    return _changed(text, path, _mask)


def replaced(text: bytes, path: Path, new: bytes) -> bytes:
    """What lies at the path, by this JSON."""
    return _changed(text, path, lambda _: new)


def members(text: str) -> list[Member]:
    """The members of a text that is one JSON object, in their order. Raises ValueError for another text."""
    at = _skip(text, 0)
    if text[at : at + 1] != "{":
        raise ValueError(f"is no JSON object but {_kind(whole(text))}")
    found: list[Member] = []
    at = _skip(text, at + 1)
    while text[at : at + 1] != "}" or found:
        start = at
        name, value = _name(text, at)
        _, end = _value(text, value)
        found.append(Member(name, start, value, end))
        at = _skip(text, end)
        sign = text[at : at + 1]
        if sign == "}":
            break
        if sign != ",":
            raise ValueError(f"is no JSON: expected , or }} at character {at}")
        at = _skip(text, at + 1)
    _refuse_rest(text, at + 1)
    return found


def whole(text: str) -> Any:
    """The value of a text that is one JSON value. Raises ValueError for another text."""
    found, end = _value(text, _skip(text, 0))
    _refuse_rest(text, end)
    return found


def _kind(found: Any) -> str:
    match found:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "a list"
        case _:
            return "an object"


def _mask(found: Any) -> bytes:
    return MASKS[type(found)]


def _changed(raw: bytes, path: Path, change: Callable[[Any], bytes]) -> bytes:
    if len(path) == 1 and (quick := _changed_quickly(raw, path[0], change)) is not None:
        return quick
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"is no JSON: {error}") from error
    spans: list[Span] = []
    _refuse_rest(text, _walk(text, _skip(text, 0), path, lambda found: change(found).decode(), spans))
    parts: list[str] = []
    at = 0
    for start, stop, new in spans:
        parts += (text[at:start], new)
        at = stop
    return "".join((*parts, text[at:])).encode() if spans else raw


def _changed_quickly(raw: bytes, name: str | int, change: Callable[[Any], bytes]) -> bytes | None:
    """For a member of the outermost object whose name occurs once in a text without escapes; None for anything else.

    Where no character is escaped, a quoted name in front of a colon is the name of a member. If it occurs there once and
    the outermost object has it, it is that one. That the text is JSON at all, orjson sees in a quarter of Python's own time.
    """
    if b"\\" in raw or not isinstance(name, str) or name == EVERY or '"' in name:
        return None
    try:
        found = orjson.loads(raw)
    except (ValueError, RecursionError):
        return None  # the careful reader says what is wrong
    if type(found) is not dict:
        return None
    if name not in found:
        return raw
    quoted = b'"%b"' % name.encode()
    start = raw.find(quoted)
    at = start + len(quoted)
    if start < 0 or raw.find(quoted, at) >= 0:
        return None
    if raw[at : at + 2] == b':"':  # as programs write it
        at += 1
    else:
        between = COLON.match(raw, at)
        if between is None:
            return None
        at = between.end()
    value = found[name]
    if type(value) is str:
        end = at + 2 + (len(value) if value.isascii() else len(value.encode()))
    elif type(value) in (dict, list):
        return None
    else:
        end = at + len(WORD.match(raw, at)[0])  # type: ignore[index]  # orjson has read it
    return b"%b%b%b" % (raw[:at], change(value), raw[end:])


def _refuse_rest(text: str, end: int) -> None:
    end = _skip(text, end)
    if end != len(text):
        raise ValueError(f"is no JSON: something follows at character {end}")


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
