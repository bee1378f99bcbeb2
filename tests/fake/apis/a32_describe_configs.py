"""DescribeConfigs of topics, and what the doctor wants of brokers: Kafka 4.3's defaults, and what was set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka.protocol.admin import DescribeConfigsRequest, DescribeConfigsResponse

if TYPE_CHECKING:
    from fake.cluster import FakeCluster

REQUEST, RESPONSE, VERSIONS = DescribeConfigsRequest, DescribeConfigsResponse, (1, 4)

UNKNOWN_TOPIC, BROKER = 3, 4
BROKER_DEFAULTS = {"offsets.retention.minutes": "10080"}
TOPIC_SOURCE, CLUSTER_SOURCE, DEFAULT_SOURCE = 1, 3, 5
ENDLESS = str((1 << 63) - 1)
OF_CLUSTER = frozenset({"min.insync.replicas"})  # which the controller itself sets for the whole cluster
DEFAULTS = {
    "cleanup.policy": "delete",
    "compression.gzip.level": "-1",
    "compression.lz4.level": "9",
    "compression.type": "producer",
    "compression.zstd.level": "3",
    "delete.retention.ms": "86400000",
    "file.delete.delay.ms": "60000",
    "flush.messages": ENDLESS,
    "flush.ms": ENDLESS,
    "follower.replication.throttled.replicas": "",
    "index.interval.bytes": "4096",
    "leader.replication.throttled.replicas": "",
    "local.retention.bytes": "-2",
    "local.retention.ms": "-2",
    "max.compaction.lag.ms": ENDLESS,
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": ENDLESS,
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "min.insync.replicas": "1",
    "preallocate": "false",
    "remote.log.copy.disable": "false",
    "remote.log.delete.on.disable": "false",
    "remote.storage.enable": "false",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.index.bytes": "10485760",
    "segment.jitter.ms": "0",
    "segment.ms": "604800000",
    "unclean.leader.election.enable": "false",
}


def answer(cluster: FakeCluster, request: Any) -> dict[str, Any]:
    """The broker's answer."""
    return {"results": [_describe(cluster, wanted) for wanted in request.resources]}


def _describe(cluster: FakeCluster, wanted: Any) -> dict[str, Any]:
    whole = {"resource_type": wanted.resource_type, "resource_name": wanted.resource_name, "error_message": None}
    if wanted.resource_type == BROKER:
        found = [{"name": name, "value": value, "config_source": DEFAULT_SOURCE, "synonyms": [], "documentation": None}
                 for name, value in BROKER_DEFAULTS.items()]  # fmt: skip
        return whole | {"error_code": 0, "configs": found}
    topic = cluster.topics.get(wanted.resource_name)
    if topic is None:
        return whole | {"error_code": UNKNOWN_TOPIC, "configs": []}
    keys = wanted.configuration_keys
    names = [name for name in DEFAULTS if keys is None or name in keys]
    return whole | {"error_code": 0, "configs": [_config(topic.configs, name) for name in names]}


def _config(configs: dict[str, str], name: str) -> dict[str, Any]:
    default = CLUSTER_SOURCE if name in OF_CLUSTER else DEFAULT_SOURCE
    source = TOPIC_SOURCE if name in configs else default
    value = configs.get(name, DEFAULTS[name])
    return {"name": name, "value": value, "config_source": source, "synonyms": [], "documentation": None}
