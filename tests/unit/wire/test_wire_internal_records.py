"""MM2's internal records: the examples of the specification, and records that are not what they should be."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.model import Checkpoint, FlowName, Heartbeat, OffsetSync, TopicPartition
from sparkmirror.wire import (
    MalformedInternalRecord,
    SourcePosition,
    checkpoint_key,
    connect_partition,
    decode_checkpoint,
    decode_connect_offset,
    decode_heartbeat,
    decode_offset_sync,
    decode_source_key,
    encode_checkpoint,
    encode_connect_offset,
    encode_heartbeat,
    encode_offset_sync,
    heartbeat_key,
    murmur2,
    source_key,
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
int32 = st.integers(-(1 << 31), (1 << 31) - 1)
int64 = st.integers(-(1 << 63), (1 << 63) - 1)
partitions = st.builds(TopicPartition, texts, int32)


def test_offset_sync_has_the_bytes_of_the_specification() -> None:
    sync = OffsetSync(TopicPartition("topic-1", 2), 3, 4)
    key = bytes.fromhex("0007746f7069632d3100000002")
    value = bytes.fromhex("00000000000000030000000000000004")
    assert encode_offset_sync(sync) == (key, value)
    assert decode_offset_sync(key, value) == sync
    orders = OffsetSync(TopicPartition("orders", 0), 1234567, 1234000)
    assert encode_offset_sync(orders)[1].hex() == "000000000012d687000000000012d450"


def test_checkpoint_has_the_bytes_of_the_specification() -> None:
    checkpoint = Checkpoint("group-1", TopicPartition("A.topic-2", 3), 4, 5, "")
    key, value = encode_checkpoint(checkpoint)
    assert key.hex() == "000767726f75702d310009412e746f7069632d3200000003"
    assert value.hex() == "0000000000000000000400000000000000050000"
    assert decode_checkpoint(key, value) == checkpoint
    with_metadata = encode_checkpoint(Checkpoint("group-1", TopicPartition("A.topic-2", 3), 4, 5, "m6"))
    assert with_metadata[1].hex().endswith("00026d36")


def test_heartbeat_has_the_bytes_of_the_specification() -> None:
    key, value = encode_heartbeat(Heartbeat("A", "B", 1700000000000))
    assert (key.hex(), value.hex()) == ("000141000142", "00000000018bcfe56800")
    key, value = encode_heartbeat(Heartbeat("source-1", "target-2", 1234567890))
    assert (key.hex(), value.hex()) == ("0008736f757263652d3100087461726765742d32", "000000000000499602d2")


@given(partitions, int64, int64, texts, texts)
def test_internal_records_read_back_what_was_written(
    partition: TopicPartition, upstream: int, downstream: int, group: str, metadata: str
) -> None:
    """testSerde of OffsetSync, Checkpoint and Heartbeat."""
    sync = OffsetSync(partition, upstream, downstream)
    checkpoint = Checkpoint(group, partition, upstream, downstream, metadata)
    heartbeat = Heartbeat(group, metadata, upstream)
    assert decode_offset_sync(*encode_offset_sync(sync)) == sync
    assert decode_checkpoint(*encode_checkpoint(checkpoint)) == checkpoint
    assert decode_heartbeat(*encode_heartbeat(heartbeat)) == heartbeat


def test_trailing_bytes_and_other_versions_are_read_as_mm2_reads_them() -> None:
    checkpoint = Checkpoint("g", TopicPartition("t", 1), 2, 3, "m")
    key, value = encode_checkpoint(checkpoint)
    assert decode_checkpoint(key + b"more", b"\x00\x09" + value[2:] + b"more") == checkpoint


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_any_other_bytes_are_malformed_or_read_as_something(key: bytes, value: bytes) -> None:
    for decode in (decode_offset_sync, decode_checkpoint, decode_heartbeat):
        try:
            decode(key, value)
        except MalformedInternalRecord as error:
            assert error.message


@pytest.mark.parametrize("key", ["", "00", "ffff", "0005616263", "0001ff00000000", "000161"])
def test_key_with_a_bad_length_is_malformed(key: str) -> None:
    with pytest.raises(MalformedInternalRecord):
        decode_offset_sync(bytes.fromhex(key), bytes(16))


@pytest.mark.parametrize("topic", ["x" * 32768, "\ud800"])
def test_text_that_no_field_can_hold_is_refused(topic: str) -> None:
    with pytest.raises(MalformedInternalRecord):
        encode_offset_sync(OffsetSync(TopicPartition(topic, 0), 0, 0))


def test_connect_keys_have_the_field_order_of_a_java_hash_map() -> None:
    source = source_key("MirrorSourceConnector", "A", TopicPartition("orders", 0))
    checkpoint = checkpoint_key("MirrorCheckpointConnector", "g1", TopicPartition("A.orders", 0))
    heartbeat = heartbeat_key("MirrorHeartbeatConnector", FlowName("A", "B"))
    assert source == b'["MirrorSourceConnector",{"cluster":"A","partition":0,"topic":"orders"}]'
    assert checkpoint == b'["MirrorCheckpointConnector",{"partition":0,"topic":"A.orders","group":"g1"}]'
    assert heartbeat == b'["MirrorHeartbeatConnector",{"sourceClusterAlias":"A","targetClusterAlias":"B"}]'
    assert [connect_partition(key) for key in (source, checkpoint, heartbeat)] == [3, 16, 0]


def test_connect_key_escapes_as_jackson_does() -> None:
    key = source_key("n", 'ü/"\\\b\t\n\f\r\x1b\x00\x7f\u2028', TopicPartition("t", 1))
    text = 'ü/\\"\\\\\\b\\t\\n\\f\\r\\u001B\\u0000\x7f\u2028'
    assert key.decode() == f'["n",{{"cluster":"{text}","partition":1,"topic":"t"}}]'


@given(texts, texts, partitions)
def test_source_key_reads_back_what_was_written(connector: str, cluster: str, partition: TopicPartition) -> None:
    key = source_key(connector, cluster, partition)
    assert decode_source_key(key) == SourcePosition(connector, cluster, partition)
    assert json.loads(key)[1]["topic"] == partition.topic


def test_key_of_another_connector_names_no_source_position() -> None:
    assert decode_source_key(checkpoint_key("c", "g", TopicPartition("t", 0))) is None
    assert decode_source_key(heartbeat_key("h", FlowName("A", "B"))) is None


@pytest.mark.parametrize(
    "key",
    [
        b"",
        b"{}",
        b"[",
        b"\xff",
        b'["a"]',
        b'[1,{"cluster":"A","partition":0,"topic":"t"}]',
        b'["a",{"cluster":"A","partition":true,"topic":"t"}]',
        b'["a",{"cluster":"A","partition":0.5,"topic":"t"}]',
        b'["a",{"cluster":"A","partition":"0","topic":"t"}]',
        b"[" * 100_000,
    ],
)
def test_connect_key_of_another_form_is_malformed(key: bytes) -> None:
    with pytest.raises(MalformedInternalRecord):
        decode_source_key(key)


@given(int64)
def test_connect_offset_reads_back_what_was_written(offset: int) -> None:
    assert decode_connect_offset(encode_connect_offset(offset)) == offset


def test_tombstone_takes_the_position_back() -> None:
    assert decode_connect_offset(None) is None
    assert encode_connect_offset(41) == b'{"offset":41}'


@pytest.mark.parametrize(
    "value",
    [b"", b"{}", b"null", b"[]", b'{"offset":1.0}', b'{"offset":true}', b'{"offset":9223372036854775808}', b"\xfe"],
)
def test_connect_value_without_an_integer_offset_is_malformed(value: bytes) -> None:
    with pytest.raises(MalformedInternalRecord):
        decode_connect_offset(value)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_gives_what_the_java_client_gives(data: bytes, expected: int) -> None:
    assert murmur2(data) == expected
