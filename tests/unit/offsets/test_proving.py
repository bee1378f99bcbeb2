"""The record proof over logs in memory: whatever holes they have, it says what counting every record says."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkmirror.ledger import Run
from sparkmirror.model import OffsetSync, TopicPartition
from sparkmirror.offsets import Basis, OffsetMap, SyncHistory, Translation
from sparkmirror.offsets.proof import (
    OffsetBounds,
    Pair,
    Proof,
    RecordAsk,
    RecordRange,
    Seen,
    UpstreamMap,
    by_ledger,
    by_position,
    prove,
)

SOURCE, TARGET = TopicPartition("orders", 0), TopicPartition("A.orders", 0)


class Log:
    """A log in memory; an offset without a record is a hole."""

    def __init__(self, records: dict[int, Seen], end: int, first: int = 0) -> None:
        self.records, self.end, self.first = records, end, first

    def read(self, ask: RecordAsk, step: int) -> RecordRange:
        """At most `step` records a time, as fetches have ends of their own."""
        if ask.timestamp is not None:
            found = [r.offset for r in self.visible() if r.timestamp >= ask.timestamp]
            return RecordRange((), min(found, default=ask.offset))
        if ask.offset < self.first:
            return RecordRange((), ask.offset, trouble="out of range")
        rows = [r for r in self.visible() if r.offset >= ask.offset][: min(ask.count, step)]
        rest = [r for r in self.visible() if rows and r.offset > rows[-1].offset]
        holes = len(self.records) < self.end - self.first
        if rest:
            return RecordRange(tuple(rows), rows[-1].offset + 1, has_holes=holes)
        return RecordRange(tuple(rows), max(self.end, ask.offset), is_end=True, has_holes=holes)

    def visible(self) -> list[Seen]:
        return [record for offset, record in sorted(self.records.items()) if offset >= self.first]


def log_of(names: Sequence[str | None], *, first: int = 0, append_time: bool = False) -> Log:
    """One letter or word for each offset, None for a hole; the time is the word's own."""
    named = {offset: name.encode() for offset, name in enumerate(names) if name is not None}
    records = {
        offset: Seen(offset, 900 + offset if append_time else int.from_bytes(name, "big"), name, append_time)
        for offset, name in named.items()
    }
    return Log(records, len(names), first)


def no_map(_: int) -> OffsetBounds | None:
    return None


def proved(source: Log, target: Log, upstream: int, downstream: int, *, budget: int = 10_000, **more: object) -> Proof:
    pair = Pair(
        source=SOURCE, target=TARGET, upstream=upstream, downstream=downstream,
        source_first=source.first, source_end=source.end, target_first=target.first, target_end=target.end,
        **({"bounds": no_map} | more),  # type: ignore[arg-type]
    )  # fmt: skip
    asking = prove(pair)
    try:
        ask = next(asking)
        while True:
            found_range = (source if ask.side == "source" else target).read(ask, 7)
            if ask.is_walk:
                budget -= len(found_range.records)
                if budget < 0:
                    found_range = RecordRange((), ask.offset, trouble="the budget is spent")
            ask = asking.send(found_range)
    except StopIteration as end:
        assert isinstance(end.value, Proof)
        return end.value


ABC = [f"r{number}" for number in range(40)]


@pytest.mark.parametrize(
    ("upstream", "downstream", "result", "records"),
    [
        (10, 10, "exact", None),
        (40, 40, "exact", None),
        (0, 0, "exact", None),
        (40, 37, "behind", 3),
        (20, 1, "behind", 19),
        (39, 0, "behind", 39),
        (10, 12, "ahead", 2),
        (0, 40, "ahead", 40),
        (5, 40, "ahead", 35),
        (40, 41, "beyond end", 1),
        (10, 999, "beyond end", 959),
    ],
)
def test_position_is_worth_what_lies_between(upstream: int, downstream: int, result: str, records: int | None) -> None:
    found = proved(log_of(ABC), log_of(ABC), upstream, downstream)
    assert (found.result, found.records, found.is_certain) == (result, records, True)


def test_position_at_the_end_of_a_copy_that_lags_is_exact() -> None:
    assert proved(log_of(ABC), log_of(ABC[:20]), 20, 20).result == "exact"


def test_group_ahead_of_the_copy_reads_again_what_is_copied_later() -> None:
    found = proved(log_of(ABC), log_of(ABC[:20]), 30, 20)
    assert (found.result, found.records) == ("behind", 10)


def test_holes_of_the_source_are_not_counted() -> None:
    source = log_of(["a", None, None, "b", "c", None, "d", "e", "f", "g", None])
    target = log_of(["a", "b", "c", "d", "e", "f", "g"])
    assert proved(source, target, 6, 3).result == "exact"
    assert proved(source, target, 5, 3).result == "exact"
    found = proved(source, target, 8, 1)
    assert (found.result, found.records) == ("behind", 4)
    assert proved(source, target, 11, 7).result == "exact"
    assert proved(source, target, 3, 4).records == 3


def test_time_that_the_target_stamped_does_not_count() -> None:
    found = proved(log_of(ABC), log_of(ABC, append_time=True), 10, 8)
    assert (found.result, found.records) == ("behind", 2)
    other = Log({o: r._replace(timestamp=r.timestamp + 1) for o, r in log_of(ABC).records.items()}, 40)
    assert proved(log_of(ABC), other, 10, 10).result == "unproven"


def test_records_that_are_all_alike_prove_nothing_for_sure() -> None:
    same = log_of(["x"] * 40)
    found = proved(same, same, 10, 10)
    assert (found.result, found.is_certain) == ("exact", False)
    assert proved(log_of(["y"] * 40), same, 10, 10).reason == "the records there are all alike"


def test_record_of_somebody_else_is_unproven() -> None:
    found = proved(log_of(ABC), log_of([*ABC[:10], "foreign", *ABC[10:]]), 10, 10)
    assert found.result == "unproven"
    assert "target's record at offset 10 was not found" in found.reason


def test_lost_record_behind_the_position_leaves_a_likely_answer() -> None:
    target = log_of([name for name in ABC if name != "r12"])
    found = proved(log_of(ABC), target, 10, 10)
    assert (found.result, found.is_certain) == ("exact", False)
    found = proved(log_of(ABC), target, 20, 9)
    assert (found.result, found.records, found.is_certain) == ("behind", 11, False)


def test_compacted_logs_need_not_hold_the_same_records() -> None:
    source = log_of([name if number % 3 else None for number, name in enumerate(ABC)])
    target = log_of([name if number % 3 and number % 4 else None for number, name in enumerate(ABC)])
    found = proved(source, target, 10, 9, is_compacted=True)
    assert (found.result, found.is_certain) == ("exact", True)
    found = proved(source, target, 29, 13, is_compacted=True)
    assert (found.result, found.records, found.is_certain) == ("behind", 11, True)


def test_budget_ends_a_search_and_not_a_count_by_offsets() -> None:
    names = [f"n{number}" for number in range(300)]
    spent = proved(log_of(names), log_of(names), 299, 1, budget=50, bounds=lambda _: OffsetBounds(0, 0, None))
    assert (spent.result, spent.records) == ("behind", 298)
    holed = [None if number % 7 == 3 else name for number, name in enumerate(names)]
    target = log_of([name for name in holed if name is not None])
    rough = proved(log_of(holed), target, 299, 0, budget=50)
    assert (rough.result, rough.records, rough.is_counted) == ("behind", 299, False)
    lost = proved(log_of(holed), target, 0, 200, budget=50, bounds=lambda _: OffsetBounds(0, 0, None))
    assert (lost.result, lost.reason) == ("unproven", "the budget is spent")


def test_position_that_the_target_deleted_goes_on_at_its_first_record() -> None:
    found = proved(log_of(ABC), log_of(ABC, first=15), 10, 10)
    assert (found.result, found.records) == ("ahead", 5)
    assert "log starts at 15" in found.reason


def test_position_outside_the_source_is_told() -> None:
    assert "past the source's end 40" in proved(log_of(ABC), log_of(ABC), 41, 3).reason
    assert "its log starts at 9" in proved(log_of(ABC, first=9), log_of(ABC), 3, 3).reason


def test_empty_target_is_unproven() -> None:
    assert proved(log_of(ABC), log_of([]), 3, 0).reason == "the target holds no record to compare with"


def test_end_of_an_empty_log_is_the_end_of_its_empty_copy() -> None:
    found = proved(log_of([]), log_of([]), 0, 0)
    assert (found.result, found.is_certain) == ("exact", True)


def test_reader_without_rights_is_told() -> None:
    pair = Pair(
        source=SOURCE, target=TARGET, upstream=1, downstream=1, source_first=0, source_end=9, target_first=0, target_end=9,
        bounds=no_map,
    )  # fmt: skip
    asking = prove(pair)
    next(asking)
    with pytest.raises(StopIteration) as end:
        asking.send(RecordRange((), 1, trouble="needs Read on topic orders"))
    assert end.value.value.reason == "needs Read on topic orders"


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_any_two_positions_are_worth_what_counting_every_record_says(seed: int, has_map: bool) -> None:
    rng = random.Random(seed)
    size = rng.randint(1, 60)
    source = log_of([None if rng.random() < 0.3 else f"{seed}-{number}" for number in range(size)])
    until = rng.randint(0, size) if rng.random() < 0.5 else size
    copied = [record for record in source.visible() if record.offset < until]
    target, places, at = Log({}, 0), {}, 0
    for record in copied:
        at += rng.random() < 0.2  # a marker
        target.records[at] = record._replace(offset=at)
        places[at] = record.offset
        at += 1
    target.end = at + (rng.random() < 0.2)
    upstream, downstream = rng.randint(0, source.end), rng.randint(0, target.end)
    more = {}
    if has_map and places:
        syncs = SyncHistory(OffsetSync(SOURCE, places[min(places)], min(places)))
        for down in sorted(rng.sample(sorted(places), min(len(places), 3))):
            syncs.take(OffsetSync(SOURCE, places[down], down))
        more = {"bounds": UpstreamMap(None, syncs).bounds}
    found = proved(source, target, upstream, downstream, **more)
    following = [places[d] for d in sorted(places) if d >= downstream]
    before = [places[d] for d in sorted(places) if d < downstream]
    if not following and not before:
        assert found.result == "unproven"
        return
    position = following[0] if following else before[-1] + 1
    low, high = min(position, upstream), max(position, upstream)
    count = sum(low <= record.offset < high for record in source.visible())
    expected = "exact" if not count else "behind" if position < upstream else "ahead"
    assert (found.result, found.records) == (expected, count or None)
    assert found.is_certain
    assert found.means is not None
    between = range(min(found.means, position), max(found.means, position))
    assert not any(record.offset in between for record in source.visible())
    if found.wanted is not None:
        behind = [places[d] for d in sorted(places) if d >= found.wanted]
        assert behind == [record.offset for record in copied if record.offset >= upstream]


# --- the map ---------------------------------------------------------------------------------------------------


def test_map_of_the_ledger_is_exact_and_syncs_fill_what_it_does_not_cover() -> None:
    syncs = SyncHistory(OffsetSync(SOURCE, 100, 40))
    syncs.take(OffsetSync(SOURCE, 300, 140))
    found = UpstreamMap(OffsetMap([Run(500, 200, 50)]), syncs)
    assert found.bounds(225) == OffsetBounds(525, 525, None)
    assert found.bounds(250) == OffsetBounds(300, 410, None)
    assert found.bounds(90) == OffsetBounds(100, 150, 301)
    assert found.bounds(40) == OffsetBounds(100, 100, 301)
    assert found.bounds(39) is None
    assert UpstreamMap(None, None).bounds(5) is None


# --- without reading -------------------------------------------------------------------------------------------


def test_ledger_tells_without_reading() -> None:
    found = by_ledger(50, 40, Translation(45, Basis.EXACT))
    assert found is not None
    assert (found.result, found.records, found.basis, found.is_certain) == ("behind", 5, "ledger", True)
    ahead = by_ledger(50, 48, Translation(45, Basis.BEYOND))
    assert ahead is not None
    assert (ahead.result, ahead.records) == ("ahead", 3)
    assert by_ledger(50, 45, Translation(45, Basis.EXACT)).result == "exact"  # type: ignore[union-attr]
    assert by_ledger(50, 45, Translation(45, Basis.MM2_SYNCS)) is None


def test_estimate_is_a_band_as_wide_as_what_was_copied_since_the_stored_position() -> None:
    found = by_position(80, 60, next_upstream=90, source_end=100, target_end=100)
    assert (found.result, found.records_min, found.records, found.is_certain) == ("behind", 20, 30, False)
    assert by_position(80, 80, next_upstream=100, source_end=100, target_end=100).result == "exact"
    lost = by_position(80, 95, next_upstream=100, source_end=100, target_end=100)
    assert (lost.result, lost.records_min, lost.records) == ("ahead", 15, 15)
    assert "20 offsets ahead" in by_position(120, 95, next_upstream=100, source_end=130, target_end=100).reason
