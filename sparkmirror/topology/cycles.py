"""Whether copying a topic would bring records back to where they came from."""

from __future__ import annotations

from sparkmirror.topology.policy import ReplicationPolicy

__all__ = ["is_cycle"]


def is_cycle(policy: ReplicationPolicy, topic: str, target_alias: str) -> bool:
    """Whether the target is one of the clusters the name says the topic went through."""
    while True:
        source = policy.topic_source(topic)
        if source is None:
            return False
        if source == target_alias:
            return True
        upstream = policy.upstream_topic(topic)
        if upstream is None or upstream == topic:
            return False
        topic = upstream
