"""What `parse` and `load` make of a file: values, warnings, problems."""

import dataclasses
import hashlib
import typing
from types import MappingProxyType

import pytest

from sparkmirror.config import FlowSettings, Secret, load, parse, require_enabled_flow
from sparkmirror.errors import ConfigFileUnreadable, ConfigInvalid, NoFlowEnabled
from sparkmirror.model import FlowName

BASE = "clusters = A, B\nA.bootstrap.servers = a:9092\nB.bootstrap.servers = b1:9092, [::1]:9093\n"
ON = BASE + "A->B.enabled = true\n"
IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
AB = FlowName("A", "B")


def flow_of(text):
    return parse(text, "mm2.properties", {}).flow(AB)


def warnings_of(text):
    return parse(text, "mm2.properties", {}).warnings


def problems_of(text):
    with pytest.raises(ConfigInvalid) as invalid:
        parse(text, "mm2.properties", {})
    return invalid.value.problems


def test_defaults_are_those_of_the_key_table():
    flow = flow_of(ON)
    assert flow.topics == (".*",)
    assert flow.topics_exclude == (r"mm2.*\.internal", r".*\.replica", "__.*")
    assert flow.groups_exclude == ("console-consumer-.*", "connect-.*", "__.*")
    assert flow.tasks_max is None
    assert flow.refresh_topics_interval_seconds == 5
    assert flow.refresh_groups_interval_seconds == 5
    assert flow.replication_factor == 2
    assert flow.offset_lag_max == 100
    assert flow.use_defaults_from == "target"
    assert flow.offset_storage_topic == "mm2-offsets.A.internal"
    assert flow.group_id == "A-mm2"
    assert flow.offset_flush_interval_ms == 60000
    assert flow.exactly_once_source_support == "disabled"
    assert warnings_of(ON) == ()


def test_every_attribute_has_the_type_it_declares():
    flow = flow_of(ON + "tasks.max = 3\n")
    hints = typing.get_type_hints(FlowSettings)
    for field in dataclasses.fields(flow):
        declared, value = hints[field.name], getattr(flow, field.name)
        origin = typing.get_origin(declared)
        if declared in (bool, int, str):
            assert type(value) is declared, field.name
        elif origin is tuple:
            assert isinstance(value, tuple), field.name
        elif field.name == "tasks_max":
            assert value == 3
        elif origin is not None and issubclass(origin, typing.Mapping):
            assert isinstance(value, MappingProxyType), field.name


def test_servers_are_pairs_of_host_and_port():
    flow = flow_of(ON)
    assert flow.source.bootstrap_servers == (("a", 9092),)
    assert flow.target.bootstrap_servers == (("b1", 9092), ("::1", 9093))


def test_flows_are_the_pairs_that_copy_or_write_heartbeats():
    settings = parse(ON, "mm2.properties", {})
    assert [(str(f.name), f.enabled, f.emits_heartbeats) for f in settings.flows] == [
        ("A->B", True, True),
        ("B->A", False, True),
    ]
    quiet = parse(ON + "emit.heartbeats.enabled = false\n", "mm2.properties", {})
    assert [(str(f.name), f.enabled, f.emits_heartbeats) for f in quiet.flows] == [("A->B", True, False)]


def test_three_clusters_give_six_flows_and_central_local_gives_three():
    servers = "".join(f"{alias}.bootstrap.servers = x:1\n" for alias in "abc")
    assert len(parse("clusters = a,b,c\n" + servers, "f", {}).flows) == 6
    off = "clusters = a,b,c\nemit.heartbeats.enabled = false\n" + servers
    assert parse(off, "f", {}).flows == ()
    two = off + "a->b.enabled = true\na->c.enabled = true\nb->a.emit.heartbeats.enabled = true\n"
    assert [str(f.name) for f in parse(two, "f", {}).flows] == ["a->b", "a->c", "b->a"]


def test_flow_level_wins_over_top_level():
    text = ON + "topics = x\nA->B.topics = y , z\nreplication.factor = 1\n"
    assert flow_of(text).topics == ("y", "z")
    assert flow_of(text).replication_factor == 1


def test_worker_prefixes_at_top_level_win_over_the_cluster():
    text = ON + "offset.storage.partitions = 7\nB.offset.storage.partitions = 9\nB.offset.flush.interval.ms = 2000\n"
    assert flow_of(text).offset_storage_partitions == 7
    assert flow_of(text).offset_flush_interval_ms == 2000


def test_security_of_a_cluster_falls_back_to_top_level_and_is_secret():
    written = 'security.protocol = SASL_SSL\nA.security.protocol = sasl_plaintext\nsasl.jaas.config = x "p";\n'
    flow = flow_of(ON + written)
    assert flow.source.security["security.protocol"] == "sasl_plaintext"
    assert flow.target.security["security.protocol"] == "SASL_SSL"
    for mapping in (flow.source.security, flow.consumer, flow.producer, flow.target_admin):
        assert isinstance(mapping["sasl.jaas.config"], Secret)
        assert mapping["sasl.jaas.config"].reveal() == 'x "p";'
    assert '"p"' not in repr(flow)


def test_unknown_client_key_called_like_a_secret_is_hidden():
    flow = flow_of(ON + "A.consumer.my.api.token = t0ken\n")
    assert flow.consumer["my.api.token"].reveal() == "t0ken"
    assert "t0ken" not in repr(dict(flow.consumer))


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("producer.acks = 1", "write `<target>.producer.…` or `<source>-><target>.producer.override.…`"),
        ("consumer.max.poll.records = 1", "`<source>.consumer.…` or"),
        ("admin.retries = 1", "`<cluster>.admin.…`"),
        ("use.defaults.from = source", "has no effect at top level; write `<source>-><target>.use.defaults.from`"),
        ("exactly.once.support = required", "write `<source>-><target>.exactly.once.support`"),
        ("transaction.boundary = poll", "has no effect at top level"),
        ("offsets.storage.topic = x", "has no effect at top level"),
        ("topic.creation.default.partitions = 1", "has no effect at top level"),
        ("offset.flush.interval.ms = 1", "has no effect at top level; write `<target>.offset.flush.interval.ms`"),
        ("exactly.once.source.support = enabled", "write `<target>.exactly.once.source.support`"),
        ("A->B.offset.flush.interval.ms = 1", "has no effect on a flow; write `B.offset.flush.interval.ms`"),
        ("A->B.producer.acks = 1", "only the producer of offset syncs; for the copied records write `B.producer.acks`"),
        ("A->B.sasl.mechanism = PLAIN", "has no effect on a flow; write `A.sasl.mechanism`"),
        ("A.topics = x", "has no effect on a cluster; write `topics` or `A->….topics`"),
        ("A.request.timeout.ms = 5", "write `A.consumer.request.timeout.ms` or"),
        ("emit.heartbeats = false", "unknown key"),
        ("AA.bootstrap.servers = x:1", "no cluster is called `AA`"),
        ("A.consumer.group.id = g", "has no effect: copying uses no consumer group"),
        ("B.group.id = g", "one Connect group"),
        ("tasks.max.enforce = true", "has no effect: there is no Connect worker here"),
        ("A->B.topics = a*", "repeats the character before it"),
        ("A->B.topics =", "an empty list matches nothing"),
        ("A->B.topics = a, b, a", "written twice"),
        ("A->B.topics = a # only a", "a `#` inside a line starts no comment"),
        ("B->A.enabled = false ", "blanks after the value"),
        ("A.consumer.client.rack = ${vault:x}", "no provider `vault` is declared"),
        ("A.consumer.client.rack = ${x}", "expected ${provider:key}"),
        ("emit.heartbeats.interval.seconds = 0", "without a pause"),
        ("A->B.task.index = 0", "writes it for its own tasks"),
    ],
)
def test_odd_line_is_a_warning_with_its_number(line, told):
    found = [warning for warning in warnings_of(ON + line + "\n") if warning.startswith("line 5: ")]
    assert any(told in warning for warning in found), found


def test_cluster_level_consumer_key_that_wins_over_the_flow_is_told():
    found = warnings_of(ON + "A.consumer.fetch.min.bytes = 1\nA->B.consumer.fetch.min.bytes = 2\n")
    assert found == (
        "line 6: A->B.consumer.fetch.min.bytes: `A.consumer.fetch.min.bytes` on line 5 wins over it; "
        "write `A->B.source.consumer.fetch.min.bytes`",
    )


def test_repeated_key_is_told_and_the_last_one_counts():
    text = ON + "topics = a\ntopics = b\n"
    assert flow_of(text).topics == ("b",)
    assert warnings_of(text) == ("line 6: topics: also written on line 5; the last one counts",)


def test_blank_after_true_hides_the_flow_unless_heartbeats_keep_it():
    spaced = BASE + "A->B.enabled = true \n"
    assert flow_of(spaced).enabled
    assert any("takes it for false" in warning for warning in warnings_of(spaced))
    assert parse(spaced + "emit.heartbeats.enabled = false\n", "f", {}).flows == ()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("A->B.tasks.max = abc", "A->B.tasks.max: expected a whole number from 1 to 2147483647, found `abc`"),
        ("tasks.max = 60s", "expected a whole number"),
        ("offset.lag.max = 99999999999999999999999", "expected a whole number"),
        ("A->B.sync.topic.acls.enabled = yes", "expected true or false, found `yes`"),
        ("offset-syncs.topic.location = Source", "expected one of source, target, found `Source`"),
        ("security.protocol = abc", "expected one of SASL_SSL, PLAINTEXT, SSL, SASL_PLAINTEXT, found `abc`"),
        ("transforms = route", "transforms: A->B.transforms.route.type: expected one that runs here"),
        ("A->B.replication.policy.class = com.Mine", "or org.apache.kafka.connect.mirror.IdentityReplicationPolicy"),
        ("topic.filter.class = x.Y", "expected org.apache.kafka.connect.mirror.DefaultTopicFilter"),
        ("group.filter.class = x.Y", "expected org.apache.kafka.connect.mirror.DefaultGroupFilter"),
        ("config.property.filter.class = x.Y", "expected org.apache.kafka.connect.mirror.DefaultConfigPropertyFilter"),
        ("forwarding.admin.class = x.Y", "expected org.apache.kafka.clients.admin.ForwardingAdmin"),
        ("A->B.topics = a{1,3}", "a comma ends a list item"),
        ("A->B.topics = a,,b", "expected an item on both sides of every comma"),
        (r"groups.exclude = (x)\\1", "a back reference"),
        ("refresh.topics.interval.seconds = 0", "a number of seconds other than 0"),
        ("replication.factor = 0", "or -1 for the broker's default"),
        ("B.offset.storage.replication.factor = -2", "or -1 for the broker's default"),
        ("replication.policy.separator =", "letters, digits"),
        ("replication.policy.separator = /", "letters, digits"),
        ("A.consumer.auto.offset.reset = first", "earliest, latest, none"),
        ("A.consumer.auto.offset.reset = by_duration:1h", "such as PT1H"),
        ("A.consumer.auto.offset.reset = by_duration:P", "such as PT1H"),
        ("A.consumer.isolation.level = dirty", "expected one of read_committed, read_uncommitted"),
        ("B.producer.compression.type = brotli", "expected one of none, gzip, snappy, lz4, zstd"),
        ("B.producer.acks = 2", "expected one of all, -1, 0, 1"),
        ("A->X.enabled = true", "no cluster is called `X`"),
        ("X->A.enabled = true", "no cluster is called `X`"),
        ("A->A.enabled = true", "expected two different clusters, found A twice"),
        ("A->B = true", "such as A->B.enabled"),
        ("A -> B.enabled = true", "a blank ends a key; write A->… without blanks"),
        ("A->B.source.cluster.alias = Z", "expected `A`, the alias of the flow"),
        ("source.cluster.alias = Z", "cannot be set for all flows"),
        ("A.bootstrap.servers = a", "expected host:port"),
        ("A.bootstrap.servers = a:0", "expected host:port"),
        ("A.bootstrap.servers = a:99999", "expected host:port"),
        ("A.consumer.bootstrap.servers = a", "expected host:port"),
        ("config.providers = v\nconfig.providers.v.class = com.V", "FileConfigProvider"),
        ("config.providers = v", "expected config.providers.v.class, found nothing"),
        (r"x = \u12", "four hexadecimal digits"),
    ],
)
def test_wrong_line_is_a_problem_with_its_number(line, told):
    found = problems_of(ON + line + "\n")
    assert any(told in problem and problem.startswith(("line 5: ", "line 6: ")) for problem in found), found


def test_every_problem_is_told_at_once_in_the_order_of_the_lines():
    found = problems_of("clusters = A, B\nA.bootstrap.servers = a\ntasks.max = x\nA->C.enabled = true\n")
    assert found == [
        "B.bootstrap.servers: expected at least one host:port, found nothing",
        "line 2: A.bootstrap.servers: expected host:port, separated by commas, found `a`",
        "line 3: tasks.max: expected a whole number from 1 to 2147483647, found `x`",
        "line 4: A->C.enabled: no cluster is called `C`",
    ]


def test_identity_both_ways_over_the_same_topics_is_refused():
    both = ON + "B->A.enabled = true\n" + IDENTITY
    assert "go round for ever" in problems_of(both)[0]
    apart = both + "A->B.topics = a\nB->A.topics = b\n"
    assert len(parse(apart, "f", {}).enabled_flows(None)) == 2


def test_identity_both_ways_is_a_warning_where_loops_are_allowed():
    both = ON + "B->A.enabled = true\n" + IDENTITY
    [warning] = warnings_of(both + "replication.loops.allowed = true\n")
    assert warning.startswith("A->B and B->A both keep topic names")
    assert "allowed by replication.loops.allowed" in warning
    assert "replication.loops.allowed = true" in problems_of(both)[0]
    assert "go round" in problems_of(both + "A->B.replication.loops.allowed = true\n")[0]
    alone = parse(ON + IDENTITY + "replication.loops.allowed = true\n", "f", {})
    assert alone.flow(AB).replication_loops_allowed
    assert alone.warnings == ()


def test_keys_of_our_own_have_attributes():
    flow = flow_of(ON)
    ours = (flow.replication_loops_allowed, flow.sync_group_offsets_rewind, flow.lag_group_enabled)
    assert ours == (False, False, True)
    written = ON + "A->B.sync.group.offsets.rewind = true\nlag.group.enabled = false\n"
    assert (flow_of(written).sync_group_offsets_rewind, flow_of(written).lag_group_enabled) == (True, False)


def test_mixed_locations_of_offset_syncs_are_refused():
    found = problems_of(ON + "B->A.enabled = true\nA->B.offset-syncs.topic.location = target\n")
    assert "mm2-offset-syncs.A.internal on B" in found[0]


def test_identity_flows_into_one_target_are_told():
    text = (
        "clusters = a, b, c\na.bootstrap.servers = x:1\nb.bootstrap.servers = x:2\nc.bootstrap.servers = x:3\n"
        "a->c.enabled = true\nb->c.enabled = true\n"
    )
    text += IDENTITY
    assert "a->c and b->c keep topic names: equal names meet in one topic on the target" in warnings_of(text)


def test_alias_with_the_separator_is_told():
    servers = "us.east.bootstrap.servers = x:1\nB.bootstrap.servers = x:2\n"
    text = "clusters = us.east, B\nus.east->B.enabled = true\n" + servers
    assert any("holds the separator" in warning for warning in warnings_of(text))


def test_no_enabled_flow_is_its_own_error():
    settings = parse(BASE, "mm2.properties", {})
    with pytest.raises(NoFlowEnabled, match=r"A->B\.enabled = true"):
        require_enabled_flow(settings, None)
    on = parse(ON, "mm2.properties", {})
    require_enabled_flow(on, None)
    require_enabled_flow(on, ["B"])
    with pytest.raises(NoFlowEnabled, match="into A"):
        require_enabled_flow(on, ["A"])


def test_selection_by_target():
    settings = parse(ON, "mm2.properties", {})
    assert [str(f.name) for f in settings.enabled_flows(None)] == ["A->B"]
    assert settings.enabled_flows(["A"]) == ()
    assert [str(f.name) for f in settings.selected_flows(["A"])] == ["B->A"]
    with pytest.raises(KeyError, match="A->Z"):
        settings.flow(FlowName("A", "Z"))


def test_load_reads_latin_1_and_keeps_the_digest_of_the_bytes(tmp_path):
    content = ON.encode() + b"A.consumer.client.rack = caf\xe9\n"
    path = tmp_path / "mm2.properties"
    path.write_bytes(content)
    settings = load(str(path))
    assert settings.flow(AB).consumer["client.rack"] == "café"
    assert settings.digest == hashlib.sha256(content).hexdigest()
    assert parse(content.decode("iso-8859-1"), str(path), {}) == settings


@pytest.mark.parametrize("name", ["missing.properties", ".", "a\0b"])
def test_unreadable_file_exits_255(tmp_path, name):
    with pytest.raises(ConfigFileUnreadable) as unreadable:
        load(f"{tmp_path}/{name}")
    assert unreadable.value.exit_status == 255


def test_labels_that_every_figure_has_are_those_of_the_file():
    written = "metrics.labels.strimzi_io_kind = KafkaMirrorMaker2\nmetrics.labels.env = prod \n"
    settings = parse(ON + written, "mm2.properties", {})
    assert settings.metric_labels == (("env", "prod"), ("strimzi_io_kind", "KafkaMirrorMaker2"))
    assert settings.warnings == ()


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        ("metrics.labels.strimzi.io/kind", "expected the name of a Prometheus label"),
        ("metrics.labels.__name__", "expected the name of a Prometheus label"),
        ("metrics.labels.topic", "one of their own"),
    ],
)
def test_label_that_figures_cannot_have_is_refused(key, problem):
    [found] = problems_of(ON + f"{key} = x\n")
    assert problem in found and "line 5" in found
