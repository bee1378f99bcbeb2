"""Options of `kafka-records`: named as in Spark's connector, judged before anything runs."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from sparkmirror.datasource.options import OffsetEdge, ReadOptions, WriteOptions
from sparkmirror.errors import ConfigInvalid
from sparkmirror.model import TopicPartition

SERVERS = {"kafka.bootstrap.servers": "one:9092,two:9092"}


def test_names_are_read_whatever_their_case() -> None:
    given = SERVERS | {"SUBSCRIBE": " a , b ", "startingoffsets": "earliest", "maxOffsetsPerTrigger": "7"}
    found = ReadOptions.of(given, streaming=True)
    assert (found.topics, found.start, found.rows_max) == (("a", "b"), OffsetEdge("earliest"), 7)
    assert found.cluster.settings().bootstrap_servers == (("one", 9092), ("two", 9092))


def test_a_stream_starts_at_the_end_and_a_table_at_the_beginning() -> None:
    given = SERVERS | {"subscribe": "a"}
    assert ReadOptions.of(given, streaming=True).start == OffsetEdge("latest")
    assert ReadOptions.of(given, streaming=False).start == OffsetEdge("earliest")


def test_offsets_are_read_by_partition() -> None:
    given = SERVERS | {"subscribe": "a", "startingOffsets": '{"a": {"0": 17, "1": -1}}'}
    found = ReadOptions.of(given, streaming=False).start.offsets
    assert dict(found) == {TopicPartition("a", 0): 17, TopicPartition("a", 1): -1}


def test_every_mistake_is_told_at_once() -> None:
    given = {"subscribe": "a", "maxOffsetsPerTrigger": "0", "failOnDataLoss": "perhaps", "who": "me"}
    given["endingOffsets"] = "latest"
    with pytest.raises(ConfigInvalid) as caught:
        ReadOptions.of(given, streaming=True)
    told = "\n".join(caught.value.problems)
    words = ("bootstrap.servers", "maxOffsetsPerTrigger", "failOnDataLoss", "a stream has no end", "who: is not an option")
    assert [word for word in words if word not in told] == []


def test_a_cluster_of_a_file_carries_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(
        "clusters = a, b\na->b.enabled = true\na.bootstrap.servers = one:1\nb.bootstrap.servers = two:2\n"
        "b.security.protocol = SASL_PLAINTEXT\nb.sasl.mechanism = PLAIN\n"
        "b.sasl.jaas.config = org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="u" password="pa55";\n'
    )
    options = WriteOptions.of({"config": str(path), "cluster": "b", "topic": "t"})
    assert b"pa55" not in pickle.dumps(options)
    assert options.cluster.settings().security["sasl.mechanism"] == "PLAIN"
    with pytest.raises(ConfigInvalid, match="expected one of a, b, found 'c'"):
        WriteOptions.of({"config": str(path), "cluster": "c"}).cluster.settings()


@pytest.mark.parametrize(("name", "value"), [("kafka.compression.type", "rar"), ("kafka.batch.size", "12")])
def test_a_wrong_value_for_writing_is_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigInvalid, match=f"{name}: expected"):
        WriteOptions.of(SERVERS | {name: value})
