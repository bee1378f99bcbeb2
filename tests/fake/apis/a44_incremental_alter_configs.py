"""IncrementalAlterConfigs of topics: set and delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka.protocol.admin import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse

from fake.apis.a32_describe_configs import DEFAULTS

if TYPE_CHECKING:
    from fake.cluster import FakeCluster

REQUEST, RESPONSE, VERSIONS = IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse, (0, 1)


UNKNOWN_TOPIC, INVALID_CONFIG = 3, 40
SET, DELETE = 0, 1


def answer(cluster: FakeCluster, request: Any) -> dict[str, Any]:
    """The broker's answer."""
    return {"responses": [_alter(cluster, wanted, is_dry=request.validate_only) for wanted in request.resources]}


def _alter(cluster: FakeCluster, wanted: Any, *, is_dry: bool) -> dict[str, Any]:
    whole = {"resource_type": wanted.resource_type, "resource_name": wanted.resource_name, "error_message": None}
    topic = cluster.topics.get(wanted.resource_name)
    if topic is None:
        return whole | {"error_code": UNKNOWN_TOPIC}
    unknown = [config.name for config in wanted.configs if config.name not in DEFAULTS]
    if unknown:
        return whole | {"error_code": INVALID_CONFIG, "error_message": f"Unknown topic config name: {unknown[0]}"}
    changed = dict(topic.configs)
    for config in wanted.configs:
        if config.config_operation == SET:
            changed[config.name] = config.value
        else:
            changed.pop(config.name, None)
    topic.configs = topic.configs if is_dry else changed
    return whole | {"error_code": 0}
