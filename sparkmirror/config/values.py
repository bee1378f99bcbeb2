"""What a configuration file says, as typed values. An attribute is the key with underscores."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from sparkmirror.config.connect_transforms import ConnectTransform
from sparkmirror.config.keys import SIMPLE_HEADER_CONVERTER
from sparkmirror.config.transforms import TransformSettings
from sparkmirror.model import FlowName, Side


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """One cluster: where it is and how to log in. Secret values are `Secret`s."""

    alias: str
    bootstrap_servers: tuple[tuple[str, int], ...]
    security: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSettings:
    """One direction. Client mappings hold every key a client needs, security and Kafka's defaults included.

    `consumer_written` and `producer_written` name the keys of the data clients that come from the file and not from
    a default: `compression.type` that nobody wrote does not mean that batches must be decompressed. `folder` is that of
    the file; `custom_texts` are the connector's keys as a class of the user's gets them, secrets left out.
    """

    name: FlowName
    enabled: bool
    emits_heartbeats: bool
    source: ClusterSettings
    target: ClusterSettings

    consumer: Mapping[str, str] = field(repr=False)
    producer: Mapping[str, str] = field(repr=False)
    offset_syncs_producer: Mapping[str, str] = field(repr=False)
    offset_syncs_consumer: Mapping[str, str] = field(repr=False)
    checkpoints_consumer: Mapping[str, str] = field(repr=False)
    source_admin: Mapping[str, str] = field(repr=False)
    target_admin: Mapping[str, str] = field(repr=False)
    offset_syncs_admin: Mapping[str, str] = field(repr=False)
    consumer_written: frozenset[str] = field(repr=False)
    producer_written: frozenset[str] = field(repr=False)
    folder: str
    custom_texts: Mapping[str, str] = field(repr=False)
    record_transforms: tuple[TransformSettings, ...]
    connect_transforms: tuple[ConnectTransform, ...]
    header_converter: str | None

    topics: tuple[str, ...]
    topics_exclude: tuple[str, ...]
    topic_filter_class: str
    groups: tuple[str, ...]
    groups_exclude: tuple[str, ...]
    group_filter_class: str
    config_properties_exclude: tuple[str, ...]
    config_property_filter_class: str
    use_defaults_from: str

    replication_factor: int
    replication_policy_class: str
    replication_policy_separator: str
    replication_policy_internal_topic_separator_enabled: bool
    replication_loops_allowed: bool
    forwarding_admin_class: str

    refresh_topics_enabled: bool
    refresh_topics_interval_seconds: int
    refresh_groups_enabled: bool
    refresh_groups_interval_seconds: int
    sync_topic_configs_enabled: bool
    sync_topic_configs_interval_seconds: int
    sync_topic_acls_enabled: bool
    sync_topic_acls_interval_seconds: int
    sync_group_offsets_enabled: bool
    sync_group_offsets_interval_seconds: int
    sync_group_offsets_rewind: bool
    emit_checkpoints_enabled: bool
    emit_checkpoints_interval_seconds: int
    emit_heartbeats_enabled: bool
    emit_heartbeats_interval_seconds: int
    emit_offset_syncs_enabled: bool
    heartbeats_replication_enabled: bool

    offset_syncs_topic_location: str
    offset_syncs_topic_replication_factor: int
    checkpoints_topic_replication_factor: int
    heartbeats_topic_replication_factor: int
    offset_lag_max: int
    lag_group_enabled: bool
    on_source_gap: str
    on_source_gap_skip_topics: tuple[str, ...]
    on_positions_removed: str
    metric_names_formats: tuple[str, ...]

    tasks_max: int | None
    admin_timeout_ms: int
    consumer_poll_timeout_ms: int
    errors_tolerance: str
    errors_deadletterqueue_topic_name: str
    errors_retry_timeout: int
    errors_retry_delay_max_ms: int
    errors_log_enable: bool
    errors_log_include_messages: bool
    exactly_once_support: str

    group_id: str
    offset_storage_topic: str
    offset_storage_partitions: int
    offset_storage_replication_factor: int
    status_storage_topic: str
    status_storage_partitions: int
    status_storage_replication_factor: int
    config_storage_topic: str
    config_storage_replication_factor: int
    offset_flush_interval_ms: int
    offset_flush_timeout_ms: int
    exactly_once_source_support: str
    task_shutdown_graceful_timeout_ms: int

    @property
    def syncs_side(self) -> Side:
        """The cluster that holds the topic of offset syncs."""
        return "source" if self.offset_syncs_topic_location == "source" else "target"

    @property
    def reads_committed(self) -> bool:
        """Whether records of aborted transactions on the source are left out."""
        return self.consumer.get("isolation.level") == "read_committed"

    @property
    def writes_transactions(self) -> bool:
        """Whether MirrorMaker 2 would write the copy in transactions, so that what it aborted is no copy."""
        return self.exactly_once_source_support == "enabled"

    @property
    def has_transforms(self) -> bool:
        """Whether records of some topics may be changed on their way."""
        return bool(self.record_transforms or self.connect_transforms)

    @property
    def has_simple_headers(self) -> bool:
        """Whether headers are written as MirrorMaker 2 writes them with SimpleHeaderConverter."""
        return self.header_converter == SIMPLE_HEADER_CONVERTER


@dataclass(frozen=True, slots=True)
class Settings:
    """One configuration file. `flows` are the ordered pairs that copy or write heartbeats.

    `written` are its keys and texts, of a repeated key the last one; `resolved` are the texts with their references to
    config providers replaced. Both hold secrets as they are.
    """

    path: str
    digest: str
    clusters: tuple[str, ...]
    flows: tuple[FlowSettings, ...]
    warnings: tuple[str, ...] = field(default=())
    metric_labels: tuple[tuple[str, str], ...] = ()  # those that every figure has
    written: Mapping[str, str] = field(default_factory=dict, repr=False)
    resolved: Mapping[str, str] = field(default_factory=dict, repr=False)
    allows_unknown_keys: bool = False

    def selected_flows(self, targets: Collection[str] | None) -> tuple[FlowSettings, ...]:
        """Flows into `targets`, those that only write heartbeats included; None means every target."""
        return tuple(flow for flow in self.flows if targets is None or flow.name.target in targets)

    def enabled_flows(self, targets: Collection[str] | None) -> tuple[FlowSettings, ...]:
        """Flows into `targets` that copy; None means every target."""
        return tuple(flow for flow in self.selected_flows(targets) if flow.enabled)

    def flow(self, name: FlowName) -> FlowSettings:
        """The flow called `name`; raises `KeyError` if it neither copies nor writes heartbeats."""
        for flow in self.flows:
            if flow.name == name:
                return flow
        raise KeyError(str(name))
