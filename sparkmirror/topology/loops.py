"""Whether what a flow copies comes back to where it came from, over all flows that are known. Pure.

A place is a topic on a cluster, by the cluster's id: aliases are names of one file. Each flow leads from places on its
source to places on its target. A loop leads from a topic of a flow's source, through the flow itself and others, back to
that cluster, to a topic that the flow copies too: the same one, or one whose name has grown on the way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sparkmirror.config import FlowSettings
from sparkmirror.errors import ReplicationLoop
from sparkmirror.topology.plan import select_topics
from sparkmirror.topology.policy import ReplicationPolicy, policy_for

NAMED_MAX = 3
_PROBE = "topic"


class KnownFlow(Protocol):
    """A flow between two clusters, whoever tells of it."""

    @property
    def title(self) -> str:
        """What people know it by."""

    @property
    def source_id(self) -> str:
        """The id of the cluster that it reads."""

    @property
    def target_id(self) -> str:
        """The id of the cluster that it writes."""

    def remotes(self, topics: Collection[str]) -> Mapping[str, str]:
        """Which of these topics it copies, and their names on its target."""


@dataclass(frozen=True, slots=True)
class FileFlow:
    """An enabled flow of the file: by its filter and policy it also tells of topics that do not exist yet."""

    flow: FlowSettings
    source_id: str
    target_id: str
    # "" for a topic that it does not copy
    _known: dict[str, str] = field(default_factory=dict, compare=False, repr=False)

    @property
    def title(self) -> str:
        """Its name."""
        return f"{self.flow.name} of this file"

    def remotes(self, topics: Collection[str]) -> dict[str, str]:
        """Which of these topics it copies, and their names on its target."""
        new = [topic for topic in topics if topic not in self._known]
        if new:
            for decision in select_topics(self.flow, policy_for(self.flow), new):
                self._known[decision.topic] = decision.remote if decision.replicated else ""
        return {topic: self._known[topic] for topic in topics if self._known[topic]}


@dataclass(frozen=True, slots=True)
class ForeignFlow:
    """A flow of another file, as its ledger tells; of topics that it has not seen yet it tells nothing."""

    title: str
    source_id: str
    target_id: str
    ledger: str
    owner: str
    routes: Mapping[str, str]

    def remotes(self, topics: Collection[str]) -> dict[str, str]:
        """Which of these topics it copies, and their names on its target."""
        return {topic: self.routes[topic] for topic in topics if topic in self.routes}


@dataclass(frozen=True, slots=True)
class Hop:
    """What a flow makes of a topic: its name on the flow's target."""

    flow: KnownFlow
    topic: str


@dataclass(frozen=True, slots=True)
class CopyLoop:
    """A way back to the source of a flow, for one of its topics."""

    topic: str
    hops: tuple[Hop, ...]

    @property
    def others(self) -> list[KnownFlow]:
        """The flows on the way, but for the first."""
        return [hop.flow for hop in self.hops[1:]]

    @property
    def returned(self) -> str:
        """The topic that it comes back as."""
        return self.hops[-1].topic

    def words(self, aliases: Mapping[str, str]) -> str:
        """The way, with the clusters' aliases by their ids."""
        names = [f"{self.topic} on {_alias(self.hops[0].flow.source_id, aliases)}"]
        names += [f"{hop.topic} on {_alias(hop.flow.target_id, aliases)} (by {hop.flow.title})" for hop in self.hops]
        return " → ".join(names)


def may_loop(flow: FlowSettings) -> bool:
    """Whether the policy leaves the source's alias out of names, so that they do not tell where a topic comes from."""
    alias = flow.name.source
    return alias not in policy_for(flow).format_remote_topic(alias, _PROBE).replace(_PROBE, "", 1)


def find_loops(ours: KnownFlow, topics: Iterable[str], others: Sequence[KnownFlow]) -> Iterator[CopyLoop]:
    """The shortest way back of each topic that has one; no flow is taken twice on a way."""
    ways: dict[str, list[tuple[Hop, ...]]] = {
        topic: [(Hop(ours, remote),)] for topic, remote in ours.remotes(list(topics)).items()
    }
    while ways:
        names: dict[str, set[str]] = {}
        for found in ways.values():
            for way in found:
                names.setdefault(way[-1].flow.target_id, set()).add(way[-1].topic)
        steps = [(other, other.remotes(names.get(other.source_id, ()))) for other in others]
        steps = [(other, remotes) for other, remotes in steps if remotes]
        further: dict[str, list[tuple[Hop, ...]]] = {}
        for topic, found in ways.items():
            longer = [
                (*way, Hop(other, remotes[way[-1].topic]))
                for way in found
                for other, remotes in steps
                if way[-1].flow.target_id == other.source_id
                and way[-1].topic in remotes
                and all(hop.flow is not other for hop in way)
            ]
            back = next((way for way in longer if _is_back(ours, way)), None)
            if back is not None:
                yield CopyLoop(topic, back)
            elif longer:
                further[topic] = longer
        ways = further


def split_heartbeats(policy: ReplicationPolicy, loops: Iterable[CopyLoop]) -> tuple[list[CopyLoop], set[str]]:
    """The loops that are to be refused, and the topics of heartbeats that are left out instead.

    Heartbeats are copied whatever the patterns say, so nobody asked for their loop: what came back is not copied again.
    """
    refused: list[CopyLoop] = []
    left_out: set[str] = set()
    for loop in loops:
        if policy.is_heartbeats_topic(loop.topic):
            left_out.add(loop.returned)
        else:
            refused.append(loop)
    return refused, left_out


def refusal_of(ours: KnownFlow, loops: Sequence[CopyLoop], aliases: Mapping[str, str]) -> ReplicationLoop:
    """The error for topics that would come back, with the way of the first."""
    first, name = loops[0], ours.title.removesuffix(" of this file")
    topics = ", ".join(loop.topic for loop in loops[:NAMED_MAX])
    rest = f" and {len(loops) - NAMED_MAX} more" if len(loops) > NAMED_MAX else ""
    others = ", ".join(dict.fromkeys(other.title for other in first.others))
    return ReplicationLoop(
        f"{name} copies {topics}{rest} to where it comes back from: {first.words(aliases)}; every record would go round for "
        "ever",
        hint=f"disable or stop one of {name}, {others}; give them different `topics`; or write "
        "replication.loops.allowed = true if something else keeps the records apart",
    )


def one_cluster(flow: FlowSettings, cluster_id: str) -> ReplicationLoop:
    """The error for a flow whose source and target are one cluster."""
    return ReplicationLoop(
        f"{flow.name}: {flow.name.source} and {flow.name.target} are one cluster (cluster id {cluster_id}): records would "
        "be copied to where they come from",
        hint=f"correct {flow.name.source}.bootstrap.servers or {flow.name.target}.bootstrap.servers, or write "
        "replication.loops.allowed = true",
    )


def _is_back(ours: KnownFlow, way: Sequence[Hop]) -> bool:
    return way[-1].flow.target_id == ours.source_id and bool(ours.remotes([way[-1].topic]))


def _alias(cluster_id: str, aliases: Mapping[str, str]) -> str:
    return aliases.get(cluster_id, f"cluster {cluster_id}")
