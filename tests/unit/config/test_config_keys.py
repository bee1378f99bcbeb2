"""The key tables against the definitions that Kafka 4.3.1 reports."""

import json
from pathlib import Path

import pytest

from sparkmirror.config import CLIENT_KEYS, CONNECTOR_KEYS, DRIVER_KEYS, FLOW_KEYS, SECURITY_KEYS, WORKER_KEYS, Scope
from sparkmirror.config.keys import TASK_KEYS

DATA = Path(__file__).parent / "data"
CONNECTORS = json.loads((DATA / "connector-config-defs-4.3.1.json").read_text())
CLIENTS = json.loads((DATA / "client-config-defs-4.3.1.json").read_text())
ALL = {**DRIVER_KEYS, **CONNECTOR_KEYS, **FLOW_KEYS, **SECURITY_KEYS}


def _told(key):
    return [key.kind.value, key.default, key.required]


@pytest.mark.parametrize("connector", sorted(CONNECTORS))
def test_every_key_of_a_connector_has_kafkas_type_and_default(connector):
    ours = {name: _told(ALL[name]) for name in CONNECTORS[connector] if name in ALL}
    assert ours == CONNECTORS[connector]


def test_a_connector_key_that_kafka_does_not_have_is_marked_as_ours():
    theirs = {name for connector in CONNECTORS.values() for name in connector}
    alone = (set(CONNECTOR_KEYS) | set(FLOW_KEYS)) - theirs - {"use.defaults.from"}
    assert alone == {name for name, key in ALL.items() if key.ours and name not in SECURITY_KEYS}
    assert alone == {
        "errors.deadletterqueue.topic.name",
        "lag.group.enabled",
        "on.positions.removed",
        "on.source.gap",
        "on.source.gap.skip.topics",
        "replication.loops.allowed",
        "sync.group.offsets.rewind",
    }


@pytest.mark.parametrize("role", ["consumer", "producer", "admin"])
def test_every_client_key_has_kafkas_type_and_default(role):
    keys = {name: key for name, key in {**CLIENT_KEYS[role], **SECURITY_KEYS}.items() if not key.ours}
    theirs = {name: told for name, told in CLIENTS[role].items() if not name.startswith("internal.")}
    del theirs["config.providers"]
    if role == "consumer":
        theirs["partition.assignment.strategy"][1] = theirs["partition.assignment.strategy"][1].replace("class ", "")
    if role == "admin":
        theirs["bootstrap.servers"][1] = None  # an admin may have bootstrap.controllers instead
    assert {name: [key.kind.value, key.default] for name, key in keys.items()} == theirs


def test_every_worker_key_has_kafkas_type_and_default():
    ours = {name: [key.kind.value, key.default] for name, key in WORKER_KEYS.items()}
    assert ours == {name: CLIENTS["worker"][name] for name in ours}


def test_every_driver_key_has_kafkas_type_and_default():
    ours = {name: [key.kind.value, key.default] for name, key in {**DRIVER_KEYS, **SECURITY_KEYS}.items()}
    theirs = dict(CLIENTS["driver"])
    del theirs["config.providers"]
    assert {name: ours[name] for name in theirs} == theirs


def test_security_keys_are_the_64_of_the_clients_and_two_more_and_one_of_ours():
    assert sum(name.startswith(("ssl.", "sasl.")) for name, key in SECURITY_KEYS.items() if not key.ours) == 64
    assert [name for name, key in SECURITY_KEYS.items() if key.ours] == ["sasl.plain.without.tls.allowed"]
    assert {"bootstrap.servers", "security.protocol"} <= set(SECURITY_KEYS)


def test_secret_keys_are_those_of_type_password():
    secret = sorted(name for name, key in SECURITY_KEYS.items() if key.secret)
    assert secret == [
        "sasl.jaas.config",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.client.credentials.client.secret",
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.password",
        "ssl.truststore.certificates",
        "ssl.truststore.password",
    ]


def test_our_defaults_differ_from_kafkas_in_four_keys_only():
    keys = [*ALL.values(), *WORKER_KEYS.values()]
    differing = {key.name: key.effective_default for key in keys if key.effective_default != key.default}
    assert differing == {
        "enabled": "false",
        "refresh.groups.interval.seconds": "5",
        "refresh.topics.interval.seconds": "5",
        "tasks.max": None,
    }


def test_every_key_has_a_line_of_documentation_and_a_scope():
    tables = [ALL, WORKER_KEYS, TASK_KEYS, *CLIENT_KEYS.values()]
    for key in (key for table in tables for key in table.values()):
        assert key.doc
        assert "\n" not in key.doc
        assert isinstance(key.scope, Scope)
