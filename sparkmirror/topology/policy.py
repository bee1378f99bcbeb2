"""Names: what a topic of the source is called on the target, and what is behind a name found there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from sparkmirror.config import FlowSettings
from sparkmirror.errors import CustomClassFailed
from sparkmirror.topology.custom import CustomObject, custom_object

_HEARTBEATS = "heartbeats"
# A name has at most 249 characters, and a step back takes one away at least, unless a class of the user's goes round.
CHAIN_MAX = 1000
IDENTITY_CLASS = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


class ReplicationPolicy(Protocol):
    """The questions that may be asked about a name."""

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        """The name on the target of `topic` from `source_alias`."""

    def topic_source(self, topic: str) -> str | None:
        """The alias a name says it comes from, if it says so; may be empty text."""

    def upstream_topic(self, topic: str) -> str | None:
        """The name one cluster before, if the name tells."""

    def original_topic(self, topic: str) -> str:
        """The name where the chain begins."""

    @property
    def heartbeats_topic(self) -> str:
        """The topic of heartbeats."""

    def offset_syncs_topic(self, alias: str) -> str:
        """The topic of offset syncs; `alias` is the cluster it is not on."""

    def checkpoints_topic(self, source_alias: str) -> str:
        """The topic of checkpoints of groups of `source_alias`."""

    def is_heartbeats_topic(self, topic: str) -> bool:
        """Whether the chain begins with the topic of heartbeats."""

    def is_checkpoints_topic(self, topic: str) -> bool:
        """Whether it is a topic of checkpoints."""

    def is_mm2_internal_topic(self, topic: str) -> bool:
        """Whether a mirror keeps its own records in it."""

    def is_internal_topic(self, topic: str) -> bool:
        """Whether it is never copied."""


@dataclass(frozen=True, slots=True)
class DefaultReplicationPolicy:
    """`alias.topic`. A local topic with the separator in its name cannot be distinguished from a remote one."""

    separator: str = "."
    internal_separator: str = "."

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        """The alias, the separator, the topic."""
        return source_alias + self.separator + topic

    def topic_source(self, topic: str) -> str | None:
        """The piece before the first separator; none if nothing but separators follows it."""
        if not _has_two_pieces(topic, self.separator):
            return None
        return topic.partition(self.separator)[0]

    def upstream_topic(self, topic: str) -> str | None:
        """The name without its first piece."""
        source = self.topic_source(topic)
        return None if source is None else topic[len(source) + len(self.separator) :]

    def original_topic(self, topic: str) -> str:
        """The last piece of the chain."""
        return _original(self, topic)

    @property
    def heartbeats_topic(self) -> str:
        """Always `heartbeats`."""
        return _HEARTBEATS

    def offset_syncs_topic(self, alias: str) -> str:
        """`mm2-offset-syncs.alias.internal`."""
        return self.internal_separator.join(("mm2-offset-syncs", alias, "internal"))

    def checkpoints_topic(self, source_alias: str) -> str:
        """`alias.checkpoints.internal`."""
        return source_alias + self._checkpoints_end()

    def is_heartbeats_topic(self, topic: str) -> bool:
        """Whether the chain begins with `heartbeats`, which is true of a user's `x.heartbeats` too."""
        return self.original_topic(topic) == _HEARTBEATS

    def is_checkpoints_topic(self, topic: str) -> bool:
        """Whether it ends as topics of checkpoints do."""
        return topic.endswith(self._checkpoints_end())

    def is_mm2_internal_topic(self, topic: str) -> bool:
        """`mm2….internal`, or a topic of checkpoints (KAFKA-17200)."""
        own = topic.startswith("mm2") and topic.endswith(self.internal_separator + "internal")
        return own or self.is_checkpoints_topic(topic)

    def is_internal_topic(self, topic: str) -> bool:
        """A mirror's own, or one whose name starts with `__` or `.`."""
        return topic.startswith(("__", ".")) or self.is_mm2_internal_topic(topic)

    def _checkpoints_end(self) -> str:
        return f"{self.internal_separator}checkpoints{self.internal_separator}internal"


@dataclass(frozen=True, slots=True)
class IdentityReplicationPolicy:
    """Names stay as they are, but for those that end in `heartbeats`, which are treated as by the default policy."""

    source_alias: str | None = None
    default: DefaultReplicationPolicy = DefaultReplicationPolicy()

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        """The topic itself."""
        return self.default.format_remote_topic(source_alias, topic) if _looks_like_heartbeats(topic) else topic

    def topic_source(self, topic: str) -> str | None:
        """The source this policy was made for, whatever the name."""
        return self.default.topic_source(topic) if _looks_like_heartbeats(topic) else self.source_alias

    def upstream_topic(self, topic: str) -> str | None:
        """The topic itself."""
        return self.default.upstream_topic(topic) if _looks_like_heartbeats(topic) else topic

    def original_topic(self, topic: str) -> str:
        """The topic itself."""
        return _original(self, topic)

    @property
    def heartbeats_topic(self) -> str:
        """Always `heartbeats`."""
        return self.default.heartbeats_topic

    def offset_syncs_topic(self, alias: str) -> str:
        """As the default policy."""
        return self.default.offset_syncs_topic(alias)

    def checkpoints_topic(self, source_alias: str) -> str:
        """As the default policy."""
        return self.default.checkpoints_topic(source_alias)

    def is_heartbeats_topic(self, topic: str) -> bool:
        """Whether the chain begins with `heartbeats`."""
        return self.original_topic(topic) == _HEARTBEATS

    def is_checkpoints_topic(self, topic: str) -> bool:
        """As the default policy."""
        return self.default.is_checkpoints_topic(topic)

    def is_mm2_internal_topic(self, topic: str) -> bool:
        """As the default policy."""
        return self.default.is_mm2_internal_topic(topic)

    def is_internal_topic(self, topic: str) -> bool:
        """As the default policy."""
        return self.default.is_internal_topic(topic)


@dataclass(frozen=True, slots=True)
class CustomReplicationPolicy:
    """A class of the user's; what it does not define is answered by the default policy's rule over what it does."""

    own: CustomObject
    default: DefaultReplicationPolicy = DefaultReplicationPolicy()

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        """The user's answer."""
        return self.own.text("format_remote_topic", source_alias, topic)

    def topic_source(self, topic: str) -> str | None:
        """The user's answer."""
        return self.own.text_or_none("topic_source", topic)

    def upstream_topic(self, topic: str) -> str | None:
        """The user's answer."""
        return self.own.text_or_none("upstream_topic", topic)

    def original_topic(self, topic: str) -> str:
        """The user's answer, or the last name of the chain."""
        return self.own.text("original_topic", topic) if self.own.has("original_topic") else _original(self, topic)

    @property
    def heartbeats_topic(self) -> str:
        """The user's answer, or `heartbeats`."""
        return self.own.text("heartbeats_topic") if self.own.has("heartbeats_topic") else _HEARTBEATS

    def offset_syncs_topic(self, alias: str) -> str:
        """The user's answer, or as the default policy."""
        has_own = self.own.has("offset_syncs_topic")
        return self.own.text("offset_syncs_topic", alias) if has_own else self.default.offset_syncs_topic(alias)

    def checkpoints_topic(self, source_alias: str) -> str:
        """The user's answer, or as the default policy."""
        if self.own.has("checkpoints_topic"):
            return self.own.text("checkpoints_topic", source_alias)
        return self.default.checkpoints_topic(source_alias)

    def is_heartbeats_topic(self, topic: str) -> bool:
        """The user's answer, or whether the chain begins with the topic of heartbeats."""
        if self.own.has("is_heartbeats_topic"):
            return self.own.truth("is_heartbeats_topic", topic)
        return self.original_topic(topic) == self.heartbeats_topic

    def is_checkpoints_topic(self, topic: str) -> bool:
        """The user's answer, or as the default policy."""
        has_own = self.own.has("is_checkpoints_topic")
        return self.own.truth("is_checkpoints_topic", topic) if has_own else self.default.is_checkpoints_topic(topic)

    def is_mm2_internal_topic(self, topic: str) -> bool:
        """The user's answer; but what a mirror keeps its own records in is internal whatever the user says."""
        if self.default.is_mm2_internal_topic(topic) or _DOTTED.is_mm2_internal_topic(topic):
            return True
        if self.own.has("is_mm2_internal_topic"):
            return self.own.truth("is_mm2_internal_topic", topic)
        return self.is_checkpoints_topic(topic)

    def is_internal_topic(self, topic: str) -> bool:
        """The user's answer, with the same exception."""
        if self.is_mm2_internal_topic(topic):
            return True
        has_own = self.own.has("is_internal_topic")
        return self.own.truth("is_internal_topic", topic) if has_own else self.default.is_internal_topic(topic)


# Our ledger and Connect's topics have dots, whatever the separator.
_DOTTED = DefaultReplicationPolicy()


def policy_for(flow: FlowSettings) -> ReplicationPolicy:
    """The policy of a flow; raises `ConfigInvalid` if it is a class of the user's that cannot be used."""
    separator = flow.replication_policy_separator
    internal = separator if flow.replication_policy_internal_topic_separator_enabled else "."
    default = DefaultReplicationPolicy(separator, internal)
    if flow.replication_policy_class == IDENTITY_CLASS:
        return IdentityReplicationPolicy(flow.name.source, default)
    own = custom_object(flow, "replication.policy.class", flow.replication_policy_class)
    return default if own is None else CustomReplicationPolicy(own, default)


def upstream_chain(policy: ReplicationPolicy, topic: str) -> Iterator[str]:
    """`topic`, its name one cluster before, and so on to where the names stop changing."""
    start = topic
    for _ in range(CHAIN_MAX):
        yield topic
        upstream = policy.upstream_topic(topic)
        if upstream is None or upstream == topic:
            return
        topic = upstream
    raise CustomClassFailed(
        f"upstream_topic of the replication policy finds no end for topic {start}: {CHAIN_MAX} steps lead to {topic[:80]}",
        hint="return None, or the name itself, for a topic that has no name before; see docs/policies.md",
    )


def offset_syncs_topic(flow: FlowSettings, policy: ReplicationPolicy) -> str:
    """The topic of a flow's offset syncs, which is named after the other cluster."""
    return policy.offset_syncs_topic(flow.name.target if flow.syncs_side == "source" else flow.name.source)


def ledger_topic(source_alias: str) -> str:
    """Our ledger on the target; a name that MirrorMaker 2 takes for internal, so it never copies it on."""
    return f"mm2-ledger.{source_alias}.internal"


# The group on the target that shows the lag of the flows into it.
LAG_GROUP = "connect-MirrorSourceConnector"


def lag_group(target_alias: str) -> str:
    """The group on the source that shows how far the copy into `target_alias` has come; MM2's filter leaves it out."""
    return f"{LAG_GROUP}-{target_alias}"


def is_lag_group(group: str) -> bool:
    """Whether the group is a mirror's picture of its own lag, which no flow copies."""
    return group == LAG_GROUP or group.startswith(f"{LAG_GROUP}-")


def connect_offsets_topic(source_alias: str) -> str:
    """Where MirrorMaker 2 stores positions; dots, whatever the separator."""
    return f"mm2-offsets.{source_alias}.internal"


def connect_status_topic(source_alias: str) -> str:
    """Where MirrorMaker 2 stores the states of its connectors."""
    return f"mm2-status.{source_alias}.internal"


def connect_configs_topic(source_alias: str) -> str:
    """Where MirrorMaker 2 stores the configs of its connectors."""
    return f"mm2-configs.{source_alias}.internal"


def _looks_like_heartbeats(topic: str) -> bool:
    return topic.endswith(_HEARTBEATS)


def _has_two_pieces(topic: str, separator: str) -> bool:
    """Whether the name has two pieces when cut at every separator and empty pieces at the end are dropped."""
    pieces = topic.split(separator)
    while pieces and not pieces[-1]:
        pieces.pop()
    return len(pieces) >= 2


def _original(policy: ReplicationPolicy, topic: str) -> str:
    return list(upstream_chain(policy, topic))[-1]
