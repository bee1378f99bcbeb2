"""A flow A->B on two fake brokers as sparkmirror left it, and what happens to its clusters on the worst night."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from fake.cluster import FakeCluster
from fake.pair import FakePair, fake_pair
from typer.testing import CliRunner

from sparkmirror.cli.app import app
from sparkmirror.clusters import append_records
from sparkmirror.errors import SparkmirrorError
from sparkmirror.ledger import (
    Attempt,
    Closed,
    LedgerRecord,
    Open,
    Owner,
    PartitionEnd,
    Position,
    Receipt,
    Run,
    SourceEnds,
    State,
)  # fmt: skip
from sparkmirror.model import Checkpoint, TopicPartition
from sparkmirror.state import PositionTable
from sparkmirror.wire import connect_partition, encode_checkpoint, encode_connect_offset

SOURCE_GONE, TARGET_GONE, BOTH_GONE = "the source is gone", "the target is gone", "both are gone"
LOGIN_REFUSED, LEADERLESS = "the source refuses the login", "half the partitions of the source have no leader"
ALL_IS_WELL = "all is well"
STATES = (SOURCE_GONE, TARGET_GONE, BOTH_GONE, LOGIN_REFUSED, LEADERLESS)

SEEN_AGO_MS = 7_200_000  # the mirror saw the source two hours ago
COPIED, ENDS = 10, (10, 17)  # of orders-0 and orders-1: how much is copied, and how much there was
FILE = """clusters = A, B
A.bootstrap.servers = {source}
B.bootstrap.servers = {target}
A->B.enabled = true
A->B.topics = orders
A->B.groups = billing, shipping
replication.factor = 1
checkpoints.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset.storage.replication.factor = 1
sync.group.offsets.enabled = true
emit.heartbeats.enabled = false
heartbeats.replication.enabled = false
sync.topic.acls.enabled = false
tasks.max = 1
A.security.protocol = SASL_PLAINTEXT
A.sasl.mechanism = PLAIN
A.sasl.jaas.config = org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="canary";
"""


@dataclass(frozen=True)
class Ended:
    """What a command printed, on both streams, and its exit status."""

    status: int
    text: str
    out: str


@dataclass(frozen=True)
class Night:
    """The clusters, and the file of the flow."""

    pair: FakePair
    file: str

    def call(self, *words: str) -> Ended:
        """A command of this program; FILE stands for the file, UNDO for one beside it, SQL for a query."""
        names = {"FILE": self.file, "UNDO": f"{self.file}.undo", "SQL": "SELECT * FROM records"}
        filled = [names.get(word, word) for word in words]
        result = CliRunner().invoke(app, filled, env={"NO_COLOR": "1", "COLUMNS": "300"})
        error = result.exception
        if isinstance(error, SparkmirrorError):
            return Ended(error.exit_status, result.output + str(error), result.stdout)
        if error is not None and not isinstance(error, SystemExit):
            raise error
        return Ended(result.exit_code, result.output, result.stdout)


    def strike(self, state: str) -> None:
        """Brings about the state, whoever is connected."""
        source, target = self.pair.source, self.pair.target
        if state in (SOURCE_GONE, BOTH_GONE):
            source.close()
        if state in (TARGET_GONE, BOTH_GONE):
            target.close()
        if state == LOGIN_REFUSED:
            source.passwords = {"ann": "another one"}
            source.hang_up()
        if state == LEADERLESS:
            source.leaderless.add(("orders", 1))

    def mend(self, state: str) -> None:
        """Ends it."""
        source, target = self.pair.source, self.pair.target
        if state in (SOURCE_GONE, BOTH_GONE):
            source.reopen()
        if state in (TARGET_GONE, BOTH_GONE):
            target.reopen()
        source.passwords = {"ann": "canary"}
        source.leaderless.clear()


@contextmanager
def worst_night(state: str, folder: Path, *, is_released: bool = False) -> Iterator[Night]:
    """Opens the clusters, fills them, and brings about the state."""
    with ExitStack() as opened:
        pair = opened.enter_context(fake_pair({"A->B.topics": "orders"}))
        _fill(pair, is_released=is_released)
        pair.source.passwords = {"ann": "canary"}
        pair.source.hang_up()
        file = folder / "mm2.properties"
        file.write_text(FILE.format(source=pair.source.bootstrap, target=pair.target.bootstrap))
        night = Night(pair, str(file))
        night.strike(state)
        yield night


# --- what lies on the clusters -----------------------------------------------------------------------------------


def _fill(pair: FakePair, *, is_released: bool) -> None:
    source, target, now_ms = pair.source, pair.target, pair.target.now_ms()
    compacted = {"cleanup.policy": "compact"}
    source.create_topic("orders", 2)
    source.create_topic("mm2-offset-syncs.B.internal", configs=compacted)
    target.create_topic("A.orders", 2)
    target.create_topic("A.checkpoints.internal", configs=compacted)
    target.create_topic("mm2-offsets.A.internal", 25, configs=compacted)
    for cluster, name in ((source, "orders"), (target, "A.orders")):
        cluster.topics[name].topic_id = uuid.uuid5(uuid.NAMESPACE_DNS, name)  # that of every night, so that all are one flow
    for index, end in enumerate(ENDS):
        _records(pair, index, end, now_ms)
    pair.write_ledger(list(_ledger(source, target, now_ms, is_released=is_released)))
    positions = PositionTable("A")
    points = []
    for index in range(2):
        place = TopicPartition("orders", index)
        stored = [(positions.key_of(place), encode_connect_offset(COPIED - 1))]
        append_records(pair.target_client, _place_of(stored[0][0]), stored, now_ms)
        points += [encode_checkpoint(Checkpoint(group, TopicPartition("A.orders", index), 8, 8, ""))
                   for group in ("billing", "shipping")]  # fmt: skip
    append_records(pair.target_client, TopicPartition("A.checkpoints.internal", 0), points, now_ms - SEEN_AGO_MS)
    for cluster, name, topic, offset in (
        (source, "billing", "orders", 8), (source, "shipping", "orders", 8), (target, "billing", "A.orders", 5),
    ):  # fmt: skip
        group = cluster.groups[name] = cluster.group_of(name)
        group.commits |= {(topic, index): (offset, "") for index in range(2)}


def _place_of(key: bytes) -> TopicPartition:
    return TopicPartition("mm2-offsets.A.internal", connect_partition(key))


def _records(pair: FakePair, index: int, end: int, now_ms: int) -> None:
    records = [(b"key", b"value %d of %d" % (number, index)) for number in range(end)]
    append_records(pair.source_client, TopicPartition("orders", index), records, now_ms)
    append_records(pair.target_client, TopicPartition("A.orders", index), records[:COPIED], now_ms)


def _ledger(source: FakeCluster, target: FakeCluster, now_ms: int, *, is_released: bool) -> Iterator[LedgerRecord]:
    here, there = source.topics["orders"].topic_id.hex, target.topics["A.orders"].topic_id.hex
    seen_ms = now_ms - SEEN_AGO_MS
    yield Owner(1, 0, 1, 0, "another-host/pid 7", 9, (1,), is_released, source.cluster_id, target.cluster_id, seen_ms)
    yield SourceEnds("orders", 0, seen_ms, here, tuple(PartitionEnd(n, end, seen_ms) for n, end in enumerate(ENDS)))
    for index in range(2):
        place, attempt, end = TopicPartition("orders", index), Attempt(1, 0, 1), Position(COPIED, COPIED, 0)
        yield Open(
            place, attempt, None, 0, 0, "A.orders", 1, 0, Position(0, 0, 0), here, there,
            read_committed=False, shared=False, fenced=True, source_compacts=False,
        )  # fmt: skip
        yield Receipt(place, attempt, end, 0, COPIED, 100, (Run(0, 0, COPIED),), is_final=True)
        yield State(place, attempt, "copying", "", "")
        if is_released:
            yield Closed(place, attempt, end)
