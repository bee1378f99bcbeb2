"""How much of a stream is read at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.datasource.planning import admit
from sparkmirror.model import TopicPartition

A, B, C = (TopicPartition("t", index) for index in range(3))
lags = st.dictionaries(st.sampled_from([A, B, C]), st.integers(0, 1 << 40), min_size=1)


def test_each_partition_gets_its_share() -> None:
    assert admit({A: 0, B: 100, C: 7}, {A: 1000, B: 3100, C: 7}, 400) == {A: 100, B: 400, C: 7}


def test_a_limit_in_bytes_counts_what_an_offset_takes() -> None:
    assert admit({A: 0, B: 0}, {A: 100, B: 100}, 1100, {A: 10.0, B: 100.0}) == {A: 10, B: 10}


@given(lags, lags, st.integers(1, 1 << 41))
def test_a_batch_moves_on_and_keeps_its_limit(
    start: dict[TopicPartition, int], lag: dict[TopicPartition, int], limit: int
) -> None:
    end = {partition: start.get(partition, 0) + more for partition, more in lag.items()}
    admitted = admit(start, end, limit)
    taken = {partition: admitted[partition] - start.get(partition, 0) for partition in end}
    assert all(0 <= count <= lag[partition] for partition, count in taken.items())
    assert sum(taken.values()) <= limit
    assert sum(taken.values()) > 0 or not any(lag.values())
