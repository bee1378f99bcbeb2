from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.driver.assignment import IDLE_BYTES, MOVE_BYTES_MIN, assign, worthwhile_moves
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


def counts_after(placed, moves, slots):
    found = list((placed | moves).values())
    return [found.count(slot) for slot in range(slots)]


@given(sizes, st.integers(2, 5), st.randoms())
def test_moves_always_narrow_the_difference(values, slots, random):
    work = partitions(values)
    placed = {partition: random.randrange(slots) for partition in work}
    moves = worthwhile_moves(work, placed, range(slots))
    assert all(placed[partition] != slot for partition, slot in moves.items())

    def spread(where):
        loads = [sum(work[p] for p, s in where.items() if s == slot) for slot in range(slots)]
        return max(loads) - min(loads)

    large = {partition: slot for partition, slot in moves.items() if work[partition] >= MOVE_BYTES_MIN}
    assert spread(placed | large) < spread(placed) or not large or slots > 2
    assert spread(placed | large) <= spread(placed)
    before, after = counts_after(placed | large, {}, slots), counts_after(placed, moves, slots)
    assert max(after) <= max(before)


def test_a_slot_that_comes_back_gets_its_share_of_idle_partitions_in_one_round():
    work = partitions([0] * 11)
    placed = {partition: partition.partition % 2 for partition in work}
    moves = worthwhile_moves(work, placed, range(3))
    assert sorted(counts_after(placed, moves, 3)) == [3, 4, 4]
    assert set(moves.values()) == {2}


def test_many_partitions_with_much_work_move_in_one_round():
    work = partitions([100 << 20] * 40)
    placed = dict.fromkeys(work, 0)
    assert sorted(counts_after(placed, worthwhile_moves(work, placed, range(4)), 4)) == [10, 10, 10, 10]


def test_idle_partitions_do_not_move_to_a_slot_that_has_one_with_much_work():
    work = partitions([1 << 30, *[0] * 10])
    placed = {partition: int(partition.partition > 0) for partition in work}
    assert worthwhile_moves(work, placed, range(2)) == {}


def test_nothing_moves_between_slots_that_are_nearly_even():
    work = partitions([1000] * 22)
    placed = {partition: int(partition.partition > 12) for partition in work}
    assert worthwhile_moves(work, placed, range(2)) == {}
