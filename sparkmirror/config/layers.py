"""Which written key reaches which worker, connector and client, in MirrorMaker 2's order of precedence.

Everything here maps the flat text of the file (`Texts`) to flat text; nothing is parsed or judged.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from sparkmirror.config.client_keys import CLIENT_KEYS, ROLES, SECURITY_KEYS
from sparkmirror.config.keys import BYTE_ARRAY_CONVERTER, CONNECTOR_KEYS, WORKER_TOP_PREFIXES
from sparkmirror.config.secrets import Secret
from sparkmirror.model import FlowName

Texts = Mapping[str, str]

# What Connect gives every producer of records before the user's own settings.
DATA_PRODUCER_FIXED = {
    "acks": "all",
    "max.in.flight.requests.per.connection": "1",
    "enable.idempotence": "false",
    "delivery.timeout.ms": "2147483647",
    "max.block.ms": "9223372036854775807",
}
# Connector keys that begin like client keys; MirrorMaker 2 hands them to the client, which does not know them.
_LEAKED = {"consumer": ("poll.timeout.ms",), "admin": ("timeout.ms",), "producer": ()}
_SECRET_WORDS = ("password", "passphrase", "secret", "token", "jaas", "credential", "keystore.key")
_SECRET_NAMES = tuple(name for name, key in SECURITY_KEYS.items() if key.secret)


def cluster_texts(written: Texts, alias: str) -> dict[str, str]:
    """The cluster map: `alias.key` as `key`, with security keys spread over the three client roles."""
    found = _stripped(written, alias + ".")
    own = {name: found[name] for name in SECURITY_KEYS if name in found}
    top = {name: written[name] for name in SECURITY_KEYS if name in written}
    for layer in (own, top):
        for name, text in layer.items():
            for role in ROLES:
                found.setdefault(f"{role}.{name}", text)
            found.setdefault(name, text)
    return found


def worker_texts(written: Texts, flow: FlowName) -> dict[str, str]:
    """What the Connect worker of the flow gets. Flow-level keys never do."""
    found = cluster_texts(written, flow.target)
    found |= {name: text for name, text in written.items() if name.startswith(WORKER_TOP_PREFIXES)}
    found |= {name: text for name, text in written.items() if name.startswith("config.providers")}
    absent = {
        "client.id": str(flow),
        "group.id": f"{flow.source}-mm2",
        "offset.storage.topic": f"mm2-offsets.{flow.source}.internal",
        "status.storage.topic": f"mm2-status.{flow.source}.internal",
        "config.storage.topic": f"mm2-configs.{flow.source}.internal",
        "key.converter": BYTE_ARRAY_CONVERTER,
        "value.converter": BYTE_ARRAY_CONVERTER,
        "header.converter": BYTE_ARRAY_CONVERTER,
    }
    return absent | found


def connector_texts(written: Texts, flow: FlowName) -> dict[str, str]:
    """What the three connectors of the flow get; a flow-level key wins over everything."""
    declared = (CONNECTOR_KEYS.keys() | SECURITY_KEYS.keys()) - {"bootstrap.servers"}
    found = {name: text for name, text in written.items() if name in declared}
    copied = ("config.providers", "replication.policy")
    found |= {name: text for name, text in written.items() if name.startswith(copied)}
    for side, alias in (("source", flow.source), ("target", flow.target)):
        for name, text in cluster_texts(written, alias).items():
            found[f"{side}.{name}" if name.startswith(ROLES) else f"{side}.cluster.{name}"] = text
    found.setdefault("source.cluster.alias", flow.source)
    found.setdefault("target.cluster.alias", flow.target)
    found |= _stripped(written, f"{flow}.")
    found.setdefault("enabled", "false")
    return found


def client_texts(connector: Texts, side: str, role: str) -> dict[str, str]:
    """Settings of a client that a connector opens itself, with what MirrorMaker 2 adds for its consumers."""
    found = written_client_texts(connector, side, role)
    if role == "consumer":
        found["enable.auto.commit"] = "false"
        found.setdefault("auto.offset.reset", "earliest")
    return found


def written_client_texts(connector: Texts, side: str, role: str) -> dict[str, str]:
    """What the file says to such a client: security < `role.*` < `source.role.*` or `target.role.*`."""
    cluster = _stripped(connector, f"{side}.cluster.")
    found = {name: cluster[name] for name in SECURITY_KEYS if name in cluster}
    found |= _stripped(connector, f"{role}.")
    found |= _stripped(connector, f"{side}.{role}.")
    dropped = [name for name in found if name in _LEAKED[role] or name.startswith("override.")]
    for name in dropped:
        del found[name]
    return found


def data_producer_texts(worker: Texts, connector: Texts) -> dict[str, str]:
    """Settings of the producer of records, checkpoints and heartbeats."""
    servers = {"bootstrap.servers": worker["bootstrap.servers"]} if "bootstrap.servers" in worker else {}
    return DATA_PRODUCER_FIXED | servers | written_data_producer_texts(worker, connector)


def written_data_producer_texts(worker: Texts, connector: Texts) -> dict[str, str]:
    """What the file says to that producer: `B.producer.*` < `A->B.producer.override.*`."""
    return _stripped(worker, "producer.") | _stripped(connector, "producer.override.")


def finished(texts: Texts, role: str) -> Mapping[str, str]:
    """Client settings as a client takes them: Kafka's defaults filled in, blanks dropped, secrets hidden."""
    defaults = {key.name: key.default for key in CLIENT_KEYS[role].values() if key.default is not None}
    whole = {"security.protocol": "PLAINTEXT"} | defaults | dict(texts)
    return MappingProxyType({name: hidden_if_secret(name, text.strip()) for name, text in whole.items()})


def hidden_if_secret(name: str, text: str) -> str:
    """`text`, as a `Secret` if the key is secret or, for a key nobody knows, if it is called like one."""
    key = SECURITY_KEYS.get(name)
    if key is not None:
        return Secret(text) if key.secret else text
    known = any(name in CLIENT_KEYS[role] for role in ROLES)
    return Secret(text) if not known and any(word in name.lower() for word in _SECRET_WORDS) else text


def custom_texts(connector: Texts) -> Mapping[str, str]:
    """What a class of the user's gets: the connector's keys without secrets, whatever stands before their names."""
    return MappingProxyType({name: text for name, text in connector.items() if not may_be_secret(name)})


def shown_texts(written: Texts, flow: FlowName) -> dict[str, str]:
    """The connectors' keys as the file writes them, for everybody to see: references to providers stay as they are."""
    connector = connector_texts(written, flow)
    return {name: str(Secret(text)) if may_be_secret(name) else text for name, text in connector.items()}


def may_be_secret(name: str) -> bool:
    """Whether the value of a key, whatever stands before its name, must not be shown or sent."""
    if name.endswith(_SECRET_NAMES):
        return True
    return not name.endswith(tuple(SECURITY_KEYS)) and any(word in name.lower() for word in _SECRET_WORDS)


def _stripped(texts: Texts, prefix: str) -> dict[str, str]:
    return {name[len(prefix) :]: text for name, text in texts.items() if name.startswith(prefix) and name != prefix}
