"""The client's questions on a fake broker: what is read, when it is read again, and what is missing."""

from __future__ import annotations

import doctest
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fake import FakeCluster
from fake.pair import copied

from sparkmirror.client import (
    Basis,
    CheckpointsMissing,
    DeadlineReached,
    LedgerMissing,
    MirrorClient,
    RemoteOffset,
    RemotePosition,
    TopicPartition,
    translate_offsets,
)
from sparkmirror.clusters import ClusterClient, append_records
from sparkmirror.clusters import log as reading  # to watch what is read
from sparkmirror.config import ClusterSettings
from sparkmirror.ledger import Position, Run, encode
from sparkmirror.model import Checkpoint
from sparkmirror.state import following
from sparkmirror.topology import ledger_topic
from sparkmirror.wire import encode_checkpoint

Entry = tuple[bytes, bytes | None]
DOCUMENT = Path(__file__).parents[3] / "docs" / "client.md"
AT_ONCE_SECONDS = 5.0  # far less than any of the door's own limits
ALIAS = "src"


def append(cluster: FakeCluster, topic: str, entries: Sequence[Entry]) -> None:
    settings = ClusterSettings("asked", ((cluster.host, cluster.port),), {})
    with closing(ClusterClient(settings)) as client:
        append_records(client, TopicPartition(topic, 0), entries, cluster.now_ms())


def fill(cluster: FakeCluster, topic: str, entries: Sequence[Entry]) -> None:
    cluster.create_topic(topic, configs={"cleanup.policy": "compact"})
    append(cluster, topic, entries)


def checkpoint(group: str, topic: str, partition: int, downstream: int, metadata: str = "") -> Entry:
    return encode_checkpoint(Checkpoint(group, TopicPartition(topic, partition), 7, downstream, metadata))


def properties_of(cluster: FakeCluster) -> dict[str, str]:
    return {"bootstrap.servers": cluster.bootstrap}


# --- checkpoints -----------------------------------------------------------------------------------------------


def test_second_question_hears_of_new_checkpoints(fake_cluster: FakeCluster) -> None:
    topic, at = f"{ALIAS}.checkpoints.internal", TopicPartition(f"{ALIAS}.orders", 0)
    fill(fake_cluster, topic, [checkpoint("g", at.topic, 0, 5)])
    with MirrorClient(properties_of(fake_cluster)) as client:
        assert client.remote_consumer_offsets("g", ALIAS, 30) == {at: RemoteOffset(5, "")}
        append(fake_cluster, topic, [checkpoint("g", at.topic, 0, 9, "new")])
        assert client.remote_consumer_offsets("g", ALIAS, 30) == {at: RemoteOffset(9, "new")}
        fake_cluster.create_topic(topic)
        append(fake_cluster, topic, [checkpoint("g", at.topic, 0, 1), checkpoint("h", at.topic, 0, 2)])
        assert client.remote_consumer_offsets("g", ALIAS, 30) == {at: RemoteOffset(1, "")}
        assert client.remote_consumer_offsets("nobody", ALIAS, 30) == {}
        client.close()
        assert client.remote_consumer_offsets("g", ALIAS, 30) == {at: RemoteOffset(1, "")}


def test_empty_topic_of_checkpoints_is_an_empty_answer(fake_cluster: FakeCluster) -> None:
    fake_cluster.create_topic(f"{ALIAS}.checkpoints.internal")
    assert translate_offsets(properties_of(fake_cluster), ALIAS, "g", 30) == {}


@pytest.mark.parametrize("error", [CheckpointsMissing, LedgerMissing])
def test_missing_internal_topic_is_told_at_once(fake_cluster: FakeCluster, error: type[Exception]) -> None:
    started = time.monotonic()
    with MirrorClient(properties_of(fake_cluster)) as client, pytest.raises(error, match=f"{ALIAS}.*does not exist"):
        if error is CheckpointsMissing:
            client.remote_consumer_offsets("g", ALIAS, 60)
        else:
            client.translate_exact(ALIAS, {TopicPartition("orders", 0): 0})
    assert time.monotonic() - started < AT_ONCE_SECONDS


def test_ledger_that_is_missing_names_what_else_answers(fake_cluster: FakeCluster) -> None:
    with MirrorClient(properties_of(fake_cluster)) as client, pytest.raises(LedgerMissing, match="remote_consumer_offsets"):
        client.translate_exact(ALIAS, {})


# --- deadlines -------------------------------------------------------------------------------------------------


def test_cluster_that_falls_silent_ends_a_question_at_its_deadline(fake_cluster: FakeCluster) -> None:
    at = TopicPartition(f"{ALIAS}.orders", 0)
    fill(fake_cluster, f"{ALIAS}.checkpoints.internal", [checkpoint("g", at.topic, 0, 5)])
    with MirrorClient(properties_of(fake_cluster)) as client:
        assert client.remote_consumer_offsets("g", ALIAS, 30) == {at: RemoteOffset(5, "")}
        with fake_cluster.silent(), pytest.raises(DeadlineReached, match=rf"{ALIAS}\.checkpoints\.internal"):
            client.remote_consumer_offsets("g", ALIAS, 0.05)
        assert client.remote_consumer_offsets("g", ALIAS, 30) == {at: RemoteOffset(5, "")}


def test_deadline_amid_the_topic_returns_no_part_of_it(
    fake_cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(fake_cluster, f"{ALIAS}.checkpoints.internal", [checkpoint("g", f"{ALIAS}.orders", 0, 5)])
    append(fake_cluster, f"{ALIAS}.checkpoints.internal", [checkpoint("g", f"{ALIAS}.orders", 0, 9)])
    read_raw, is_slow = reading.read_raw, [True]

    def slow(client: ClusterClient, partition: TopicPartition, offset: int, **more: Any) -> Any:
        """One batch for each answer, and none in time after the first."""
        found = read_raw(client, partition, offset, **more)
        if is_slow[0]:
            found.batches = found.batches[:1]
            time.sleep(0.75)
        return found

    monkeypatch.setattr(reading, "read_raw", slow)
    with MirrorClient(properties_of(fake_cluster)) as client:
        with pytest.raises(DeadlineReached, match=r"read only to offset [01] of 2"):
            client.remote_consumer_offsets("g", ALIAS, 0.5)
        is_slow[0] = False
        found = client.remote_consumer_offsets("g", ALIAS, 30)
        assert found == {TopicPartition(f"{ALIAS}.orders", 0): RemoteOffset(9, "")}


# --- the ledger ------------------------------------------------------------------------------------------------


def test_second_exact_question_reads_only_what_is_new(
    fake_cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_at: list[int] = []
    read_raw = reading.read_raw

    def noted(client: ClusterClient, partition: TopicPartition, offset: int, **more: Any) -> Any:
        read_at.append(offset)
        return read_raw(client, partition, offset, **more)

    monkeypatch.setattr(reading, "read_raw", noted)
    source, remote, ledger = TopicPartition("orders", 0), TopicPartition(f"{ALIAS}.orders", 0), ledger_topic(ALIAS)
    fill(fake_cluster, ledger, [encode(r) for r in copied(ALIAS, "orders", Position(10, 10, 0), Run(0, 0, 10))])
    with MirrorClient(properties_of(fake_cluster)) as client:
        assert client.translate_exact(ALIAS, {source: 14}) == {source: RemotePosition(remote, 10, Basis.BEYOND)}
        assert client.translate_exact(ALIAS, {source: 7}) == {source: RemotePosition(remote, 7, Basis.EXACT)}
        assert read_at == [0]
        later = copied(ALIAS, "orders", Position(16, 15, 0), Run(0, 0, 10), Run(11, 10, 5))
        append(fake_cluster, ledger, [encode(later[1])])
        assert client.translate_exact(ALIAS, {source: 14}) == {source: RemotePosition(remote, 13, Basis.EXACT)}
        assert read_at == [0, 2]
        assert client.translate_exact(ALIAS, {TopicPartition("unheard", 0): 3}) == {}
        monkeypatch.setattr(following, "KEPT_S_MAX", -1.0)
        assert client.translate_exact(ALIAS, {source: 14}) == {source: RemotePosition(remote, 13, Basis.EXACT)}
        assert read_at == [0, 2, 0]
        monkeypatch.undo()
        fake_cluster.create_topic(ledger)
        assert client.translate_exact(ALIAS, {source: 14}) == {}


# --- docs/client.md --------------------------------------------------------------------------------------------


def test_examples_of_the_document_are_true(fake_cluster: FakeCluster) -> None:
    for name in ("primary.heartbeats", "primary.edge.heartbeats", "primary.orders"):
        fake_cluster.create_topic(name)
    fill(fake_cluster, "primary.checkpoints.internal", [checkpoint("billing", "primary.orders", 0, 42)])
    ledger = copied("primary", "orders", Position(200, 198, 0), Run(0, 0, 100), Run(102, 100, 98))
    fill(fake_cluster, ledger_topic("primary"), [encode(record) for record in ledger])
    text = DOCUMENT.read_text(encoding="utf-8").replace("backup.example.com:9092", fake_cluster.bootstrap)
    text = text.replace("```python\n", "").replace("```\n", "")
    examples = doctest.DocTestParser().get_doctest(text, {}, DOCUMENT.name, str(DOCUMENT), 0)
    assert len(examples.examples) == 6
    told: list[str] = []
    assert doctest.DocTestRunner().run(examples, out=told.append).failed == 0, "".join(told)
