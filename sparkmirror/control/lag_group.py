"""The mirror's own position as a consumer group on the source, so that any lag tool shows how far behind it is.

It is a picture, not a state: nothing is ever read back from it.
"""

from __future__ import annotations

import time

from sparkmirror.clusters import ClusterClient, Committed, commit_offsets, refusal
from sparkmirror.model import TopicPartition
from sparkmirror.status import FlowStatus
from sparkmirror.topology import ReplicationPolicy, lag_group
from sparkmirror.wire.error_codes import (
    CLUSTER_AUTHORIZATION_FAILED,
    GROUP_AUTHORIZATION_FAILED,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)

# Offsets of a group without members expire (7 days by default): all are committed again long before.
AGAIN_S = 3600.0
# A source that may only be read refuses a commit with these.
COMMIT_FORBIDDEN = frozenset(
    {TOPIC_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED}
)
GONE = frozenset({UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID})


class LagGroup:
    """Commits where the copy is proven up to; not of heartbeats, so that what is copied can sum to 0."""

    def __init__(self, status: FlowStatus, source: ClusterClient, policy: ReplicationPolicy) -> None:
        self._status, self._source, self._policy = status, source, policy
        self._group = lag_group(status.name.target)
        self._committed: dict[TopicPartition, int] = {}
        self._again_due = time.monotonic() + AGAIN_S
        self._is_off = False

    def commit(self) -> list[str]:
        """One round: what moved since the last one."""
        if self._is_off:
            return []
        if time.monotonic() > self._again_due:
            self._committed.clear()
            self._again_due = time.monotonic() + AGAIN_S
        known = [p for p in list(self._status.partitions.values()) if p.lag is not None and not p.is_gone]
        now = {p.partition: p.next_upstream for p in known if not self._policy.is_heartbeats_topic(p.partition.topic)}
        moved = {p: offset for p, offset in now.items() if self._committed.get(p) != offset}
        if not moved:
            return []
        codes = commit_offsets(self._source, self._group, {p: Committed(offset, "") for p, offset in moved.items()})
        self._committed |= {p: moved[p] for p, code in codes.items() if not code}
        failed = {p: code for p, code in codes.items() if code and code not in GONE}
        if COMMIT_FORBIDDEN & set(failed.values()):
            # Many sources may only be read, and the mirror's lag is in its own output too. A right that was there once is
            # missed, though.
            self._is_off = not self._committed
        if failed and not self._is_off:
            place, code = next(iter(failed.items()))
            needs = f"Read on topic {place.topic}" if code == TOPIC_AUTHORIZATION_FAILED else f"Read on group {self._group}"
            text = refusal(code, self._source.who, needs)
            return [f"group {self._group} on {self._source.alias}: commit for {place} refused: {text}"]
        return []
