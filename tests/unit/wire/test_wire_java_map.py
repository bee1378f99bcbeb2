"""Maps and numbers as Java shows them; every expectation was printed by a JVM."""

from __future__ import annotations

import pytest

from sparkmirror.wire import java_order, java_text

NAMES = (
    "cluster", "partition", "topic", "group", "sourceClusterAlias", "targetClusterAlias", "x", "offset", "y", "AaAa", "BBBB",
    "AaBB", "ü", "😀", "partition2", "zone", "Aa", "BB",
)  # fmt: skip


def test_names_come_in_the_order_of_a_java_hash_map_also_after_it_has_grown() -> None:
    small = "cluster partition offset x topic y sourceClusterAlias group targetClusterAlias AaAa BBBB AaBB"
    grown = (
        "Aa BB cluster partition2 offset sourceClusterAlias targetClusterAlias partition zone x 😀 topic y ü group "
        "AaAa BBBB AaBB"
    )
    assert java_order(NAMES[:12]) == small.split()
    assert java_order(NAMES) == grown.split()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.5, "1.5"), (1.0, "1.0"), (0.001, "0.001"), (0.00099, "9.9E-4"), (1e7, "1.0E7"), (9999999.0, "9999999.0"),
        (12345678.9, "1.23456789E7"), (-0.0, "-0.0"), (1e300, "1.0E300"), (1.25e-5, "1.25E-5"), (100.0, "100.0"),
        (-3e9, "-3.0E9"), (float("inf"), "Infinity"), (None, "null"), (True, "true"), (-7, "-7"), ("a b", "a b"),
        ([1, None], "[1, null]"), ({"topic": "t", "cluster": False}, "{cluster=false, topic=t}"), ({}, "{}"),
    ],
)  # fmt: skip
def test_a_value_reads_as_java_prints_it(value: object, text: str) -> None:
    assert java_text(value) == text
