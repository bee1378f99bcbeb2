"""run --once: groups get their offsets on the target also where there was nothing to copy."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from fake.cluster import FakeCluster, FakeGroup
from fake.flow import append, running_flow, write_flow

from sparkmirror.clusters import ClusterClient, read_to_end
from sparkmirror.config import load
from sparkmirror.control import RunOptions, place_of
from sparkmirror.control.group_sync import GroupSync
from sparkmirror.model import Checkpoint, TopicPartition
from sparkmirror.wire import decode_checkpoint


def checkpoints_after_once(path: Path) -> dict[TopicPartition, Checkpoint]:
    """Those of the last round of a run that copied what there was."""
    settings, options = load(str(path)), RunOptions(once=True)
    [flow] = settings.enabled_flows(None)
    with running_flow(path, options) as running:
        running.thread.join(30)
        assert running.conductor.failure is None
        status = running.conductor.status
    with closing(ClusterClient(flow.source)) as source, closing(ClusterClient(flow.target)) as target:
        GroupSync(flow, place_of(settings, flow, options, slots=1), status, source, target).emit()
        records = read_to_end(target, TopicPartition("A.checkpoints.internal", 0))
        found = [decode_checkpoint(record.key or b"", record.value or b"") for record in records]
    return {checkpoint.partition: checkpoint for checkpoint in found}


@pytest.mark.parametrize("held", [0, 2])
def test_a_group_gets_its_offset_on_an_empty_partition(tmp_path: Path, held: int) -> None:
    with FakeCluster() as source, FakeCluster() as target:
        source.create_topic("orders", 2)
        append(source, "orders", b"1", b"2", b"3")
        if held:  # the copy of the next record will lie behind what is there
            target.create_topic("A.orders", 2)
            append(target, "A.orders", *[b"x"] * held, partition=1)
        source.groups["billing"] = FakeGroup({("orders", 0): (3, ""), ("orders", 1): (0, "note")})
        found = checkpoints_after_once(write_flow(tmp_path, source, target))
    empty = TopicPartition("A.orders", 1)
    assert found[TopicPartition("A.orders", 0)].downstream_offset == 3
    assert found[empty] == Checkpoint("billing", empty, 0, held, "note")


def test_a_group_elsewhere_in_a_partition_that_was_not_copied_gets_none(tmp_path: Path) -> None:
    with FakeCluster() as source, FakeCluster() as target:
        source.create_topic("orders")
        append(source, "orders", b"1", b"2", b"3")
        source.groups["billing"] = FakeGroup({("orders", 0): (1, "")})
        file = write_flow(tmp_path, source, target, {"A.consumer.auto.offset.reset": "latest"})
        assert checkpoints_after_once(file) == {}
