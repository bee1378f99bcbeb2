"""The judge is proved by mutation: what it must catch, it catches; what is the same, it lets pass."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from judge.batches import JudgeBatch, parse_batches
from judge.comparison import compare
from judge.positions import group_violations, map_violations
from judge.records import Headers, JudgeRecord, Separators, parse_records
from sparkmirror.errors import InternalError

Mutation = Callable[[list[JudgeRecord], int], list[JudgeRecord]]


def some_records(rng: random.Random, count: int = 50) -> list[JudgeRecord]:
    """Records that all differ from each other, with null, empty and binary parts among them."""
    return [
        JudgeRecord(
            offset=offset,
            timestamp=1_000 + offset // 2,
            timestamp_type="CreateTime",
            key=None if offset % 5 == 0 else rng.randbytes(offset % 7),
            value=b"%d:" % offset + rng.randbytes(8),
            headers=(("h", rng.randbytes(4)), ("h", None if offset % 3 == 0 else b"")),
        )
        for offset in range(count)
    ]


def flip_bit(data: bytes) -> bytes:
    return bytes([data[0] ^ 1]) + data[1:]


def change(at: int, records: list[JudgeRecord], **fields: object) -> list[JudgeRecord]:
    return [*records[:at], records[at]._replace(**fields), *records[at + 1 :]]


def null_and_empty(headers: Headers) -> Headers:
    return headers[0], ("h", b"" if headers[1][1] is None else None)


def renamed(headers: Headers) -> Headers:
    return ("H", headers[0][1]), headers[1]


MUTATIONS: dict[str, Mutation] = {
    "drop": lambda records, at: records[:at] + records[at + 1 :],
    "drop the last": lambda records, at: records[:-1],
    "drop the first": lambda records, at: records[1:],
    "double": lambda records, at: records[: at + 1] + records[at:],
    "double the last": lambda records, at: [*records, records[-1]],
    "swap": lambda records, at: [*records[:at], records[at + 1], records[at], *records[at + 2 :]],
    "flip a bit of the value": lambda records, at: change(at, records, value=flip_bit(records[at].value or b"?")),
    "flip a bit of a key": lambda records, at: change(at, records, key=flip_bit(records[at].key or b"?")),
    "null for a value": lambda records, at: change(at, records, value=None),
    "null and empty key": lambda records, at: change(at, records, key=b"" if records[at].key is None else None),
    "null and empty header": lambda records, at: change(at, records, headers=null_and_empty(records[at].headers)),
    "swap headers": lambda records, at: change(at, records, headers=records[at].headers[::-1]),
    "lose a header": lambda records, at: change(at, records, headers=records[at].headers[:1]),
    "rename a header": lambda records, at: change(at, records, headers=renamed(records[at].headers)),
    "shift the time": lambda records, at: change(at, records, timestamp=records[at].timestamp + 1),
}


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS.keys())
def test_every_mutation_of_one_partition_is_caught(mutation: Mutation, rng: random.Random) -> None:
    records = some_records(rng)
    for at in (0, 17, len(records) - 2):
        assert compare({0: records, 1: records}, {0: records, 1: mutation(records, at)}) != []


def test_a_record_in_another_partition_is_caught(rng: random.Random) -> None:
    records = some_records(rng)
    moved = {0: records[:-1], 1: [*records, records[-1]]}
    found = compare({0: records, 1: records}, moved)
    assert [line.split(":")[0] for line in found] == ["partition 0", "partition 1"]


def test_a_missing_and_a_surplus_partition_are_caught() -> None:
    assert compare({0: [], 1: []}, {0: [], 2: []}) == [
        "partition 1: exists only on the source",
        "partition 2: exists only on the target",
    ]


def test_equal_records_at_other_offsets_are_no_difference(rng: random.Random) -> None:
    records = some_records(rng)
    shifted = [record._replace(offset=record.offset + 100) for record in records]
    assert compare({0: records}, {0: shifted}) == []


def test_printed_records_are_read_back_whatever_bytes_they_hold() -> None:
    words = Separators()
    key, value = b"CreateTime:1\tPartition:2\n", b"NO_HEADERS\x00\xff,null"
    columns = [b"CreateTime:-1", b"Partition:3", b"Offset:9", b"a:b" + words.header + b"c:" + words.null, key, value]
    [raw] = parse_records([words.column.join(columns)], words)
    assert raw == (3, JudgeRecord(9, -1, "CreateTime", key, value, ()), (b"a:b", b"c:" + words.null))


def test_output_that_is_no_record_is_an_error() -> None:
    with pytest.raises(InternalError, match="no record"):
        list(parse_records([b"log4j: something went wrong"], Separators()))


DUMPED = """\
Dumping data/t-0/00000000000000000000.log
Log starting offset: 0
baseOffset: 0 lastOffset: 1 count: 2 baseSequence: 0 lastSequence: 1 producerId: 7 producerEpoch: 3 \
partitionLeaderEpoch: 5 isTransactional: true isControl: false deleteHorizonMs: OptionalLong.empty position: 0 \
CreateTime: 1794777922784 size: 101 magic: 2 compresscodec: lz4 crc: 4095 isvalid: true
baseOffset: 2 lastOffset: 2 count: 1 baseSequence: -1 lastSequence: -1 producerId: 7 producerEpoch: 3 \
partitionLeaderEpoch: 5 isTransactional: true isControl: true deleteHorizonMs: OptionalLong[5] position: 101 \
CreateTime: -1 size: 78 magic: 2 compresscodec: none crc: 1 isvalid: false
"""


def test_dumped_batches_are_read() -> None:
    assert parse_batches(DUMPED) == [
        JudgeBatch(0, 1, 2, 0, 1, 7, 3, 5, True, False, 0, "CreateTime", 1794777922784, 101, 2, "lz4", 4095, True),
        JudgeBatch(2, 2, 1, -1, -1, 7, 3, 5, True, True, 101, "CreateTime", -1, 78, 2, "none", 1, False),
    ]


def test_a_dumped_batch_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(AssertionError, match="2 batches, 1 could be read"):
        parse_batches(DUMPED.replace("isControl: true", "isControl?"))


def copied_with_gaps(rng: random.Random) -> tuple[list[JudgeRecord], list[JudgeRecord]]:
    """A source with gaps and its copy, which is dense but for one marker."""
    every = some_records(rng)
    source = [record for record in every if record.offset % 7 != 3]
    target = [record._replace(offset=at + (at >= 20)) for at, record in enumerate(source)]
    return source, target


def test_a_true_map_and_true_groups_pass(rng: random.Random) -> None:
    source, target = copied_with_gaps(rng)
    pairs = {record.offset: copy.offset for record, copy in zip(source, target, strict=True)}
    assert map_violations(source, target, pairs.get) == []
    for record, copy in zip(source, target, strict=True):
        assert group_violations(source, target, at_source=record.offset, at_target=copy.offset) == []
    end = group_violations(source, target, at_source=source[-1].offset + 1, at_target=target[-1].offset + 1)
    assert end == []


@pytest.mark.parametrize("shift", [-1, 1, 5])
def test_a_map_that_is_shifted_is_caught(rng: random.Random, shift: int) -> None:
    source, target = copied_with_gaps(rng)
    pairs = {record.offset: copy.offset + shift for record, copy in zip(source, target, strict=True)}
    assert map_violations(source, target, pairs.get)


def test_a_map_with_one_wrong_or_missing_entry_is_caught(rng: random.Random) -> None:
    source, target = copied_with_gaps(rng)
    for wrong in (lambda offset: offset - 1, lambda offset: None):
        pairs = {record.offset: copy.offset for record, copy in zip(source, target, strict=True)}
        victim = rng.choice(source[1:]).offset
        pairs[victim] = wrong(pairs[victim])
        assert len(map_violations(source, target, pairs.get)) == 1


def test_a_group_that_is_set_back_or_skips_is_caught(rng: random.Random) -> None:
    source, target = copied_with_gaps(rng)
    at = rng.randrange(2, len(source) - 2)
    place = {"at_source": source[at].offset}
    assert group_violations(source, target, **place, at_target=target[at - 2].offset) == ["it reads 2 records again"]
    assert group_violations(source, target, **place, at_target=target[at + 1].offset) == ["it never reads 1 records"]
