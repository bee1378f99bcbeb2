"""The mirror's lag as the consumer group `connect-MirrorSourceConnector` on the target, as documents about MM2 ask for it.

For each remote partition the group has committed its end minus the source's lag, so that Kafka's tools show the source's
lag. While the flow is copied the group has a member for it; without one, the tools say that it has no active members. It is
a picture, not a state: nothing is ever read back from it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from sparkmirror.clusters import (
    LATEST,
    ClusterClient,
    Committed,
    GroupMembership,
    JoinedMember,
    commit_offsets,
    list_offsets,
    refusal,
)
from sparkmirror.config import FlowSettings
from sparkmirror.control.lag_group import COMMIT_FORBIDDEN, GONE
from sparkmirror.errors import BrokerRefused, InternalError, SparkmirrorError
from sparkmirror.model import TopicPartition
from sparkmirror.status import FlowStatus, PartitionStatus, partition_lag
from sparkmirror.topology import LAG_GROUP, policy_for
from sparkmirror.wire.error_codes import (
    ILLEGAL_GENERATION,
    REBALANCE_IN_PROGRESS,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_MEMBER_ID,
)

CHORE = "target lag group"
ROUND_S, PER_ROUND_S, PAUSE_S = 1.0, 2_000, 0.2
BEAT_S = 3.0  # a third of the session
# All ends are asked for again: a fence marker, or a foreign record, moves an end without a record of ours.
ALL_S, ALL_PER_S = 30.0, 200
RETRY_S, FORBIDDEN_S = 5.0, 60.0
ASSIGNED_MAX = 4_000  # a group's metadata is one record, which brokers refuse above 1 MB
NOTHING = -1  # Kafka's tools show an unknown lag for it
RETIRED = frozenset({ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS})
NOT_COPYING = frozenset({"starting", "taking ownership", "standby", "failed", "stopping", "stopped"})
_Look = tuple[int, int | None, str, float]


class TargetLag:
    """What is committed for one flow, as its status moves on."""

    def __init__(self, flow: FlowSettings, status: FlowStatus, target: ClusterClient) -> None:
        self._status, self._target = status, target
        self._policy = policy_for(flow)
        self._seen: dict[TopicPartition, _Look] = {}  # by partition on the target: what its commit was made from
        self._again_due = 0.0
        self.has_committed = False

    def partitions(self) -> dict[TopicPartition, PartitionStatus]:
        """The remote partitions of all that is copied, without heartbeats: these never stand still."""
        status = self._status
        return {
            TopicPartition(status.remote(p.partition.topic), p.partition.partition): p
            for p in list(status.partitions.values())
            if not p.is_gone and not self._policy.is_heartbeats_topic(p.partition.topic)
        }

    def commit(self, member: JoinedMember | None = None) -> list[str]:
        """One round: what moved since the last one; returns what could not be committed, in sentences."""
        now, shown = time.monotonic(), replace(self._status, taken_ms=int(time.time() * 1000))
        partitions = self.partitions()
        if now >= self._again_due:
            self._seen.clear()
            self._again_due = now + max(ALL_S, len(partitions) / ALL_PER_S)
        looks = {place: (p.next_upstream, partition_lag(shown, p), p.state, p.taken_at) for place, p in partitions.items()}
        moved = {place: look for place, look in looks.items() if self._seen.get(place) != look}
        if not moved:
            return []
        view = self._target.view({place.topic for place in moved})
        ends = list_offsets(self._target, [place for place in moved if view.leader(place) is not None], timestamp=LATEST)
        commits = {place: Committed(position(ends[place][0], moved[place][1], moved[place][2]), "") for place in ends}
        if not commits:
            return []
        codes = commit_offsets(self._target, LAG_GROUP, commits, member)
        self._seen |= {place: moved[place] for place, code in codes.items() if not code}
        self.has_committed = self.has_committed or 0 in codes.values()
        return self._refused({place: code for place, code in codes.items() if code and code not in GONE})

    def commit_alone(self) -> list[str]:
        """The same for a run that joins no group: where another mirror is a member, its figures count."""
        try:
            return self.commit()
        except BrokerRefused as error:
            return [str(error)] if self.has_committed and error.error_code not in RETIRED else []

    def _refused(self, codes: Mapping[TopicPartition, int]) -> list[str]:
        if not codes:
            return []
        place, code = next(iter(codes.items()))
        if code in COMMIT_FORBIDDEN or code in RETIRED:
            needs = f"Read on topic {place.topic}" if code == TOPIC_AUTHORIZATION_FAILED else f"Read on group {LAG_GROUP}"
            raise BrokerRefused(
                f"group {LAG_GROUP} on {self._target.alias}: {refusal(code, self._target.who, needs)}", error_code=code
            )
        return [f"group {LAG_GROUP} on {self._target.alias}: commit for {place}: {refusal(code, self._target.who, '')}"]


def position(end: int, lag: int | None, state: str) -> int:
    """What to commit, so that Kafka's tools show the lag: never 0 unless nothing is left to copy."""
    is_shown = lag is not None and (lag > 0 or state != "stopped")
    if not is_shown or lag is None or (lag and not end):
        return NOTHING  # of an empty copy no tool shows a lag
    return max(end - lag, 0)


class TargetLagMember:
    """The member of the group for one flow: there while the flow is copied, and gone with it."""

    def __init__(self, flow: FlowSettings, status: FlowStatus, *, is_over: Callable[[], bool]) -> None:
        self._status, self._is_over = status, is_over
        self._target = ClusterClient(flow.target)
        self._lag = TargetLag(flow, status, self._target)
        self._membership = GroupMembership(self._target, LAG_GROUP, f"sparkmirror-{flow.name}")
        self._joined: list[TopicPartition] | None = None
        self._beat_due = self._due = 0.0

    def renew(self, flow: FlowSettings) -> None:
        """Connects as the flow's settings say from now on. Any thread may ask for it."""
        self._target.renew(flow.target)

    def run(self) -> None:
        """Until the flow is over."""
        try:
            while not self._is_over():
                now = time.monotonic()
                if now >= self._due:
                    self._due = now + max(ROUND_S, len(self._status.partitions) / PER_ROUND_S)
                    self._try(self._round)
                time.sleep(PAUSE_S)
            self._try(self._end)
        finally:
            self._target.close()

    def _round(self) -> list[str]:
        if self._status.state in NOT_COPYING:
            self._membership.leave()
            self._joined = None
            return []
        places = sorted(self._lag.partitions())
        places = places if len(places) <= ASSIGNED_MAX else []
        now = time.monotonic()
        if now >= self._beat_due or places != self._joined:
            if places != self._joined or not self._membership.beat():
                self._membership.join(places)
                self._joined = places
            self._beat_due = now + BEAT_S
        return self._lag.commit(self._membership.member)

    def _end(self) -> list[str]:
        """The last figures, and nobody copies any more."""
        notes: list[str] = []
        if self._membership.member is not None:
            if self._status.is_given_back:
                notes = self._lag.commit(self._membership.member)
            self._membership.leave()
        return notes

    def _try(self, action: Callable[[], list[str]]) -> None:
        try:
            trouble = "; ".join(action())
        except BrokerRefused as error:
            trouble = self._after(error)
        except SparkmirrorError as error:
            trouble = self._again(str(error))
        except Exception as error:  # noqa: BLE001  border of a thread: it must not end in silence
            trouble = self._again(str(InternalError(f"{type(error).__name__}: {error}")))
        if trouble or CHORE in self._status.chores:
            self._status.chores[CHORE] = trouble

    def _after(self, error: BrokerRefused) -> str:
        if error.error_code in RETIRED:
            self._joined = None  # the group began anew: join again at once
            return ""
        trouble = self._again(str(error))
        if error.error_code in COMMIT_FORBIDDEN and not self._lag.has_committed:
            self._due = time.monotonic() + FORBIDDEN_S
            return ""  # its lag is in the mirror's own output too; a right that was there once is missed, though
        return trouble

    def _again(self, trouble: str) -> str:
        self._joined, self._due = None, time.monotonic() + RETRY_S
        return trouble
