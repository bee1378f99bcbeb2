"""Names and choices: what a flow copies, under which name, and what the target needs for it."""

from sparkmirror.topology.cycles import is_cycle
from sparkmirror.topology.filters import (
    ConfigPropertyFilter,
    NameFilter,
    config_property_filter,
    group_filter,
    name_filter,
    topic_filter,
)
from sparkmirror.topology.java_regex import JavaPattern, RegexRefused, compile_java, compile_list
from sparkmirror.topology.plan import Action, TopicChange, TopicDecision, plan_topics, select_topics
from sparkmirror.topology.policy import (
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    ReplicationPolicy,
    connect_configs_topic,
    connect_offsets_topic,
    connect_status_topic,
    ledger_topic,
    policy_for,
)

__all__ = [
    "Action",
    "ConfigPropertyFilter",
    "DefaultReplicationPolicy",
    "IdentityReplicationPolicy",
    "JavaPattern",
    "NameFilter",
    "RegexRefused",
    "ReplicationPolicy",
    "TopicChange",
    "TopicDecision",
    "compile_java",
    "compile_list",
    "config_property_filter",
    "connect_configs_topic",
    "connect_offsets_topic",
    "connect_status_topic",
    "group_filter",
    "is_cycle",
    "ledger_topic",
    "name_filter",
    "plan_topics",
    "policy_for",
    "select_topics",
    "topic_filter",
]
