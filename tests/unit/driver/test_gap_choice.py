"""`on.source.gap`: which topics go on by themselves when the source deleted records before they were copied."""

from __future__ import annotations

import pytest

from sparkmirror.config import parse
from sparkmirror.control import RunOptions, place_of
from sparkmirror.driver.flow_context import FlowContext
from sparkmirror.errors import ConfigInvalid
from sparkmirror.status import FlowStatus

FILE = """\
clusters = A, B
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
A->B.enabled = true
"""


@pytest.mark.parametrize(
    ("more", "skipping"),
    [
        ("", []),
        ("on.source.gap = stop\n", []),
        ("on.source.gap = skip\n", ["logs.a", "orders"]),
        ("A->B.on.source.gap = skip\n", ["logs.a", "orders"]),
        ("on.source.gap = skip\nA->B.on.source.gap = stop\n", []),
        ("on.source.gap.skip.topics = logs.*, metrics\n", ["logs.a"]),
        ("A->B.on.source.gap.skip.topics = order\n", []),
    ],
)
def test_only_chosen_topics_skip(more: str, skipping: list[str]) -> None:
    settings = parse(FILE + more, "mm2.properties", {})
    [flow] = settings.enabled_flows(None)
    context = FlowContext.of(flow, place_of(settings, flow, RunOptions(), slots=1), FlowStatus(flow.name))
    assert [topic for topic in ("logs.a", "orders") if context.accepts_gap(topic)] == skipping


@pytest.mark.parametrize("wrong", ["on.source.gap = ignore\n", "on.source.gap.skip.topics = (\n"])
def test_a_wrong_choice_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigInvalid, match=r"on\.source\.gap"):
        parse(FILE + wrong, "mm2.properties", {})
