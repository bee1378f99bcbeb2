"""Heads of requests are read strictly, answers are written in HTTP's own form; the library's own reader says so."""

from __future__ import annotations

import email.parser
import http.client
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.rest.messages import HEADERS_MAX, RefusedRequest, json_answer, read_head, refusal, written


def head(*lines: str, first: str = "GET /flows?a=b HTTP/1.1", host: str | None = "localhost") -> bytes:
    return "\r\n".join([first, *(["Host: " + host] if host is not None else []), *lines]).encode("latin-1")


def test_a_head_is_read() -> None:
    request = read_head(head("X-Y:  z \t", "Connection: Keep-Alive, CLOSE"))
    assert (request.method, request.path, request.headers["x-y"], request.is_last) == ("GET", "/flows", "z", True)
    assert read_head(head("Connection: close", "Connection: x")).is_last
    assert not read_head(head()).is_last
    assert read_head(head(first="GET / HTTP/1.0", host=None)).is_last
    assert not read_head(head("Connection: keep-alive", first="GET / HTTP/1.0", host=None)).is_last


@pytest.mark.parametrize(
    ("lines", "has_body"),
    [((), False), (("Content-Length: 0",), False), (("Content-Length: 00",), False), (("Content-Length: 10",), True),
     (("Transfer-Encoding: chunked",), True), (("Transfer-Encoding: identity",), True)],
)  # fmt: skip
def test_a_body_is_seen_before_it_is_read(lines: tuple[str, ...], has_body: bool) -> None:
    assert read_head(head(*lines)).has_body is has_body


@pytest.mark.parametrize(
    ("bad", "status", "words"),
    [
        (b"", 400, "first line"),
        (head(first="GET http://other/ HTTP/1.1"), 400, "first line"),
        (head(first="GET /a b HTTP/1.1"), 400, "first line"),
        (head(first="GET / HTTP/2.0"), 400, "first line"),
        (head(first="get / HTTP/1.1"), 400, "first line"),
        (head(host=None), 400, "Host"),
        (head("Host: other"), 400, "one header host"),
        (head("Content-Length: 3", "Content-Length: 4"), 400, "one header content-length"),
        (head("Content-Length: -3"), 400, "number"),
        (head("Content-Length: 3, 3"), 400, "number"),
        (head("Name : value"), 400, "header line 2"),
        (head(" folded"), 400, "header line 2"),
        (head("no colon"), 400, "header line 2"),
        (head("A: b\nC: d"), 400, "header line 2"),
        (head("A: \x00"), 400, "header line 2"),
        (head(*("A: b" for _ in range(HEADERS_MAX))), 431, f"at most {HEADERS_MAX} headers"),
    ],
)
def test_what_is_not_http_is_refused(bad: bytes, status: int, words: str) -> None:
    with pytest.raises(RefusedRequest, match=words) as refused:
        read_head(bad)
    assert refused.value.status == status


@given(st.binary(max_size=300))
def test_any_bytes_are_a_request_or_refused(content: bytes) -> None:
    try:
        request = read_head(content)
    except RefusedRequest as error:
        assert error.status in (400, 431)
    else:
        assert request.path.startswith("/")


@given(
    st.dictionaries(
        st.from_regex(r"[a-z][a-z-]{0,20}", fullmatch=True), st.text("abc 123;=\t\xe9", max_size=30), max_size=20
    )
)
def test_headers_are_read_as_the_library_reads_them(headers: dict[str, str]) -> None:
    for name in ("host", "content-length", "transfer-encoding", "connection", "authorization"):
        headers.pop(name, None)
    lines = [f"{name}: {value}" for name, value in headers.items()]
    theirs = email.parser.Parser().parsestr("\r\n".join(lines) + "\r\n\r\n")
    ours = read_head(head(*lines)).headers
    del ours["host"]
    assert ours == {name: value.strip(" \t") for name, value in theirs.items()}


class _Sent:
    def __init__(self, content: bytes) -> None:
        self._file = io.BytesIO(content)

    def makefile(self, mode: str) -> io.BytesIO:
        return self._file


@pytest.mark.parametrize("is_last", [True, False])
def test_an_answer_is_read_by_the_library(is_last: bool) -> None:
    answer = refusal(429, "expected fewer", ("Retry-After", "1"))
    response = http.client.HTTPResponse(_Sent(written(answer, is_last=is_last)))  # type: ignore[arg-type]
    response.begin()
    assert (response.status, response.getheader("Retry-After"), response.will_close) == (429, "1", is_last)
    assert response.read() == b'{\n  "error_code": 429,\n  "message": "expected fewer"\n}\n'
    assert response.getheader("X-Content-Type-Options") == "nosniff"


def test_a_head_alone_tells_the_length_of_what_is_left_out() -> None:
    answer = json_answer(200, ["a"])
    whole, alone = written(answer, is_last=False), written(answer, is_last=False, with_body=False)
    assert alone.endswith(b"\r\n\r\n")
    assert len(whole) - len(alone) == len(answer.body)
    assert b"Content-Length: %d\r\n" % len(answer.body) in alone
