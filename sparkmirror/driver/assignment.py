"""Which slot copies which partition: by the bytes there are to copy, then by count."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sparkmirror.model import TopicPartition

# A partition costs something even when it has nothing to copy: its share of every fetch. Spreads idle ones evenly.
IDLE_BYTES = 64 << 10
# Moving a partition costs a drain and an opening (some 50 ms): worth it only for more than a second of work.
MOVE_BYTES_MIN = 64 << 20
# Counts are made even when they differ by so many partitions, and so many times: each move delays its partition.
UNEVEN_MIN = 2
UNEVEN_TIMES = 1.5
MOVES_MAX = 1000  # at once; with more of them the search takes seconds


def assign(
    behind: Mapping[TopicPartition, int], loads: Mapping[int, int]
) -> dict[TopicPartition, int]:
    """The largest partition first, each to the slot with the least to do. `loads` are bytes a slot already has."""
    if not loads:
        return {}
    weights = dict(loads)
    chosen: dict[TopicPartition, int] = {}
    for partition in sorted(behind, key=lambda p: (-behind[p], p)):
        slot = min(weights, key=lambda s: (weights[s], s))
        chosen[partition] = slot
        weights[slot] += behind[partition] + IDLE_BYTES
    return chosen


def worthwhile_moves(
    work: Mapping[TopicPartition, int], placed: Mapping[TopicPartition, int], slots: Collection[int]
) -> dict[TopicPartition, int]:
    """The partitions whose moves bring the slots closer together, and where to. `work` is in bytes.

    First by work: each move narrows the difference between the slot with the most and the one with the least. Then by
    count, with the smallest partitions: a slot that has come back without any gets its share.
    """
    shares: dict[int, set[TopicPartition]] = {slot: set() for slot in slots}
    for partition, slot in placed.items():
        if slot in shares:
            shares[slot].add(partition)
    if len(shares) < 2:
        return {}
    loads = {slot: sum(work[p] for p in share) for slot, share in shares.items()}
    moves = _moves_by_work(work, shares, loads)
    return moves | _moves_by_count(work, shares, loads, moves.keys())


def _moves_by_work(
    work: Mapping[TopicPartition, int], shares: dict[int, set[TopicPartition]], loads: dict[int, int]
) -> dict[TopicPartition, int]:
    """Moves partitions of more than a second of work; `shares` and `loads` are changed."""
    moves: dict[TopicPartition, int] = {}
    while len(moves) < MOVES_MAX:
        busiest = max(loads, key=lambda s: (loads[s], s))
        idlest = min(loads, key=lambda s: (loads[s], s))
        difference = loads[busiest] - loads[idlest]
        fitting = [p for p in shares[busiest] if p not in moves and MOVE_BYTES_MIN <= work[p] <= difference * 3 // 4]
        if not fitting:
            break
        chosen = max(fitting, key=lambda p: (-abs(work[p] - difference // 2), p))
        moves[chosen] = idlest
        shares[busiest].remove(chosen)
        shares[idlest].add(chosen)
        loads[busiest] -= work[chosen]
        loads[idlest] += work[chosen]
    return moves


def _moves_by_count(
    work: Mapping[TopicPartition, int],
    shares: Mapping[int, Collection[TopicPartition]],
    loads: Mapping[int, int],
    moved: Collection[TopicPartition],
) -> dict[TopicPartition, int]:
    """Moves partitions with little work to slots that have far fewer, and not much more to do than the idlest."""
    counts = {slot: len(share) for slot, share in shares.items()}
    takers = [slot for slot, load in loads.items() if load <= min(loads.values()) + MOVE_BYTES_MIN]
    fewest, most = min(counts[slot] for slot in takers), max(counts.values())
    if most < fewest * UNEVEN_TIMES:
        return {}
    light = {
        slot: sorted((p for p in share if work[p] < MOVE_BYTES_MIN and p not in moved), key=lambda p: (-work[p], p))
        for slot, share in shares.items()
    }
    moves: dict[TopicPartition, int] = {}
    while len(moves) < MOVES_MAX:
        fullest = max((slot for slot in counts if light[slot]), key=lambda s: (counts[s], s), default=None)
        emptiest = min(takers, key=lambda s: (counts[s], s))
        if fullest is None or counts[fullest] - counts[emptiest] < UNEVEN_MIN:
            break
        moves[light[fullest].pop()] = emptiest  # the one with the least work
        counts[fullest] -= 1
        counts[emptiest] += 1
    return moves
