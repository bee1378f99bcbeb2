"""MM2's own memory of offset syncs, answer for answer: for positions that were copied before sparkmirror's ledger began.

A partition keeps 64 slots, the newest sync first, their distances growing like powers of two, so that a group far behind
is translated the more roughly the farther it is. Two rules hold for slots i < j with different syncs:
  near   u_i ≤ u_j + 2^j − 2^i           apart   u_i ≥ u_j + 2^max(i−2, 0)
Syncs are compared by identity: the same pair sent again is another sync.
"""

from __future__ import annotations

from sparkmirror.model import OffsetSync, TopicPartition

SLOTS = 64
TOO_OLD = -1  # MM2's answer for a position before the oldest sync it kept


class SyncHistory:
    """The syncs of one partition."""

    __slots__ = ("_slots",)

    def __init__(self, first: OffsetSync) -> None:
        self._slots = [first] * SLOTS

    @property
    def kept(self) -> list[OffsetSync]:
        """The different syncs, newest first."""
        found = [self._slots[0]]
        for sync in self._slots[1:]:
            if sync is not found[-1]:
                found.append(sync)
        return found

    @property
    def slots(self) -> tuple[OffsetSync, ...]:
        """All 64."""
        return tuple(self._slots)

    def forget_all_but(self, sync: OffsetSync) -> None:
        """Restarts the partition with this sync."""
        self._slots = [sync] * SLOTS

    def take(self, sync: OffsetSync) -> None:
        """The next sync of the topic; one before the newest means that the source restarted."""
        if sync.upstream_offset < self._slots[0].upstream_offset:
            self.forget_all_but(sync)
        else:
            self._insert(sync)

    def _insert(self, sync: OffsetSync) -> None:
        before, after = self._slots, list(self._slots)
        after[0] = candidate = sync
        at = 0  # the next of the former syncs that may move down
        for slot in range(1, SLOTS):
            last = after[slot - 1]
            while True:
                former = before[at]
                is_apart = _is_apart(last, former, slot - 1)
                fits = (
                    is_apart
                    and _is_near(last, former, slot - 1, slot)
                    and (slot == SLOTS - 1 or _is_apart(former, after[slot + 1], slot))
                )
                is_repeated = at < SLOTS - 1 and former is before[at + 1]
                if fits:
                    candidate = former
                skips = is_repeated or not is_apart
                if fits or skips:
                    at += 1
                if not (skips and at < slot):
                    break
            if _is_near(last, after[slot], slot - 1, slot):
                break
            after[slot] = candidate
        self._slots = after

    def translate(self, position: int) -> int:
        """The downstream position that cannot skip a record, or TOO_OLD."""
        for sync in self._slots:
            if sync.upstream_offset <= position:
                return sync.downstream_offset + (sync.upstream_offset != position)
        return TOO_OLD


def _is_near(newer: OffsetSync, older: OffsetSync, i: int, j: int) -> bool:
    return newer is older or newer.upstream_offset <= older.upstream_offset + (1 << j) - (1 << i)


def _is_apart(newer: OffsetSync, older: OffsetSync, i: int) -> bool:
    return newer is older or newer.upstream_offset >= older.upstream_offset + (1 << max(i - 2, 0))


class SyncHistories:
    """The offset-syncs topic as it is read: nothing is translated before it was read to its end once.

    `only_newest` is MM2's way after it could not load its checkpoints: of what was there at the start, it keeps one sync
    per partition, because older ones could translate a group to before what it was given already.
    """

    def __init__(self, *, only_newest: bool) -> None:
        self._histories: dict[TopicPartition, SyncHistory] = {}
        self._only_newest = only_newest
        self.is_read_to_end = False

    def take(self, sync: OffsetSync) -> None:
        """The next record of the topic."""
        history = self._histories.get(sync.partition)
        if history is None:
            self._histories[sync.partition] = SyncHistory(sync)
        elif self._only_newest and not self.is_read_to_end:
            history.forget_all_but(sync)
        else:
            history.take(sync)

    def of(self, partition: TopicPartition) -> SyncHistory | None:
        """What is known of a partition, None before the end was reached or without any sync."""
        return self._histories.get(partition) if self.is_read_to_end else None
