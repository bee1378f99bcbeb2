"""The properties parser against java.util.Properties and against javaproperties as a whole."""

import json
from pathlib import Path

import javaproperties
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.config.properties import Entry, parse_properties

CASES = json.loads((Path(__file__).parent / "data" / "java-properties.json").read_text())


@pytest.mark.parametrize("case", CASES, ids=lambda case: repr(case["text"]))
def test_entries_are_those_of_java(case):
    found = parse_properties(case["text"])
    if case["entries"] is None:
        assert found.problems
        return
    # Java makes an empty key of a lone backslash at the end of the file; a key without a name has no effect anywhere.
    expected = {key: value for key, value in case["entries"].items() if key}
    assert {key: entry.value for key, entry in found.last().items() if key} == expected


@given(st.text(alphabet="ab=: \t\f\n\r#!é", max_size=60))
def test_entries_are_those_of_the_library_for_the_whole_text(text):
    expected = javaproperties.loads(text, object_pairs_hook=list)
    assert [(entry.key, entry.value) for entry in parse_properties(text).entries] == expected


def test_line_numbers_count_comments_blank_lines_and_continuations():
    text = "# comment\n\na = 1\r\nb = x \\\n   y\rc = 3\n"
    assert parse_properties(text).entries == (Entry("a", "1", 3), Entry("b", "x y", 4), Entry("c", "3", 6))


def test_malformed_escape_names_its_line_and_leaves_the_others_readable():
    found = parse_properties("a = 1\nb = secret\\u00zz\nc = 2\n")
    assert [entry.key for entry in found.entries] == ["a", "c"]
    assert found.problems == ((2, "line 2: expected four hexadecimal digits after \\u, found '\\\\u00zz'"),)


@pytest.mark.parametrize("mark", ["\ufeff", "\xef\xbb\xbf"])
def test_byte_order_mark_is_seen_and_stays_in_the_first_key(mark):
    found = parse_properties(mark + "clusters = a")
    assert found.has_byte_order_mark
    assert found.entries[0].key == mark + "clusters"
