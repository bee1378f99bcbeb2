"""A flow of MirrorMaker 2, as it is mostly run, and what its own topics and log say of it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass

from integration.scenario import client_of
from judge import java_records

from faults.mm2.tally import Tally, contents, tally
from sparkmirror.clusters import LATEST, ClusterClient, list_offsets, read_to_end
from sparkmirror.errors import ClusterError
from sparkmirror.local import LocalCluster, MirrorMaker
from sparkmirror.model import TopicPartition

START_SECONDS_MAX = 400.0  # on two busy cores it begins to copy after minutes
CONVERGE_SECONDS_MAX = 120.0  # 60 s are promised; so that a row can say how long it really took
REST_SECONDS = 5.0  # nothing arrives for so long: it is at rest
POLL_SECONDS = 0.5
# Its defaults but for replicas (brokers stand alone) and intervals (it need not be waited for).
SETTINGS = {
    "replication.factor": "1",
    "checkpoints.topic.replication.factor": "1",
    "heartbeats.topic.replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "config.storage.replication.factor": "1",
    "refresh.topics.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "emit.checkpoints.interval.seconds": "1",
    "sync.group.offsets.interval.seconds": "1",
    "emit.heartbeats.enabled": "false",
    "sync.topic.acls.enabled": "false",
    "tasks.max": "2",
}
# What any start says, whatever was done to it.
NOISE = re.compile(r"connect\.runtime\.isolation\.Plugins|Catching up to assignment's config offset")
LOG_LINE = re.compile(r"\[[^]]*\] (?P<level>WARN|ERROR|FATAL) (?:\[[^]]*\] )*(?P<words>.*?)(?: \([\w.$]+\))?$")
QUOTED_CHARACTERS_MAX, LOG_TAIL_CHARACTERS = 120, 3000
FLUSH_QUICK_MS, FLUSH_DEFAULT_MS = 1000, 60_000  # how often positions are stored


@dataclass(frozen=True, slots=True)
class TaskState:
    """What the topic of states says of a connector or task; `reason` is the innermost exception's class."""

    state: str
    reason: str


class Mm2Flow:
    """One flow with aliases, and so internal topics, of its own."""

    def __init__(
        self,
        source: LocalCluster,
        target: LocalCluster,
        *,
        alias: str,
        topics: str,
        more: Mapping[str, str] | None = None,
        target_address: str = "",
    ) -> None:
        self.source, self.target, self.alias = source, target, alias
        self._address = target_address or target.bootstrap
        self._topics, self._more = topics, dict(more or {})
        self._process: MirrorMaker | None = None

    @property
    def settings(self) -> dict[str, str]:
        """The whole file."""
        to = f"{self.alias}-to"
        return SETTINGS | {
            "clusters": f"{self.alias}, {to}",
            f"{self.alias}.bootstrap.servers": self.source.bootstrap,
            f"{to}.bootstrap.servers": self._address,
            f"{self.alias}->{to}.enabled": "true",
            f"{self.alias}->{to}.topics": self._topics,
            f"{to}->{self.alias}.enabled": "false",
            f"{to}.offset.flush.interval.ms": str(FLUSH_QUICK_MS),
            **{key.replace("TO.", f"{to}."): value for key, value in self._more.items()},
        }

    def process(self) -> MirrorMaker:
        """One process, to be started by `with`."""
        self._process = MirrorMaker(self.settings, name=self.alias)
        return self._process

    def remote(self, topic: str) -> str:
        """The copy's name."""
        return f"{self.alias}.{topic}"

    def copied(self, topic: str) -> int:
        """How many records the copy has; 0 while nobody answers."""
        return sum(ends(self.target, self.remote(topic)).values())

    def await_copying(self, topic: str, more: int = 1000) -> None:
        """Waits until so many more records have arrived."""
        wanted, deadline = self.copied(topic) + more, time.monotonic() + START_SECONDS_MAX
        while (found := self.copied(topic)) < wanted:
            tail = log_of(self._process)[-LOG_TAIL_CHARACTERS:] if self._process is not None else ""
            assert time.monotonic() < deadline, f"{found} records instead of {wanted} in {self.remote(topic)}: {tail}"
            time.sleep(POLL_SECONDS)

    def converge(self, topic: str, healed_at: float) -> float | None:
        """Seconds from the end of the fault until the source's newest records have arrived; None if they do not."""
        deadline = time.monotonic() + CONVERGE_SECONDS_MAX
        while newest(self.source, topic) != newest(self.target, self.remote(topic)):
            if time.monotonic() > deadline:
                return None
            time.sleep(POLL_SECONDS)
        seconds = time.monotonic() - healed_at
        self.await_rest(topic)
        return seconds

    def await_rest(self, *topics: str, seconds: float = REST_SECONDS) -> None:
        """Waits until nothing has arrived for a while."""
        seen, since = [self.copied(topic) for topic in topics], time.monotonic()
        while time.monotonic() - since < seconds:
            time.sleep(POLL_SECONDS)
            if (now := [self.copied(topic) for topic in topics]) != seen:
                seen, since = now, time.monotonic()

    def judge(self, topic: str) -> Tally:
        """What Java reads on the source, and what became of it."""
        source, target = self.source.bootstrap, self.target.bootstrap
        return tally(contents(java_records(source, topic)), contents(java_records(target, self.remote(topic))))

    def states(self) -> dict[str, TaskState]:
        """The newest state of each connector and task, as its REST interface would tell."""
        found: dict[str, TaskState] = {}
        for records in java_records(self.target.bootstrap, f"mm2-status.{self.alias}.internal").values():
            for record in records:
                name = re.match(rb"status-(?:task|connector)-(.*)", record.key or b"")
                if name is not None and record.value is not None:
                    reported = json.loads(record.value)
                    found[name[1].decode()] = TaskState(reported["state"], _innermost(reported["trace"] or ""))
        return found

    def reported(self, mm2: MirrorMaker, *about: str, after: int = 0) -> str:
        """What somebody who looks at states and log would know of it."""
        states = self.states()
        failed = sorted({f"{name} FAILED ({state.reason})" for name, state in states.items() if state.state == "FAILED"})
        if failed:
            return "reported: " + ", ".join(failed)
        seen = " or ".join(sorted({state.state for state in states.values()}))
        worst = worst_line(log_of(mm2)[after:], about)
        return f"all tasks {seen}, {worst}" if worst else f"silent: all tasks {seen}, no WARN, no ERROR"


def ends(cluster: LocalCluster, topic: str) -> dict[TopicPartition, int]:
    """The end of each partition; nothing while nobody answers or there is no such topic."""
    try:
        with client_of(cluster) as client:
            return _ends(client, topic)
    except ClusterError:
        return {}


def newest(cluster: LocalCluster, topic: str) -> dict[int, bytes | None]:
    """The value of each partition's last record; nothing while nobody answers."""
    try:
        with client_of(cluster) as client:
            places = {place: end for place, end in _ends(client, topic).items() if end}
            return {place.partition: list(read_to_end(client, place, end - 1))[-1].value for place, end in places.items()}
    except ClusterError:
        return {}


def _ends(client: ClusterClient, topic: str) -> dict[TopicPartition, int]:
    view = client.view((topic,)).topics.get(topic)
    places = [TopicPartition(topic, partition) for partition in (view.leaders if view is not None else ())]
    return {place: end for place, (end, _) in list_offsets(client, places, timestamp=LATEST).items()} if places else {}


def log_of(mm2: MirrorMaker) -> str:
    """Everything it has logged."""
    return mm2.log_file.read_text(encoding="utf-8", errors="replace") if mm2.log_file.exists() else ""


def worst_line(log: str, about: tuple[str, ...]) -> str:
    """Level and words of the first of the worst lines about one of these words, or about anything if there are none."""
    found: dict[str, str] = {}
    for line in log.splitlines():
        match = LOG_LINE.match(line)
        if match is not None and not NOISE.search(line) and (not about or any(word in line for word in about)):
            found.setdefault(match["level"], match["words"][:QUOTED_CHARACTERS_MAX])
    return next((f"{level} in the log (“{found[level]}”)" for level in ("FATAL", "ERROR", "WARN") if level in found), "")


def _innermost(trace: str) -> str:
    causes = re.findall(r"^(?:Caused by: )?([\w.$]+)(?::|$)", trace, re.MULTILINE)
    return causes[-1].rpartition(".")[2] if causes else ""
