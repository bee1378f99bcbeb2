"""Java regular expressions against what java.util.regex answers."""

import json
from pathlib import Path

import pytest

from sparkmirror.config.java_regex import RegexRefused, compile_java, compile_list

GOLDEN = json.loads((Path(__file__).parent / "data" / "java-regex.json").read_text())


def test_an_accepted_pattern_answers_as_java_for_every_name():
    different = []
    for pattern, names, answers, is_valid in GOLDEN["cases"]:
        try:
            compiled = compile_java(pattern)
        except RegexRefused:
            continue
        ours = "".join("01"[compiled.fullmatch(name)] for name in GOLDEN["names"][names])
        if not is_valid or ours != answers:
            different.append((pattern, answers, ours))
    assert different == []


def test_a_pattern_that_java_refuses_is_refused():
    for pattern, _, _, is_valid in GOLDEN["cases"]:
        if not is_valid:
            with pytest.raises(RegexRefused):
                compile_java(pattern)


def test_most_patterns_that_java_accepts_are_accepted():
    valid = [pattern for pattern, _, _, is_valid in GOLDEN["cases"] if is_valid]
    accepted = 0
    for pattern in valid:
        try:
            compile_java(pattern)
            accepted += 1
        except RegexRefused:
            pass
    assert accepted / len(valid) > 0.9


@pytest.mark.parametrize(
    ("pattern", "construct"),
    [
        (r"(a)\1", "a back reference"),
        (r"(?<n>a)\k<n>", "a back reference"),
        (r"\R", r"the line break \R"),
        (r"\X", r"the grapheme \X"),
        (r"\G", r"the anchor \G"),
        ("(?m)^a", "the flag `m`"),
        ("(?x)a b", "the flag `x`"),
        ("(ab)*+", "possessive"),
        ("(?>a|ab)c", "atomic"),
        (r"\p{IsGreek}", r"\p{IsGreek}"),
        ("(?<=a*)b", "look-behind"),
        ("a{2000}", "more than 1000"),
        ("a{2", "no count"),
        ("*a", "nothing before"),
        ("(a", "without its"),
        ("a)", "without its"),
        ("[a", "inside a class"),
        ("a" * 1025, "1025 characters"),
        ("((a{1000}){1000})", "too large"),
        ("(" * 60 + ")" * 60, "nested"),
        ("[" * 60 + "a" + "]" * 60, "nested"),
    ],
)
def test_refusal_names_the_construct(pattern, construct):
    with pytest.raises(RegexRefused) as refused:
        compile_java(pattern)
    assert construct in refused.value.reason


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "pattern",
    ["(a+)+b", "(a|a)*b", "(a|aa)+b", "(.*)*x", ".*.*.*.*.*.*.*.*x", "(?!(a+)+b)a*c", "(?:a?){200}a{200}"],
)
def test_no_pattern_takes_long_on_a_long_name(pattern):
    compiled = compile_java(pattern)
    for length in range(0, 250, 3):
        compiled.fullmatch("a" * length + "é")


def test_list_is_joined_before_it_is_read():
    assert compile_list(("(a", "b)")).fullmatch("b")
    assert compile_list(("(?i)a", "b")).fullmatch("B")
    assert not compile_list(("a", "(?i)b")).fullmatch("A")


def test_empty_list_matches_nothing_not_even_the_empty_name():
    assert not compile_list(()).fullmatch("")
    assert not compile_list(()).fullmatch("a")
