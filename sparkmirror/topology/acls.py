"""The rights that a flow copies: on a remote topic nobody may do more than on the topic itself. Pure.

Invariant A: nobody is given WRITE, nor ALL, which holds it.
Invariant B: whatever is allowed on a remote topic is allowed by the source's own rights on the original.
Invariant C: every right is on one remote topic; none is on a pattern.

Why no pattern is copied as a pattern: it would cover names that the flow never writes. Whatever the prefix `P`, the
source's `P.checkpoints.internal` is a mirror's own, and `P.<target>.x` would be a cycle; both are refused, so that no
prefix is replicated as a whole. A right on a prefix, or on `*`, becomes one right on each topic it covers instead.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from sparkmirror.config import FlowSettings
from sparkmirror.model import Acl
from sparkmirror.topology.plan import select_topics
from sparkmirror.topology.policy import ReplicationPolicy

EVERY_TOPIC = "*"
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]+\Z")


def acls_for_target(
    flow: FlowSettings, policy: ReplicationPolicy, acls: Collection[Acl], topics: Iterable[str]
) -> list[Acl]:
    """The rights that the target must have, those that deny first. `acls` and `topics` are the source's.

    A right on one name is copied whether the topic exists or not, as MirrorMaker 2 does.
    """
    existing = _remote_names(flow, policy, topics, {})
    # Brokers take any text for the name in a right; a policy of the user's own need not understand all of them.
    named = {acl.topic for acl in acls if _prefix(acl) is None and _TOPIC_NAME.match(acl.topic)}
    remotes = existing | _remote_names(flow, policy, named - existing.keys(), existing)
    present, known = sorted(existing), sorted(remotes)
    found = set()
    for acl in acls:
        operation = _operation(acl)
        if operation is not None:
            # An ALLOW by name reaches topics that do not exist yet, so a DENY by prefix must reach them too.
            covered = _covered(acl, known if acl.permission == "DENY" else present, remotes)
            found |= {replace(acl, topic=remotes[t], pattern="LITERAL", operation=operation) for t in covered}
    return sorted(found, key=lambda acl: (acl.permission != "DENY", acl))


def _remote_names(
    flow: FlowSettings, policy: ReplicationPolicy, topics: Iterable[str], taken: Mapping[str, str]
) -> dict[str, str]:
    """The remote name of each topic that is copied, or would be if it existed; `taken` are those of other topics."""
    claimed = {remote: f"topic {topic}" for topic, remote in taken.items()}
    decisions = select_topics(flow, policy, topics, claimed=claimed)
    return {d.topic: d.remote for d in decisions if d.replicated and d.remote != EVERY_TOPIC}


def _operation(acl: Acl) -> str | None:
    """The operation of the copy; none if there is no copy."""
    if acl.permission == "DENY":
        return acl.operation
    return {"WRITE": None, "ALL": "READ"}.get(acl.operation, acl.operation)


def _prefix(acl: Acl) -> str | None:
    """The start of the names that a pattern covers; none if the right is on one name."""
    if acl.pattern == "PREFIXED":
        return acl.topic
    return "" if acl.topic == EVERY_TOPIC else None


def _covered(acl: Acl, names: Sequence[str], remotes: Mapping[str, str]) -> Iterator[str]:
    """The copied topics that a right covers; a pattern is held against `names`, which are sorted."""
    prefix = _prefix(acl)
    if prefix is None:
        if acl.topic in remotes:
            yield acl.topic
        return
    for at in range(bisect_left(names, prefix), len(names)):
        if not names[at].startswith(prefix):
            return
        yield names[at]
