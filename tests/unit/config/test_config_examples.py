"""Configuration examples of a published MirrorMaker 2 reference, word by word, load and warn as one expects."""

from pathlib import Path

import pytest

from sparkmirror.config import Secret, load, parse
from sparkmirror.errors import ConfigInvalid
from sparkmirror.model import FlowName
from sparkmirror.topology import IdentityReplicationPolicy, is_cycle, policy_for, topic_filter

FOLDER = Path(__file__).parents[2] / "fixtures" / "seed003"
CLUSTERS = "clusters = source, target\nsource.bootstrap.servers = source:9092\ntarget.bootstrap.servers = target:9092\n"
ENABLED = "source->target.enabled = true\n"
# What an example lacks to be a file of its own.
HEADS = {
    "active_active": "", "active_passive": "", "aggregation": "", "fan_out": "", "initial_deployment": "",
    "cluster_and_security": ENABLED, "replication_flow": CLUSTERS, "adding_topics": CLUSTERS + ENABLED,
    "removing_topics": CLUSTERS + ENABLED, "topic": CLUSTERS + ENABLED, "offset_synchronization": CLUSTERS + ENABLED,
    "performance": CLUSTERS + ENABLED, "naming": CLUSTERS + ENABLED, "identity_naming": CLUSTERS + ENABLED,
}  # fmt: skip


def settings_of(name):
    text = (FOLDER / f"{name}.properties").read_text()
    return parse(HEADS[name] + text, f"{name}.properties", {})


def flow_of(name):
    [flow] = settings_of(name).enabled_flows(None)
    return flow


def test_every_example_is_tried():
    assert sorted(path.stem for path in FOLDER.glob("*.properties")) == sorted(HEADS)


@pytest.mark.parametrize("name", sorted(set(HEADS) - {"performance"}))
def test_example_loads_without_a_warning(name):
    assert settings_of(name).warnings == ()


@pytest.mark.parametrize("name", [name for name, head in HEADS.items() if not head])
def test_example_that_is_a_whole_file_loads_from_disk(name):
    assert load(str(FOLDER / f"{name}.properties")).enabled_flows(None)


def test_active_passive():
    flow = flow_of("active_passive")
    assert (str(flow.name), flow.replication_factor, flow.tasks_max) == ("primary->dr", 3, 10)
    assert flow.sync_group_offsets_enabled
    assert flow.source.bootstrap_servers == (("primary-1", 9092), ("primary-2", 9092), ("primary-3", 9092))
    # A properties file drops the backslash: the dot stands for any character, in MirrorMaker 2 too.
    assert flow.topics_exclude == (".*.internal", "__.*")


def test_active_active_copies_both_ways_and_no_record_comes_back():
    flows = settings_of("active_active").enabled_flows(None)
    assert [str(flow.name) for flow in flows] == ["east->west", "west->east"]
    for flow, back in (flows, flows[::-1]):
        remote = policy_for(flow).format_remote_topic(flow.name.source, "orders")
        assert remote == f"{flow.name.source}.orders"
        assert is_cycle(policy_for(back), remote, back.name.target)
        assert flow.topics == ("orders", "events", "users")


def test_fan_out_has_one_source_and_three_targets():
    flows = settings_of("fan_out").enabled_flows(None)
    assert [str(flow.name) for flow in flows] == ["central->region-us", "central->region-eu", "central->region-apac"]
    assert all(topic_filter(flow).wants("global-x") and not topic_filter(flow).wants("local-x") for flow in flows)


def test_aggregation_gives_one_remote_topic_for_each_region():
    flows = settings_of("aggregation").enabled_flows(None)
    names = [policy_for(flow).format_remote_topic(flow.name.source, "events") for flow in flows]
    assert names == ["region-us.events", "region-eu.events", "region-apac.events"]


def test_cluster_and_security_hides_the_passwords():
    settings = settings_of("cluster_and_security")
    [flow] = settings.enabled_flows(None)
    for cluster in (flow.source, flow.target):
        assert cluster.security["security.protocol"] == "SASL_SSL"
        assert cluster.security["sasl.mechanism"] == "SCRAM-SHA-512"
        jaas = cluster.security["sasl.jaas.config"]
        assert isinstance(jaas, Secret)
        assert jaas.reveal() == (
            'org.apache.kafka.common.security.scram.ScramLoginModule required username="mm2-user" password="secret";'
        )
    assert 'password="secret"' not in repr(settings)


def test_replication_flow():
    flow = flow_of("replication_flow")
    assert flow.topics_exclude == (".*[-.]internal", ".*.replica", "__.*")
    assert flow.groups_exclude == ("console-consumer-.*", "connect-.*")


def test_topic_and_offset_synchronization():
    flow = flow_of("topic")
    assert (flow.replication_factor, flow.checkpoints_topic_replication_factor) == (3, 3)
    assert (flow.refresh_topics_interval_seconds, flow.sync_topic_configs_interval_seconds) == (60, 60)
    assert not flow.sync_topic_acls_enabled
    flow = flow_of("offset_synchronization")
    assert flow.sync_group_offsets_enabled
    assert (flow.emit_checkpoints_interval_seconds, flow.emit_heartbeats_interval_seconds) == (60, 1)


def test_client_keys_at_top_level_are_one_warning_with_the_places_where_they_belong():
    settings = settings_of("performance")
    [warning] = settings.warnings
    keys = (
        "producer.buffer.memory, producer.batch.size, producer.linger.ms, producer.compression.type, "
        "consumer.fetch.min.bytes, consumer.fetch.max.wait.ms, consumer.max.poll.records"
    )
    places = (
        "`<target>.producer.…` or `<source>-><target>.producer.override.…`, `<source>.consumer.…` or "
        "`<source>-><target>.source.consumer.…`"
    )
    assert warning.startswith("lines 9, 10, 11, 12, 15, 16, 17: ")
    assert f": {keys}: client keys have no effect at top level, in MirrorMaker 2 neither; write {places}; " in warning
    [flow] = settings.enabled_flows(None)
    assert (flow.tasks_max, flow.offset_lag_max) == (10, 100)
    assert flow.consumer_written == {"bootstrap.servers"}


def test_naming():
    assert policy_for(flow_of("naming")).format_remote_topic("prod", "user.activity") == "prod.user.activity"
    assert policy_for(flow_of("identity_naming")) == IdentityReplicationPolicy("source")


def test_java_policy_of_the_reference_is_refused_with_what_to_write():
    text = CLUSTERS + ENABLED + "replication.policy.class = com.example.CustomReplicationPolicy\n"
    with pytest.raises(ConfigInvalid, match=r"a Python class written as module:Class with format_remote_topic"):
        parse(text, "f", {})


def test_added_and_removed_topics():
    added, removed = topic_filter(flow_of("adding_topics")), topic_filter(flow_of("removing_topics"))
    assert [name for name in ("orders-1", "new-topic-pattern", "x") if added.wants(name)] == [
        "orders-1",
        "new-topic-pattern",
    ]
    assert [name for name in ("deprecated-topic", "x-internal", "x") if removed.wants(name)] == ["x"]


def test_initial_deployment():
    flow = settings_of("initial_deployment").flow(FlowName("source", "target"))
    assert (flow.enabled, flow.topics, flow.replication_factor) == (True, (".*",), 3)
