"""Whether copying a topic would bring records back to where they came from."""

from __future__ import annotations

from sparkmirror.topology.policy import ReplicationPolicy, upstream_chain


def is_cycle(policy: ReplicationPolicy, topic: str, target_alias: str) -> bool:
    """Whether the target is one of the clusters the name says the topic went through."""
    for name in upstream_chain(policy, topic):
        source = policy.topic_source(name)
        if source is None or source == target_alias:
            return source is not None
    return False
