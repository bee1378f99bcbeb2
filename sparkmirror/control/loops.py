"""Refuses a flow whose copies would come back to where they come from, whoever runs the other flows.

Names that keep the source's alias out (IdentityReplicationPolicy, some custom policies) do not tell where a topic comes
from. So such a flow looks at the ledgers on both of its clusters: each names the cluster that it copies from and the topics.
Two processes that start at the same time must not both pass: each first writes to its own ledger what it is about to copy,
then reads the others' ledgers, and copies only after that. At least one of them sees the other.

Flows of the same file count while they are enabled; those of other files while their owner is alive, so that a mirror may be
turned round after its owner has ended.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field

from sparkmirror.clusters import ClusterClient, ClusterView, append_records, is_right_missing
from sparkmirror.config import FlowSettings
from sparkmirror.errors import BrokerRefused, ClusterError, ReplicationLoop
from sparkmirror.ledger import CopiedTopic, encode, removed
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.state import FollowedTopic, RouteTable, owner_status
from sparkmirror.topology import (
    CopyLoop,
    FileFlow,
    ForeignFlow,
    KnownFlow,
    find_loops,
    ledger_topic,
    may_loop,
    one_cluster,
    policy_for,
    refusal_of,
    split_heartbeats,
)

Seen = tuple[ClusterClient, ClusterView]

_LEDGER = re.compile(r"mm2-ledger\.(.+)\.internal")
# An owner that is to be called gone is watched as long as by a process that would take its flow.
OWNER_WATCH_S = 15.0
# A process that starts and is refused lets go within a moment: only a loop that is still there then ends a running flow.
CONFIRM_S = 5.0
PAUSE_S = 0.5
PLAN_WATCH_S = 6.5  # nothing is copied by a plan: the time in which an owner that is well writes a heartbeat


class KnownFlows:
    """What the flows of one process know of all flows: cluster ids, and the ledgers that each has read. Thread-safe."""

    def __init__(self, flows: Sequence[FlowSettings]) -> None:
        self._flows = [flow for flow in flows if flow.enabled]
        self._ids: dict[str, str] = {}
        self._file_flows: dict[FlowName, FileFlow] = {}
        self._ledger_flows: dict[tuple[str, str], ForeignFlow | None] = {}
        self._lock = threading.Lock()

    def renew(self, flows: Sequence[FlowSettings]) -> None:
        """The flows of the file have other settings now."""
        with self._lock:
            self._flows = list(flows)
            self._file_flows.clear()

    def see(self, alias: str, cluster_id: str) -> None:
        """Which cluster an alias means."""
        with self._lock:
            self._ids[alias] = cluster_id

    def read(self, cluster_id: str, ledger: str, found: ForeignFlow | None) -> None:
        """What a ledger says; None if nobody owns its flow."""
        with self._lock:
            self._ledger_flows[cluster_id, ledger] = found

    @property
    def aliases(self) -> dict[str, str]:
        """Aliases by cluster id."""
        with self._lock:
            return {cluster_id: alias for alias, cluster_id in self._ids.items()}

    def id_of(self, alias: str) -> str:
        """The id of the cluster that an alias of the file means; one that no cluster has if it is not known."""
        return self._ids.get(alias) or f"?{alias}"

    def of_file(self, flow: FlowSettings) -> FileFlow:
        """A flow of the file; a cluster that was not seen yet has an id that no cluster has."""
        source_id, target_id = self.id_of(flow.name.source), self.id_of(flow.name.target)
        known = self._file_flows.get(flow.name)
        if known is None or (known.source_id, known.target_id) != (source_id, target_id):
            known = self._file_flows[flow.name] = FileFlow(flow, source_id, target_id)
        return known

    def others(self, ours: FlowSettings) -> list[KnownFlow]:
        """All flows but one: those of the file, and those of ledgers that are of no flow of the file."""
        with self._lock:
            mine = self.of_file(ours)
            of_file = [self.of_file(flow) for flow in self._flows if flow.name != ours.name]
            covered = {(flow.source_id, flow.target_id) for flow in (mine, *of_file)}
            ledgers = [flow for flow in self._ledger_flows.values() if flow is not None]
            return [*of_file, *(flow for flow in ledgers if (flow.source_id, flow.target_id) not in covered)]


@dataclass(frozen=True, slots=True)
class LoopVerdict:
    """What would come back: the loops that are refused, topics of heartbeats that are left out, ledgers not read and why."""

    loops: tuple[CopyLoop, ...] = ()
    left_out: frozenset[str] = frozenset()
    unread: tuple[str, ...] = ()


@dataclass(slots=True)
class _Ledger:
    """A ledger on one of the flow's clusters."""

    client: ClusterClient
    topic: str
    followed: FollowedTopic[RouteTable]


@dataclass(slots=True)
class LoopWatch:
    """Looks whether what one flow copies would come back. For one thread."""

    flow: FlowSettings
    known: KnownFlows
    watch_s: float = OWNER_WATCH_S
    _ledgers: dict[tuple[str, str], _Ledger] = field(default_factory=dict)
    _gone: dict[tuple[str, str], object] = field(default_factory=dict)  # owners that were found to be gone

    @property
    def is_needed(self) -> bool:
        """Whether ledgers are to be read: not where names tell where a topic comes from, nor where loops are allowed."""
        return not self.flow.replication_loops_allowed and may_loop(self.flow)

    def refuse_one_cluster(self, source: ClusterView, target: ClusterView) -> None:
        """Raises if source and target are one cluster, whatever their aliases and addresses."""
        is_one = source.cluster_id and source.cluster_id == target.cluster_id
        if is_one and not self.flow.replication_loops_allowed:
            raise one_cluster(self.flow, source.cluster_id)

    def announce(self, topics: Mapping[str, str], target: Seen) -> None:
        """Says in the flow's own ledger what it is about to copy, and no longer what it does not."""
        place = TopicPartition(ledger_topic(self.flow.name.source), 0)
        client, view = target
        found = self._follow(client, view.cluster_id, place.topic)
        before = {} if found is None else dict(found.announced)
        new = [encode(CopiedTopic(topic, remote)) for topic, remote in topics.items() if before.get(topic) != remote]
        gone = [removed("topic", topic) for topic in before if topic not in topics]
        if new or gone:
            append_records(client, place, [*new, *gone], int(time.time() * 1000))

    def look(
        self,
        topics: Collection[str],
        source: Seen,
        target: Seen,
        while_waiting: Callable[[], None] = lambda: None,
    ) -> LoopVerdict:
        """What of these topics would come back, through flows that run."""
        for client, view in (source, target):
            self.known.see(client.alias, view.cluster_id)
        unread = [words for client, view in (source, target) for words in self._read_ledgers(client, view)]
        loops = self._loops(topics)
        checked: dict[tuple[str, str], bool] = {}
        for loop in loops:
            for other in loop.others:
                if isinstance(other, ForeignFlow):
                    key = (other.target_id, other.ledger)
                    if key not in checked:
                        checked[key] = self._is_alive(key, while_waiting)
        if not all(checked.values()):
            loops = self._loops(topics)  # without those whose owner has gone
        refused, left_out = split_heartbeats(policy_for(self.flow), loops)
        return LoopVerdict(tuple(refused), frozenset(left_out), tuple(unread))

    def look_now(self, source: ClusterClient, target: ClusterClient) -> LoopVerdict:
        """What a run would find at its start."""
        if not self.is_needed:
            return LoopVerdict()
        there, here = source.view(None), target.view(None)
        names = [topic.name for topic in there.topics.values() if not topic.is_internal and not topic.error]
        return self.look(names, (source, there), (target, here))

    def refusal(self, loops: Sequence[CopyLoop]) -> ReplicationLoop:
        """The error for these loops."""
        return refusal_of(self.known.of_file(self.flow), loops, self.known.aliases)

    def _loops(self, topics: Collection[str]) -> list[CopyLoop]:
        return list(find_loops(self.known.of_file(self.flow), topics, self.known.others(self.flow)))

    def _read_ledgers(self, client: ClusterClient, view: ClusterView) -> list[str]:
        unread = []
        for name, found in view.topics.items():
            match = _LEDGER.fullmatch(name)
            if match is None or found.error:
                continue
            try:
                table = self._follow(client, view.cluster_id, name)
            except BrokerRefused as error:
                if not is_right_missing(error.error_code):
                    raise
                unread.append(f"{error.message}: loops through its flow cannot be seen")
                continue
            assert table is not None
            self._publish(client, view.cluster_id, name, table)
        return unread

    def _publish(self, client: ClusterClient, cluster_id: str, name: str, table: RouteTable) -> None:
        owner, match = table.owner, _LEDGER.fullmatch(name)
        assert match is not None
        found = None
        if owner is not None and not owner.released and self._gone.get((cluster_id, name)) != owner:
            title = f"{match[1]}->{client.alias}, owner {owner.name}"
            # Owners of former versions do not say which cluster they read: then the alias must be one of this file.
            source_id = owner.source_cluster_id or self.known.id_of(match[1])
            found = ForeignFlow(title, source_id, cluster_id, name, owner.name, table.routes)
        self.known.read(cluster_id, name, found)

    def _follow(self, client: ClusterClient, cluster_id: str, name: str) -> RouteTable | None:
        known = self._ledgers.get((cluster_id, name))
        if known is None:
            known = self._ledgers[cluster_id, name] = _Ledger(client, name, FollowedTopic(name, RouteTable))
        return known.followed.read_on(client)

    def _is_alive(self, key: tuple[str, str], while_waiting: Callable[[], None]) -> bool:
        """Whether the flow of a ledger runs; one on a cluster that is not ours counts as long as it was not released."""
        ledger = self._ledgers.get(key)
        if ledger is None:
            return True
        table = ledger.followed.table
        status = owner_status(ledger.client, ledger.topic, table, watch_s=self.watch_s, while_waiting=while_waiting)
        if status.state != "alive" and table.owner is not None:
            self._gone[key] = table.owner
        self._publish(ledger.client, key[0], ledger.topic, table)
        return status.state == "alive"


class LoopGuard:
    """What a run does about loops: says what it copies, then refuses, stops a new topic, or leaves heartbeats out."""

    def __init__(self, watch: LoopWatch) -> None:
        self._watch = watch
        self._copied: frozenset[str] | None = None  # topics that were found to be in no loop; None before the first look

    def renew(self, flow: FlowSettings) -> None:
        """Goes on with other settings of the flow."""
        self._watch.flow = flow

    def judge(
        self, topics: Mapping[str, str], source: Seen, target: Seen, while_waiting: Callable[[], None]
    ) -> tuple[Collection[str], dict[str, str], tuple[str, ...]]:
        """Topics that are left out, new topics that are stopped, with the reason, and what could not be read.

        Raises for a loop at the first look, or of a topic that is being copied already.
        """
        watch = self._watch
        watch.refuse_one_cluster(source[1], target[1])
        if not watch.is_needed:
            return (), {}, ()
        watch.announce(topics, target)
        verdict = watch.look(topics, source, target, while_waiting)
        copied = self._copied
        if any(copied is None or loop.topic in copied for loop in verdict.loops):
            if copied is not None:
                _wait(CONFIRM_S, while_waiting)
                verdict = watch.look(topics, source, target, while_waiting)
            loops = [loop for loop in verdict.loops if copied is None or loop.topic in copied]
            if loops:
                raise watch.refusal(loops)
        looping = {loop.topic: str(watch.refusal([loop])) for loop in verdict.loops}
        if looping or verdict.left_out:
            topics = {topic: topics[topic] for topic in topics if topic not in looping and topic not in verdict.left_out}
            watch.announce(topics, target)
        self._copied = frozenset(topics)
        return verdict.left_out, looping, verdict.unread


@dataclass(frozen=True, slots=True)
class LoopReport:
    """Flows that a run would refuse at its start, and what could not be read about the others."""

    refused: Mapping[FlowName, ReplicationLoop]
    unread: Mapping[FlowName, tuple[str, ...]]


def report_loops(flows: Sequence[FlowSettings], known: KnownFlows) -> LoopReport:
    """Looks at flows that do not run yet. A cluster that does not answer is left to who asks it next."""
    refused: dict[FlowName, ReplicationLoop] = {}
    unread: dict[FlowName, tuple[str, ...]] = {}
    with ExitStack() as opened:
        clients = {
            settings.alias: opened.enter_context(closing(ClusterClient(settings, any_release=True)))
            for flow in flows
            for settings in (flow.source, flow.target)
        }
        views = {alias: view for alias, client in clients.items() if (view := _view_of(client)) is not None}
        for alias, view in views.items():
            known.see(alias, view.cluster_id)
        for flow in flows:
            source, target = flow.name.source, flow.name.target
            if source not in views or target not in views:
                continue
            watch = LoopWatch(flow, known, PLAN_WATCH_S)
            try:
                watch.refuse_one_cluster(views[source], views[target])
                verdict = watch.look_now(clients[source], clients[target])
                unread[flow.name] = verdict.unread
                if verdict.loops:
                    raise watch.refusal(verdict.loops)
            except ReplicationLoop as error:
                refused[flow.name] = error
            except ClusterError as error:
                unread[flow.name] = (f"{flow.name}: loops cannot be seen: {error.message}",)
    return LoopReport(refused, unread)


def _view_of(client: ClusterClient) -> ClusterView | None:
    try:
        return client.view(())
    except ClusterError:
        return None


def _wait(seconds: float, while_waiting: Callable[[], None]) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        while_waiting()
        time.sleep(PAUSE_S)
