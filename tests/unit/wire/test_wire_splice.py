"""Plain batches of every size and time spliced together: no record changes, whatever way it goes."""

from __future__ import annotations

import random

import pytest
from wire_builders import NOW, content_of, limits, mended, opened_all, views_of

from sparkmirror.wire import Record, build_batch, pack
from sparkmirror.wire.record_batch import read_rows
from sparkmirror.wire.splice import RECORDS_MAX, Bounds, Splicer

SPLICE = limits(merge_below_bytes=1 << 16, merge_to_bytes=1 << 16)


def some_batches(seed: int) -> tuple[list[bytearray], list[Record]]:
    """Batches of 1 to 70 records of 0 to 9 000 bytes, their times up to 20 s apart in both directions."""
    dice = random.Random(seed)
    batches, records = [], []
    spread = dice.choice([0, 3, 200, 20_000])
    most = dice.choice([1, 3, RECORDS_MAX, 70])
    longest = dice.choice([0, 20, 60, 300, 9_000])
    for _ in range(dice.randint(2, 40)):
        first = len(records)
        start = NOW + dice.randint(-spread, spread)
        batch = [
            Record(
                first + index,
                -1 if dice.random() < 0.01 else start + dice.randint(0, spread),
                None if dice.random() < 0.5 else bytes(dice.randint(0, 3)),
                None if dice.random() < 0.1 else dice.randbytes(dice.randint(0, longest)),
                ((b"h", None),) if dice.random() < 0.1 else (),
            )
            for index in range(dice.randint(1, most))
        ]
        batches.append(build_batch(batch, base_offset=first))
        records += batch
    return batches, records


@pytest.mark.parametrize("seed", range(150))
def test_spliced_batches_hold_the_same_records(seed: int) -> None:
    batches, records = some_batches(seed)
    result = pack(views_of(*batches), from_offset=0, until_offset=None, aborted=None, limits=SPLICE)

    assert result.stopped is None and result.next_upstream == len(records)
    assert opened_all(result.outgoing_batches) == [(record.offset, content_of(record)) for record in records]
    merged = [outgoing for outgoing in result.outgoing_batches if len(outgoing.pieces) > 1]
    assert all(len(outgoing.buffer) <= SPLICE.merge_to_bytes for outgoing in merged)
    for outgoing in result.outgoing_batches:
        contained = [r for first, length in outgoing.pieces for r in records[first : first + length]]
        assert outgoing.max_timestamp == max(record.timestamp for record in contained)


@pytest.mark.parametrize("seed", range(20))
def test_ordinary_batches_take_the_fast_way_and_become_few(seed: int) -> None:
    dice = random.Random(seed)
    batches = []
    for number in range(64):
        rows = [Record(number * 32 + i, NOW + number * 7 + i // 9, None, dice.randbytes(500)) for i in range(32)]
        batches.append(build_batch(rows, base_offset=number * 32))
    views = views_of(*batches)
    splicer = Splicer(Bounds(7, 1 << 16, 1 << 62, 1 << 62), 2 << 20)
    taken = splicer.take(views, 0, 0)
    assert (taken.batches, taken.at, taken.is_full) == (64, 64, False)
    outgoing = splicer.finish(2048)
    assert outgoing.count == 2048 and outgoing.pieces == ((0, 2048),)
    [spliced] = views_of(mended(outgoing.buffer))
    assert read_rows(spliced) == [row for view in views for row in read_rows(view)]


@pytest.mark.parametrize("field", ["length", "offset delta", "short", "count"])
def test_a_record_that_lies_leaves_the_splice_as_it_was(field: str) -> None:
    good = build_batch([Record(i, NOW, b"k", b"v" * 20) for i in range(4)])
    bad = bytearray(build_batch([Record(i, NOW, b"k", b"v" * 20) for i in range(4)], base_offset=4))
    stride = (len(bad) - 61) // 4
    at = 61 + stride
    match field:
        case "length":
            bad[at] = 0x7E
        case "offset delta":
            bad[at + 3] = 8
        case "short":
            bad[at] = 4
        case _:
            bad = mended(bad, count=5, last_offset_delta=4)
    views = views_of(good, mended(bad))
    splicer = Splicer(Bounds(7, 1 << 16, 1 << 62, 1 << 62), 1 << 20)
    taken = splicer.take(views, 0, 0)
    assert (taken.batches, taken.at, taken.is_full) == (1, 1, False)
    assert splicer.finish(4).pieces == ((0, 4),)
    result = pack(views, from_offset=0, until_offset=None, aborted=None, limits=SPLICE)
    assert result.stopped is not None and result.next_upstream == 4
    assert [outgoing.pieces for outgoing in result.outgoing_batches] == [((0, 4),)]
