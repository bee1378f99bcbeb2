"""The driver's end of a flow's ledger: creates it, reads it to its settled end, follows it, appends to it."""

from __future__ import annotations

import time
from collections.abc import Sequence

from sparkmirror.clusters import (
    ClusterClient,
    LogReader,
    NewTopic,
    append_records,
    append_whole,
    create_topics,
    describe_topic_configs,
    factor_hint,
    read_to_end,
    whole_batch,
)
from sparkmirror.errors import BrokerRefused
from sparkmirror.ledger import LedgerRecord, LedgerView, encode
from sparkmirror.model import TopicPartition
from sparkmirror.state import ForeignRecord, ForeignRecords, LedgerTable
from sparkmirror.wire import Record
from sparkmirror.wire.error_codes import UNKNOWN_SERVER_ERROR

COMPACT = "compact"
OFFSETS_FACTOR_KEY = "offset.storage.replication.factor"


def ensure_compacted_topic(
    client: ClusterClient, topic: str, partitions: int, replication_factor: int, key: str = OFFSETS_FACTOR_KEY
) -> None:
    """Creates an internal topic unless it is there, with however many partitions; waits until it has leaders.

    `key` sets the replication factor in the configuration file.
    """
    found = client.view([topic]).topics.get(topic)
    if found is None or found.error:
        refused = create_topics(
            client, [NewTopic(topic, partitions, replication_factor, {"cleanup.policy": COMPACT})]
        )[topic]
        if refused is not None:
            raise internal_topic_refused(client.alias, topic, refused, key, len(client.view(()).brokers))
    else:
        partitions = found.partitions
    client.leader_node(TopicPartition(topic, partitions - 1))


def internal_topic_refused(alias: str, topic: str, refused: str, key: str, brokers: int) -> BrokerRefused:
    """What ends a flow whose internal topic the cluster does not create."""
    by_hand = "create it by hand with cleanup.policy=compact"
    return BrokerRefused(
        f"cluster {alias}: internal topic {topic} cannot be created: {refused}",
        error_code=UNKNOWN_SERVER_ERROR,
        hint=factor_hint(refused, key, brokers) or by_hand,
    )


def require_compacted(client: ClusterClient, *topics: str) -> None:
    """Raises if retention may delete from these topics: what was copied would be copied again. Needs DescribeConfigs."""
    for topic, entries in describe_topic_configs(client, topics).items():
        policy = next((entry.value for entry in entries if entry.name == "cleanup.policy"), COMPACT)
        if policy != COMPACT:
            raise BrokerRefused(
                f"cluster {client.alias}: internal topic {topic} has cleanup.policy={policy}, so that its records may be "
                f"deleted; only {COMPACT} keeps them",
                error_code=UNKNOWN_SERVER_ERROR,
                hint=f"kafka-configs.sh --alter --topic {topic} --add-config cleanup.policy={COMPACT}",
            )


Entry = tuple[bytes, bytes | None]


class FlowLedger:
    """One flow's ledger and what it says."""

    def __init__(self, client: ClusterClient, topic: str) -> None:
        self.topic = topic
        self.table = LedgerTable()
        self.foreign = ForeignRecords()
        self._client = client
        self.partition = TopicPartition(topic, 0)
        self._reader = LogReader(client, self.partition, 0)

    @property
    def view(self) -> LedgerView:
        """What the ledger says, as far as it was read."""
        return self.table.view

    @property
    def offset(self) -> int:
        """The next ledger offset to be read."""
        return self._reader.offset

    def read_all(self) -> LedgerView:
        """The view at the settled end; reading goes on from there."""
        self.read_new()
        return self.view

    def read_new(self) -> list[LedgerRecord]:
        """Everything up to the settled end, folded into the view."""
        found = []
        for record in read_to_end(self._client, self.partition, self._reader.offset):
            decoded = self._fold(record)
            if decoded is not None:
                found.append(decoded)
            self._reader.offset = record.offset + 1
        return found

    def poll(self, wait_ms: int) -> list[LedgerRecord]:
        """New records, folded into the view."""
        return [decoded for record in self._reader.poll(wait_ms) if (decoded := self._fold(record)) is not None]

    def _fold(self, record: Record) -> LedgerRecord | None:
        found = self.table.fold(self.partition, record)
        if isinstance(found, ForeignRecord):
            self.foreign.add(found)
            return None
        return found

    def append(self, records: Sequence[LedgerRecord]) -> None:
        """Appends, acked."""
        if records:
            append_records(self._client, self.partition, [encode(r) for r in records], int(time.time() * 1000))

    def append_whole(self, entries: Sequence[Entry], producer: tuple[int, int]) -> None:
        """Appends all or none, acked, under this epoch of the flow's producer; raises FlowOwnedByAnother if it is over."""
        append_whole(self._client, self.partition, self.require_whole(entries, producer))

    def require_whole(self, entries: Sequence[Entry], producer: tuple[int, int] = (0, 0)) -> bytearray:
        """The one batch that holds them; raises RequestRefused if none can."""
        return whole_batch(self.partition, entries, int(time.time() * 1000), producer)

    def remove(self, tombstones: Sequence[tuple[bytes, None]]) -> None:
        """Writes tombstones, acked."""
        if tombstones:
            append_records(self._client, self.partition, list(tombstones), int(time.time() * 1000))
