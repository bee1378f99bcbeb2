"""Each flow as the three connectors that MirrorMaker 2 is made of, with Connect's states, tasks and documents. Pure.

A flow's connectors are called as Strimzi calls them, `A->B.MirrorSourceConnector`. The plain class names are those of the
only flow, or of all flows together: the worst state and every task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from sparkmirror.config import FlowSettings
from sparkmirror.ledger import PAUSED, STOPPED, flow_wish
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.status import FlowStatus, PartitionStatus

PACKAGE = "org.apache.kafka.connect.mirror"
# Connect's release whose REST answers these are, with our name behind it as vendors have theirs.
VERSION = "4.3.1-sparkmirror"
TRACE_LINES_MAX = 20

Document = dict[str, object]


class MirrorRole(Enum):
    """What a connector does; its value is the class's short name."""

    SOURCE = "MirrorSourceConnector"
    CHECKPOINT = "MirrorCheckpointConnector"
    HEARTBEAT = "MirrorHeartbeatConnector"

    @property
    def connector(self) -> str:
        """As requests call it: "source", "checkpoint" or "heartbeat"."""
        return self.name.lower()

    @property
    def task_class(self) -> str:
        """Of its tasks."""
        return f"{PACKAGE}.{self.value.removesuffix('Connector')}Task"


class ConnectState(Enum):
    """Connect's states of connectors and tasks, the worst first."""

    FAILED = "FAILED"
    RESTARTING = "RESTARTING"
    UNASSIGNED = "UNASSIGNED"
    STOPPED = "STOPPED"
    PAUSED = "PAUSED"
    RUNNING = "RUNNING"


_RANKS = {state: rank for rank, state in enumerate(ConnectState)}
_OF_FLOW = {
    "starting": ConnectState.UNASSIGNED, "taking ownership": ConnectState.UNASSIGNED, "standby": ConnectState.UNASSIGNED,
    "failed": ConnectState.FAILED, "failed over": ConnectState.STOPPED, "recovering": ConnectState.RESTARTING,
}  # fmt: skip
_OF_PARTITION = {"stopped": ConnectState.FAILED, "recovering": ConnectState.RESTARTING}
_OF_WISH = {PAUSED: ConnectState.PAUSED, STOPPED: ConnectState.STOPPED}


@dataclass(frozen=True, slots=True)
class ConnectorTask:
    """One task: a slot with the partitions that it copies, or the work of a chore."""

    state: ConnectState
    trace: str = ""
    partitions: tuple[TopicPartition, ...] = ()
    slot: int | None = None


@dataclass(frozen=True, slots=True)
class MirrorConnector:
    """One connector of one flow."""

    flow: FlowName
    kind: MirrorRole
    config: Mapping[str, str]
    state: ConnectState
    trace: str
    tasks: tuple[ConnectorTask, ...]
    topics: tuple[str, ...] = ()
    offsets: tuple[Document, ...] = ()
    partitions: frozenset[TopicPartition] = frozenset()  # that a source connector copies, or would if it ran

    @property
    def name(self) -> str:
        """As Strimzi calls it."""
        return f"{self.flow}.{self.kind.value}"


# --- from a flow to its connectors ---------------------------------------------------------------------------------


def connectors_of(flow: FlowSettings, status: FlowStatus, texts: Mapping[str, str]) -> list[MirrorConnector]:
    """The connectors that a flow of the file has; `texts` are their settings as the file writes them, without secrets."""
    found = [_source_connector(flow, status, texts)] if flow.enabled else []
    if flow.enabled and (flow.emit_checkpoints_enabled or flow.sync_group_offsets_enabled):
        found.append(_chore_connector(MirrorRole.CHECKPOINT, ("checkpoints", "group offsets"), flow, status, texts))
    if flow.emits_heartbeats:
        chore = f"heartbeats into {flow.name.target}"
        found.append(_chore_connector(MirrorRole.HEARTBEAT, (chore,), flow, status, texts))
    return found


def _source_connector(flow: FlowSettings, status: FlowStatus, texts: Mapping[str, str]) -> MirrorConnector:
    slots: dict[int, list[PartitionStatus]] = {}
    for partition in status.partitions.values():
        if partition.slot is not None:
            slots.setdefault(partition.slot, []).append(partition)
    unassigned = [p for p in status.partitions.values() if p.slot is None]  # of the transform query, or of no slot yet
    groups = [slots[number] for number in sorted(slots)] + ([unassigned] if unassigned else [])
    own = _own_state(MirrorRole.SOURCE, status)
    topics = [f"topic {topic}: {reason}" for topic, reason in sorted(status.stopped_topics.items())]
    offsets: list[Document] = [
        {
            "partition": {"cluster": flow.name.source, "partition": place.partition, "topic": place.topic},
            "offset": {"offset": partition.next_upstream - 1},
        }
        for place, partition in sorted(status.partitions.items())
        if partition.next_upstream > 0
    ]
    return MirrorConnector(
        flow=flow.name,
        kind=MirrorRole.SOURCE,
        config=_config(MirrorRole.SOURCE, flow, texts),
        state=ConnectState.FAILED if topics and own is ConnectState.RUNNING else own,
        trace=_lines([status.reason] if own is ConnectState.FAILED else topics),
        tasks=() if own is ConnectState.STOPPED else tuple(_source_task(group, own) for group in groups),
        topics=tuple(sorted(set(status.remotes.values()))),
        offsets=tuple(offsets),
        partitions=frozenset(status.partitions),
    )


def _own_state(kind: MirrorRole, status: FlowStatus) -> ConnectState:
    """What the flow does, or what somebody wants of the connector until it is resumed."""
    state, wish = _OF_FLOW.get(status.state, ConnectState.RUNNING), flow_wish(status.wishes, kind.connector)
    return state if wish is None or state is ConnectState.FAILED else _OF_WISH[wish.state]


def _source_task(partitions: Sequence[PartitionStatus], flow_state: ConnectState) -> ConnectorTask:
    """The worst of its partitions; what does not copy stands in the trace."""
    states = [_OF_PARTITION.get(p.state, ConnectState.RUNNING) for p in partitions if p.state != "paused"]
    stopped = [f"{p.partition}: {p.code}: {p.reason}" for p in partitions if p.state == "stopped"]
    places = tuple(sorted(p.partition for p in partitions))
    # A task is paused when each of its partitions is.
    own = flow_state if states or flow_state is not ConnectState.RUNNING else ConnectState.PAUSED
    return ConnectorTask(worst([*states, own]), _lines(stopped), places, partitions[0].slot)


def _chore_connector(
    kind: MirrorRole, chores: Sequence[str], flow: FlowSettings, status: FlowStatus, texts: Mapping[str, str]
) -> MirrorConnector:
    troubles = [f"{chore}: {status.chores[chore]}" for chore in chores if status.chores.get(chore)]
    state = _own_state(kind, status)
    own = ConnectState.FAILED if troubles and state is ConnectState.RUNNING else state
    offsets: list[Document] = []
    if kind is MirrorRole.CHECKPOINT:
        offsets = [
            {"partition": {"partition": key.partition, "topic": key.topic, "group": key.group}, "offset": {"offset": 0}}
            for key in sorted(status.checkpoints)
        ]
    return MirrorConnector(
        flow.name, kind, _config(kind, flow, texts), state, "",
        () if state is ConnectState.STOPPED else (ConnectorTask(own, _lines(troubles)),), offsets=tuple(offsets),
    )  # fmt: skip


def _config(kind: MirrorRole, flow: FlowSettings, texts: Mapping[str, str]) -> dict[str, str]:
    return {**texts, "connector.class": f"{PACKAGE}.{kind.value}", "name": f"{flow.name}.{kind.value}"}


def _lines(found: Sequence[str]) -> str:
    rest = len(found) - TRACE_LINES_MAX
    return "\n".join([*found[:TRACE_LINES_MAX], *([f"and {rest} more"] if rest > 0 else [])])


def worst(states: Sequence[ConnectState]) -> ConnectState:
    """The worst of several states."""
    return min(states, key=lambda state: _RANKS[state], default=ConnectState.UNASSIGNED)


# --- what is meant by a name ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Named:
    """The connectors that a name means: one, or those of all flows under a plain class name."""

    name: str
    parts: tuple[MirrorConnector, ...]

    @property
    def tasks(self) -> list[tuple[MirrorConnector, ConnectorTask]]:
        """Of all parts, in their order."""
        return [(part, task) for part in self.parts for task in part.tasks]


def find(connectors: Sequence[MirrorConnector], name: str) -> Named | None:
    """The connectors of this name; None if there is none."""
    parts = tuple(c for c in connectors if name in (c.name, c.kind.value))
    return Named(name, parts) if parts else None


# --- documents -----------------------------------------------------------------------------------------------------


def status_document(named: Named, worker: str) -> Document:
    """`/connectors/{c}/status`."""
    own = _state(worst([part.state for part in named.parts]), worker, _lines([p.trace for p in named.parts if p.trace]))
    tasks = [task_document(named, at, worker) for at in range(len(named.tasks))]
    return {"name": named.name, "connector": own, "tasks": tasks, "type": "source"}


def task_document(named: Named, number: int, worker: str) -> Document:
    """`/connectors/{c}/tasks/{n}/status`."""
    _, task = named.tasks[number]
    return {"id": number, **_state(task.state, worker, task.trace)}


def _state(state: ConnectState, worker: str, trace: str) -> Document:
    return {"state": state.value, "worker_id": worker, "version": VERSION, **({"trace": trace} if trace else {})}


def info_document(named: Named) -> Document:
    """A connector's settings and tasks."""
    tasks = [{"connector": named.name, "task": number} for number in range(len(named.tasks))]
    return {"name": named.name, "config": config_document(named), "tasks": tasks, "type": "source"}


def config_document(named: Named) -> dict[str, str]:
    """A connector's settings; of several flows those that all of them have."""
    first, *others = [part.config for part in named.parts]
    return {key: text for key, text in first.items() if all(other.get(key) == text for other in others)}


def tasks_document(named: Named) -> list[Document]:
    """The tasks: slots, with their partitions."""
    found: list[Document] = []
    for number, (part, task) in enumerate(named.tasks):
        config = {**part.config, "task.class": part.kind.task_class, "task.index": str(number)}
        if part.kind is MirrorRole.SOURCE:
            config["task.assigned.partitions"] = ",".join(str(place) for place in task.partitions)
        found.append({"id": {"connector": named.name, "task": number}, "config": config})
    return found


def topics_document(name: str, named: Named | None) -> Document:
    """`/connectors/{c}/topics`; Connect answers it for a connector that does not exist, too."""
    topics = [topic for part in (named.parts if named is not None else ()) for topic in part.topics]
    return {name: {"topics": list(dict.fromkeys(topics))}}


def offsets_document(named: Named) -> Document:
    """The last copied offset of each partition."""
    return {"offsets": [offset for part in named.parts for offset in part.offsets]}


PLUGINS: list[Document] = [
    {"class": f"{PACKAGE}.{kind.value}", "type": "source", "version": VERSION}
    for kind in (MirrorRole.CHECKPOINT, MirrorRole.HEARTBEAT, MirrorRole.SOURCE)
]
