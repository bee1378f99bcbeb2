"""Which topics are copied as records."""

from __future__ import annotations

import pytest

from sparkmirror.config import FlowSettings, parse
from sparkmirror.driver.topic_transforms import TopicTransforms

BASE = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"
CONNECT = "org.apache.kafka.connect.transforms."


def flow_of(text: str) -> FlowSettings:
    [flow] = parse(BASE + text, "mm2.properties").enabled_flows(None)
    return flow


def test_own_transforms_are_for_the_topics_that_they_name() -> None:
    keys = {"pii.topics": "orders.*", "pii.sql": "s", "late.topics": "orders", "late.sql": "s", "late.order": "-1"}
    transforms = TopicTransforms(flow_of("".join(f"A->B.transform.{key} = {text}\n" for key, text in keys.items())))
    assert transforms.names("orders") == ("late", "pii")
    assert transforms.names("orders-old") == ("pii",)
    assert transforms.are_for("orders") and not transforms.are_for("payments")


@pytest.mark.parametrize(
    ("predicate", "negate", "concerned"),
    [
        ("", "false", ["orders", "payments"]),
        ("TopicNameMatches", "false", ["orders"]),
        ("TopicNameMatches", "true", ["payments"]),
        ("RecordIsTombstone", "false", ["orders", "payments"]),
    ],
)
def test_connects_transforms_are_for_topics_whose_name_on_the_target_may_fit(
    predicate: str, negate: str, concerned: list[str]
) -> None:
    keys = {"transforms": "x", "transforms.x.type": CONNECT + "Filter"}
    if predicate:
        keys |= {"transforms.x.predicate": "p", "transforms.x.negate": negate, "predicates": "p"}
        keys["predicates.p.type"] = CONNECT + "predicates." + predicate
    if predicate == "TopicNameMatches":
        keys["predicates.p.pattern"] = "A[.]ord.*"
    transforms = TopicTransforms(flow_of("".join(f"A->B.{key} = {text}\n" for key, text in keys.items())))
    assert [topic for topic in ("orders", "payments") if transforms.are_for(topic)] == concerned
