"""Answers as values, in the form that Kafka Connect's REST has."""

from __future__ import annotations

import json
from dataclasses import dataclass

import orjson

JSON = "application/json"
# Nobody keeps an answer, or guesses what it is.
SAFE = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What is sent back. Without a content type it has none, as Connect's empty answers have."""

    status: int
    body: bytes
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def raw_headers(self) -> list[tuple[bytes, bytes]]:
        """As ASGI has them."""
        kind = [("content-type", self.content_type)] if self.content_type else []
        own = [*kind, *([("content-length", str(len(self.body)))] if self.status != 204 else []), *self.headers]
        return [*((name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in own), *SAFE]


def json_answer(status: int, content: object, *headers: tuple[str, str]) -> HttpAnswer:
    """An answer for programs that a person can read, too."""
    try:
        body = orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # half a surrogate pair, in a name that came as bytes; the library writes it as an escape
        body = json.dumps(content, indent=2).encode() + b"\n"
    return HttpAnswer(status, body, headers=headers)


def compact_answer(status: int, content: object) -> HttpAnswer:
    """An answer in one line, as Connect writes it."""
    return HttpAnswer(status, orjson.dumps(content))


def empty_answer(status: int, *headers: tuple[str, str]) -> HttpAnswer:
    """What Connect answers when a change is accepted or done."""
    return HttpAnswer(status, b"", "", headers)


def refusal(status: int, message: str, *headers: tuple[str, str]) -> HttpAnswer:
    """An error in the form that Kafka Connect's REST has."""
    return json_answer(status, {"error_code": status, "message": message}, *headers)


TOO_OFTEN = refusal(429, "expected fewer requests from this address", ("Retry-After", "1"))
