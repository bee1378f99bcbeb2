"""Answers have Connect's form, and headers that keep them safe in a browser."""

from __future__ import annotations

import json

from sparkmirror.rest.messages import TOO_OFTEN, json_answer, refusal


def test_a_refusal_has_connects_form() -> None:
    found = refusal(404, "expected another path")
    assert json.loads(found.body) == {"error_code": 404, "message": "expected another path"}
    headers = dict(found.raw_headers)
    assert headers[b"content-type"] == b"application/json"
    assert int(headers[b"content-length"]) == len(found.body)
    assert (headers[b"cache-control"], headers[b"x-content-type-options"]) == (b"no-store", b"nosniff")
    assert (b"retry-after", b"1") in TOO_OFTEN.raw_headers


def test_a_name_that_is_no_unicode_is_escaped() -> None:
    assert json.loads(json_answer(200, {"topic": "\udc80"}).body) == {"topic": "\udc80"}
