from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.driver.assignment import IDLE_BYTES, MOVE_BYTES_MIN, assign, worthwhile_move
from sparkmirror.model import TopicPartition

sizes = st.lists(st.integers(0, 1 << 40), max_size=40)


def partitions(values: list[int]) -> dict[TopicPartition, int]:
    return {TopicPartition("t", index): value for index, value in enumerate(values)}


@given(sizes, st.integers(1, 8))
def test_no_slot_has_more_than_the_largest_partition_above_any_other(values, slots):
    behind = partitions(values)
    chosen = assign(behind, dict.fromkeys(range(slots), 0))
    assert set(chosen) == set(behind)
    loads = dict.fromkeys(range(slots), 0)
    for partition, slot in chosen.items():
        loads[slot] += behind[partition] + IDLE_BYTES
    assert max(loads.values()) - min(loads.values()) <= max(values, default=0) + IDLE_BYTES


def test_idle_partitions_are_spread_evenly():
    """MirrorSourceConnectorTest testMirrorSourceConnectorTaskConfig; here by bytes, not by count."""
    chosen = assign(partitions([0] * 64), {0: 0, 1: 0})
    assert list(chosen.values()).count(0) == 32


def test_one_large_partition_has_a_slot_for_itself():
    chosen = assign(partitions([1 << 30, 1000, 1000, 1000]), {0: 0, 1: 0})
    large = chosen[TopicPartition("t", 0)]
    assert list(chosen.values()).count(large) == 1


@given(sizes, st.integers(2, 5), st.randoms())
def test_a_move_always_narrows_the_difference(values, slots, random):
    behind = partitions(values)
    placed = {partition: random.randrange(slots) for partition in behind}
    move = worthwhile_move(behind, placed, range(slots))
    if move is None:
        return
    loads = [sum(behind[p] for p, s in placed.items() if s == slot) for slot in range(slots)]
    partition, to = move
    assert behind[partition] >= MOVE_BYTES_MIN
    loads[placed[partition]] -= behind[partition]
    loads[to] += behind[partition]
    before = [sum(behind[p] for p, s in placed.items() if s == slot) for slot in range(slots)]
    assert max(loads[placed[partition]], loads[to]) < before[placed[partition]]
