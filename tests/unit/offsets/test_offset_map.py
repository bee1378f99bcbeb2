import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.ledger import Run, Runs
from sparkmirror.offsets import OffsetMap

steps = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(1, 20)), max_size=30)


def build(pieces: list[tuple[int, int, int]]) -> tuple[list[Run], dict[int, int]]:
    runs, pairs = [], {}
    upstream = downstream = 100
    for up_gap, down_gap, length in pieces:
        upstream, downstream = upstream + up_gap, downstream + down_gap
        runs.append(Run(upstream, downstream, length))
        pairs.update({upstream + i: downstream + i for i in range(length)})
        upstream, downstream = upstream + length, downstream + length
    return runs, pairs


@given(steps)
def test_every_covered_upstream_offset_is_translated_exactly(pieces):
    runs, pairs = build(pieces)
    offset_map = OffsetMap(runs)
    for upstream, downstream in pairs.items():
        assert offset_map.covers(upstream)
        assert offset_map.downstream(upstream) == downstream
        assert offset_map.upstream(downstream) == upstream


@given(steps)
def test_an_offset_in_a_gap_goes_to_the_next_copied_record(pieces):
    runs, pairs = build(pieces)
    offset_map = OffsetMap(runs)
    for upstream in range(95, max(pairs, default=100) + 5):
        later = [pairs[u] for u in sorted(pairs) if u >= upstream]
        assert offset_map.downstream(upstream) == (later[0] if later else None)


@given(steps, st.randoms())
def test_runs_stated_twice_or_in_another_order_are_the_same_map(pieces, random):
    runs, _ = build(pieces)
    shuffled = runs + runs
    random.shuffle(shuffled)
    assert list(OffsetMap(shuffled).runs()) == list(OffsetMap(runs).runs())


def test_neighbours_with_the_same_difference_are_one_run():
    assert list(OffsetMap([Run(0, 5, 10), Run(10, 15, 7)]).runs()) == [Run(0, 5, 17)]


def in_blocks(runs: list[Run], size: int) -> list[Runs]:
    """As receipts tell of them: each block begins with the last run of the one before, which then was shorter."""
    blocks = []
    for start in range(0, len(runs), size):
        told = runs[max(start - 1, 0) : start + size]
        last = told[-1]
        blocks.append(Runs([*told[:-1], last._replace(length=(last.length + 1) // 2)]))
    return [*blocks, Runs(runs[-1:])] if runs else []


@given(steps, st.integers(1, 6), st.integers(1, 9), st.randoms())
def test_a_map_of_blocks_answers_as_one_of_their_runs(pieces, size, other_size, random):
    runs, pairs = build(pieces)
    plain = OffsetMap(runs)
    # The second, as after a restatement whose tombstones did not get written any more.
    blocks = in_blocks(runs, size) + [Runs(runs[at : at + other_size]) for at in range(0, len(runs), other_size)][::2]
    random.shuffle(blocks)
    found = OffsetMap.of_blocks(blocks)
    assert list(found.runs()) == list(plain.runs())
    assert found.first == plain.first
    for upstream in range(95, max(pairs, default=100) + 5):
        assert found.covers(upstream) == (upstream in pairs)
        assert found.downstream(upstream) == plain.downstream(upstream)
        assert found.end_before(upstream) == plain.end_before(upstream)


def test_a_million_transactions_take_megabytes_and_are_unpacked_only_where_one_looks():
    tracemalloc.start()
    blocks = [
        Runs(Run(number * 11, number * 10, 10) for number in range(start, start + 251)) for start in range(0, 1_000_000, 250)
    ]
    offset_map = OffsetMap.of_blocks(blocks)
    assert offset_map.downstream(11 * 777_777 + 3) == 7_777_773
    assert offset_map.downstream(11 * 777_777 + 10) == 7_777_780
    assert offset_map.downstream(11 * 1_000_001) is None
    taken, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken < 8_000_000
    assert most < 9_000_000
