"""What of a run with random faults is wrong: Java reads both clusters, and the groups are looked at meanwhile."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, field

from integration.scenario import client_of
from judge import (
    Digests,
    compacted_violations,
    compare,
    group_violations,
    java_digests,
    map_violations,
    named_send,
    newest_violations,
    refuted_sends,
    send_violations,
)
from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from faults.mixed import COMPACTED, LANE_BITS, MIXED, PARTITIONS, TRANSACTED, Outcome, Sent, key_of, send_id
from sparkmirror.driver import FlowLedger
from sparkmirror.local import LocalCluster, consumer_groups
from sparkmirror.model import TopicPartition
from sparkmirror.offsets import OffsetMap

__all__ = ["FLOWS", "GROUPS", "RUN", "GroupWatch", "Judgement", "judge"]

# What each flow reads, and how; both have the same two clusters.
FLOWS = {
    "plain": ("read_uncommitted", (MIXED, TRANSACTED, COMPACTED)),
    "committed": ("read_committed", (TRANSACTED,)),
}
GROUPS = ("group-1", "group-2", "group-3")
RUN = "run"
GROUP_WATCH_S = 1.0

Positions = dict[tuple[str, str], dict[int, int]]  # by group and topic


class GroupWatch:
    """Looks at the groups on the target all the time: none may ever be set back."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap, self._stop = bootstrap, threading.Event()
        self._seen: dict[tuple[str, str, int], int] = {}
        self.violations: list[str] = []
        self.looks = 0
        self._thread = threading.Thread(target=self._run, name="group watch", daemon=True)

    def __enter__(self) -> GroupWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            with (
                contextlib.suppress(KafkaError),  # the target is down now and then
                contextlib.closing(KafkaAdminClient(bootstrap_servers=self._bootstrap)) as admin,
            ):
                while not self._stop.wait(GROUP_WATCH_S):
                    for group in GROUPS:
                        self.see(group, {(p.topic, p.partition): at.offset for p, at in _positions(admin, group).items()})
                    self.looks += 1
            self._stop.wait(GROUP_WATCH_S)

    def see(self, group: str, offsets: dict[tuple[str, int], int]) -> None:
        """One look at a group."""
        for (topic, partition_number), offset in offsets.items():
            before = self._seen.get((group, topic, partition_number), -1)
            if offset < before:
                self.violations.append(f"{group} was set back in {topic}-{partition_number}: {before} to {offset}")
            self._seen[group, topic, partition_number] = offset


def _positions(admin: KafkaAdminClient, group: str) -> dict:  # type: ignore[type-arg]  # of a library without types
    return admin.list_group_offsets(group)[group]


@dataclass
class Judgement:
    """Everything that Java finds wrong, and how many records it read on the source."""

    records: int = 0
    violations: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def judge(source_cluster: LocalCluster, target_cluster: LocalCluster, sent: Sent) -> Judgement:
    """Reads both clusters whole."""
    found = Judgement()
    identify = named_send(RUN, send_id)
    places = java_positions(source_cluster), java_positions(target_cluster)
    logged: dict[str, Digests] = {}
    for alias, (isolation, topics) in FLOWS.items():
        with client_of(target_cluster) as client:
            ledger = FlowLedger(client, f"mm2-ledger.{alias}.internal").read_all()
        for topic in topics:
            source = java_digests(source_cluster.bootstrap, topic, isolation, identify)
            target = java_digests(target_cluster.bootstrap, f"{alias}.{topic}", "read_uncommitted", identify)
            found.records += sum(map(len, source.records.values()))
            reported = [f"source: {line}" for line in source.damaged] + [f"target: {line}" for line in target.damaged]
            is_whole = isolation == "read_uncommitted"
            wrong, refuted = _sends(topic, source, target, sent, None if is_whole else logged[topic])
            reported += wrong
            if is_whole:
                logged[topic] = source
            if refuted:
                found.notes.append(f"{refuted} sends that kafka-python called committed are aborted in the source's own log")
            for number in range(PARTITIONS[topic]):
                offsets = OffsetMap(ledger.of(TopicPartition(topic, number)).runs())
                reported += _places(topic, number, source, target, offsets)
            if topic != COMPACTED:
                reported += compare(source.records, target.records)
                reported += _groups(places, alias, topic, source, target)
            found.violations += [f"{alias}.{topic}: {line}" for line in reported]
    return found


def _outcomes(topic: str, number: int, sent: Sent) -> dict[int, int]:
    """What became of each send to a partition, as the workload knows it."""
    return {
        send_id(lane, sequence): outcome
        for (lane, sent_topic, partition), codes in sent.outcomes.items()
        if (sent_topic, partition) == (topic, number)
        for sequence, outcome in enumerate(codes)
    }


def _sends(topic: str, source: Digests, target: Digests, sent: Sent, logged: Digests | None) -> tuple[list[str], int]:
    """The workload's ledger against both sides, partition by partition, and how many of its sends the source refutes.

    `logged` is given where both sides were read as committed: it is then everything that the source's log holds.
    """
    found = []
    refuted = 0
    for number in range(PARTITIONS[topic]):
        outcomes = _outcomes(topic, number, sent)
        there, here = source.sends[number], target.sends[number]
        if topic == COMPACTED:
            reported = newest_violations(outcomes, _key_of_send, {"source": there, "target": here})
            reported += compacted_violations(source.records[number], target.records[number])
        else:
            if logged is not None:
                aborted = refuted_sends(outcomes, there, logged.sends[number])
                outcomes |= dict.fromkeys(aborted, Outcome.ABORTED)
                refuted += len(aborted)
            reported = send_violations(outcomes, there, here, committed_only=logged is not None)
        found += [f"partition {number}: {line}" for line in reported]
    return found, refuted


def _key_of_send(send: int) -> bytes:
    return key_of(send & ((1 << LANE_BITS) - 1))


def _places(topic: str, number: int, source: Digests, target: Digests, offsets: OffsetMap) -> list[str]:
    """The map against both sides; in a compacted topic only of what survived on both."""
    records, copies = source.records[number], target.records[number]
    if topic == COMPACTED:
        survived = {(copy.key, copy.value, copy.timestamp) for copy in copies}
        records = [record for record in records if (record.key, record.value, record.timestamp) in survived]
    return [f"partition {number}: {line}" for line in map_violations(records, copies, offsets.downstream)]


def java_positions(cluster: LocalCluster) -> Positions:
    """Where all groups are, as one call of `kafka-consumer-groups` shows it."""
    found: Positions = {}
    for line in consumer_groups(cluster.bootstrap, "--describe", "--offsets", "--all-groups").splitlines():
        group, topic, partition, offset, *_ = [*line.split(), "", "", "", ""]
        if partition.isdigit() and offset.isdigit():
            found.setdefault((group, topic), {})[int(partition)] = int(offset)
    return found


def _groups(places: tuple[Positions, Positions], alias: str, topic: str, source: Digests, target: Digests) -> list[str]:
    found = []
    for group in GROUPS:
        at_source, at_target = places[0].get((group, topic)), places[1].get((group, f"{alias}.{topic}"), {})
        if not at_source or at_source.keys() != at_target.keys():
            found.append(f"{group} is at {at_source} on the source and at {at_target} on the target")
            continue
        for number, place in at_source.items():
            records, copies = source.records[number], target.records[number]
            reported = group_violations(records, copies, at_source=place, at_target=at_target[number])
            found += [f"{group}, partition {number}, {place} to {at_target[number]}: {line}" for line in reported]
    return found
