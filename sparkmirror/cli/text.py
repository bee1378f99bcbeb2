"""Text and numbers that are safe to print on any terminal."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from typing import Any

import orjson

_NOT_ASCII = re.compile(r"[^\x00-\x7e]+")  # and DEL


def json_text(value: object) -> str:
    """`value` and the dataclasses in it as JSON in ASCII, indented by two: what a terminal of any encoding can show."""
    try:
        text = orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
    except TypeError:  # half a surrogate pair, which only Python's own library writes
        return json.dumps(value, indent=2, default=fields_of)
    return _NOT_ASCII.sub(lambda found: json.dumps(found[0])[1:-1], text)


def fields_of(value: Any) -> dict[str, Any]:
    """A dataclass as a dictionary; what stands in its fields is not changed."""
    return {field.name: getattr(value, field.name) for field in fields(value)}


def printable(text: str) -> str:
    """`text` with everything that could steer a terminal or break a line written as an escape."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def amount(number: float) -> str:
    """1234567.8 as `1,234,568`."""
    return f"{number:,.0f}"


def megabytes(size: float) -> str:
    """Bytes as `61.2 MB`; from 10 GB on as `12.3 GB`."""
    return f"{size / 1e9:,.1f} GB" if size >= 10e9 else f"{size / 1e6:,.1f} MB"


def duration(seconds: float) -> str:
    """72.4 as `1 min 12 s`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
