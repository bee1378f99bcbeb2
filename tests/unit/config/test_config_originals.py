"""What MirrorMaker 2's own unit tests of its configuration ask, asked of ours; each docstring names the original."""

import pytest

from sparkmirror.config import CONNECTOR_KEYS, Secret, layers, parse
from sparkmirror.config.properties import parse_properties
from sparkmirror.errors import ConfigInvalid
from sparkmirror.model import FlowName
from sparkmirror.topology import config_property_filter, policy_for, topic_filter

AB = FlowName("a", "b")
SERVERS = (
    "clusters = a, b\na.bootstrap.servers = one:9092, two:9092\nb.bootstrap.servers = three:9092\na->b.enabled = true\n"
)
FLOW = "clusters = source1, target2\nsource1.bootstrap.servers = s:1\ntarget2.bootstrap.servers = t:1\n"
ENVIRONMENT = (
    "config.providers = env\nconfig.providers.env.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider\n"
    "ssl.key.password = ${env:KEY_PASSWORD}\n"
)
VARIABLES = {"KEY_PASSWORD": "secret2"}


def texts(text):
    return {key: entry.value for key, entry in parse_properties(text).last().items()}


def pairs(clusters, lines=""):
    servers = "".join(f"{alias}.bootstrap.servers = x:1\n" for alias in clusters)
    settings = parse(f"clusters = {', '.join(clusters)}\n{servers}{lines}", "f", {})
    return [str(flow.name) for flow in settings.flows]


def flow_of(lines=""):
    return parse(SERVERS + lines, "f", VARIABLES).flow(AB)


def syncs_flow(lines=""):
    name = FlowName("source1", "target2")
    return parse(FLOW + "source1->target2.enabled = true\n" + lines, "f", {}).flow(name)


def test_every_pair_of_clusters_is_there_while_heartbeats_are_on():
    """testClusterPairsWithDefaultSettings"""
    assert len(pairs("abc")) == 6


def test_no_pair_is_there_while_heartbeats_are_off_and_nothing_is_enabled():
    """testEmptyClusterPairsWithGloballyDisabledHeartbeats"""
    assert pairs("abc", "emit.heartbeats.enabled = false\n") == []


def test_pairs_without_heartbeats_are_left_out():
    """testClusterPairsWithTwoDisabledHeartbeats"""
    lines = "a->b.emit.heartbeats.enabled = false\na->c.emit.heartbeats.enabled = false\n"
    assert pairs("abc", lines) == ["b->a", "b->c", "c->a", "c->b"]


def test_enabled_pairs_stay_without_heartbeats():
    """testClusterPairsWithGloballyDisabledHeartbeats"""
    on = "".join(f"a->{alias}.enabled = true\n" for alias in "bcd")
    off = "".join(f"a->{alias}.enabled = false\n" for alias in "ef")
    assert pairs("abcdef", "emit.heartbeats.enabled = false\n" + on + off) == ["a->b", "a->c", "a->d"]


def test_pair_that_only_writes_heartbeats_stays_beside_enabled_ones():
    """testClusterPairsWithGloballyDisabledHeartbeatsCentralLocal"""
    lines = (
        "emit.heartbeats.enabled = false\ncentral->local_one.enabled = true\ncentral->local_two.enabled = true\n"
        "beats_emitter->central.emit.heartbeats.enabled = true\n"
    )
    found = pairs(("central", "local_one", "local_two", "beats_emitter"), lines)
    assert found == ["central->local_one", "central->local_two", "beats_emitter->central"]


def test_worker_gets_the_targets_keys_and_top_level_security():
    """testWorkerConfigs"""
    written = texts(
        "replication.policy.separator = __\noffset.storage.replication.factor = 123\nssl.truststore.password = secret1\n"
        "b.status.storage.replication.factor = 456\nb.producer.client.id = client-one\nb.security.protocol = PLAINTEXT\n"
        "b.producer.security.protocol = SASL\nssl.key.password = secret2\nb.xxx = yyy\n"
    )
    into_a, into_b = layers.worker_texts(written, FlowName("b", "a")), layers.worker_texts(written, AB)
    assert into_a["offset.storage.replication.factor"] == "123"
    assert into_a["client.id"] == "b->a"
    assert into_a["replication.policy.separator"] == into_b["replication.policy.separator"] == "__"
    assert into_b["status.storage.replication.factor"] == "456"
    assert into_b["producer.client.id"] == "client-one"
    assert into_b["producer.security.protocol"] == "SASL"
    assert into_b["consumer.security.protocol"] == "PLAINTEXT"
    for name, secret in (("ssl.truststore.password", "secret1"), ("ssl.key.password", "secret2")):
        assert into_b[name] == into_b[f"producer.{name}"] == secret


def test_placeholders_stay_in_the_connectors_map_and_are_resolved_in_the_settings():
    """testLazyConfigResolution: Connect resolves them at the start of a task, we when the file is read."""
    connector = layers.connector_texts(texts(SERVERS + ENVIRONMENT), AB)
    assert connector["source.cluster.ssl.key.password"] == "${env:KEY_PASSWORD}"
    assert flow_of(ENVIRONMENT).source.security["ssl.key.password"].reveal() == "secret2"


def test_servers_of_both_clusters_reach_the_connector():
    """testClusterConfigProperties"""
    connector = layers.connector_texts(texts(SERVERS + "security.protocol = SSL\nreplication.factor = 4\n"), AB)
    assert connector["source.cluster.bootstrap.servers"] == "one:9092, two:9092"
    assert connector["target.cluster.bootstrap.servers"] == "three:9092"
    assert connector["security.protocol"] == "SSL"
    assert connector["replication.factor"] == "4"


def test_key_of_the_flow_reaches_the_connector():
    """testReplicationConfigProperties"""
    assert flow_of("a->b.tasks.max = 123\n").tasks_max == 123


def test_declared_keys_at_top_level_reach_the_connector_and_unknown_ones_do_not():
    """testIncludesConnectorConfigProperties"""
    lines = (
        "tasks.max = 100\ntopics = topic-1\ngroups = group-2\nreplication.policy.separator = __\n"
        "config.properties.exclude = property-3\n"
        "topic.filter.class = org.apache.kafka.connect.mirror.DefaultTopicFilter\nxxx = yyy\n"
    )
    flow = flow_of(lines)
    assert (flow.tasks_max, flow.topics, flow.groups) == (100, ("topic-1",), ("group-2",))
    assert flow.config_properties_exclude == ("property-3",)
    assert policy_for(flow).format_remote_topic("a", "t") == "a__t"
    assert "xxx" not in layers.connector_texts(texts(SERVERS + lines), AB)
    assert any("xxx: has no effect: unknown key" in warning for warning in parse(SERVERS + lines, "f", {}).warnings)


def test_lists_of_the_flow_reach_the_filter():
    """testIncludesTopicFilterProperties"""
    flow = flow_of("a->b.topics = topic1, topic2\na->b.topics.exclude = topic3\n")
    assert (flow.topics, flow.topics_exclude) == (("topic1", "topic2"), ("topic3",))


def test_every_declared_key_reaches_the_connector_from_the_top_level():
    """testAllConfigNames"""
    written = {name: "x" for name in CONNECTOR_KEYS if name not in ("source.cluster.alias", "target.cluster.alias")}
    found = layers.connector_texts(written, AB)
    assert {name: found[name] for name in written} == written


def test_clients_get_secrets_resolved_and_the_nearest_setting():
    """testClientConfigProperties"""
    flow = flow_of(
        ENVIRONMENT + "replication.policy.separator = __\nssl.truststore.password = secret1\nsecurity.protocol = SSL\n"
        "a.security.protocol = PLAINTEXT\na.producer.security.protocol = SSL\na.xxx = yyy\nxxx = zzz\n"
    )
    assert policy_for(flow).format_remote_topic("b", "topic1") == "b__topic1"
    assert flow.source_admin["bootstrap.servers"] == "one:9092, two:9092"
    assert flow.source_admin["security.protocol"] == "PLAINTEXT"
    assert flow.target_admin["security.protocol"] == "SSL"
    assert flow.offset_syncs_producer["security.protocol"] == "SSL"
    assert "xxx" not in flow.source_admin
    for client in (flow.source_admin, flow.target_admin, flow.consumer):
        for name, secret in (("ssl.truststore.password", "secret1"), ("ssl.key.password", "secret2")):
            assert isinstance(client[name], Secret)
            assert client[name].reveal() == secret


@pytest.mark.parametrize(
    ("client", "lines", "side"),
    [
        ("offset_syncs_producer", ("source.producer.batch.size", "target.producer.batch.size"), "producer"),
        ("offset_syncs_consumer", ("source.consumer.fetch.min.bytes", "target.consumer.fetch.min.bytes"), "consumer"),
        ("offset_syncs_admin", ("source.admin.retries", "target.admin.retries"), "admin"),
    ],
)
def test_clients_of_offset_syncs_follow_the_location(client, lines, side):
    """testProducerConfigsForOffsetSyncsTopic, testConsumerConfigsForOffsetSyncsTopic, testAdminConfigsForOffsetSyncsTopic"""
    written = "".join(f"source1->target2.{key} = {number}\n" for number, key in enumerate(lines, 1))
    name = lines[0].removeprefix(f"source.{side}.")
    at_source = syncs_flow(written)
    at_target = syncs_flow(written + "offset-syncs.topic.location = target\n")
    assert getattr(at_source, client)[name] == "1"
    assert getattr(at_target, client)[name] == "2"
    assert getattr(at_source, client)["bootstrap.servers"] == "s:1"
    assert getattr(at_target, client)["bootstrap.servers"] == "t:1"


def test_offset_syncs_topic_is_named_after_the_other_cluster():
    """testOffsetSyncsTopic"""
    with pytest.raises(ConfigInvalid, match=r"offset-syncs\.topic\.location: expected one of source, target"):
        syncs_flow("offset-syncs.topic.location = something\n")
    for lines, location, name in (
        ("", "source", "mm2-offset-syncs.target2.internal"),
        ("offset-syncs.topic.location = source\n", "source", "mm2-offset-syncs.target2.internal"),
        ("offset-syncs.topic.location = target\n", "target", "mm2-offset-syncs.source1.internal"),
    ):
        flow = syncs_flow(lines)
        assert flow.offset_syncs_topic_location == location
        other = flow.name.target if location == "source" else flow.name.source
        assert policy_for(flow).offset_syncs_topic(other) == name


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ("topic1", ["topic1"]),
        ("", []),
        (".*", ["topic1", "topic2", "topic3"]),
        ("topic1, topic2", ["topic1", "topic2"]),
    ],
)
def test_topics_are_those_that_a_pattern_fits(written, wanted):
    """testTopicMatching, testNoTopics, testAllTopics, testListOfTopics"""
    topics = topic_filter(flow_of(f"topics = {written}\n"))
    assert [name for name in ("topic1", "topic2", "topic3") if topics.wants(name)] == wanted
    assert topics.wants("") == (written == ".*")


def test_topic_configs_are_those_that_no_pattern_fits():
    """testConfigPropertyMatching"""
    configs = config_property_filter(flow_of("config.properties.exclude = prop2\n"))
    assert [name for name in ("prop1", "prop2") if configs.wants(name)] == ["prop1"]


def test_unknown_security_protocol_is_refused_by_name():
    """testInvalidSecurityProtocol, testClientInvalidSecurityProtocol"""
    for line in ("security.protocol = abc", "a.security.protocol = abc", "a.consumer.security.protocol = abc"):
        with pytest.raises(ConfigInvalid, match=r"security\.protocol: expected one of .*, found `abc`"):
            flow_of(line + "\n")


def test_security_protocol_is_accepted_in_lower_case_and_kept_as_written():
    """testCaseInsensitiveSecurityProtocol"""
    flow = flow_of("security.protocol = sasl_ssl\n")
    assert flow.source.security["security.protocol"] == flow.consumer["security.protocol"] == "sasl_ssl"


@pytest.mark.parametrize("support", ["requested", "required", "REQUIRED"])
@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("source_support", ["disabled", "preparing", "enabled"])
def test_exactly_once_is_accepted_however_it_is_asked_for(support, isolation, source_support):
    """MirrorSourceConnectorTest testExactlyOnceSupport, testExactlyOnceSupportValidation: copying is exactly once anyway."""
    text = (
        "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"
        f"A->B.exactly.once.support = {support}\nA.consumer.isolation.level = {isolation}\n"
        f"B.exactly.once.source.support = {source_support}\n"
    )
    flow = parse(text, "file", {}).flow(FlowName("A", "B"))
    assert flow.consumer["isolation.level"] == isolation


def test_an_admin_class_of_ones_own_is_refused():
    """…WithCustomForwardingAdmin, four tests: topics, partitions, configs and rights are made by plain requests here."""
    with pytest.raises(ConfigInvalid, match=r"forwarding\.admin\.class"):
        parse(SERVERS + "forwarding.admin.class = com.example.OwnAdmin\n", "file", {})


def test_reporters_of_java_metrics_have_no_effect_and_that_is_told():
    """MirrorConnectorConfigTest testMetricsReporters."""
    warnings = parse(SERVERS + "metric.reporters = com.example.Reporter\n", "file", {}).warnings
    assert any("metric.reporters" in warning for warning in warnings)
