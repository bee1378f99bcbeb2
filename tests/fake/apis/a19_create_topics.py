"""CreateTopics: names, counts and settings are checked as the controller checks them."""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING, Any

from kafka.protocol.admin import CreateTopicsRequest, CreateTopicsResponse

from fake.apis.a32_describe_configs import DEFAULTS

if TYPE_CHECKING:
    from fake.cluster import FakeCluster

REQUEST, RESPONSE, VERSIONS = CreateTopicsRequest, CreateTopicsResponse, (4, 7)


INVALID_TOPIC, TOPIC_EXISTS, INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR, INVALID_CONFIG = 17, 36, 37, 38, 40
NAME_MAX = 249


def answer(cluster: FakeCluster, request: Any) -> dict[str, Any]:
    """The broker's answer."""
    return {"topics": [_create(cluster, topic, is_dry=request.validate_only) for topic in request.topics]}


def is_legal(name: str) -> bool:
    """Whether a topic may be called so."""
    return bool(re.fullmatch(r"[a-zA-Z0-9._-]+", name)) and len(name) <= NAME_MAX and name not in (".", "..")


def _create(cluster: FakeCluster, topic: Any, *, is_dry: bool) -> dict[str, Any]:
    configs = {config.name: config.value for config in topic.configs}
    count = 1 if topic.num_partitions == -1 else topic.num_partitions
    error, message = _refusal(cluster, topic, configs, count)
    identity = uuid.UUID(int=0)
    if not error and not is_dry:
        identity = cluster.create_topic(topic.name, count, configs).topic_id
    return {
        "name": topic.name,
        "topic_id": identity,
        "error_code": error,
        "error_message": message,
        "num_partitions": -1 if error else count,
        "replication_factor": -1 if error else 1,
        "configs": [],
    }


def _refusal(cluster: FakeCluster, topic: Any, configs: dict[str, str], count: int) -> tuple[int, str | None]:
    if not is_legal(topic.name):
        return INVALID_TOPIC, "Topic name is invalid"
    if topic.name in cluster.topics:
        return TOPIC_EXISTS, f"Topic '{topic.name}' already exists."
    if count < 1:
        return INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
    if topic.replication_factor not in (-1, 1):
        return INVALID_REPLICATION_FACTOR, f"Unable to replicate the partition {topic.replication_factor} time(s)"
    unknown = [name for name in configs if name not in DEFAULTS]
    return (INVALID_CONFIG, f"Unknown topic config name: {unknown[0]}") if unknown else (0, None)
