"""What a flow and its partitions do now, as values that the terminal (later metrics and REST) show."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from sparkmirror.ledger import Wish
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.status.end_history import NO_HISTORY, EndHistory
from sparkmirror.status.reloads import NO_RELOAD, ReloadResult

FRESH_MS = 5_000  # ends are asked for each 2 s; with thousands of partitions less often, and then it is more
NOTES_MAX = 200  # more than anybody reads of one flow; what else happened is in the log

_NOTE_NUMBERS = itertools.count(1)  # of all flows, so that a flow that begins again does not use a number twice


@dataclass(frozen=True, slots=True)
class MirroredTopic:
    """A topic that a flow copies, with both sides' ids and the settings that decide how."""

    topic: str
    remote: str
    partitions: int
    source_topic_id: str
    target_topic_id: str
    source_compacts: bool
    target_compacts: bool
    target_log_append_time: bool


@dataclass(frozen=True, slots=True)
class Discovery:
    """What there is to copy, the topics that cannot be, with the reason, and what could not be read about other flows."""

    topics: tuple[MirroredTopic, ...]
    stopped: dict[str, str]
    unread: tuple[str, ...] = ()


class CheckpointKey(NamedTuple):
    """Which group's position on which partition of the target."""

    group: str
    topic: str
    partition: int


class GroupCounts(NamedTuple):
    """How many groups would continue on the target where they are on the source, how many would not, and of how many that
    is not known."""

    ready: int = 0
    unsynced: int = 0
    unknown: int = 0


class CertificateEnd(NamedTuple):
    """When the first certificate of somebody ends."""

    cluster: str
    whose: str
    ends_ms: int


@dataclass(slots=True)
class PartitionStatus:
    """One partition: "opening", "copying", "waiting", "stopped", "recovering", "closed", "paused"; why; and how far.

    "stopped" is by an error, "paused" because somebody asked for it (`code` says whether it was `pause` or `stop`).
    """

    partition: TopicPartition
    state: str = "opening"
    code: str = ""
    reason: str = ""
    slot: int | None = None
    next_upstream: int = -1  # −1: where its copy goes on is not known
    next_downstream: int = -1  # where that record will lie, of a partition without anything to copy (`--once`)
    source_end: int = -1  # −1: not known
    end_seen_ms: int = -1  # when the source last told its end
    ends: EndHistory = NO_HISTORY
    is_gone: bool = False  # the source has no such topic any more
    records: int = 0
    record_bytes: int = 0
    gaps: int = 0  # stretches of the source that were given up, as the ledger holds them
    gap_offsets: int = 0
    newest_timestamp: int = -1  # of the newest records that were proven copied
    read_ms: int = -1  # when the newest of them was read from the source
    proven_ms: int = -1  # when this process read of it
    taken_at: float = 0.0  # when a task took it to copy it, by this process's monotonic clock; 0 before

    @property
    def lag(self) -> int | None:
        """Upstream offsets not yet proven copied when the source's end was last seen; None if that is not known."""
        if self.is_gone:
            return 0
        return max(self.source_end - self.next_upstream, 0) if min(self.source_end, self.next_upstream) >= 0 else None


class FlowNotes:
    """What happened that an operator should know: each text once, the newest `NOTES_MAX` of them. Thread-safe."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._numbers: dict[str, int] = {}  # by the text, the one that came last at the end
        self._lock = threading.Lock()
        self.left_out = 0
        self += texts

    def append(self, text: str) -> None:
        """Notes it, also if it was noted before."""
        with self._lock:
            self._numbers.pop(text, None)
            self._numbers[text] = next(_NOTE_NUMBERS)
            if len(self._numbers) > NOTES_MAX:
                del self._numbers[next(iter(self._numbers))]
                self.left_out += 1

    def __iadd__(self, texts: Iterable[str]) -> Self:
        for text in texts:
            self.append(text)
        return self

    def __iter__(self) -> Iterator[str]:
        return iter(self.numbered())

    def __len__(self) -> int:
        return len(self._numbers)

    def numbered(self) -> dict[str, int]:
        """Each note with a number that grows whenever it is noted again."""
        with self._lock:
            return dict(self._numbers)

    def copy(self) -> FlowNotes:
        """The same notes, for another thread to look at."""
        found = FlowNotes()
        found._numbers, found.left_out = self.numbered(), self.left_out
        return found


@dataclass(slots=True)
class FlowStatus:
    """One flow. `state` is "running" only while it copies or has nothing to copy; `remotes` names each topic's copy."""

    name: FlowName
    state: str = "starting"
    reason: str = ""
    partitions: dict[TopicPartition, PartitionStatus] = field(default_factory=dict)
    remotes: dict[str, str] = field(default_factory=dict)
    stopped_topics: dict[str, str] = field(default_factory=dict)
    stopped_remotes: dict[str, str] = field(default_factory=dict)  # what their copies are called, or would be
    notes: FlowNotes = field(default_factory=FlowNotes)
    # What is done beside the copying (checkpoints, configs, …) and what of it cannot be done now; "" if nothing.
    chores: dict[str, str] = field(default_factory=dict)
    # When each checkpoint was written, and how long after its group's position was read; both in ms.
    checkpoints: dict[CheckpointKey, tuple[int, int]] = field(default_factory=dict)
    slots: int = 0  # launched; 0 before there was anything to copy
    slots_started: int = 0  # those that have a core, and beat
    certificates: tuple[CertificateEnd, ...] = ()  # of both clusters, the first to end of each owner
    groups: GroupCounts | None = None  # None: not known, or group offsets are not synced
    heartbeat_ms: int = -1  # of the flow's newest heartbeat on the target
    owner: str = ""  # the process that owns the flow, or owned it last
    owned_since_ms: int = -1
    wishes: tuple[Wish, ...] = ()  # what somebody paused or stopped until it is resumed, as the ledger holds it
    are_wishes_known: bool = False  # once the ledger was read
    file_words: str = ""  # the file, with --flow where it has several, as a command line names it
    is_given_back: bool = False  # this process was the owner to a good end
    target_cluster_id: str = ""  # as Kafka names it; "" before it was seen
    source_seen_ms: int = -1  # when the source last told its ends
    fresh_ms: int = FRESH_MS  # a figure that is older than this is not known to be true now
    taken_ms: int = 0  # when this snapshot was taken
    settings: ReloadResult = NO_RELOAD  # whether it runs with what its file says

    def remote(self, topic: str) -> str:
        """What a topic's copy is called on the target, also of a stopped topic."""
        return self.remotes.get(topic) or self.stopped_remotes.get(topic, topic)

    @property
    def waits_for_spark(self) -> str:
        """How many slots have a core, while some have none; else empty."""
        if self.slots_started >= self.slots:
            return ""
        return f"waiting for Spark: {self.slots_started} of {self.slots} slots have a core"

    @property
    def records(self) -> int:
        """Records proven copied since the start of this process."""
        return sum(p.records for p in self.partitions.values())

    @property
    def record_bytes(self) -> int:
        """Bytes of the batches that carried them."""
        return sum(p.record_bytes for p in self.partitions.values())

    @property
    def gaps(self) -> int:
        """Ranges of the source that were given up and are in no copy."""
        return sum(p.gaps for p in self.partitions.values())
