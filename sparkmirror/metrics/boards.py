"""Figures of Connect's workers and clients that Strimzi's MirrorMaker 2 boards show, as far as they have a meaning here.

Each has two names: what the JMX exporter makes of Kafka's bean, and what Strimzi's metrics reporter writes. A worker is this
process, a connector one of the three of a flow, a task a slot or one of the other two connectors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from sparkmirror.metrics.names import BOARD, Labels, Metric
from sparkmirror.status import FlowStatus, partition_lag

CONNECTORS = 3  # of a flow: source, checkpoint, heartbeat
# Nothing is copied while a flow is in one of these: its partitions are being placed.
_PLACING = frozenset({"taking ownership", "recovering", "opening"})
# What is counted of a worker, and its names.
WORKER_NAMES = {
    "connectors": (
        "kafka_connect_worker_connector_count", "kafka_connect_connect_worker_metrics_connector_count",
        "kafka_connect_coordinator_assigned_connectors", "kafka_connect_connect_coordinator_metrics_assigned_connectors",
    ),
    "tasks": (
        "kafka_connect_worker_task_count", "kafka_connect_connect_worker_metrics_task_count",
        "kafka_connect_coordinator_assigned_tasks", "kafka_connect_connect_coordinator_metrics_assigned_tasks",
    ),
    "rebalancing": (
        "kafka_connect_worker_rebalance_rebalancing", "kafka_connect_connect_worker_rebalance_metrics_rebalancing",
    ),
}  # fmt: skip
RECORDS_LAG = ("kafka_consumer_fetch_manager_records_lag", "kafka_consumer_consumer_fetch_manager_metrics_records_lag")
INCOMING = ("kafka_consumer_incoming_byte_total", "kafka_consumer_consumer_metrics_incoming_byte")
OUTGOING = ("kafka_producer_outgoing_byte_total", "kafka_producer_producer_metrics_outgoing_byte")


def board_metrics(flows: Sequence[FlowStatus]) -> Iterator[Metric]:
    """Every figure of the process and its flows under both names."""
    slots = sum(flow.slots for flow in flows)
    counts = {
        "connectors": float(CONNECTORS * len(flows)),
        "tasks": float(slots + (CONNECTORS - 1) * len(flows)),
        "rebalancing": float(any(flow.state in _PLACING for flow in flows)),
    }
    for what, names in WORKER_NAMES.items():
        yield from (Metric(BOARD, name, (), counts[what]) for name in names)
    for flow in flows:
        yield from _of_clients(flow)


def _of_clients(flow: FlowStatus) -> Iterator[Metric]:
    consumer, producer = (_clients(flow, role) for role in ("replication-consumer", "replication-producer"))
    for names, clients in ((INCOMING, consumer), (OUTGOING, producer)):
        yield from (Metric(BOARD, name, tags, float(flow.record_bytes)) for name, tags in zip(names, clients, strict=True))
    for partition, status in sorted(flow.partitions.items()):
        lag = partition_lag(flow, status)
        place = (("topic", partition.topic), ("partition", str(partition.partition)))
        for name, tags in zip(RECORDS_LAG, consumer, strict=True):
            yield Metric(BOARD, name, (*tags, *place), math.nan if lag is None else float(lag))


def _clients(flow: FlowStatus, role: str) -> tuple[Labels, Labels]:
    """The client as both name it. In the JMX exporter's label the quotes of the bean's name are part of the value."""
    name = f"{flow.name}|MirrorSourceConnector-0|{role}"
    ends = (("source", flow.name.source), ("target", flow.name.target))
    return (("clientid", f'"{name}"'), *ends), (("client_id", name), *ends)
