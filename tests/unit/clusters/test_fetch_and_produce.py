"""The hand-written encodings against kafka-python's generated ones."""

from __future__ import annotations

import contextlib
import io
import struct
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import FetchRequest, FetchResponse
from kafka.protocol.producer import ProduceRequest

from sparkmirror.clusters import FetchFrom, FetchLimits, encode_fetch, encode_produce, parse_fetch, parse_produce
from sparkmirror.clusters.compact import read_uvarint, skip_tags, uvarint

TOPIC = uuid.UUID(int=0x1234567890ABCDEF1234567890ABCDEF)
LIMITS = FetchLimits(500, 1, 1 << 24, 1 << 20, 1)


@given(st.integers(0, (1 << 35) - 1))
def test_unsigned_varints_survive_a_round_trip(value):
    assert read_uvarint(uvarint(value), 0) == (value, len(uvarint(value)))


@given(st.binary(max_size=40))
def test_any_bytes_as_tags_or_varints_end_or_fail_cleanly(data):
    for parse in (read_uvarint, skip_tags):
        with contextlib.suppress(ValueError, IndexError):
            parse(data, 0)


def test_a_fetch_by_id_is_what_the_generated_encoder_writes():
    topic_type = FetchRequest.FetchTopic
    part_type = topic_type.FetchPartition
    theirs = FetchRequest(
        version=13,
        replica_id=-1,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1 << 24,
        isolation_level=1,
        session_id=0,
        session_epoch=-1,
        topics=[
            topic_type(
                version=13,
                topic_id=TOPIC,
                partitions=[
                    part_type(
                        version=13,
                        partition=index,
                        current_leader_epoch=7,
                        fetch_offset=offset,
                        last_fetched_epoch=6,
                        log_start_offset=-1,
                        partition_max_bytes=1 << 20,
                    )
                    for index, offset in ((3, 1 << 40), (5, 0))
                ],
            )
        ],
        forgotten_topics_data=[],
        rack_id="",
    )
    wanted = [FetchFrom(3, 1 << 40, 7, 6), FetchFrom(5, 0, 7, 6)]
    assert encode_fetch({TOPIC.bytes: wanted}, LIMITS) == theirs.encode(header=False)


def test_a_fetch_answer_is_read_as_the_generated_decoder_reads_it():
    body = (
        struct.pack(">ihi", 12, 0, 0)
        + b"\x02"
        + TOPIC.bytes
        + b"\x02"
        + struct.pack(">ihqqq", 3, 0, 100, 90, 5)
        + b"\x02"
        + struct.pack(">qq", 42, 60)
        + b"\0"
        + struct.pack(">i", -1)
        + uvarint(6)
        + b"bytes"
        + b"\0\0\0"
    )
    theirs = FetchResponse[13].decode(io.BytesIO(body))
    found = parse_fetch(bytearray(body), 0, by_id=True)
    (part,) = found.partitions
    (their_part,) = theirs.responses[0].partitions
    assert found.throttle_ms == theirs.throttle_time_ms == 12
    assert (part.partition, part.error, part.high_watermark, part.last_stable, part.log_start) == (3, 0, 100, 90, 5)
    assert their_part.high_watermark == 100
    assert part.aborted == [(42, 60)]
    assert body[part.start : part.end] == b"bytes" == bytes(their_part.records)


@given(st.binary(max_size=120))
@pytest.mark.parametrize("by_id", [True, False])
def test_a_hostile_fetch_or_produce_answer_fails_cleanly(by_id, data):
    for parse in (parse_fetch, parse_produce):
        with contextlib.suppress(ValueError, IndexError, struct.error):
            parse(bytearray(data), 0, by_id=by_id)


def test_a_produce_by_name_is_what_the_generated_encoder_writes():
    topic_type = ProduceRequest.TopicProduceData
    part_type = topic_type.PartitionProduceData
    theirs = ProduceRequest(
        version=9,
        transactional_id=None,
        acks=-1,
        timeout_ms=30_000,
        topic_data=[
            topic_type(
                version=9,
                name=name,
                partition_data=[part_type(version=9, index=i, records=batch) for i, batch in batches],
            )
            for name, batches in (("a", [(0, b"x" * 200), (4, b"y")]), ("b", [(1, b"z")]))
        ],
    )
    ours = encode_produce({"a": [(0, b"x" * 200), (4, b"y")], "b": [(1, b"z")]})
    assert b"".join(ours) == theirs.encode(header=False)
