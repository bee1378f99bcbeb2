"""JSON changed at one place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.datasource import json_text
from sparkmirror.datasource.json_text import json_path, masked, replaced

documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "é", ""]), inner, max_size=3),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("$.a", ("a",)),
        ("$.a.b-c[0].d[*]", ("a", "b-c", 0, "d", "*")),
        ("$['with space'].*", ("with space", "*")),
        ("$[3]", (3,)),
    ],
)
def test_a_path_is_read_in_steps(path: str, steps: tuple[Any, ...]) -> None:
    assert json_path(path) == steps


@pytest.mark.parametrize("path", ["", "$", "a.b", "$a", "$.", "$..a", "$.a[", "$.a[-1]", "$.a b", "x$.a"])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="expected a path"):
        json_path(path)


@pytest.mark.parametrize(
    ("path", "text", "wanted"),
    [
        ("$.a", '{"a":"secret","b":1.10}', '{"a":"***","b":1.10}'),
        ("$.a", ' { "b" : 1e400 , "a" : 12.5 } ', ' { "b" : 1e400 , "a" : 0 } '),
        ("$.a", '{"a":true,"a":"twice"}', '{"a":false,"a":"***"}'),
        ("$.a", '{"a":null}', '{"a":null}'),
        ("$.a", '{"a":{"x":[1]}}', '{"a":{}}'),
        ("$.a.b", '{"a":{"b":[1,2]},"c":3}', '{"a":{"b":[]},"c":3}'),
        ("$.a[*].n", '{"a":[{"n":"1"},{"m":2},{"n":3}]}', '{"a":[{"n":"***"},{"m":2},{"n":0}]}'),
        ("$[1]", "[1,2,3]", "[1,0,3]"),
        ("$.*", '{"x":"1","y":[2]}', '{"x":"***","y":[]}'),
        ("$.a.b", '{"a":"no object"}', '{"a":"no object"}'),
        ("$.a", "[]", "[]"),
        ("$.a", '"text"', '"text"'),
        ("$.a", '{"é":"ü","a":"ß"}', '{"é":"ü","a":"***"}'),
    ],
)
def test_only_what_lies_at_the_path_is_changed(path: str, text: str, wanted: str) -> None:
    assert masked(text.encode(), json_path(path)).decode() == wanted


@pytest.mark.parametrize(
    "text", ["", "{", '{"a"', '{"a":', '{"a":1', '{"a":1,', '{"a":1,}', "{a:1}", '{"a":1} x', "[1 2]", "nul"]
)
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no JSON"):
        masked(text.encode(), json_path("$.a"))


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(ValueError, match="is no JSON: 'utf-8' codec"):
        masked(b'{"a":"\xff"}', json_path("$.a"))


@given(documents, st.sampled_from(["$.a", "$.b.a", "$[0]", "$.*.b", "$.é[1]"]), st.sampled_from([None, 1]))
def test_a_replacement_is_where_it_was_asked_for(document: Any, path: str, indent: int | None) -> None:
    text = json.dumps(document, ensure_ascii=False, indent=indent)
    steps = json_path(path)
    assert json.loads(replaced(text.encode(), steps, b'"new"')) == _replaced(document, steps)


def _replaced(document: Any, steps: tuple[str | int, ...]) -> Any:
    """The plain way."""
    if not steps:
        return "new"
    step, rest = steps[0], steps[1:]
    if isinstance(document, dict):
        return {name: _replaced(value, rest) if step in ("*", name) else value for name, value in document.items()}
    if isinstance(document, list):
        return [_replaced(value, rest) if step in ("*", at) else value for at, value in enumerate(document)]
    return document


@given(
    st.dictionaries(
        st.sampled_from(["a", "b", "session", 'q"', "ä"]),
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8)
        | st.just("session") | st.lists(st.just("a")) | st.fixed_dictionaries({"session": st.text(max_size=3)}),
        max_size=5,
    ),
    st.sampled_from(["$.a", "$.session", "$.ä"]),
    st.sampled_from([None, 1]),
    st.booleans(),
)  # fmt: skip
def test_the_quick_way_gives_what_the_careful_one_gives(document: Any, path: str, indent: int | None, escape: bool) -> None:
    text = json.dumps(document, indent=indent, ensure_ascii=escape)
    quick = masked(text.encode(), json_path(path))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(json_text, "_changed_quickly", lambda *_: None)
        assert masked(text.encode(), json_path(path)) == quick
