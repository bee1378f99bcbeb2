"""Which topics are copied and why, and what the target needs for them."""

import pytest

from sparkmirror.config import parse
from sparkmirror.model import FlowName
from sparkmirror.topology import (
    Action,
    TopicChange,
    TopicDecision,
    config_property_filter,
    group_filter,
    name_filter,
    plan_topics,
    policy_for,
    select_topics,
    topic_filter,
)

HEAD = "clusters = A, C\nA.bootstrap.servers = a:1\nC.bootstrap.servers = c:1\nA->C.enabled = true\n"
IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"


def flow_of(lines=""):
    return parse(HEAD + lines, "f", {}).flow(FlowName("A", "C"))


def select(topics, lines="", **options):
    flow = flow_of(lines)
    return {found.topic: found for found in select_topics(flow, policy_for(flow), topics, **options)}


def test_topics_seen_on_a_running_mirror_with_an_empty_exclude_list():
    copied = ["x.internal", "y-internal", "mm2x-internal"]
    refused = ["mm2foo.internal", "mm2-x.internal", "q.checkpoints.internal", ".dot", "__u"]
    found = select(copied + refused, "topics.exclude =\n")
    assert [name for name in copied + refused if found[name].replicated] == copied


def test_cycles_seen_on_a_running_mirror():
    found = select(["C.t", "x.C.t", "A.t", "A.A.t", "x.A.t", "D.t"])
    copied = {topic: decision.remote for topic, decision in found.items() if decision.replicated}
    assert copied == {"A.t": "A.A.t", "A.A.t": "A.A.A.t", "x.A.t": "A.x.A.t", "D.t": "A.D.t"}


@pytest.mark.parametrize(
    ("topic", "lines", "decision"),
    [
        ("orders", "", TopicDecision("orders", True, "matched by an include pattern", "A.orders")),
        ("orders", "topics = x.*\n", TopicDecision("orders", False, "matched by no include pattern", "A.orders")),
        ("o.replica", "", TopicDecision("o.replica", False, r"excluded by pattern `.*\.replica`", "A.o.replica")),
        ("__t", "", TopicDecision("__t", False, "internal topic", "A.__t")),
        (
            "C.t",
            "",
            TopicDecision("C.t", False, "would be a cycle: its name says it went through C", "A.C.t"),
        ),
        (
            "heartbeats",
            "topics = x\n",
            TopicDecision("heartbeats", True, "heartbeats topic, copied whatever the patterns say", "A.heartbeats"),
        ),
        (
            "heartbeats",
            "topics = x\nheartbeats.replication.enabled = false\n",
            TopicDecision("heartbeats", False, "matched by no include pattern", "A.heartbeats"),
        ),
        (
            "heartbeats",
            "heartbeats.replication.enabled = false\n",
            TopicDecision("heartbeats", True, "matched by an include pattern", "A.heartbeats"),
        ),
        ("orders", IDENTITY, TopicDecision("orders", True, "matched by an include pattern", "orders")),
        ("C.t", IDENTITY, TopicDecision("C.t", True, "matched by an include pattern", "C.t")),
    ],
)
def test_decision_tells_its_reason(topic, lines, decision):
    assert select([topic], lines) == {topic: decision}


def test_heartbeats_of_a_user_topic_with_another_separator_follow_the_patterns():
    lines = "replication.policy.separator = _\ntopics = x\n"
    assert not select(["us-west.heartbeats"], lines)["us-west.heartbeats"].replicated


def heartbeats_of(lines):
    names = ["heartbeats", "us-west.heartbeats"]
    found = select(names, lines)
    return [name for name in names if found[name].replicated]


def test_heartbeats_are_copied_by_default():
    """testReplicatesHeartbeatsByDefault"""
    assert heartbeats_of("") == ["heartbeats", "us-west.heartbeats"]


def test_heartbeats_are_copied_whatever_the_patterns_say():
    """testReplicatesHeartbeatsDespiteFilter"""
    assert heartbeats_of("topics =\n") == ["heartbeats", "us-west.heartbeats"]
    assert heartbeats_of("topics =\nreplication.policy.separator = _\n") == ["heartbeats"]


def test_heartbeats_follow_the_patterns_where_that_is_turned_off():
    """testDoesNotReplicateHeartbeatsWhenDisabled, testReplicatesHeartbeatsWhenDisabledButFilterAllows"""
    off = "heartbeats.replication.enabled = false\n"
    assert heartbeats_of(off + "topics = x\n") == []
    assert heartbeats_of(off + "topics = .*\n") == ["heartbeats", "us-west.heartbeats"]


def test_remote_name_of_250_characters_is_refused_and_249_is_not():
    found = select(["t" * 247, "u" * 248])
    assert found["t" * 247].replicated
    assert found["u" * 248].reason == "remote name has 250 characters, more than 249"


def test_remote_name_that_another_flow_writes_is_refused():
    found = select(["orders"], IDENTITY, claimed={"orders": "flow B->C"})
    assert found["orders"] == TopicDecision("orders", False, "remote name orders is already written by flow B->C", "orders")


def test_decisions_come_by_name_and_once():
    flow = flow_of()
    found = select_topics(flow, policy_for(flow), ["b", "a", "b"])
    assert [decision.topic for decision in found] == ["a", "b"]


def test_broken_list_items_are_named_as_a_whole():
    assert select(["a"], "topics.exclude = (a,b)\n")["a"].reason == "excluded by pattern `(a,b)`"


def changes_of(source, target, **options):
    decisions = select(source).values()
    return plan_topics(list(decisions), source, target, **options)


def test_missing_topic_is_created_with_the_partitions_of_the_source():
    """MirrorSourceConnectorTest testRefreshTopicPartitions: asked for until it exists."""
    assert changes_of({"t": 3}, {}) == [
        TopicChange("t", "A.t", Action.CREATE, 3, None, "missing on the target; 3 partitions")
    ]


def test_smaller_topic_is_extended():
    assert changes_of({"t": 3}, {"A.t": 1}) == [
        TopicChange("t", "A.t", Action.EXTEND, 3, 1, "1 partitions on the target, 3 on the source")
    ]


@pytest.mark.parametrize("found", [3, 5])
def test_topic_with_enough_partitions_is_left_alone(found):
    """MirrorSourceConnectorTest testRefreshTopicPartitionsTopicOnTargetFirst."""
    assert [change.action for change in changes_of({"t": 3}, {"A.t": found})] == [Action.NOTHING]


@pytest.mark.parametrize("target", [{}, {"A.t": 1}])
def test_topic_stops_when_the_target_may_not_be_changed(target):
    (change,) = changes_of({"t": 3}, target, may_change=False)
    assert change.action is Action.STOP
    assert "may not be changed" in change.reason


def test_topic_stops_beside_a_name_that_brokers_take_for_equal():
    (change,) = changes_of({"t": 3}, {"A_t": 3})
    assert change.action is Action.STOP
    assert "beside A_t" in change.reason


def test_topics_that_are_not_copied_need_nothing():
    assert changes_of({"__t": 3}, {}) == []


def test_group_filter_leaves_console_and_connect_groups_out():
    groups = group_filter(flow_of())
    assert groups.wants("payments")
    assert not groups.wants("console-consumer-1")
    assert groups.refusal("connect-sink") == "excluded by pattern `connect-.*`"
    assert not groups.wants("two\nlines")


def test_config_filter_leaves_the_excluded_out_and_dots_are_any_character():
    configs = config_property_filter(flow_of())
    assert not configs.wants("min.insync.replicas")
    assert not configs.wants("min-insync-replicas")
    assert configs.wants("retention.ms")
    assert configs.wants("message.timestamp.before.max.ms")
    assert config_property_filter(flow_of("config.properties.exclude =\n")).wants("min.insync.replicas")


def test_topic_lists_match_whole_names():
    topics = topic_filter(flow_of("topics = topic1, b.*\n"))
    names = ("topic1", "topic12", "xtopic1", "b", "bc", "")
    assert [name for name in names if topics.wants(name)] == ["topic1", "b", "bc"]
    assert not name_filter((), ()).wants("")
