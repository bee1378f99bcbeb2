"""`A->B.transform.<name>.…`: read, ordered, and every mistake told."""

from __future__ import annotations

import pytest

from sparkmirror.config import TransformSettings, parse
from sparkmirror.errors import ConfigInvalid

BASE = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigInvalid) as caught:
        parse(BASE + text, "mm2.properties")
    return caught.value.problems


def test_transforms_are_read_in_their_order() -> None:
    flow = parse(
        BASE + "A->B.transform.late.topics = orders.*\nA->B.transform.late.sql = select * from records\n"
        "A->B.transform.late.order = 7\n"
        "A->B.transform.with.dots.topics = a, b\nA->B.transform.with.dots.function = my.module:change\n",
        "mm2.properties",
    ).flows[0]
    assert flow.record_transforms == (
        TransformSettings("with.dots", ("a", "b"), "", "my.module:change", 0),
        TransformSettings("late", ("orders.*",), "select * from records", "", 7),
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("A->B.transform.x = 1\n", "line 5: A->B.transform.x: expected transform.NAME.topics"),
        ("A->B.transform.x.sqll = select\n", "expected transform.NAME.topics or .sql or .function or .order"),
        ("A->B.transform.x.topics = t\nA->B.transform.x.order = first\n", "expected a whole number, found `first`"),
        ("A->B.transform.x.topics = t\nA->B.transform.x.function = lambda r: r\n", "expected module:callable"),
        ("A->B.transform.x.sql = select\n", "expected A->B.transform.x.topics, the topics whose records it changes"),
        ("A->B.transform.x.topics = t\n", "either A->B.transform.x.sql or A->B.transform.x.function, found neither"),
        ("A->B.transform.x.topics = t\nA->B.transform.x.sql = s\nA->B.transform.x.function = m:f\n", "found both"),
        ("A->B.transform.x.topics = (\nA->B.transform.x.sql = s\n", "A->B.transform.x.topics: "),
        ("transform.x.sql = select\n", "a transform belongs to a flow; write `A->B.transform.x.sql`"),
    ],
)
def test_a_mistake_is_told(text: str, told: str) -> None:
    assert told in "\n".join(problems(text))
