"""How a task of the transform query reports to its driver: through the ledger, as slots do."""

from __future__ import annotations

import time
from collections.abc import Sequence

from sparkmirror.clusters import append_records
from sparkmirror.datasource.connections import client_of
from sparkmirror.errors import ReplicationError
from sparkmirror.ledger import LedgerRecord, State, encode
from sparkmirror.model import TopicPartition
from sparkmirror.status.remedies import Remedies
from sparkmirror.transforms.orders import QueryEntry, QueryOrder


def report(order: QueryOrder, records: Sequence[LedgerRecord]) -> None:
    """Appends to the ledger, acked."""
    client = client_of(order.cluster(order.target))
    append_records(client, TopicPartition(order.ledger_topic, 0), [encode(r) for r in records], int(time.time() * 1000))


def stop_partition(order: QueryOrder, entry: QueryEntry, error: ReplicationError, next_upstream: int) -> None:
    """Records that this partition stopped; the driver starts a query without it."""
    hinted = Remedies(order.file_words).with_hint(error, entry.place, next_upstream)
    report(order, [State.stopped(entry.place, entry.attempt, hinted)])
