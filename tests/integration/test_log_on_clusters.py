"""Logs that are cut while they are read: by DeleteRecords or retention at the front, by a lost tail at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from integration.mirroring import create_topics, move_log_start, produce, recreate_topic

from sparkmirror.clusters import ClusterClient, read_range, read_to_end
from sparkmirror.config.values import ClusterSettings
from sparkmirror.errors import SourceOffsetLost, SourceTruncated
from sparkmirror.local import LocalCluster
from sparkmirror.model import TopicPartition

pytestmark = pytest.mark.timeout(30)  # what these tests found before went on for ever
RECORDS = 12
VALUE = bytes(900_000)  # one record is one batch, and one read brings four of them


@pytest.fixture
def client(source_cluster: LocalCluster) -> Iterator[ClusterClient]:
    host, port = source_cluster.bootstrap.split(",")[0].split(":")
    with closing(ClusterClient(ClusterSettings("A", ((host, int(port)),), {}))) as client:
        yield client


@pytest.fixture
def log(source_cluster: LocalCluster, topic_name: Callable[..., str]) -> TopicPartition:
    """A partition of twelve batches."""
    partition = TopicPartition(topic_name("cut"), 0)
    create_topics(source_cluster, {partition.topic: (1, {})})
    fill(source_cluster, partition, RECORDS)
    return partition


def fill(cluster: LocalCluster, partition: TopicPartition, count: int) -> None:
    produce(cluster, partition.topic, partition.partition, [VALUE] * count, batch=1)


def recreate(cluster: LocalCluster, partition: TopicPartition, count: int) -> None:
    """The same name, with fewer records: what a reader sees of a log that lost its tail."""
    recreate_topic(cluster, partition.topic)
    fill(cluster, partition, count)


def test_records_deleted_while_a_log_is_read_to_its_end_are_left_out(
    source_cluster: LocalCluster, client: ClusterClient, log: TopicPartition
) -> None:
    records = read_to_end(client, log)
    first = next(records).offset
    move_log_start(source_cluster, log.topic, 0, RECORDS - 1)
    found = [first, *(record.offset for record in records)]
    assert found[:1] + found[-1:] == [0, RECORDS - 1]
    assert len(found) < RECORDS


def test_a_log_that_is_emptied_while_it_is_read_ends_where_it_did(
    source_cluster: LocalCluster, client: ClusterClient, log: TopicPartition
) -> None:
    records = read_to_end(client, log)
    next(records)
    move_log_start(source_cluster, log.topic, 0, RECORDS)
    assert max(record.offset for record in records) < RECORDS - 1


@pytest.mark.parametrize("left", [0, 4])
def test_a_log_that_loses_its_tail_while_it_is_read_to_its_end_is_an_error(
    source_cluster: LocalCluster, client: ClusterClient, log: TopicPartition, left: int
) -> None:
    records = read_to_end(client, log)
    next(records)
    recreate(source_cluster, log, left)
    with pytest.raises(SourceTruncated, match=f"ends at {left}, before offset {RECORDS}"):
        list(records)


@pytest.mark.parametrize("left", [0, 4])
def test_a_range_whose_log_loses_its_tail_is_an_error(
    source_cluster: LocalCluster, client: ClusterClient, log: TopicPartition, left: int
) -> None:
    batches = read_range(client, log, 0, RECORDS, read_committed=False)
    next(batches)
    recreate(source_cluster, log, left)
    with pytest.raises(SourceTruncated, match=f"ends at {left}, before offset {RECORDS}"):
        list(batches)


def test_a_range_whose_front_is_deleted_while_it_is_read_is_an_error(
    source_cluster: LocalCluster, client: ClusterClient, log: TopicPartition
) -> None:
    batches = read_range(client, log, 0, RECORDS, read_committed=False)
    next(batches)
    move_log_start(source_cluster, log.topic, 0, RECORDS - 1)
    with pytest.raises(SourceOffsetLost, match=f"the log starts at {RECORDS - 1}"):
        list(batches)
