"""Names through both policies: what Kafka 4.3.1 itself answers, and the specification's examples."""

import json
from pathlib import Path

import pytest

from sparkmirror.config import parse
from sparkmirror.model import FlowName
from sparkmirror.topology import (
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    connect_configs_topic,
    connect_offsets_topic,
    connect_status_topic,
    is_cycle,
    ledger_topic,
    policy_for,
)

GOLDEN = json.loads((Path(__file__).parent / "data" / "mm2-policies-4.3.1.json").read_text())
HEAD = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"
KEY = "replication.policy."
IDENTITY = KEY + "class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"


def _policy(case):
    config = case["config"]
    separator = config.get(KEY + "separator")
    spread = config.get(KEY + "internal.topic.separator.enabled", "true").lower() == "true"
    default = DefaultReplicationPolicy(separator or ".", separator if separator and spread else ".")
    return IdentityReplicationPolicy(config.get("source.cluster.alias"), default) if case["identity"] else default


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: f"{case['identity']}-{case['config']}")
def test_every_answer_about_a_name_is_that_of_java(case):
    policy, java = _policy(case), case["java"]
    assert policy.offset_syncs_topic("A") == java["offset_syncs"]
    assert policy.checkpoints_topic("A") == java["checkpoints"]
    assert policy.heartbeats_topic == java["heartbeats"]
    for name, expected in java["names"].items():
        assert [
            policy.format_remote_topic("A", name),
            policy.topic_source(name),
            policy.upstream_topic(name),
            policy.original_topic(name),
            policy.is_heartbeats_topic(name),
            policy.is_checkpoints_topic(name),
            policy.is_mm2_internal_topic(name),
            policy.is_internal_topic(name),
        ] == expected, name


@pytest.mark.parametrize(
    ("topic", "source", "upstream", "original"),
    [
        ("orders", None, None, "orders"),
        ("A.orders", "A", "orders", "orders"),
        ("C.A.orders", "C", "A.orders", "orders"),
        ("shop.orders.v1", "shop", "orders.v1", "v1"),
        ("A.", None, None, "A."),
        (".x", "", "x", "x"),
        ("iot.heartbeats", "iot", "heartbeats", "heartbeats"),
        ("heartbeats!", None, None, "heartbeats!"),
        ("x-heartbeats", None, None, "x-heartbeats"),
    ],
)
def test_examples_of_the_default_policy(topic, source, upstream, original):
    policy = DefaultReplicationPolicy()
    assert (policy.topic_source(topic), policy.upstream_topic(topic), policy.original_topic(topic)) == (
        source,
        upstream,
        original,
    )


@pytest.mark.parametrize("name", ["x.internal", "y-internal", "mm2x-internal"])
def test_user_topics_that_end_in_internal_are_not_internal(name):
    assert not DefaultReplicationPolicy().is_internal_topic(name)


@pytest.mark.parametrize("name", ["mm2foo.internal", "mm2-x.internal", "q.checkpoints.internal", ".dot", "__u"])
def test_internal_topics_are_internal(name):
    assert DefaultReplicationPolicy().is_internal_topic(name)


def test_separators_of_several_characters_and_underscores():
    assert DefaultReplicationPolicy("__", "__").topic_source("source1__topic4") == "source1"
    under = DefaultReplicationPolicy("_", "_")
    assert not under.is_heartbeats_topic("us-west.heartbeats")
    assert under.is_mm2_internal_topic("mm2_x_internal")
    assert not under.is_mm2_internal_topic("foo_internal")


def test_identity_keeps_names_but_prefixes_what_ends_in_heartbeats():
    policy = IdentityReplicationPolicy("A")
    assert policy.format_remote_topic("A", "orders") == "orders"
    assert policy.format_remote_topic("A", "heartbeats") == "A.heartbeats"
    assert policy.format_remote_topic("A", "my-heartbeats") == "A.my-heartbeats"
    assert policy.topic_source("anything") == "A"
    assert IdentityReplicationPolicy().topic_source("anything") is None


@pytest.mark.parametrize("topic", ["C.t", "x.C.t", "C.A.t", "A.C.t"])
def test_topic_that_went_through_the_target_is_a_cycle(topic):
    """testNoCycles"""
    assert is_cycle(DefaultReplicationPolicy(), topic, "C")


@pytest.mark.parametrize("topic", ["A.t", "A.A.t", "x.A.t", "D.t", "t", "x.C", "Cx.t", "C"])
def test_topic_that_did_not_go_through_the_target_is_no_cycle(topic):
    """testNoCycles"""
    assert not is_cycle(DefaultReplicationPolicy(), topic, "C")


def test_identity_has_cycles_for_heartbeats_only():
    """testIdentityReplication"""
    policy = IdentityReplicationPolicy("source")
    for topic in ("topic1", "target.topic1", "source.topic1", "target.source.topic1", "source.target.topic1"):
        assert not is_cycle(policy, topic, "target")
        assert policy.format_remote_topic("source", topic) == topic
    assert not is_cycle(policy, "heartbeats", "target")
    assert is_cycle(policy, "target.source.heartbeats", "target")
    assert is_cycle(policy, "target.heartbeats", "target")
    assert is_cycle(policy, "source.target.heartbeats", "target")
    assert not is_cycle(policy, "source.heartbeats", "target")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("", DefaultReplicationPolicy(".", ".")),
        (KEY + "separator = _\n", DefaultReplicationPolicy("_", "_")),
        (KEY + "internal.topic.separator.enabled = false\n", DefaultReplicationPolicy(".", ".")),
        (f"{KEY}separator = _\n{KEY}internal.topic.separator.enabled = false\n", DefaultReplicationPolicy("_", ".")),
        (IDENTITY, IdentityReplicationPolicy("A", DefaultReplicationPolicy())),
    ],
)
def test_policy_of_a_flow(lines, expected):
    assert policy_for(parse(HEAD + lines, "f", {}).flow(FlowName("A", "B"))) == expected


def test_our_own_and_connects_topics_are_internal_to_mirror_maker_too():
    for name in (ledger_topic, connect_offsets_topic, connect_status_topic, connect_configs_topic):
        assert DefaultReplicationPolicy().is_internal_topic(name("A"))
        assert DefaultReplicationPolicy("_", ".").is_internal_topic(name("A"))
    assert ledger_topic("A") == "mm2-ledger.A.internal"
