"""Two fake clusters with the settings of a flow between them, and the ledger of what it copied."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass

from fake.cluster import FakeCluster
from sparkmirror.clusters import ClusterClient, append_records
from sparkmirror.config import FlowSettings, Settings, parse
from sparkmirror.ledger import Attempt, LedgerRecord, Open, Position, Receipt, Run, encode
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.topology import ledger_topic

__all__ = ["FACTORS", "FakePair", "copied", "fake_pair"]

# Produce, OffsetCommit, CreateTopics, DeleteTopics, DeleteRecords, InitProducerId, AddPartitionsToTxn, EndTxn, CreateAcls,
# AlterConfigs, CreatePartitions, IncrementalAlterConfigs, OffsetDelete
WRITING = frozenset({0, 8, 19, 20, 21, 22, 24, 26, 30, 33, 37, 44, 47})
# Those of the reference document; the topic of positions and the ledger follow them.
INTERNAL = ("checkpoints", "heartbeats", "offset-syncs")
FACTORS = ("replication.factor", *(f"{name}.topic.replication.factor" for name in INTERNAL))


@dataclass(frozen=True)
class FakePair:
    """Clusters A and B, the file of a flow from A to B, and a client of each."""

    source: FakeCluster
    target: FakeCluster
    settings: Settings
    source_client: ClusterClient
    target_client: ClusterClient

    @property
    def flow(self) -> FlowSettings:
        """From A to B."""
        return self.settings.flow(FlowName("A", "B"))

    def write_ledger(self, records: Sequence[LedgerRecord]) -> None:
        """As if this had been copied."""
        topic = ledger_topic("A")
        if topic not in self.target.topics:
            self.target.create_topic(topic, configs={"cleanup.policy": "compact"})
        entries = [encode(record) for record in records]
        append_records(self.target_client, TopicPartition(topic, 0), entries, self.target.now_ms())

    def writes(self) -> list[int]:
        """The requests to either that change something, since the last look."""
        found = [api for cluster in (self.source, self.target) for api in cluster.requests if api in WRITING]
        self.source.requests.clear()
        self.target.requests.clear()
        return found


@contextmanager
def fake_pair(more: Mapping[str, str]) -> Iterator[FakePair]:
    """Opens both."""
    with ExitStack() as opened:
        source, target = opened.enter_context(FakeCluster()), opened.enter_context(FakeCluster())
        keys = {"clusters": "A, B", "A.bootstrap.servers": source.bootstrap, "B.bootstrap.servers": target.bootstrap}
        keys |= {"A->B.enabled": "true"} | dict.fromkeys(FACTORS, "1") | dict(more)
        settings = parse("".join(f"{key} = {value}\n" for key, value in keys.items()), "f", {})
        flow = settings.flow(FlowName("A", "B"))
        clients = [opened.enter_context(closing(ClusterClient(side))) for side in (flow.source, flow.target)]
        yield FakePair(source, target, settings, *clients)


def copied(alias: str, topic: str, end: Position, *runs: Run) -> list[LedgerRecord]:
    """What the ledger says of partition 0 of a topic copied so far."""
    partition, attempt = TopicPartition(topic, 0), Attempt(1, 0, 1)
    begin = Open(
        partition=partition,
        attempt=attempt,
        previous=None,
        slot=0,
        incarnation=0,
        target_topic=f"{alias}.{topic}",
        producer_id=1,
        producer_epoch=0,
        position=Position(0, 0, 0),
        source_topic_id="s",
        target_topic_id="t",
        read_committed=False,
        shared=False,
        fenced=True,
        source_compacts=False,
    )
    records = sum(run.length for run in runs)
    return [begin, Receipt(partition, attempt, end, -1, records, 0, runs)]
