"""From the properties of a client to one cluster and a policy: every mistake at once, every security key kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from sparkmirror.config import CONNECTOR_KEYS, SECURITY_KEYS, ClusterSettings, Key, Secret
from sparkmirror.config.checks import value_problem
from sparkmirror.config.keys import MIRROR
from sparkmirror.config.parsing import is_exactly_true, parse_servers, shown
from sparkmirror.errors import ConfigInvalid
from sparkmirror.topology import DefaultReplicationPolicy, IdentityReplicationPolicy, ReplicationPolicy

WHO = "MirrorClient"
SERVERS = "bootstrap.servers"
# MirrorMaker 2's client has an admin and a consumer with prefixes of their own; here one connection does the work of both.
ROLES = ("admin.", "consumer.")
POLICY_CLASS = "replication.policy.class"
POLICY_CLASSES = DEFAULT, IDENTITY = (MIRROR + "DefaultReplicationPolicy", MIRROR + "IdentityReplicationPolicy")
SEPARATOR, IN_INTERNAL = "replication.policy.separator", "replication.policy.internal.topic.separator.enabled"


def read_properties(
    properties: Mapping[str, str], policy: ReplicationPolicy | None
) -> tuple[ClusterSettings, ReplicationPolicy]:
    """The cluster that the properties name, and `policy` or the one they name; raises `ConfigInvalid`."""
    written = {name: value for name in SECURITY_KEYS if (value := _written(properties, name)) is not None}
    problems = [*_cluster_problems(properties, written), *(_policy_problems(properties) if policy is None else ())]
    if problems:
        raise ConfigInvalid(WHO, problems)
    servers = written.pop(SERVERS)
    security = {name: _hidden(SECURITY_KEYS[name], value) for name, value in written.items()}
    # The cluster has no alias here; its address says which one is meant.
    settings = ClusterSettings(
        servers.strip(), parse_servers(servers), MappingProxyType({"security.protocol": "PLAINTEXT"} | security)
    )
    return settings, _policy(properties) if policy is None else policy


def _written(properties: Mapping[str, str], name: str) -> str | None:
    """The value of a key; one with a prefix wins."""
    found = [properties[prefix + name] for prefix in (*ROLES, "") if prefix + name in properties]
    return found[0] if found else None


def _cluster_problems(properties: Mapping[str, str], written: Mapping[str, str]) -> Iterator[str]:
    if not written.get(SERVERS, "").strip():
        yield f"{SERVERS}: expected at least one host:port, found nothing"
    else:
        yield from _problem(SECURITY_KEYS[SERVERS], written[SERVERS])
    for name, value in written.items():
        if name != SERVERS:
            yield from _problem(SECURITY_KEYS[name], value)
        one, other = (properties.get(prefix + name) for prefix in ROLES)
        if one is not None and other is not None and one != other:
            yield f"{ROLES[0]}{name} and {ROLES[1]}{name} differ; one connection serves both, write {name} alone"


def _policy_problems(properties: Mapping[str, str]) -> Iterator[str]:
    named = properties.get(POLICY_CLASS, DEFAULT).strip()
    if named not in POLICY_CLASSES:
        yield (
            f"{POLICY_CLASS}: expected {' or '.join(POLICY_CLASSES)}, found {shown(named)}; "
            "an object of another class is given as MirrorClient(properties, policy=…)"
        )
    for name in (SEPARATOR, IN_INTERNAL):
        if name in properties:
            yield from _problem(CONNECTOR_KEYS[name], properties[name])


def _problem(key: Key, value: str) -> Iterator[str]:
    sentence = value_problem(key, value, value)
    if sentence:
        yield f"{key.name}: {sentence}"


def _policy(properties: Mapping[str, str]) -> ReplicationPolicy:
    """The policy that the properties name; without `source.cluster.alias` one that keeps names knows no source."""
    separator = properties.get(SEPARATOR, ".")
    in_internal = is_exactly_true(properties.get(IN_INTERNAL, "true"))
    default = DefaultReplicationPolicy(separator, separator if in_internal else ".")
    if properties.get(POLICY_CLASS, DEFAULT).strip() == IDENTITY:
        return IdentityReplicationPolicy(properties.get("source.cluster.alias"), default)
    return default


def _hidden(key: Key, value: str) -> str:
    if isinstance(value, Secret):
        return value
    return Secret(value.strip()) if key.secret else value.strip()
