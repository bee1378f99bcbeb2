"""Which slot copies which partition: by bytes behind, not by count."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sparkmirror.model import TopicPartition

# A partition costs something even when it has nothing to copy: its share of every fetch. Spreads idle ones evenly.
IDLE_BYTES = 64 << 10
# Moving a partition costs a drain and an opening (some 50 ms): worth it only for more than a second of work.
MOVE_BYTES_MIN = 64 << 20


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


def worthwhile_move(
    behind: Mapping[TopicPartition, int], placed: Mapping[TopicPartition, int], slots: Collection[int]
) -> tuple[TopicPartition, int] | None:
    """One partition whose move brings the slowest slot and the idlest one closer together, and where to; or None."""
    loads = dict.fromkeys(slots, 0)
    for partition, slot in placed.items():
        if slot in loads:
            loads[slot] += behind.get(partition, 0)
    if len(loads) < 2:
        return None
    busiest = max(loads, key=lambda s: (loads[s], s))
    idlest = min(loads, key=lambda s: (loads[s], s))
    difference = loads[busiest] - loads[idlest]
    candidates = [
        p for p, slot in placed.items() if slot == busiest and MOVE_BYTES_MIN <= behind.get(p, 0) <= difference * 3 // 4
    ]
    if not candidates:
        return None
    return max(candidates, key=lambda p: (-abs(behind[p] - difference // 2), p)), idlest
