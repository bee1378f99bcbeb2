"""The clusters that a topic came through, by its name. Pure; exactly MirrorMaker 2's rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sparkmirror.topology import ReplicationPolicy

NO_WAY = -1


def _chain(policy: ReplicationPolicy, topic: str) -> Iterator[str]:
    """The sources in a name, nearest first; ends after the first repetition."""
    seen: set[str] = set()
    at: str | None = topic
    while at is not None:
        source = policy.topic_source(at)
        if source is None:
            return
        yield source
        if source in seen:  # a policy that keeps names returns the same source forever
            return
        seen.add(source)
        at = policy.upstream_topic(at)


def all_sources(policy: ReplicationPolicy, topic: str) -> frozenset[str]:
    """Every cluster that a topic came through."""
    return frozenset(_chain(policy, topic))


def count_hops(policy: ReplicationPolicy, topic: str, alias: str) -> int:
    """How many flows lie between a cluster and this topic; `NO_WAY` if it did not come through it."""
    return next((hops for hops, source in enumerate(_chain(policy, topic), 1) if source == alias), NO_WAY)


def shortest_way(policy: ReplicationPolicy, topics: Iterable[str], alias: str) -> int:
    """The fewest hops by which heartbeats of a cluster arrive; `NO_WAY` if none do."""
    hops = (count_hops(policy, topic, alias) for topic in topics if policy.is_heartbeats_topic(topic))
    return min((count for count in hops if count != NO_WAY), default=NO_WAY)


def upstream_clusters(policy: ReplicationPolicy, topics: Iterable[str]) -> set[str]:
    """Every cluster whose heartbeats arrive."""
    return {source for topic in topics if policy.is_heartbeats_topic(topic) for source in all_sources(policy, topic)}


def is_remote(policy: ReplicationPolicy, topic: str) -> bool:
    """Whether a name says that it comes from elsewhere; a local name with the separator in it says so too."""
    return not policy.is_internal_topic(topic) and policy.topic_source(topic) is not None
