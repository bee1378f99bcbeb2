"""Requests and answers as values: the head of a request is read strictly, and what is not HTTP/1 is refused."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus

import orjson

HEAD_BYTES_MAX = 16 * 1024  # a scraper's has a few hundred
HEADERS_MAX = 64
JSON = "application/json"

_LINE = re.compile(rb"([A-Z]{1,20}) (/[\x21-\x7e]*) HTTP/1\.([01])")
_HEADER = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([\x20-\x7e\x80-\xff\t]*)")
_ONCE = frozenset({"host", "content-length", "authorization", "transfer-encoding"})


class RefusedRequest(Exception):
    """Not answered by a route: the status and the words of the answer, after which the connection ends."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


@dataclass(frozen=True, slots=True)
class Request:
    """The head of a request; `path` is as it was sent, without the query."""

    method: str
    path: str
    headers: dict[str, str]
    is_last: bool  # the caller wants the connection closed behind the answer

    @property
    def has_body(self) -> bool:
        """Whether bytes follow that belong to it."""
        return self.headers.get("content-length", "0").strip("0") != "" or "transfer-encoding" in self.headers


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What is sent back."""

    status: int
    body: bytes
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()


def read_head(head: bytes) -> Request:
    """The request whose head, without the empty line at its end, this is."""
    line, *rest = head.split(b"\r\n")
    found = _LINE.fullmatch(line)
    if found is None:
        raise RefusedRequest(400, "expected a request of HTTP/1.1 or 1.0 for a path, found another first line")
    if len(rest) > HEADERS_MAX:
        raise RefusedRequest(431, f"expected at most {HEADERS_MAX} headers, found {len(rest)}")
    headers = _headers(rest)
    method, target, minor = found.groups()
    if minor == b"1" and "host" not in headers:
        raise RefusedRequest(400, "expected a Host header, found none")
    wishes = {word.strip().lower() for word in headers.get("connection", "").split(",")}
    is_last = "close" in wishes or (minor == b"0" and "keep-alive" not in wishes)
    return Request(method.decode(), target.partition(b"?")[0].decode(), headers, is_last)


def _headers(lines: list[bytes]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for at, line in enumerate(lines, 1):
        found = _HEADER.fullmatch(line)
        if found is None:
            raise RefusedRequest(400, f"expected a name, a colon and a value, found something else in header line {at}")
        name = found[1].decode("ascii").lower()
        if name in headers and name in _ONCE:
            raise RefusedRequest(400, f"expected one header {name}, found several")
        value = found[2].decode("latin-1").strip(" \t")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    if not headers.get("content-length", "0").isdecimal():
        raise RefusedRequest(400, "expected a number as Content-Length, found something else")
    return headers


def json_answer(status: int, content: object, *headers: tuple[str, str]) -> HttpAnswer:
    """An answer for programs that a person can read, too."""
    try:
        body = orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # half a surrogate pair, in a name that came as bytes; the library writes it as an escape
        body = json.dumps(content, indent=2).encode() + b"\n"
    return HttpAnswer(status, body, headers=headers)


def refusal(status: int, message: str, *headers: tuple[str, str]) -> HttpAnswer:
    """An error in the form that Kafka Connect's REST has."""
    return json_answer(status, {"error_code": status, "message": message}, *headers)


def written(answer: HttpAnswer, *, is_last: bool, with_body: bool = True) -> bytes:
    """The bytes of an answer."""
    lines = [
        f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}",
        f"Date: {formatdate(usegmt=True)}",
        f"Content-Type: {answer.content_type}",
        f"Content-Length: {len(answer.body)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        *(f"{name}: {value}" for name, value in answer.headers),
    ]
    if is_last:
        lines.append("Connection: close")
    head = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"
    return head + answer.body if with_body else head
