"""Text and numbers that are safe to print on any terminal."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from typing import Any

import orjson

from sparkmirror.status.words import amount as amount
from sparkmirror.status.words import duration as duration
from sparkmirror.status.words import megabytes as megabytes
from sparkmirror.status.words import printable as printable

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
