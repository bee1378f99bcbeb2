"""Topics and their settings through the admin API."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
)
from kafka.protocol.api_key import ApiKey

from sparkmirror.clusters.client import ClusterClient
from sparkmirror.clusters.connection import Connection
from sparkmirror.clusters.error_codes import name_of
from sparkmirror.clusters.rights import refusal
from sparkmirror.model import ConfigEntry
from sparkmirror.wire.error_codes import INVALID_REPLICATION_FACTOR, NOT_CONTROLLER, TOPIC_ALREADY_EXISTS

SET, DELETE = 0, 1
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
TIMEOUT_MS = 30_000


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be created."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


def create_topics(client: ClusterClient, topics: Sequence[NewTopic], *, dry_run: bool = False) -> dict[str, str | None]:
    """Creates topics; per name None if it exists now, else the broker's reason."""
    topic_type = CreateTopicsRequest.CreatableTopic
    config_type = topic_type.CreatableTopicConfig

    def build(connection: Connection) -> Any:
        version = connection.version(ApiKey.CreateTopics, lowest=4, highest=5)
        return CreateTopicsRequest(
            version=version,
            topics=[
                topic_type(
                    version=version,
                    name=topic.name,
                    num_partitions=topic.partitions,
                    replication_factor=topic.replication_factor,
                    assignments=[],
                    configs=[config_type(version=version, name=k, value=v) for k, v in topic.configs.items()],
                )
                for topic in topics
            ],
            timeout_ms=TIMEOUT_MS,
            validate_only=dry_run,
        )

    return _results(client, build, "topics", "Create") if topics else {}


def factor_hint(refused: str, key: str, brokers: int) -> str:
    """The key to change where a topic was refused for want of brokers, "" where that was not the reason."""
    if not refused.startswith(name_of(INVALID_REPLICATION_FACTOR)):
        return ""
    return f"write {key} = {brokers}: the cluster has {brokers} broker{'' if brokers == 1 else 's'}"


def extend_topics(client: ClusterClient, counts: Mapping[str, int]) -> dict[str, str | None]:
    """Raises partition counts; per name None if done, else the broker's reason."""
    topic_type = CreatePartitionsRequest.CreatePartitionsTopic

    def build(connection: Connection) -> Any:
        version = connection.version(ApiKey.CreatePartitions, lowest=1, highest=2)
        return CreatePartitionsRequest(
            version=version,
            topics=[topic_type(version=version, name=n, count=c, assignments=None) for n, c in counts.items()],
            timeout_ms=TIMEOUT_MS,
            validate_only=False,
        )

    return _results(client, build, "results", "Alter") if counts else {}


def _results(client: ClusterClient, build: Any, field: str, operation: str) -> dict[str, str | None]:
    """Asks the controller (any broker forwards since KRaft) and reads one verdict per topic."""

    def ask() -> dict[str, str | None]:
        answer = client.ask_any(build)
        found: dict[str, str | None] = {}
        for result in getattr(answer, field):
            code = result.error_code
            if code == NOT_CONTROLLER:
                client.check(code, "controller")
            is_done = code in (0, TOPIC_ALREADY_EXISTS)
            text = refusal(code, client.who, f"{operation} on topic {result.name}")
            found[result.name] = None if is_done else f"{text}: {result.error_message or ''}".rstrip(": ")
        return found

    return client.retry(ask)


def describe_configs_request(
    connection: Connection, names: Collection[str], *, kind: int = TOPIC_RESOURCE, keys: list[str] | None = None
) -> Any:
    """Asks for the effective settings of some topics or brokers: every one, or these."""
    resource_type = DescribeConfigsRequest.DescribeConfigsResource
    version = connection.version(ApiKey.DescribeConfigs, lowest=1, highest=4)
    return DescribeConfigsRequest(
        version=version,
        resources=[
            resource_type(version=version, resource_type=kind, resource_name=name, configuration_keys=keys)
            for name in names
        ],
        include_synonyms=False,
        include_documentation=False,
    )


def read_topic_configs(answer: Any) -> dict[str, list[ConfigEntry]]:
    """Settings per topic; one that could not be described is left out."""
    return {
        result.resource_name: [
            ConfigEntry(c.name, c.value, c.config_source, bool(c.read_only), bool(c.is_sensitive)) for c in result.configs
        ]
        for result in answer.results
        if result.error_code == 0
    }


def describe_topic_configs(client: ClusterClient, names: Collection[str]) -> dict[str, list[ConfigEntry]]:
    """The effective settings of topics; one that cannot be described is left out."""
    if not names:
        return {}
    return read_topic_configs(client.retry(lambda: client.ask_any(lambda c: describe_configs_request(c, names))))


def alter_topic_configs(
    client: ClusterClient, changes: Mapping[str, Mapping[str, str | None]]
) -> dict[str, tuple[int, str]]:
    """Sets settings of topics, None for the default; per topic the error code, 0 for done, and the broker's words."""
    resource_type = IncrementalAlterConfigsRequest.AlterConfigsResource
    config_type = resource_type.AlterableConfig

    def build(connection: Connection) -> Any:
        version = connection.version(ApiKey.IncrementalAlterConfigs, lowest=0, highest=1)
        return IncrementalAlterConfigsRequest(
            version=version,
            resources=[
                resource_type(
                    version=version,
                    resource_type=TOPIC_RESOURCE,
                    resource_name=topic,
                    configs=[
                        config_type(version=version, name=n, config_operation=DELETE if v is None else SET, value=v)
                        for n, v in settings.items()
                    ],
                )
                for topic, settings in changes.items()
            ],
            validate_only=False,
        )

    if not changes:
        return {}
    answer = client.retry(lambda: client.ask_any(build))
    return {r.resource_name: (int(r.error_code), r.error_message or "") for r in answer.responses}
