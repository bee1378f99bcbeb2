"""The text of sasl.jaas.config is read strictly: one module, options, and never a word of a secret in an error."""

from __future__ import annotations

import pytest

from sparkmirror.clusters.security.jaas import JAAS_CHARACTERS_MAX, JaasRefused, parse_jaas

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ('required username="ann" password="a b";', {"username": "ann", "password": "a b"}),
        ("required username='ann' password=plain;", {"username": "ann", "password": "plain"}),
        ('REQUIRED\n  username = "ann"\n  password="x" ;  \n', {"username": "ann", "password": "x"}),
        (r'required password="a\"b\\c\'d\ne";', {"password": "a\"b\\c'd\ne"}),
        ('required password="semi;colon = //no comment /* nor this */";',
         {"password": "semi;colon = //no comment /* nor this */"}),
        ('sufficient // a comment\n /* another;\n one */ username="ann";', {"username": "ann"}),
        ("required;", {}),
        ('required password="";', {"password": ""}),
        ('required password="päss→";', {"password": "päss→"}),
    ],
)  # fmt: skip
def test_one_module_with_options_is_read(text: str, options: dict[str, str]) -> None:
    entry = parse_jaas(f"{MODULE} {text}")
    assert (entry.module, entry.options) == (MODULE, options)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "at character 1: expected the name of a login module"),
        ("   ", "expected the name of a login module"),
        (MODULE, "expected required"),
        (f"{MODULE} perhaps;", "expected one of required, requisite, sufficient, optional"),
        (f"{MODULE} required", "expected an option or the closing `;`"),
        (f'{MODULE} required password="canary"', "expected an option or the closing `;`"),
        (f'{MODULE} required password="canary;', "expected a value in quotes"),
        (f'{MODULE} required password="can\nary";', "expected a value in quotes"),
        (f'{MODULE} required password="canary"x";', "expected `=`"),
        (f"{MODULE} required password;", "expected `=`"),
        (f"{MODULE} required password=;", "expected a value in quotes"),
        (f'{MODULE} required password="canary" password="canary2";', "password is written twice"),
        (f'{MODULE} required password="canary\\12";', "a backslash and a digit"),
        (f'{MODULE} required; {MODULE} required password="canary";', "expected nothing after the `;`"),
        (f'{MODULE} required password="canary"; /* open', "expected nothing after the `;`"),
        (f"{MODULE} required ${{canary}};", "expected `=`"),
        ("KafkaClient { x required; };", "expected required"),
        ("x" * (JAAS_CHARACTERS_MAX + 1), "characters"),
    ],
)
def test_anything_else_is_refused_with_the_place_and_without_the_content(text: str, words: str) -> None:
    with pytest.raises(JaasRefused) as refusal:
        parse_jaas(text)
    assert words in refusal.value.reason
    assert "canary" not in refusal.value.reason


def test_an_entry_does_not_show_its_options() -> None:
    assert "canary" not in repr(parse_jaas(f'{MODULE} required password="canary";'))
