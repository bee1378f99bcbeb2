from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.ledger import Run
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
