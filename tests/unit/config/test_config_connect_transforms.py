"""`transforms` and `predicates` of a flow: read as Connect reads them, and every mistake told."""

from __future__ import annotations

import pytest

from sparkmirror.config import ConnectPredicate, ConnectTransform, Settings, parse
from sparkmirror.config.connect_options import (
    OptionRefused,
    check_replacement,
    date_parts,
    field_path,
    header_value,
    rename_pairs,
)
from sparkmirror.errors import ConfigInvalid

BASE = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"
PACKAGE = "org.apache.kafka.connect.transforms."
ROUTER = f"A->B.transforms = r\nA->B.transforms.r.type = {PACKAGE}RegexRouter\n"


def read(text: str) -> Settings:
    return parse(BASE + text, "mm2.properties", {})


def chain(text: str) -> tuple[ConnectTransform, ...]:
    return read(text).flows[0].connect_transforms


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigInvalid) as caught:
        read(text)
    return caught.value.problems


def step(kind: str, *options: str) -> str:
    """The lines of one transform `x`."""
    lines = [f"A->B.transforms.x.{option}\n" for option in options]
    return f"A->B.transforms = x\nA->B.transforms.x.type = {PACKAGE}{kind}\n" + "".join(lines)


def test_a_chain_is_read_in_the_order_of_its_list_with_kafkas_defaults() -> None:
    found = chain(
        "A->B.transforms = mask, drop , stamp\nA->B.predicates = gone\n"
        f"A->B.transforms.drop.type = {PACKAGE}Filter\nA->B.transforms.drop.predicate = gone\n"
        "A->B.transforms.drop.negate = TRUE\n"
        f"A->B.predicates.gone.type = {PACKAGE}predicates.RecordIsTombstone\n"
        f"A->B.transforms.mask.type = {PACKAGE}MaskField$Value\nA->B.transforms.mask.fields = card, name\n"
        f"A->B.transforms.stamp.type = {PACKAGE}TimestampRouter\n"
    )
    gone = ConnectPredicate("gone", "RecordIsTombstone", {})
    mask = {"fields": "card, name", "replace.null.with.default": "true"}
    stamp = {"topic.format": "${topic}-${timestamp}", "timestamp.format": "yyyyMMdd"}
    assert found == (
        ConnectTransform("mask", "MaskField$Value", mask, None, False),
        ConnectTransform("drop", "Filter", {}, gone, True),
        ConnectTransform("stamp", "TimestampRouter", stamp, None, False),
    )


def test_the_list_may_stand_at_top_level_but_not_what_it_names() -> None:
    below = f"A->B.transforms.r.type = {PACKAGE}Filter\n"
    assert [found.type for found in chain("transforms = r\n" + below)] == ["Filter"]
    [told] = problems("transforms = r\n" + below.removeprefix("A->B."))
    assert told.startswith("line 5: transforms: A->B.transforms.r.type: expected one that runs here")
    settings = read(below.removeprefix("A->B."))
    assert settings.flows[0].connect_transforms == ()
    assert any("has no effect at top level; write `<source>-><target>.transforms.r.type`" in w for w in settings.warnings)


def test_a_flow_that_copies_nothing_needs_no_chain() -> None:
    text = f"transforms = r\nA->B.transforms.r.type = {PACKAGE}Filter\nB->A.emit.heartbeats.enabled = true\n"
    assert [len(flow.connect_transforms) for flow in read(text).flows] == [1, 0]


def test_connects_bare_names_and_names_with_dots_are_understood() -> None:
    found = chain(
        "A->B.transforms = a, a.b\nA->B.transforms.a.type = Filter\n"
        "A->B.transforms.a.b.type = HoistField$Key\nA->B.transforms.a.b.field = f\n"
    )
    assert [(each.name, each.type) for each in found] == [("a", "Filter"), ("a.b", "HoistField$Key")]


def test_keys_that_no_list_names_are_told() -> None:
    settings = read("A->B.transforms.x.type = y\nA->B.predicates.p.type = z\n" + ROUTER.replace(" = r\n", " = r, s\n", 1)
        + "A->B.transforms.r.regex = a\nA->B.transforms.r.replacement = b\nA->B.transforms.s.type = Filter\n"
        "A->B.transforms.r.plugin.version = 4.3.1\n")  # fmt: skip
    assert [warning for warning in settings.warnings if "transforms" in warning or "predicates" in warning] == [
        "line 5: A->B.transforms.x.type: has no effect: `transforms` does not name it",
        "line 6: A->B.predicates.p.type: has no effect: `predicates` does not name it",
        "line 12: A->B.transforms.r.plugin.version: has no effect: Java plug-ins cannot be loaded",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (step("Cast$Value", "spec = a:int8"), "line 6: A->B.transforms.x.type: expected one that runs here: "),
        (step("Cast$Value", "spec = a:int8"), "found `org.apache.kafka.connect.transforms.Cast$Value`"),
        ("A->B.transforms = x\nA->B.transforms.x.type = com.Mine\n", "transforms.MaskField$Key or $Value"),
        (step("MaskField", "fields = a"), f"expected {PACKAGE}MaskField$Key or {PACKAGE}MaskField$Value, found"),
        (step("MaskField$Both", "fields = a"), f"expected {PACKAGE}MaskField$Key or {PACKAGE}MaskField$Value, found"),
        (step("ValueToKey$Value", "fields = a"), f"expected {PACKAGE}ValueToKey, found"),
        (step("MaskField$Value"), "A->B.transforms.x.fields: expected a value, found nothing"),
        (step("MaskField$Value", "fields ="), "expected one or more names, separated by commas, found nothing"),
        (step("MaskField$Value", "fields = a,,b"), "expected one or more names, separated by commas, found `a,,b`"),
        (step("MaskField$Value", "field = a", "fields = a"), "x.field: expected one of fields, replacement, "),
        (step("MaskField$Value", "fields = a", "replacement ="), "x.replacement: expected a value, found nothing"),
        (step("Filter", "regex = a"), "expected no option after transforms.x., found `regex`"),
        (step("ReplaceField$Key", "renames = a:b:c"), "expected pairs such as old:new, separated by commas, found `a:b:c`"),
        (step("InsertField$Value"), "expected at least one of topic.field, partition.field, offset.field, timestamp.field"),
        (step("InsertField$Value", "static.field = a"), "x.static.value: expected the value of transforms.x.static.field"),
        (step("ExtractField$Value", "field = a", "field.syntax.version = V3"), "expected V1 or V2, found `V3`"),
        (step("ExtractField$Value", "field = `a", "field.syntax.version = V2"), "expected a second backtick for each"),
        (step("ExtractField$Value", "field = a", "replace.null.with.default = x"), "expected true or false, found `x`"),
        (step("TimestampRouter", "timestamp.format = yyyy-ww"), "and no `ww`, found `yyyy-ww`"),
        (step("TimestampRouter", "timestamp.format = yyyyMMM"), "of them M and L at most twice) and no `MMM`"),
        (step("TimestampRouter", "timestamp.format = yyyy'T"), "expected a second `'` after each `'`"),
        (step("InsertHeader", "header = h", "value.literal = [1, 2]"), "Kafka takes this for a list or a map"),
        (step("InsertHeader", "header = h"), "A->B.transforms.x.value.literal: expected a value, found nothing"),
        (ROUTER + "A->B.transforms.r.regex = (a\nA->B.transforms.r.replacement = b\n", "regex: `(a` cannot be used: "),
        (ROUTER + "A->B.transforms.r.regex = (a)\nA->B.transforms.r.replacement = $2\n", "which has 1, found `$2`"),
        (ROUTER + "A->B.transforms.r.regex = a\nA->B.transforms.r.replacement = 1$\n", "such as $1 or ${name} after each"),
        (step("Filter", "predicate = p"), "expected a name that stands in `predicates`, which is empty, found `p`"),
        (step("Filter", "predicate = p") + "A->B.predicates.p.type = RecordIsTombstone\n", "`predicates`, which is empty"),
        (step("Filter", "predicate = q") + "A->B.predicates = p\nA->B.predicates.p.type = RecordIsTombstone\n",
         "A->B.transforms.x.predicate: expected one of p, found `q`"),
        (step("Filter", "negate = true"), "expected transforms.x.predicate, the predicate to be negated, found nothing"),
        (step("Filter", "predicate = p", "negate = no") + "A->B.predicates = p\nA->B.predicates.p.type = HasHeaderKey\n",
         "x.negate: expected true or false, found `no`"),
        ("A->B.predicates = p\nA->B.predicates.p.type = com.Mine\n", "predicates.TopicNameMatches, found `com.Mine`"),
        ("A->B.predicates = p\nA->B.predicates.p.type = TopicNameMatches\n", "p.pattern: expected a value, found nothing"),
        ("A->B.predicates = p\nA->B.predicates.p.type = TopicNameMatches\nA->B.predicates.p.pattern = a{\n",
         "A->B.predicates.p.pattern: `a{` cannot be used: "),
        ("A->B.predicates = p\nA->B.predicates.p.type = HasHeaderKey\nA->B.predicates.p.name =\n", "expected a value"),
        ("A->B.predicates = p\nA->B.predicates.p.type = RecordIsTombstone\nA->B.predicates.p.x = 1\n", "expected no option"),
        ("A->B.transforms = a, b, a\n", "line 5: A->B.transforms: expected each name once, found `a, b, a`"),
        ("A->B.predicates = a,,b\n", "expected an item on both sides of every comma"),
        ("A->B.transforms = " + ",".join(f"t{n}" for n in range(51)) + "\n", "expected at most 50 names"),
    ],
)  # fmt: skip
def test_a_mistake_is_told(text: str, told: str) -> None:
    assert told in "\n".join(problems(text))


def test_each_mistake_is_told_once() -> None:
    found = problems(step("MaskField$Value", "fields = a", "feilds = b", "negate = true"))
    assert [problem.split(":")[1].strip() for problem in found] == ["A->B.transforms.x.feilds", "A->B.transforms.x.negate"]


def test_a_secret_is_not_told() -> None:
    """What a provider put in its place does not stand in the message."""
    text = (
        "config.providers = env\n"
        "config.providers.env.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider\n"
        + step("ExtractField$Value", "field = a", "field.syntax.version = ${env:HIDDEN}")
    )
    with pytest.raises(ConfigInvalid) as caught:
        parse(BASE + text, "mm2.properties", {"HIDDEN": "hunter2"})
    [told] = caught.value.problems
    assert "${env:HIDDEN}" in told and "hunter2" not in told


def test_text_headers_need_a_chain() -> None:
    simple = "A->B.header.converter = org.apache.kafka.connect.storage.SimpleHeaderConverter\n"
    [flow] = read(step("Filter") + simple).enabled_flows(None)
    assert flow.has_simple_headers and flow.has_transforms
    with pytest.raises(ConfigInvalid, match=r"A->B\.header\.converter: expected .*ByteArrayConverter, found Simple"):
        read(simple)


@pytest.mark.parametrize(
    ("replacement", "regex"),
    [("x-$1", "(a)"), ("$12", "(a)"), ("${n}$1", "(?<n>a)"), (r"\$5\\", "a"), ("$0", "a"), ("$2", "(?:a)(b)[(](c)"),
     ("", "a"), ("$1", r"\Q(\E(a)"), ("$1", r"[]()](a)")],
)  # fmt: skip
def test_a_replacement_may_name_groups_of_its_regex(replacement: str, regex: str) -> None:
    check_replacement(replacement, regex)


@pytest.mark.parametrize(
    ("replacement", "regex"),
    [("$1", "a"), ("$1", "(?:a)"), ("$1", "[(a)]"), ("$1", r"\(a\)"), ("${n}", "(a)"), ("$", "(a)"), ("$x", "(a)"),
     ("a\\", "a"), ("$1", r"\Q(a)"), ("$1", "(?=a)(?<!b)"), ("${n", "(?<n>a)")],
)  # fmt: skip
def test_a_replacement_that_java_would_refuse_is_refused(replacement: str, regex: str) -> None:
    with pytest.raises(OptionRefused):
        check_replacement(replacement, regex)


def test_a_date_pattern_is_letters_and_text() -> None:
    assert date_parts("yyyy-MM'T'HH''") == (("y", 4), ("-", 0), ("M", 2), ("T", 0), ("H", 2), ("'", 0))


@pytest.mark.parametrize(
    ("literal", "wanted"),
    [("eu-west", b"eu-west"), ("null", None), ("true", b"true"), ("12", b"12"), ("-3", b"-3"), ("1.5", b"1.5"), ("0", b"0"),
     ("4.3.1", b"4.3.1"), ("3 apples", b"3 apples"), ('"q"', b'"q"'), ("é:x", "é:x".encode()), ("", b""),
     ("12345678-1234-1234-1234-123456789012", b"12345678-1234-1234-1234-123456789012")],
)  # fmt: skip
def test_a_literal_becomes_its_own_text(literal: str, wanted: bytes | None) -> None:
    assert header_value(literal) == wanted


@pytest.mark.parametrize(
    "literal",
    ["007", "+1", "-0", "1.0", "1.50", "1e3", "1.2345678", "0.0001", "99999999999999999999", "8080:x", "10,20", "2026-11-16",
     "12:30:00.000Z", "2026-11-16T12:30:00.000Z", "[1]", '{"a":1}'],
)  # fmt: skip
def test_a_literal_that_kafka_writes_otherwise_is_refused(literal: str) -> None:
    with pytest.raises(OptionRefused, match="in another form"):
        header_value(literal)


@pytest.mark.parametrize(
    ("text", "steps"),
    [("a.b", ("a", "b")), ("`a.b`.c", ("a.b", "c")), ("a.", ("a", "")), ("`a`b`.c", ("a`b", "c")), (r"`a\`.b`", ("a`.b",)),
     ("a`b.c", ("a`b", "c"))],
)  # fmt: skip
def test_a_path_of_version_2_is_split_at_dots(text: str, steps: tuple[str, ...]) -> None:
    assert field_path(text, "V2") == steps
    assert field_path(text, "v1") == (text,)


def test_renames_are_split_as_java_splits_them() -> None:
    assert rename_pairs(("a:b", ":c", "d:e::")) == {"a": "b", "": "c", "d": "e"}
    for wrong in ("a", "a:", ":", "a:b:c"):
        with pytest.raises(OptionRefused):
            rename_pairs((wrong,))
