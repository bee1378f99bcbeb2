"""Comparing a range: whatever is damaged on the target is found and named, however the batches are cut."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkmirror.comparison import (
    AlignedComparison,
    ComparedRange,
    Difference,
    DifferenceKind,
    ExactComparison,
    Findings,
    Piece,
    Why,
    values,
)
from sparkmirror.ledger import Run
from sparkmirror.model import TopicPartition
from sparkmirror.wire import Record, build_sparse_batch, read_batches, read_rows
from sparkmirror.wire.record_batch import ATTRIBUTE_LOG_APPEND_TIME

SOURCE, TARGET = TopicPartition("orders", 0), TopicPartition("A.orders", 0)
SHIFT = 1000  # downstream minus upstream
COUNT = 120
CUT = 7  # records of a batch


@dataclass
class Log:
    """One side: records, cut into batches after these many."""

    records: list[Record]
    cuts: Sequence[int] = (CUT,)
    first: int = 0
    codec: int = 0
    attributes: int = 0

    def __iter__(self) -> Iterator[Piece]:
        at, turn = 0, 0
        while at < len(self.records):
            size = self.cuts[turn % len(self.cuts)]
            chunk = self.records[at : at + size]
            raw = build_sparse_batch(chunk, codec=self.codec, attributes=self.attributes | self.codec)
            [batch] = read_batches(memoryview(raw), 0, len(raw))
            yield Piece("data", batch)
            at, turn = at + size, turn + 1


def written(count: int = COUNT, start: int = 0) -> list[Record]:
    return [
        Record(i, 1_700_000_000_000 + i, f"k{i % 9}".encode(), f"value {i}".encode(), ((b"h", b"%d" % i),))
        for i in range(start, start + count)
    ]


def copied(records: Sequence[Record]) -> list[Record]:
    return [replace(record, offset=record.offset + SHIFT) for record in records]


def whole(records: Sequence[Record], **more: object) -> ComparedRange:
    end = records[-1].offset + 1
    runs = (Run(records[0].offset, records[0].offset + SHIFT, len(records)),)
    made = ComparedRange(SOURCE, TARGET, 0, end, SHIFT, end + SHIFT + 5, runs, lag_from=end)
    return replace(made, **more)  # type: ignore[arg-type]


def exact(source: Log, target: Log, **more: object) -> Findings:
    return ExactComparison(whole(source.records, **more), source, target).run()


def aligned(source: Log, target: Log, **more: object) -> Findings:
    return AlignedComparison(whole(source.records, **{"runs": None, **more}), source, target).run()


WAYS = pytest.mark.parametrize("compare", [exact, aligned])
AT = 41


def damaged(kind: str, at: int = AT) -> tuple[list[Record], Difference]:
    """The copy with one damage that keeps all other records in their places, and what is to be said of it."""
    copy = copied(written())
    here, place = copy[at], (at, at + SHIFT)
    match kind:
        case "bit":
            copy[at] = replace(here, value=b"v\x60" + (here.value or b"")[2:])
            return copy, Difference(DifferenceKind.CHANGED, *place, ("value",))
        case "key":
            copy[at] = replace(here, key=None)
            return copy, Difference(DifferenceKind.CHANGED, *place, ("key",))
        case "header":
            copy[at] = replace(here, headers=((b"h", b"other"),))
            return copy, Difference(DifferenceKind.CHANGED, *place, ("headers",))
        case "timestamp":
            copy[at] = replace(here, timestamp=here.timestamp + 1)
            return copy, Difference(DifferenceKind.CHANGED, *place, ("timestamp",))
        case "swapped":
            copy[at], copy[at + 1] = replace(copy[at + 1], offset=at + SHIFT), replace(here, offset=at + 1 + SHIFT)
            return copy, Difference(DifferenceKind.SWAPPED, *place)
        case "doubled":
            copy[at] = replace(copy[at - 1], offset=at + SHIFT)
            return copy, Difference(DifferenceKind.DOUBLED, at - 1, at + SHIFT)
        case _:
            del copy[at]
            return copy, Difference(DifferenceKind.MISSING, at, None)


DAMAGES = ["bit", "key", "header", "timestamp", "swapped", "doubled", "missing"]


def bare(found: Difference) -> Difference:
    return replace(found, detail="")


@WAYS
def test_an_equal_copy_has_no_difference(compare) -> None:
    found = compare(Log(written()), Log(copied(written())))
    assert (found.records, found.differences, found.reason) == (COUNT, 0, "")


@WAYS
@pytest.mark.parametrize("kind", DAMAGES)
@settings(max_examples=25)
@given(at=st.integers(1, COUNT - 2), cuts=st.lists(st.integers(1, 30), min_size=1, max_size=4), codec=st.integers(0, 1))
def test_a_damage_is_named_with_its_offsets(compare, kind: str, at: int, cuts: list[int], codec: int) -> None:
    copy, expected = damaged(kind, at)
    found = compare(Log(written(), codec=codec), Log(copy, cuts))
    assert [bare(difference) for difference in found.first] == [expected]


@WAYS
def test_the_first_and_the_last_record_are_compared(compare) -> None:
    for at in (0, COUNT - 1):
        copy, expected = damaged("bit", at)
        assert [bare(found) for found in compare(Log(written()), Log(copy)).first] == [expected]


@WAYS
def test_a_record_that_somebody_appended_is_extra_and_a_repeated_one_doubled(compare) -> None:
    last = COUNT + SHIFT
    copy = copied(written())
    more = [replace(copy[-1], offset=last), replace(copy[-1], offset=last + 1, value=b"mine")]
    found = compare(Log(written()), Log(copy + more))
    assert [bare(difference) for difference in found.first] == [
        Difference(DifferenceKind.DOUBLED, COUNT - 1, last), Difference(DifferenceKind.EXTRA, None, last + 1)
    ]  # fmt: skip


def test_a_block_that_was_copied_twice_shifts_the_rest_and_is_named_by_its_records() -> None:
    copy = copied(written())
    again = [replace(record, offset=record.offset + 10) for record in copy[30:]]
    found = aligned(Log(written()), Log(copy[:40] + again), target_end=COUNT + SHIFT + 20)
    assert [bare(difference) for difference in found.first] == [
        Difference(DifferenceKind.DOUBLED, 30 + i, 40 + i + SHIFT) for i in range(10)
    ]
    assert found.records == COUNT


@settings(max_examples=50)
@given(
    gone=st.sets(st.integers(0, COUNT - 1), max_size=3),
    changed=st.sets(st.integers(0, COUNT - 1), max_size=3),
    cuts=st.lists(st.integers(1, 50), min_size=1, max_size=4),
)
def test_many_damages_are_all_counted(gone: set[int], changed: set[int], cuts: list[int]) -> None:
    copy = [
        replace(record, value=b"other %d" % record.offset) if record.offset - SHIFT in changed else record
        for record in copied(written())
        if record.offset - SHIFT not in gone
    ]
    found = exact(Log(written()), Log(copy, cuts))
    assert (found.kinds[DifferenceKind.MISSING], found.kinds[DifferenceKind.CHANGED]) == (len(gone), len(changed - gone))
    assert found.records == COUNT - len(gone | changed)
    assert aligned(Log(written()), Log(copy, cuts)).differences >= bool(gone | changed)


@WAYS
def test_a_target_that_stamps_records_itself_is_compared_without_timestamps(compare) -> None:
    copy = [replace(record, timestamp=5) for record in copied(written())]
    for cuts in ((CUT,), (11, 3)):
        found = compare(Log(written()), Log(copy, cuts, attributes=ATTRIBUTE_LOG_APPEND_TIME))
        assert (found.records, found.differences, found.timestamps_left_out) == (COUNT, 0, COUNT)


@WAYS
def test_lost_records_of_a_compacted_target_wait_for_a_later_record_of_their_key(compare) -> None:
    records = written()
    records[5] = replace(records[5], value=None)
    kept = [record for record in copied(records) if record.offset - SHIFT not in (5, 20, 21)]
    found = compare(Log(records), Log(kept), target_compacts=True)
    assert [upstream for upstream, _, _ in found.unsettled] == [20, 21]
    assert (found.differences, found.explained[Why.TARGET_COMPACTED]) == (0, 1)


@WAYS
def test_records_that_compaction_took_from_the_source_are_explained(compare) -> None:
    kept = [record for record in written() if record.offset not in (7, 50)]
    found = compare(Log(kept), Log(copied(written())), source_compacts=True, runs=(Run(0, SHIFT, COUNT),)
                    if compare is exact else None)  # fmt: skip
    assert (found.differences, found.explained[Why.SOURCE_COMPACTED], found.records) == (0, 2, COUNT - 2)


def test_offsets_that_the_ledger_gave_up_are_explained_and_others_without_a_place_are_missing() -> None:
    runs = (Run(0, SHIFT, 50), Run(60, 50 + SHIFT, 60))
    copy = copied(written(50)) + [replace(r, offset=r.offset - 10 + SHIFT) for r in written(60, 60)]
    found = exact(Log(written()), Log(copy), runs=runs, gaps=((50, 58),))
    assert found.explained[Why.ACCEPTED_GAP] == 8
    assert [bare(difference) for difference in found.first] == [
        Difference(DifferenceKind.MISSING, 58, None), Difference(DifferenceKind.MISSING, 59, None)
    ]  # fmt: skip


def test_an_older_copy_of_what_was_copied_again_is_explained() -> None:
    runs = (Run(0, SHIFT, 50), Run(50, 60 + SHIFT, 70))
    copy = copied(written(60)) + [replace(r, offset=r.offset + 10 + SHIFT) for r in written(70, 50)]
    found = exact(Log(written()), Log(copy), runs=runs, replaced=((50 + SHIFT, 60 + SHIFT),), target_end=COUNT + 10 + SHIFT)
    assert (found.differences, found.explained[Why.COPIED_AGAIN], found.records) == (0, 10, COUNT)


def test_what_applications_wrote_while_the_flow_was_failed_over_is_explained_and_not_doubled() -> None:
    runs, both = (Run(0, SHIFT, 50), Run(60, 60 + SHIFT, 60)), Log(copied(written()))
    found = exact(Log(written()), both, runs=runs, gaps=((50, 60),), passed=((50 + SHIFT, 60 + SHIFT),))
    assert (found.differences, found.records) == (0, COUNT - 10)
    assert (found.explained[Why.ACCEPTED_GAP], found.explained[Why.PASSED_OVER]) == (10, 10)
    assert exact(Log(written()), both, runs=runs, gaps=((50, 60),)).differences == 10


def test_what_mirror_maker_has_not_copied_yet_is_lag() -> None:
    found = aligned(Log(written()), Log(copied(written(100))), lag_from=100)
    assert (found.differences, found.lag, found.records) == (0, 20, 100)


def test_a_copy_that_differs_throughout_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "DIFFERENCES_MAX", 1000)
    copy = [replace(record, value=b"other") for record in copied(written(5000))]
    found = exact(Log(written(5000)), Log(copy))
    assert found.differences < 1500 and found.reason


def test_the_digest_is_that_of_the_source_and_changes_with_it() -> None:
    def digest(records: list[Record], cuts: Sequence[int]) -> str:
        return exact(Log(records), Log(copied(records), cuts)).digest

    other = written()
    other[3] = replace(other[3], timestamp=1)
    assert digest(written(), (CUT,)) == digest(written(), (3, 50)) != digest(other, (CUT,))


@WAYS
def test_a_record_from_before_the_range_that_lies_on_the_target_again_is_doubled(compare) -> None:
    before, records = written(10), written(20, 10)
    copy = [replace(r, offset=r.offset + SHIFT) for r in records]
    copy.append(replace(before[3], offset=copy[-1].offset + 1))
    wanted = whole(records, start=10, target_start=10 + SHIFT, **({} if compare is exact else {"runs": None}))
    comparison = ExactComparison if compare is exact else AlignedComparison
    earlier = [(r.offset, r.timestamp, bytes(build_row(r))) for r in before]
    found = comparison(wanted, Log(records), Log(copy), lambda: earlier).run()
    assert [bare(difference) for difference in found.first] == [Difference(DifferenceKind.DOUBLED, 3, copy[-1].offset)]


def build_row(wanted: Record) -> bytes:
    """A record's bytes but for its offset and timestamp."""
    raw = build_sparse_batch([wanted])
    [row] = read_rows(read_batches(memoryview(raw), 0, len(raw))[0])
    return row[2]
