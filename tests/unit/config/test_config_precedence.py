"""Which setting reaches which client: what Kafka 4.3.1 itself computed, and the table measured on a running one."""

import json
from pathlib import Path

import pytest

from sparkmirror.config import layers, parse
from sparkmirror.config.properties import parse_properties
from sparkmirror.errors import ConfigInvalid
from sparkmirror.model import FlowName
from sparkmirror.topology import policy_for

GOLDEN = json.loads((Path(__file__).parent / "data" / "mm2-configs-4.3.1.json").read_text())
FLOWS = [(case["text"], name, flow) for case in GOLDEN for name, flow in case["java"].get("flows", {}).items()]
CLIENTS = {
    "consumer": ("source", "consumer"),
    "source_admin": ("source", "admin"),
    "target_admin": ("target", "admin"),
    "checkpoints_consumer": ("target", "consumer"),
    "offset_syncs_producer": (None, "producer"),
    "offset_syncs_consumer": (None, "consumer"),
}
# Set by the program for itself, or connector keys that Kafka hands to clients, which do not know them.
NOT_COMPARED = ("client.id", "poll.timeout.ms", "timeout.ms")
MEASURED = """
clusters = A, C
A.bootstrap.servers = a:9092
C.bootstrap.servers = c:9092
A->C.enabled = true
producer.compression.type = zstd
consumer.max.poll.records = 55
C.producer.compression.type = lz4
A->C.producer.compression.type = gzip
C.producer.batch.size = 65536
A->C.producer.override.batch.size = 32768
A.consumer.max.poll.records = 111
A->C.consumer.max.poll.records = 222
A.consumer.fetch.min.bytes = 5
A->C.source.consumer.fetch.min.bytes = 7
A->C.consumer.fetch.max.wait.ms = 333
"""


def _texts(text):
    return {key: entry.value for key, entry in parse_properties(text).last().items()}


def _named(name):
    return FlowName(*name.split("->"))


@pytest.mark.parametrize(("text", "name", "java"), FLOWS)
def test_worker_and_connector_maps_are_those_of_java(text, name, java):
    assert layers.worker_texts(_texts(text), _named(name)) == java["worker"]
    connector = {k: v for k, v in java["connector"].items() if k != "connector.class"}
    ours = layers.connector_texts(_texts(text), _named(name))
    assert {"name": "MirrorSourceConnector"} | ours == connector


@pytest.mark.parametrize(("text", "name", "java"), FLOWS)
def test_client_settings_are_those_of_java(text, name, java):
    connector = layers.connector_texts(_texts(text), _named(name))
    location = connector.get("offset-syncs.topic.location", "source")
    for client in CLIENTS.keys() & java.keys():
        side, role = CLIENTS[client]
        expected = {k: v for k, v in java[client].items() if k not in NOT_COMPARED and not k.startswith("override.")}
        ours = layers.client_texts(connector, side or location, role)
        assert {k: v for k, v in ours.items() if k not in NOT_COMPARED} == expected, client


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["text"])
def test_flows_lists_and_names_are_those_of_java(case):
    java = case["java"]
    refused = "error" in java or any("error" in flow for flow in java["flows"].values())
    try:
        settings = parse(case["text"], "mm2.properties", {})
    except ConfigInvalid:
        return
    assert not refused
    assert sorted(str(flow.name) for flow in settings.flows) == java["pairs"]
    for flow in settings.flows:
        told = java["flows"][str(flow.name)]
        ours = (flow.enabled, flow.emits_heartbeats, list(flow.topics), list(flow.groups))
        assert ours == (told["enabled"], told["emits_heartbeats"], told["topics"], told["groups"])
        other = flow.name.source if flow.offset_syncs_topic_location == "target" else flow.name.target
        policy = policy_for(flow)
        assert policy.offset_syncs_topic(other) == told["offset_syncs_topic"]
        assert policy.checkpoints_topic(flow.name.source) == told["checkpoints_topic"]


def test_files_refused_though_java_accepts_them_are_these():
    ours_alone = []
    for case in GOLDEN:
        java = case["java"]
        if "error" in java or any("error" in flow for flow in java["flows"].values()):
            continue
        try:
            parse(case["text"], "mm2.properties", {})
        except ConfigInvalid as error:
            ours_alone.extend(problem.split(": ", 2)[1] for problem in error.problems)
    # a separator no topic name can hold; another alias; no cluster; a transform without a class; no replicas
    assert ours_alone == [
        "replication.policy.separator",
        "source.cluster.alias",
        "clusters",
        "A->C.transforms",
        "A->C.replication.factor",
    ]


def _flow():
    return parse(MEASURED, "mm2.properties", {}).flow(FlowName("A", "C"))


@pytest.mark.parametrize(
    ("client", "key", "value"),
    [
        ("consumer", "max.poll.records", "111"),
        ("offset_syncs_consumer", "max.poll.records", "111"),
        ("checkpoints_consumer", "max.poll.records", "222"),
        ("producer", "compression.type", "lz4"),
        ("offset_syncs_producer", "compression.type", "gzip"),
        ("producer", "batch.size", "32768"),
        ("offset_syncs_producer", "batch.size", "16384"),
        ("consumer", "fetch.min.bytes", "7"),
        ("offset_syncs_consumer", "fetch.min.bytes", "7"),
        ("checkpoints_consumer", "fetch.min.bytes", "1"),
        ("consumer", "fetch.max.wait.ms", "333"),
        ("offset_syncs_consumer", "fetch.max.wait.ms", "333"),
        ("checkpoints_consumer", "fetch.max.wait.ms", "333"),
        ("consumer", "isolation.level", "read_uncommitted"),
        ("consumer", "auto.offset.reset", "earliest"),
        ("consumer", "enable.auto.commit", "false"),
        ("producer", "acks", "all"),
        ("producer", "max.in.flight.requests.per.connection", "1"),
        ("producer", "enable.idempotence", "false"),
        ("producer", "delivery.timeout.ms", "2147483647"),
        ("producer", "max.block.ms", "9223372036854775807"),
        ("producer", "linger.ms", "5"),
        ("offset_syncs_producer", "acks", "all"),
        ("offset_syncs_producer", "max.in.flight.requests.per.connection", "5"),
        ("offset_syncs_producer", "enable.idempotence", "true"),
        ("offset_syncs_producer", "max.block.ms", "60000"),
        ("offset_syncs_producer", "linger.ms", "5"),
    ],
)
def test_measured_setting_of_a_running_mirror(client, key, value):
    assert getattr(_flow(), client)[key] == value


def test_written_names_leave_defaults_and_fixed_values_out():
    flow = _flow()
    assert flow.producer_written == {"bootstrap.servers", "compression.type", "batch.size"}
    assert flow.consumer_written == {"bootstrap.servers", "max.poll.records", "fetch.min.bytes", "fetch.max.wait.ms"}


def test_data_consumer_has_no_group():
    assert "group.id" not in _flow().consumer
