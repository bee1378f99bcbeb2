"""Whether MirrorMaker 2 runs the flow. No fence stops it, so nothing is copied beside it.

| MirrorMaker 2 runs …           | what proves it                                                                        |
|--------------------------------|---------------------------------------------------------------------------------------|
| by itself (dedicated)          | its workers are members of the group `A-mm2` on the target, and its settings there    |
|                                | enable the flow; the workers of a flow that is off write only heartbeats              |
| as connectors of other workers | foreign records keep arriving in the copy of the source's heartbeats, while nothing   |
|                                | of ours is written there                                                              |
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass
from typing import NamedTuple

from sparkmirror.clusters import LATEST, ClusterClient, is_right_missing, list_offsets
from sparkmirror.clusters.members import DescribedGroup, describe_groups
from sparkmirror.config import FlowSettings
from sparkmirror.driver.flow_context import FlowContext
from sparkmirror.driver.owning import OwningInterrupted
from sparkmirror.errors import BrokerRefused, FlowOwnedByAnother
from sparkmirror.model import TopicPartition
from sparkmirror.state import read_settled
from sparkmirror.state.internal_topics import RecordList
from sparkmirror.topology import policy_for
from sparkmirror.wire import MalformedInternalRecord, connect_tasks

CHORE = "MirrorMaker 2"
GROUPS = "__consumer_offsets"
CONNECT = "connect"
SOURCE_CONNECTOR = "MirrorSourceConnector"
SETTINGS_KEY = f"connector-{SOURCE_CONNECTOR}".encode()
# A worker joins its group a second or more before its tasks read the stored positions: what is copied and stored until then
# is not copied twice. With a look each 5 s, 5,000 records were, at 1,000 a second.
LOOK_S = 1.0
HELD_LOOK_S = 0.5
UNDECIDED_S_MAX = 30.0
# A killed worker stays a member until its session ends (Connect's session.timeout.ms: 10 s).
SESSION_S = 12.0
WAIT_S = 0.5
HELD_S_MIN = 5.0
HEARTBEATS_AWAITED = 3
NOT_SEEN = -1
HINT = "stop MirrorMaker 2 first: nothing fences it, not even --take-over"


class Sighting(NamedTuple):
    """Why the flow must not be copied, empty if it may; `is_undecided` if workers are there and their settings are not."""

    is_undecided: bool
    reason: str


def has_groups(client: ClusterClient) -> bool:
    """Whether there ever was a group; asking for one would create the topic that they are kept in."""
    topic = client.view([GROUPS]).topics.get(GROUPS)
    return topic is not None and (not topic.error or is_right_missing(topic.error))


def find_mirror_maker(client: ClusterClient, flow: FlowSettings) -> Sighting:
    """Whether a dedicated MirrorMaker 2 runs the flow. Two requests to the target where it does not."""
    group = describe_groups(client, [flow.group_id])[flow.group_id]
    if not group.members or group.protocol_type != CONNECT:
        return Sighting(False, "")
    copies = _copies(client, flow, group)
    if not copies:
        return Sighting(copies is None, "")
    workers = group.named_members()
    return Sighting(False, f"{flow.name} is run by MirrorMaker 2: group {group.name} on {client.alias} has {workers}")


def _copies(client: ClusterClient, flow: FlowSettings, group: DescribedGroup) -> bool | None:
    """Whether the workers copy, or will: what they run says so, or the settings that their leader wrote; None: not yet."""
    try:
        tasks = {task for member in group.members for task in connect_tasks(member.metadata, member.assignment)}
    except MalformedInternalRecord:
        return True
    return True if any(name == SOURCE_CONNECTOR for name, _ in tasks) else _is_enabled(client, flow)


def _is_enabled(client: ClusterClient, flow: FlowSettings) -> bool | None:
    """Nothing is copied before the connector's settings are written (None); those that cannot be read may say yes."""
    found = RecordList()
    try:
        read_settled(client, flow.config_storage_topic, found)
    except BrokerRefused as error:
        if not is_right_missing(error.error_code):
            raise
        return True
    values = [record.value for record in found.records if record.key == SETTINGS_KEY]
    if not values or values[-1] is None:
        return None
    try:
        enabled = json.loads(values[-1])["properties"].get("enabled", "true")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return True
    return str(enabled).strip().lower() == "true"


class _Heartbeats(NamedTuple):
    """The copy of heartbeats that holds foreign records: where its log ended after ours had stopped, and when to give up."""

    target: TopicPartition
    end: int
    until: float


@dataclass(slots=True)
class Mm2Watch:
    """Looks for MirrorMaker 2 before anything is written and while the flow is owned; `error` is what ends the flow."""

    context: FlowContext
    error: FlowOwnedByAnother | None = None
    _due: float = 0.0
    _heartbeats: _Heartbeats | None = None
    _undecided_since: float | None = None
    _has_groups: bool = False

    def refuse(self, stop: threading.Event) -> None:
        """Raises FlowOwnedByAnother if MirrorMaker 2 runs the flow; first waits until a killed worker leaves its group."""
        status, deadline = self.context.status, time.monotonic() + SESSION_S
        while (found := self._find()).reason or self._is_undecided:
            if found.reason and time.monotonic() > deadline:
                raise FlowOwnedByAnother(found.reason, hint=HINT)
            status.reason = f"is MirrorMaker 2 alive? {found.reason}".rstrip()
            if stop.wait(WAIT_S):
                raise OwningInterrupted
        status.reason = ""

    @property
    def holds(self) -> bool:
        """Whether nothing is to be copied until it is known who else writes."""
        return self._heartbeats is not None or self._is_undecided

    @property
    def _is_undecided(self) -> bool:
        since = self._undecided_since
        return since is not None and time.monotonic() - since < UNDECIDED_S_MAX

    def suspect(self, partition: TopicPartition) -> None:
        """A foreign record was seen in the partition's copy: looks at once, and holds everything if it is a heartbeat."""
        context, self._due = self.context, 0.0
        topic = context.topics.get(partition.topic)
        is_heartbeat = policy_for(context.flow).is_heartbeats_topic(partition.topic)
        if topic is None or self._heartbeats is not None or not is_heartbeat:
            return
        target = TopicPartition(topic.remote, partition.partition)
        pause = max(HEARTBEATS_AWAITED * context.flow.emit_heartbeats_interval_seconds, HELD_S_MIN)
        self._heartbeats = _Heartbeats(target, NOT_SEEN, time.monotonic() + pause)

    def look(self) -> None:
        """One look, if it is due."""
        now = time.monotonic()
        if now >= self._due:
            found = self._find()
            self._due = now + (HELD_LOOK_S if self.holds else LOOK_S)
            if found.reason:
                self.error = FlowOwnedByAnother(found.reason, hint=HINT)
            self._watch_heartbeats()

    def _watch_heartbeats(self) -> None:
        """Their copy grows while our own is stopped: somebody else copies them now."""
        seen = self._heartbeats
        if seen is None or self.error is not None:
            return
        end = self._end(seen.target)
        if seen.end == NOT_SEEN:
            self._heartbeats = seen._replace(end=end)
            return
        grown = end - seen.end
        flow, alias = self.context.flow.name, self.context.target.alias
        if grown > 0:
            self.error = FlowOwnedByAnother(
                f"{flow} is copied by another program, such as a MirrorMaker 2 inside Kafka Connect: {grown} records that "
                f"are not ours arrived in {seen.target} on {alias} meanwhile",
                hint=f"find who writes there and stop it: {HINT}",
            )
        elif time.monotonic() > seen.until:
            self._heartbeats = None

    def _end(self, target: TopicPartition) -> int:
        return list_offsets(self.context.target, [target], timestamp=LATEST)[target][0]

    def _find(self) -> Sighting:
        """What is found; a right that is missing is reported and keeps nobody from copying."""
        context, chores, found = self.context, self.context.status.chores, Sighting(False, "")
        try:
            self._has_groups = self._has_groups or has_groups(context.target)
            if self._has_groups:
                found = find_mirror_maker(context.target, context.flow)
        except BrokerRefused as error:
            if not is_right_missing(error.error_code):
                raise
            chores[CHORE] = f"it cannot be seen whether it runs this flow: {error.message}"
        else:
            if chores.get(CHORE):
                chores[CHORE] = ""
        if not found.is_undecided:
            self._undecided_since = None
        elif self._undecided_since is None:
            self._undecided_since = time.monotonic()
        return found
