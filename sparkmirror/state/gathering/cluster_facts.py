"""What one cluster of the flow says about itself, its topics and our rights."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from sparkmirror.clusters import ClusterClient, describe_topic_acls, describe_topic_configs, principal_of
from sparkmirror.clusters.cluster_info import (
    TopicDetail,
    broker_releases,
    broker_setting,
    cluster_rights,
    controller_skew_ms,
    topic_details,
)
from sparkmirror.clusters.security.certificates import SeenCertificate, broker_certificates, file_certificates
from sparkmirror.config import ClusterSettings
from sparkmirror.model import ConfigEntry, Side
from sparkmirror.state import FlowState, Note, Part, has_topic, now_ms
from sparkmirror.state.facts import Certificate, ClusterFacts

RETENTION = "offsets.retention.minutes"
TOPICS_PER_REQUEST_MAX = 500

_PARTS = {
    "source": (Part.SOURCE_BROKERS, Part.SOURCE_CLOCK, Part.SOURCE_CONFIGS, Part.SOURCE_ACLS, Part.SOURCE_RIGHTS),
    "target": (Part.TARGET_BROKERS, Part.TARGET_CLOCK, Part.TARGET_CONFIGS, Part.TARGET_ACLS, Part.TARGET_RIGHTS),
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What of a cluster is asked for: topics whose settings and rights matter, and whether rights of topics do."""

    topics: Collection[str]
    acls: bool
    retention: bool = False


def gather_cluster(
    state: FlowState, side: Side, settings: ClusterSettings, wanted: Wanted
) -> tuple[ClusterFacts, dict[str, TopicDetail]]:
    """The cluster's facts, and replicas and rights of the wanted topics."""
    brokers, clock, _, acls_part, rights_part = _PARTS[side]
    releases = state.reader.ask(brokers, side, broker_releases, {})
    facts, details = gather_topics(state, side, settings, wanted.topics)
    acls = state.reader.ask(acls_part, side, describe_topic_acls, None) if wanted.acls else None
    kept = state.reader.ask(Part.RETENTION, side, lambda c: broker_setting(c, RETENTION), None) if wanted.retention else None
    facts = replace(
        facts,
        versions={node: found.release for node, found in releases.items()},
        too_old={node: found.lacks for node, found in releases.items() if found.lacks},
        skew_ms=state.reader.ask(clock, side, controller_skew_ms, None),
        certificates=tuple(map(_certificate, _certificates(state, side, settings))),
        acls=None if acls is None else tuple(acls),
        cluster_rights=state.reader.ask(rights_part, side, cluster_rights, None) if wanted.acls else None,
        offsets_retention_minutes=int(kept) if kept is not None and kept.isdigit() else None,
        read_ms=now_ms(),
    )
    return facts, details


def gather_topics(
    state: FlowState, side: Side, settings: ClusterSettings, names: Collection[str]
) -> tuple[ClusterFacts, dict[str, TopicDetail]]:
    """Settings of some topics and our rights on them, and nothing else of the cluster."""
    _, _, configs_part, _, rights_part = _PARTS[side]
    view = state.topics(side)
    topics = [topic for topic in names if has_topic(view, topic)]
    details = state.reader.ask(rights_part, side, lambda c: _details(c, topics), {})
    facts = ClusterFacts(
        alias=settings.alias,
        bootstrap=",".join(f"{host}:{port}" for host, port in settings.bootstrap_servers),
        view=view,
        configs=_configs(state, side, configs_part, topics),
        topic_rights={topic: found.rights for topic, found in details.items() if found.rights is not None},
        user=principal_of(settings.security),
        read_ms=now_ms(),
    )
    return facts, details


def _details(client: ClusterClient, topics: list[str]) -> dict[str, TopicDetail]:
    found: dict[str, TopicDetail] = {}
    for start in range(0, len(topics), TOPICS_PER_REQUEST_MAX):
        found |= topic_details(client, topics[start : start + TOPICS_PER_REQUEST_MAX])
    return found


def _certificates(state: FlowState, side: Side, settings: ClusterSettings) -> list[SeenCertificate]:
    return [*file_certificates(settings), *state.reader.ask(Part.topics(side), side, broker_certificates, [])]


def _certificate(seen: SeenCertificate) -> Certificate:
    return Certificate(seen.whose, seen.where, int(seen.ends.timestamp() * 1000))


def _configs(state: FlowState, side: Side, part: str, topics: list[str]) -> dict[str, dict[str, ConfigEntry]]:
    """Effective settings of topics; one that may not be described stays open alone."""

    def look(client: ClusterClient) -> dict[str, list[ConfigEntry]]:
        found: dict[str, list[ConfigEntry]] = {}
        for start in range(0, len(topics), TOPICS_PER_REQUEST_MAX):
            found |= describe_topic_configs(client, topics[start : start + TOPICS_PER_REQUEST_MAX])
        return found

    found: dict[str, list[ConfigEntry]] = state.reader.ask(part, side, look, {})
    alias = state.clients[side].alias
    refused = [topic for topic in topics if topic not in found]
    if refused and part not in state.unknown:
        more = f" and {len(refused) - 1} more" if len(refused) > 1 else ""
        message = f"settings of topic {refused[0]}{more} on {alias} cannot be read"
        state.notes.add(Note("refused", alias, message, f"DescribeConfigs on topic {refused[0]}{more}", refused[0]))
    return {topic: {entry.name: entry for entry in entries} for topic, entries in found.items()}
