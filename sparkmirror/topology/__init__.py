"""Names and choices: what a flow copies, under which name, and what the target needs for it."""

from sparkmirror.config.java_regex import JavaPattern, compile_java, compile_list
from sparkmirror.config.java_regex_parser import RegexRefused
from sparkmirror.topology.acls import acls_for_target
from sparkmirror.topology.configs import ConfigRules, config_changes, creation_configs
from sparkmirror.topology.cycles import is_cycle
from sparkmirror.topology.filters import (
    ConfigPropertyFilter,
    NameFilter,
    accepts_gap,
    config_property_filter,
    group_filter,
    name_filter,
    topic_filter,
)
from sparkmirror.topology.loading import require_custom_classes
from sparkmirror.topology.loops import (
    CopyLoop,
    FileFlow,
    ForeignFlow,
    KnownFlow,
    find_loops,
    may_loop,
    one_cluster,
    refusal_of,
    split_heartbeats,
)
from sparkmirror.topology.plan import Action, TopicChange, TopicDecision, plan_topics, select_topics
from sparkmirror.topology.policy import (
    LAG_GROUP,
    CustomReplicationPolicy,
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    ReplicationPolicy,
    connect_configs_topic,
    connect_offsets_topic,
    connect_status_topic,
    is_lag_group,
    lag_group,
    ledger_topic,
    offset_syncs_topic,
    policy_for,
)

__all__ = [
    "LAG_GROUP",
    "Action",
    "ConfigPropertyFilter",
    "ConfigRules",
    "CopyLoop",
    "CustomReplicationPolicy",
    "DefaultReplicationPolicy",
    "FileFlow",
    "ForeignFlow",
    "IdentityReplicationPolicy",
    "JavaPattern",
    "KnownFlow",
    "NameFilter",
    "RegexRefused",
    "ReplicationPolicy",
    "TopicChange",
    "TopicDecision",
    "accepts_gap",
    "acls_for_target",
    "compile_java",
    "compile_list",
    "config_changes",
    "config_property_filter",
    "connect_configs_topic",
    "connect_offsets_topic",
    "connect_status_topic",
    "creation_configs",
    "find_loops",
    "group_filter",
    "is_cycle",
    "is_lag_group",
    "lag_group",
    "ledger_topic",
    "may_loop",
    "name_filter",
    "offset_syncs_topic",
    "one_cluster",
    "plan_topics",
    "policy_for",
    "refusal_of",
    "require_custom_classes",
    "select_topics",
    "split_heartbeats",
    "topic_filter",
]
