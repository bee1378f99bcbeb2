"""Everything that was read of one flow, as one value: rules read this and nothing else.

Offsets called `next_…` are the next to be read or written, those called `last_…` the last one that was. Times are wall time
in milliseconds. What could not be read is in `missing`, by the name of the part; a check that needs it stays open.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sparkmirror.clusters import ClusterView, ListedGroup
from sparkmirror.clusters.probing import PartitionEnds
from sparkmirror.config import FlowSettings
from sparkmirror.ledger import Failover, Gap, SourceEnd, Wish, wish_on
from sparkmirror.model import Acl, ConfigEntry, Side, TopicPartition
from sparkmirror.offsets import TimedCheckpoint
from sparkmirror.offsets.proof import Proof
from sparkmirror.state import Outage, Part, StoredRecord, SyncPair, Unknown
from sparkmirror.state.samples import Sample
from sparkmirror.topology import ReplicationPolicy, TopicDecision

DEFAULT_OF = "default of"
MM2_REFRESH_S = 600
# Keys that all connectors of a flow must agree on; none of them is secret.
COMPARED_KEYS = (
    "source.cluster.alias", "target.cluster.alias", "replication.policy.class", "replication.policy.separator",
    "replication.policy.internal.topic.separator.enabled", "offset-syncs.topic.location", "topics", "topics.exclude",
    "topic.filter.class", "groups", "groups.exclude",
)  # fmt: skip
TOO_LARGE_FOR_TARGET = "larger than the max message size the server will accept"
TOO_LARGE_FOR_PRODUCER = re.compile(
    r"message is (\d+) bytes when serialized which is larger than (\d+), which is the value of the max\.request\.size"
)
# Each holds a sign that no topic's name has, so that a topic called "timestamp" is no reason.
BAD_TIMESTAMP = re.compile(r"errors\.InvalidTimestampException|due to invalid timestamp|Timestamp \S+ .*is out of range")
ALIVE_STATES = ("Stable", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


@dataclass(frozen=True, slots=True)
class Subject:
    """What a finding is about, by names on the source; empty names mean the whole flow or cluster."""

    topic: str = ""
    partition: int | None = None
    group: str = ""
    cluster: str = ""

    def __str__(self) -> str:
        place = self.topic if self.partition is None else f"{self.topic}-{self.partition}"
        if self.group:
            return f"group {self.group}" + (f" at {place}" if place else "")
        return place or (f"cluster {self.cluster}" if self.cluster else "flow")


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """A check that is incomplete, why, and what it needs: a right, or a fact."""

    id: str
    flow: str
    subject: Subject
    reason: str
    needs: str = ""


# --- clusters --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate that a connection rests on: whose, where it is, and when it ends."""

    whose: str
    where: str
    ends_ms: int


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """One cluster of the flow. `skew_ms` is how far its clock is ahead of ours, None if it is not reported."""

    alias: str
    bootstrap: str
    view: ClusterView | None = None
    versions: Mapping[int, str] = field(default_factory=dict)  # node to release
    too_old: Mapping[int, str] = field(default_factory=dict)  # node to what it lacks
    skew_ms: int | None = None
    certificates: tuple[Certificate, ...] = ()
    configs: Mapping[str, Mapping[str, ConfigEntry]] = field(default_factory=dict)
    groups: Mapping[str, ListedGroup] = field(default_factory=dict)
    acls: tuple[Acl, ...] | None = None  # None: no authorizer
    topic_rights: Mapping[str, frozenset[str]] = field(default_factory=dict)
    cluster_rights: frozenset[str] | None = None
    user: str = ""
    offsets_retention_minutes: int | None = None
    read_ms: int = 0

    def has(self, topic: str) -> bool:
        """Whether the topic is there."""
        found = self.view.topics.get(topic) if self.view is not None else None
        return found is not None and not found.error

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has, 0 if it is not there."""
        return self.view.topics[topic].partitions if self.view is not None and self.has(topic) else 0

    def topic_id(self, topic: str) -> str:
        """The topic's id, empty if it has none."""
        return self.view.topics[topic].topic_id.hex() if self.view is not None and self.has(topic) else ""

    def setting(self, topic: str, name: str) -> str | None:
        """A topic's effective setting."""
        entry = self.configs.get(topic, {}).get(name)
        return entry.value if entry is not None else None

    def number(self, topic: str, name: str) -> int | None:
        """A topic's effective setting as a number."""
        found = self.setting(topic, name)
        return int(found) if found is not None and found.lstrip("-").isdigit() else None

    def compacts(self, topic: str) -> bool:
        """Whether the topic is compacted, so that offsets have holes."""
        return "compact" in (self.setting(topic, "cleanup.policy") or "")


# --- the copy --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stop:
    """What sparkmirror's ledger says of a partition that does not copy."""

    state: str
    code: str
    reason: str
    time_ms: int | None
    detail: str = ""  # of the code: what was refused, such as "timestamp"
    hint: str = ""  # the command that mends it, as whoever stopped it wrote it


@dataclass(frozen=True, slots=True)
class Copy:
    """One partition of a selected topic on both sides, and how far its copy has come."""

    partition: TopicPartition
    remote: TopicPartition
    source: PartitionEnds | None = None
    target: PartitionEnds | None = None
    next_upstream: int | None = None
    basis: str = ""  # "ledger" or "mm2"
    position_ms: int | None = None
    stored: StoredRecord | None = None
    is_unstored: bool = False  # MirrorMaker 2 never stored a position of it, nor did anybody take one back
    sync: SyncPair | None = None
    first_sync: SyncPair | None = None  # the oldest one since either side restarted
    holes: tuple[tuple[SyncPair, SyncPair], ...] = ()  # neighbouring syncs between which upstream offsets are missing
    rewind: tuple[SyncPair, SyncPair] | None = None  # the last time that syncs went back upstream
    next_downstream: int | None = None  # by the ledger
    source_topic_id: str = ""  # by the ledger
    target_topic_id: str = ""
    first_run: tuple[int, int] | None = None  # by the ledger: upstream and downstream of the first record that it knows
    stop: Stop | None = None
    gaps: tuple[Gap, ...] = ()
    is_position_known: bool = True  # whether ledger and positions could be read: without a position nothing was copied
    last_source: SourceEnd | None = None  # where the source ended when it was last seen, where it does not say so now

    @property
    def source_ends(self) -> tuple[int, int] | None:
        """Log start and end on the source, if known."""
        return None if self.source is None or self.source.error else (self.source.first, self.source.end)

    @property
    def target_ends(self) -> tuple[int, int] | None:
        """Log start and end on the target, if known."""
        return None if self.target is None or self.target.error else (self.target.first, self.target.end)

    @property
    def reached(self) -> int | None:
        """The next upstream offset that is not copied, as far as is known.

        MirrorMaker 2 stores positions each minute, its first one too; what lies on the target behind the newest sync was
        copied since. This holds if nothing lies there twice; else it says too much, never too little.
        """
        by_sync = self._reached_by_sync() if self.basis == "mm2" or self.is_unstored else None
        return max((at for at in (self.next_upstream, by_sync) if at is not None), default=None)

    def _reached_by_sync(self) -> int | None:
        source, target = self.source_ends, self.target_ends
        if self.sync is None or source is None or target is None:
            return None
        if not 0 <= self.sync.upstream < source[1] or not target[0] <= self.sync.downstream < target[1]:
            return None
        return min(self.sync.upstream + target[1] - self.sync.downstream, source[1])

    @property
    def lag(self) -> int | None:
        """Upstream offsets that are not copied, as far as is known."""
        ends, reached = self.source_ends, self.reached
        if ends is None:
            return None
        if reached is None:
            is_known = self.is_position_known and (self.target is None or self.target_ends is not None)
            return ends[1] - ends[0] if is_known else None
        return max(ends[1] - max(reached, ends[0]), 0)

    @property
    def last_lag(self) -> int | None:
        """The same as of the time when the source was last seen, where it does not answer now."""
        if self.last_source is None or not self.is_position_known:
            return None
        return max(self.last_source.end - (self.reached or 0), 0)


@dataclass(frozen=True, slots=True)
class Runner:
    """Who copies the flow: "sparkmirror", "mm2" or "" and its state.

    "running", "released" (ended in order), "dead" (it ended uncleanly), "silent" (no heartbeat, but its end is not
    proven), "never" (nobody ever ran it), "unknown".
    """

    program: str
    state: str
    who: str = ""
    seen_ms: int | None = None
    both: bool = False  # sparkmirror and MirrorMaker 2 at the same time
    since_ms: int | None = None  # when it began to own the flow, as far as its ledger says

    @property
    def is_running(self) -> bool:
        """Whether it writes heartbeats."""
        return self.state == "running"


@dataclass(frozen=True, slots=True)
class TaskState:
    """State of a connector or of one of its tasks, as Connect's status topic has it."""

    state: str
    worker: str
    trace: str
    time_ms: int
    version: str = ""  # of MirrorMaker 2

    @property
    def reason(self) -> str:
        """The innermost cause of the trace, else its first line."""
        lines = [line.strip() for line in self.trace.splitlines() if line.strip()]
        causes = [line.removeprefix("Caused by:").strip() for line in lines if line.startswith("Caused by:")]
        return (causes or lines or [""])[-1 if causes else 0]


@dataclass(frozen=True, slots=True)
class Connector:
    """One connector of MirrorMaker 2: states, the settings it runs with, and what each task copies."""

    name: str
    own: TaskState | None = None
    tasks: Mapping[int, TaskState] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    assigned: Mapping[int, frozenset[TopicPartition]] = field(default_factory=dict)

    @property
    def version(self) -> str:
        """MirrorMaker 2's version, if its status topic has it."""
        states = [*self.tasks.values(), *([self.own] if self.own is not None else [])]
        return next((state.version for state in states if state.version), "")

    @property
    def kind(self) -> str:
        """source, checkpoint or heartbeat."""
        return self.name.rpartition(".")[2].removeprefix("Mirror").removesuffix("Connector").lower()


# --- groups ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """A group that passes the filter; partitions of `source` by the source's names, all others by the target's."""

    name: str
    source_state: str
    target_state: str
    source: Mapping[TopicPartition, int]
    target: Mapping[TopicPartition, int]
    checkpoints: Mapping[TopicPartition, TimedCheckpoint]
    translated: Mapping[TopicPartition, int | None]  # by source partition: where it would resume, None: nowhere
    is_source_known: bool = True  # whether its commits could be read
    is_target_known: bool = True

    @property
    def is_used_on_target(self) -> bool:
        """Whether it has members there."""
        return self.target_state in ALIVE_STATES


@dataclass(frozen=True, slots=True)
class GroupProof:
    """What the record proof found of one group's position on the target."""

    group: str
    partition: TopicPartition
    found: Proof
    time_ms: int | None = None


# --- internal topics -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A topic that the mirror keeps its own records in, as it should be and as it is."""

    name: str
    cluster: str
    what: str
    is_wanted: bool  # whether the program that runs the flow uses it
    partitions: int | None  # None: any number
    replication_factor: int
    found_partitions: int | None = None  # None: it is not there
    found_replicas: int | None = None
    in_sync_replicas: int | None = None
    policy: str | None = None
    min_in_sync: int | None = None


@dataclass(frozen=True, slots=True)
class OddKey:
    """A key of an internal topic that names what does not exist, or that is where no reader reads it."""

    kind: str  # "orphan position", "orphan sync", "orphan checkpoint", "misplaced", "doubled"
    where: TopicPartition
    key: str
    words: str
    time_ms: int | None = None
    topic: str = ""
    group: str = ""


@dataclass(frozen=True, slots=True)
class Malformed:
    """A record of an internal topic that is none of its own."""

    cluster: str
    words: str


@dataclass(frozen=True, slots=True)
class HeartbeatTimes:
    """Newest times of heartbeats: on the source, and of their copy on the target; None where there is none."""

    source_topic: str
    target_topic: str
    source_ms: int | None
    target_ms: int | None
    writer: str


# --- records that were read to make sure ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ComparedPair:
    """Whether the record at an upstream offset is the one at a downstream offset: "same", "differs" or "unknown"."""

    upstream: int
    downstream: int
    outcome: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class LargeRecord:
    """A record that a limit refuses: its offset, its size without compression, its timestamp."""

    offset: int
    size: int
    timestamp: int


@dataclass(frozen=True, slots=True)
class Tail:
    """How the end of a copy compares: visible records on the target that the copy does not account for.

    `repeated` lie on the source too, `foreign` do not; `first` is where they begin on the target.
    """

    repeated: int
    foreign: int
    first: int


@dataclass(frozen=True, slots=True)
class Reads:
    """What reading records brought, by source partition."""

    pairs: Mapping[TopicPartition, ComparedPair] = field(default_factory=dict)
    firsts: Mapping[TopicPartition, int] = field(default_factory=dict)  # upstream offset of the target's first record
    next_records: Mapping[TopicPartition, LargeRecord] = field(default_factory=dict)  # the next one to be copied
    large: Mapping[TopicPartition, LargeRecord] = field(default_factory=dict)
    tails: Mapping[TopicPartition, Tail] = field(default_factory=dict)
    lost: Mapping[TopicPartition, tuple[int, int]] = field(default_factory=dict)  # holes that nothing explains
    unread: Mapping[TopicPartition, str] = field(default_factory=dict)  # why not


# --- the flow --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One flow."""

    flow: FlowSettings
    policy: ReplicationPolicy
    file_words: str
    now_ms: int
    source: ClusterFacts
    target: ClusterFacts
    places: Mapping[str, str] = field(default_factory=dict)  # where a key is written
    back: FlowSettings | None = None  # the enabled flow in the other direction
    missing: Mapping[str, Unknown] = field(default_factory=dict)
    outages: Mapping[Side, Outage] = field(default_factory=dict)  # clusters that cannot be read at all
    source_seen_ms: int | None = None  # by us, else by the mirror
    decisions: tuple[TopicDecision, ...] = ()
    runner: Runner = Runner("", "unknown")
    failover: Failover | None = None  # the flow's, if its ledger names one
    wishes: tuple[Wish, ...] = ()  # what somebody paused or stopped; of no meaning for MirrorMaker 2
    copies: Mapping[TopicPartition, Copy] = field(default_factory=dict)
    connectors: Mapping[str, Connector] = field(default_factory=dict)
    groups: Mapping[str, GroupFacts] = field(default_factory=dict)
    proofs: tuple[GroupProof, ...] = ()
    internal_topics: tuple[InternalTopic, ...] = ()
    odd_keys: tuple[OddKey, ...] = ()
    malformed: tuple[Malformed, ...] = ()
    heartbeats: HeartbeatTimes | None = None
    reads: Reads = Reads()
    past: tuple[Sample, ...] = ()  # earlier samples, oldest first
    redelivery_max: int = 10_000

    @property
    def name(self) -> str:
        """The flow's name."""
        return str(self.flow.name)

    @property
    def mm2_version(self) -> tuple[int, ...]:
        """MirrorMaker 2's version by its own word, () if unknown."""
        found = next((c.version for c in self.connectors.values() if c.version), "")
        return tuple(int(word) for word in found.split("-")[0].split(".") if word.isdigit())

    @property
    def is_ours(self) -> bool:
        """Whether sparkmirror copies it, or did last."""
        return self.runner.program == "sparkmirror"

    def paused(self, connector: str) -> list[Wish]:
        """What somebody paused or stopped of a connector's work, the widest first."""
        return [wish for wish in self.wishes if wish.connector == connector]

    def wish_on(self, partition: TopicPartition) -> Wish | None:
        """Why nobody copies it, if that is because somebody asked for it."""
        return wish_on({wish.key: wish for wish in self.wishes}, partition) if self.wishes else None

    @property
    def refresh_topics_s(self) -> int:
        """How often topics are refreshed; the defaults of the two programs differ."""
        return self._refresh_s("refresh.topics.interval.seconds", self.flow.refresh_topics_interval_seconds)

    @property
    def refresh_groups_s(self) -> int:
        """How often groups are refreshed."""
        return self._refresh_s("refresh.groups.interval.seconds", self.flow.refresh_groups_interval_seconds)

    def _refresh_s(self, key: str, ours: int) -> int:
        is_written = key in self.places and not self.places[key].startswith(DEFAULT_OF)
        return ours if is_written or self.runner.program != "mm2" else MM2_REFRESH_S

    @property
    def lag(self) -> int | None:
        """Upstream offsets that are not copied; None if that is not known of every partition."""
        return None if self.are_topics_unknown or not self.has_known_lag else self.known_lag

    @property
    def has_known_lag(self) -> bool:
        """Whether the lag of every partition is known."""
        return all(copy.lag is not None for copy in self.copies.values())

    @property
    def known_lag(self) -> int:
        """Upstream offsets that are not copied, of the partitions of which that is known."""
        return sum(copy.lag or 0 for copy in self.copies.values())

    @property
    def oldest_ms(self) -> int | None:
        """When the oldest record that is not copied was written, of those that were read; None if none was."""
        behind = (copy.partition for copy in self.copies.values() if copy.lag)
        records = (self.reads.next_records.get(partition) for partition in behind)
        return min((record.timestamp for record in records if record is not None and record.timestamp > 0), default=None)

    @property
    def lag_seconds(self) -> float | None:
        """The age of the oldest record that is not copied, 0 if all are; None if it is not known of every partition."""
        behind = [copy.partition for copy in self.copies.values() if copy.lag]
        if self.lag is None or any(partition not in self.reads.next_records for partition in behind):
            return None
        return 0.0 if not behind else None if self.oldest_ms is None else self.age_s(self.oldest_ms)

    @property
    def stopped(self) -> set[TopicPartition]:
        """Partitions that are not copied until somebody acts: they stopped, or their task failed."""
        failed = {p for connector, number, _ in failed_tasks(self) for p in connector.assigned.get(number, ())}
        return {
            partition
            for partition, copy in self.copies.items()
            if partition in failed or (copy.stop is not None and copy.stop.state == "stopped")
        }

    @property
    def last_lag(self) -> tuple[int, int] | None:
        """The lag with what was last known of partitions that are not known now, and as of when; None if not known."""
        copies = self.copies.values()
        last = [c.last_source.time_ms for c in copies if c.lag is None and c.last_source is not None]
        known = [copy.lag if copy.lag is not None else copy.last_lag for copy in copies]
        if not last or None in known:
            return None
        return sum(lag for lag in known if lag is not None), min(last)

    @property
    def are_topics_unknown(self) -> bool:
        """Whether neither the source nor the target says which topics the flow copies."""
        return Part.SOURCE in self.missing and not self.copies

    def copies_of(self, topic: str) -> Iterator[Copy]:
        """The partitions of one topic, in order."""
        for partition in sorted(p for p in self.copies if p.topic == topic):
            yield self.copies[partition]

    def decision(self, topic: str) -> TopicDecision | None:
        """Whether a topic is copied and why."""
        return next((found for found in self.decisions if found.topic == topic), None)

    def age_s(self, time_ms: int) -> float:
        """How long ago that was."""
        return max(self.now_ms - time_ms, 0) / 1000

    def past_before(self, seconds: float) -> Sample | None:
        """The newest earlier sample that is at least so old."""
        return next((s for s in reversed(self.past) if self.age_s(s.time_ms) >= seconds), None)


# --- traces of MirrorMaker 2 ---------------------------------------------------------------------------------------


def failed_tasks(facts: Facts) -> Iterator[tuple[Connector, int, TaskState]]:
    """Tasks of the source connector that failed, with the number of each."""
    for connector in facts.connectors.values():
        for number, task in sorted(connector.tasks.items()):
            if task.state == "FAILED":
                yield connector, number, task


def refused_by(task: TaskState) -> str:
    """Which diagnosis a trace is: D1, D2, D10, or D11 for any other."""
    if TOO_LARGE_FOR_PRODUCER.search(task.trace):
        return "D2"
    if TOO_LARGE_FOR_TARGET in task.trace or "RecordTooLargeException" in task.trace:
        return "D1"
    return "D10" if BAD_TIMESTAMP.search(task.trace) else "D11"
