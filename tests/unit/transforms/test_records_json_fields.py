"""Fields of JSON objects as Connect's transforms change them, with every other byte as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.transforms.json_fields import extracted, fields_masked, fields_replaced, hoisted, inserted, picked

ODD = ' { "a" : 1.50 ,\n"b":[ 1 ] , "c" :"x" } '
NAMES = ["a", "b", "c", "é", ""]
leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5)
objects = st.dictionaries(st.sampled_from(NAMES), leaves | st.lists(leaves, max_size=2), max_size=5)
names = st.lists(st.sampled_from(NAMES), max_size=3, unique=True)


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (hoisted("[1]", "f"), '{"f":[1]}'),
        (hoisted(None, 'q"'), '{"q\\"":null}'),
        (extracted(ODD, ("a",)), "1.50"),
        (extracted(ODD, ("c",)), '"x"'),
        (extracted(ODD, ("no",)), None),
        (extracted(None, ("a",)), None),
        (extracted(" null ", ("a",)), None),
        (extracted('{"a":null}', ("a",)), None),
        (extracted('{"a":1,"a":2}', ("a",)), "2"),
        (extracted('{"a":{"b":{"c":[ 0 ]}}}', ("a", "b", "c")), "[ 0 ]"),
        (extracted('{"a":{"b":null}}', ("a", "b", "c")), None),
        (fields_masked(ODD, ("a", "c"), None), ' { "a" : 0.0 ,\n"b":[ 1 ] , "c" :"" } '),
        (fields_masked('{"a":1,"a":2}', ("a",), None), '{"a":0,"a":0}'),
        (fields_masked('{"t":true,"n":null,"o":{"x":1}}', ("t", "n", "o"), None), '{"t":false,"n":null,"o":{}}'),
        (fields_masked("{ }", ("a",), None), '{"a":null }'),
        (fields_masked('{"b":1 }', ("a",), None), '{"b":1,"a":null }'),
        (fields_masked('{"s":"x","i":7,"d":7.5}', ("s", "i", "d"), "12.9"), '{"s":"12.9","i":12,"d":12.9}'),
        (fields_masked('{"i":7}', ("i",), "9223372036854775808"), '{"i":-9223372036854775808}'),
        (fields_replaced(ODD, ("b",), (), {}), ' { "a" : 1.50 ,\n"c" :"x" } '),
        (fields_replaced(ODD, ("c",), (), {}), ' { "a" : 1.50 ,\n"b":[ 1 ] } '),
        (fields_replaced(ODD, ("a", "b", "c"), (), {}), " {  } "),
        (fields_replaced(ODD, (), ("b",), {}), ' { "b":[ 1 ] } '),
        (fields_replaced(ODD, ("b",), ("b", "c"), {"c": "z"}), ' { "z" :"x" } '),
        (fields_replaced(ODD, (), (), {"a": "A"}), ' { "A" : 1.50 ,\n"b":[ 1 ] , "c" :"x" } '),
        (fields_replaced('{"a":1,"b":2,"c":3}', (), (), {"a": "b"}), '{"b":2,"c":3}'),
        (fields_replaced('{"b":2,"a":1}', (), (), {"a": "b"}), '{"b":1}'),
        (fields_replaced('{"a:b":1}', (), (), {"a:b": "c"}), '{"c":1}'),
        (fields_replaced(None, ("a",), (), {}), None),
        (fields_replaced("null", ("a",), (), {}), "null"),
        (picked(ODD, ("c", "a", "no")), '{"c":"x","a":1.50,"no":null}'),
        (inserted('{"a":1}', (("t", "x.y"), ("p", 3))), '{"a":1,"t":"x.y","p":3}'),
        (inserted('{"a":1 }', (("a", "new"),)), '{"a":"new" }'),
        (inserted("{}", (("a", "é"),)), '{"a":"é"}'),
        (inserted(None, (("a", 1),)), None),
    ],
)
def test_only_what_is_asked_for_changes(found: str | None, wanted: str | None) -> None:
    assert found == wanted


@pytest.mark.parametrize(
    ("action", "told"),
    [
        (lambda: fields_masked(None, ("a",), None), "is null; to leave such records alone, add a predicate"),
        (lambda: picked(None, ("a",)), "is null"),
        (lambda: fields_masked("[1]", ("a",), None), "is no JSON object but a list"),
        (lambda: picked("3", ("a",)), "is no JSON object but a number"),
        (lambda: inserted("nope", (("a", 1),)), "is no JSON at character 0"),
        (lambda: inserted('{"a":1', (("a", 1),)), "is no JSON: expected , or }"),
        (lambda: inserted('{"a":1,}', (("a", 1),)), "is no JSON: expected a name"),
        (lambda: inserted("{,}", (("a", 1),)), "is no JSON: expected a name"),
        (lambda: inserted("{} {}", (("a", 1),)), "something follows"),
        (lambda: extracted("", ("a",)), "is no JSON"),
        (lambda: hoisted("{", "a"), "is no JSON"),
        (lambda: extracted('{"a":3}', ("a", "b")), "holds in field a what is no JSON object but a number"),
        (lambda: fields_masked('{"a":true}', ("a",), "x"), "holds in field a neither a number nor a string"),
        (lambda: fields_masked('{"a":1}', ("a",), "x"), "holds in field a a number, and the replacement is none"),
        (lambda: fields_masked('{"a":1.5}', ("a",), "1e399"), "too large"),
    ],
)
def test_a_text_that_cannot_be_changed_is_told(action: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        action()


@given(objects, names, names, st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["x", "y", "z"]), max_size=2))
def test_any_object_is_what_plain_python_makes_of_it(
    given_object: dict[str, Any], some: list[str], others: list[str], renames: dict[str, str]
) -> None:
    text = json.dumps(given_object, indent=1, ensure_ascii=False)
    kept = {n: v for n, v in given_object.items() if n not in some and (not others or n in others)}
    if len(set(renames.values())) == len(renames):
        wanted = {renames.get(name, name): value for name, value in kept.items()}
        assert json.loads(fields_replaced(text, some, others, renames) or "") == wanted
    assert json.loads(picked(text, some)) == {name: given_object.get(name) for name in some}
    assert json.loads(inserted(text, [(name, 7) for name in some]) or "") == given_object | dict.fromkeys(some, 7)
    masked = json.loads(fields_masked(text, some, None))
    assert {n: v for n, v in masked.items() if n not in some} == {n: v for n, v in given_object.items() if n not in some}
    assert not any(masked[name] for name in some)
