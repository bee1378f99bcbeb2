"""Facts of a healthy flow A->B, and what a test changes in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from sparkmirror.clusters import ClusterView, Leader, ListedGroup, TopicView
from sparkmirror.clusters.connection import Address
from sparkmirror.clusters.probing import PartitionEnds
from sparkmirror.config import FlowSettings, Settings, parse
from sparkmirror.diagnose.findings import Finding, OpenQuestion
from sparkmirror.diagnose.report import FlowReport
from sparkmirror.diagnose.rules import judge
from sparkmirror.model import ConfigEntry, FlowName, TopicPartition
from sparkmirror.offsets.proof import Proof
from sparkmirror.state.facts import (
    ClusterFacts,
    Connector,
    Copy,
    Facts,
    GroupFacts,
    GroupProof,
    Runner,
    SyncPair,
    TaskState,
    TimedCheckpoint,
)
from sparkmirror.state.samples import Sample
from sparkmirror.topology import policy_for, select_topics

NOW = 1_800_000_000_000
HEAD = """clusters = A, B
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
A->B.enabled = true
A->B.topics = orders, events
sync.group.offsets.enabled = true
emit.heartbeats.enabled = false
heartbeats.replication.enabled = false
replication.factor = 1
"""
ORDERS, REMOTE = TopicPartition("orders", 0), TopicPartition("A.orders", 0)
MM2, OURS = Runner("mm2", "running", "A-mm2"), Runner("sparkmirror", "running", "host/pid 7", NOW - 1000)
RUNNING = TaskState("RUNNING", "w", "", NOW - 60_000, "4.3.1")


def settings_of(lines: str = "") -> Settings:
    """A file with these lines more."""
    return parse(HEAD + lines, "/etc/mm2.properties", {})


def flow_of(lines: str = "") -> FlowSettings:
    """Its flow."""
    return settings_of(lines).flow(FlowName("A", "B"))


def cluster_of(
    alias: str, topics: Mapping[str, int], configs: Mapping[str, Mapping[str, str]] | None = None, **more: Any
) -> ClusterFacts:
    """A cluster with these topics and partition counts, and settings of its own for some."""
    views = {
        name: TopicView(name, name.encode().ljust(16, b"-")[:16], False, 0, {i: Leader(1, 0) for i in range(count)})
        for name, count in topics.items()
    }
    view = ClusterView("id", 1, {1: Address("h", 1)}, views)
    entries = {
        topic: {name: ConfigEntry(name, value, 1, False, False) for name, value in values.items()}
        for topic, values in (configs or {}).items()
    }
    return ClusterFacts(alias=alias, bootstrap=f"{alias.lower()}:1", view=view, configs=entries, versions={1: "4.3"},
                        read_ms=NOW - 500, **more)  # fmt: skip


def ends(first: int, end: int) -> PartitionEnds:
    """Known ends."""
    return PartitionEnds(first, end, 0)


def a_copy(**changes: Any) -> Copy:
    """Ten records, all copied by MirrorMaker 2, the last one synced."""
    base = Copy(
        partition=ORDERS, remote=REMOTE, source=ends(0, 10), target=ends(0, 10), next_upstream=10, basis="mm2",
        position_ms=NOW - 5_000, sync=SyncPair(9, 9, NOW - 6_000),
    )  # fmt: skip
    return replace(base, **changes)


def our_copy(**changes: Any) -> Copy:
    """The same by sparkmirror."""
    base = a_copy(basis="ledger", next_downstream=10, first_run=(0, 0), source_topic_id=b"orders----------".hex(),
                  target_topic_id=b"A.orders--------".hex())  # fmt: skip
    return replace(base, **changes)


def a_group(name: str = "g", **changes: Any) -> GroupFacts:
    """A group that stands at 5 on both sides."""
    base = GroupFacts(
        name=name, source_state="Stable", target_state="Empty", source={ORDERS: 5}, target={REMOTE: 5},
        checkpoints={REMOTE: TimedCheckpoint(5, 5, NOW - 1000)}, translated={ORDERS: 5},
    )  # fmt: skip
    return replace(base, **changes)


def a_proof(result: str, records: int | None = None, *, group: str = "g", **more: Any) -> GroupProof:
    """What the record proof says of the group at `orders`."""
    found = Proof(result=result, upstream=5, downstream=5, records=records, **more)  # type: ignore[arg-type]
    return GroupProof(group, ORDERS, found, NOW)


def connector(kind: str = "Source", tasks: Mapping[int, TaskState] | None = None, **changes: Any) -> Connector:
    """A connector of MirrorMaker 2 with one running task."""
    base = Connector(f"Mirror{kind}Connector", RUNNING, tasks or {0: RUNNING}, {}, {0: frozenset({ORDERS})})
    return replace(base, **changes)


def failed(trace: str) -> TaskState:
    """A task that ended so."""
    return TaskState("FAILED", "w", trace, NOW - 30_000, "4.3.1")


def facts_of(
    copies: Iterable[Copy] = (), *, lines: str = "", groups: Iterable[GroupFacts] = (), runner: Runner = MM2,
    source: ClusterFacts | None = None, target: ClusterFacts | None = None, names: Iterable[str] = ("orders",), **more: Any,
) -> Facts:  # fmt: skip
    """A healthy flow, but for what is given."""
    flow = flow_of(lines)
    policy = policy_for(flow)
    kept = list(copies) or [a_copy() if runner.program == "mm2" else our_copy()]
    listed = {g.name: ListedGroup(g.name, "consumer", g.source_state, "classic") for g in groups}
    here = source or cluster_of("A", {"orders": 1})
    there = target or cluster_of("B", {"A.orders": 1})
    return Facts(
        flow=flow, policy=policy, file_words="/etc/mm2.properties", now_ms=NOW, source=replace(here, groups=listed),
        target=replace(there, groups=listed), decisions=tuple(select_topics(flow, policy, names)), runner=runner,
        copies={copy.partition: copy for copy in kept}, groups={g.name: g for g in groups},
        connectors=more.pop("connectors", {"MirrorSourceConnector": connector()} if runner.program == "mm2" else {}), **more,
    )  # fmt: skip


def told(facts: Facts) -> list[Finding | OpenQuestion]:
    """Everything that the checks say."""
    return list(judge(facts))


def ids(facts: Facts) -> list[str]:
    """Ids and severities of what they say, without information."""
    return [f"{f.id} {f.severity.letter}" for f in told(facts) if isinstance(f, Finding) and f.severity.letter != "I"]


def one(facts: Facts, name: str) -> Finding:
    """The only finding of an id."""
    [found] = [f for f in told(facts) if isinstance(f, Finding) and f.id == name]
    return found


def report_of(facts: Facts) -> FlowReport:
    """As an examination gives it."""
    all_of_it = told(facts)
    return FlowReport(
        facts,
        tuple(f for f in all_of_it if isinstance(f, Finding)),
        tuple(f for f in all_of_it if isinstance(f, OpenQuestion)),
    )


def look(seconds: float, **changes: Any) -> Sample:
    """An earlier look, so long ago, that saw the healthy flow."""
    base = Sample(
        time_ms=NOW - int(seconds * 1000), source_ids={"orders": b"orders----------".hex()},
        target_ids={"A.orders": b"A.orders--------".hex()}, source_ends={ORDERS: 10}, target_ends={REMOTE: 10},
        next_upstream={ORDERS: 10}, syncs={ORDERS: 9}, commits={("g", ORDERS): 5},
    )  # fmt: skip
    return replace(base, **changes)
