"""Rights of one flow: read on the source, added on the target, never removed there.

A DENY is created before any ALLOW, and a refused DENY keeps back every ALLOW on its topic: there is no moment at which
the target allows what the source denies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sparkmirror.clusters import ClusterClient, create_topic_acls, describe_topic_acls
from sparkmirror.config import FlowSettings
from sparkmirror.model import Acl
from sparkmirror.topology import acls_for_target, policy_for

# Bounds the time of one round (20 requests); the next one sees what is there and goes on with the rest.
ACLS_PER_ROUND_MAX = 10_000


class AclSync:
    """Brings the source's rights on topics to the target; whether and how often is the caller's choice."""

    def __init__(self, flow: FlowSettings) -> None:
        self._flow = flow
        self._policy = policy_for(flow)

    def run(self, source: ClusterClient, target: ClusterClient) -> list[str]:
        """One round; what the user should know, a sentence each. Raises if rights cannot be read at all."""
        acls = describe_topic_acls(source)
        if acls is None:
            return []  # no authorizer: everybody may do everything there, and there are no rights to copy
        topics = [t.name for t in source.view(None).topics.values() if not t.is_internal and t.error == 0]
        wanted = acls_for_target(self._flow, self._policy, acls, topics)
        return _add(target, wanted) if wanted else []


def _add(target: ClusterClient, wanted: Sequence[Acl]) -> list[str]:
    """Creates what is missing of `wanted`."""
    present = describe_topic_acls(target)
    if present is None:
        return [
            f"cluster {target.alias} has no authorizer, so {_count(wanted)} of the source cannot be copied and everybody "
            "may read the copies; set authorizer.class.name on its brokers, or sync.topic.acls.enabled = false"
        ]
    there = frozenset(present)
    missing = [acl for acl in wanted if acl not in there]
    now, later = missing[:ACLS_PER_ROUND_MAX], missing[ACLS_PER_ROUND_MAX:]
    verdicts = create_topic_acls(target, [acl for acl in now if acl.permission == "DENY"])
    undenied = {acl.topic for acl, refusal in verdicts.items() if refusal is not None}
    allowed = [acl for acl in now if acl.permission == "ALLOW"]
    verdicts |= create_topic_acls(target, [acl for acl in allowed if acl.topic not in undenied])
    notes = list(_refusals(target, verdicts))
    if held := [acl for acl in allowed if acl.topic in undenied]:
        notes.append(f"cluster {target.alias} does not get {_count(held)} before the refused DENY on the same topic")
    if later:
        notes.append(f"cluster {target.alias} lacks more than {ACLS_PER_ROUND_MAX} rights; the next rounds add the rest")
    return notes


def _refusals(target: ClusterClient, verdicts: Mapping[Acl, str | None]) -> Iterator[str]:
    """One sentence for each reason, however many rights it kept out."""
    refused: dict[str, list[Acl]] = {}
    for acl, reason in verdicts.items():
        if reason is not None:
            refused.setdefault(reason, []).append(acl)
    for reason, acls in refused.items():
        yield f"cluster {target.alias} refuses {_count(acls)}, first {acls[0]}: {reason}"


def _count(acls: Sequence[Acl]) -> str:
    return f"{len(acls)} right{'s' if len(acls) != 1 else ''}"
