"""What applications need on the target and no mirror copies: the right to write, and how safely the topic is kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from sparkmirror.clusters import ClusterClient, create_topic_acls, describe_topic_acls, describe_topic_configs
from sparkmirror.config import FlowSettings
from sparkmirror.model import Acl, ConfigEntry

WRITING = ("WRITE", "ALL", "CREATE")
MIN_ISR = "min.insync.replicas"


def missing_access(
    flow: FlowSettings, source: ClusterClient, target: ClusterClient, topics: Mapping[str, str]
) -> Iterator[str]:
    """A sentence for each right and each setting that the target lacks."""
    lacking = missing_rights(source, target, topics)
    if lacking is None:
        yield f"{flow.name.target} has no authorizer, or shows no rights: everybody may write there"
    else:
        yield from (f"{flow.name.target} lacks: {acl}" for acl in lacking)
    here, there = describe_topic_configs(source, list(topics)), describe_topic_configs(target, list(topics.values()))
    for topic, remote in topics.items():
        wanted, found = _setting(here.get(topic, []), MIN_ISR), _setting(there.get(remote, []), MIN_ISR)
        if wanted is not None and found is not None and int(found) < int(wanted):
            yield f"{remote} has {MIN_ISR} = {found} on {flow.name.target}, {topic} has {wanted} on {flow.name.source}"


def missing_rights(source: ClusterClient, target: ClusterClient, topics: Mapping[str, str]) -> list[Acl] | None:
    """Rights to write to the copies that the target lacks; None unless both clusters have an authorizer."""
    acls = describe_topic_acls(source)
    present = describe_topic_acls(target) if acls is not None else None
    if acls is None or present is None:
        return None
    wanted = {
        replace(acl, topic=remote, pattern="LITERAL")
        for acl in acls
        if acl.operation in WRITING
        for topic, remote in topics.items()
        if _covers(acl, topic)
    }
    held = set(present)
    return sorted(acl for acl in wanted if acl not in held and not any(_allows(other, acl) for other in held))


def grant(source: ClusterClient, target: ClusterClient, topics: Mapping[str, str]) -> dict[Acl, str | None]:
    """Creates those rights on the target; the reason of each that was refused."""
    lacking = missing_rights(source, target, topics) or []
    denied = [acl for acl in lacking if acl.permission == "DENY"]
    verdicts = create_topic_acls(target, denied) if denied else {}
    undenied = {acl.topic for acl, reason in verdicts.items() if reason is not None}
    allowed = [acl for acl in lacking if acl.permission == "ALLOW" and acl.topic not in undenied]
    return verdicts | (create_topic_acls(target, allowed) if allowed else {})


def _covers(acl: Acl, topic: str) -> bool:
    return topic.startswith(acl.topic) if acl.pattern == "PREFIXED" else acl.topic in ("*", topic)


def _allows(held: Acl, wanted: Acl) -> bool:
    """Whether a right that is there includes the other one."""
    is_same = (held.principal, held.host, held.permission) == (wanted.principal, wanted.host, wanted.permission)
    return is_same and held.operation in (wanted.operation, "ALL") and _covers(held, wanted.topic)


def _setting(entries: Sequence[ConfigEntry], name: str) -> str | None:
    return next((entry.value for entry in entries if entry.name == name), None)
