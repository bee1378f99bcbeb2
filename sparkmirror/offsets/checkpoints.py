"""Which checkpoints are written: a group's position on the target only goes forward, unless the group itself went back."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from sparkmirror.model import Checkpoint, TopicPartition

_PACKED = struct.Struct(">qqq")


@dataclass(frozen=True, slots=True)
class TimedCheckpoint:
    """The last checkpoint of a group and remote partition, and when it was written; both offsets are the next to read."""

    upstream: int
    downstream: int
    time_ms: int


class Checkpoints:
    """The last checkpoint of every group and remote partition, as the checkpoints topic holds it.

    Kept as a few bytes each: a cluster may hold half a million of them.
    """

    def __init__(self) -> None:
        self.newest_ms = -1
        self._last: dict[str, dict[TopicPartition, bytes]] = {}
        self._partitions: dict[TopicPartition, TopicPartition] = {}  # one object for all groups
        self._rewound: dict[str, set[TopicPartition]] = {}

    def take(self, checkpoint: Checkpoint, time_ms: int = -1) -> None:
        """One that was read from the topic or written to it."""
        last = self.at(checkpoint.group, checkpoint.partition)
        if last is not None and checkpoint.upstream_offset < last.upstream:
            self._rewound.setdefault(checkpoint.group, set()).add(checkpoint.partition)
        partition = self._partitions.setdefault(checkpoint.partition, checkpoint.partition)
        packed = _PACKED.pack(checkpoint.upstream_offset, checkpoint.downstream_offset, time_ms)
        self._last.setdefault(checkpoint.group, {})[partition] = packed + checkpoint.metadata.encode()
        self.newest_ms = max(self.newest_ms, time_ms)

    def forget(self, group: str, partition: TopicPartition) -> None:
        """A tombstone in the topic."""
        known = self._last.get(group, {})
        known.pop(partition, None)
        if not known:
            self._last.pop(group, None)

    def at(self, group: str, partition: TopicPartition) -> TimedCheckpoint | None:
        """The last one of a group for a remote partition."""
        packed = self._last.get(group, {}).get(partition)
        return None if packed is None else TimedCheckpoint(*_PACKED.unpack_from(packed))

    def timed(self, group: str) -> dict[TopicPartition, TimedCheckpoint]:
        """The last ones of a group, with their times."""
        return {p: TimedCheckpoint(*_PACKED.unpack_from(packed)) for p, packed in self._last.get(group, {}).items()}

    def of(self, group: str) -> dict[TopicPartition, Checkpoint]:
        """The last ones of a group, as they lie in the topic."""
        found = {}
        for partition, packed in self._last.get(group, {}).items():
            upstream, downstream, _ = _PACKED.unpack_from(packed)
            found[partition] = Checkpoint(group, partition, upstream, downstream, packed[_PACKED.size :].decode())
        return found

    def has_group(self, group: str) -> bool:
        """Whether a group has any."""
        return group in self._last

    def groups(self) -> Iterator[str]:
        """All groups that have one."""
        return iter(self._last)

    def rewound(self, group: str) -> frozenset[TopicPartition]:
        """Partitions of a group that were set back on the source and not yet on the target."""
        return frozenset(self._rewound.get(group, ()))

    def is_followed(self, group: str, partition: TopicPartition) -> None:
        """The group on the target is at its checkpoint: what was set back is settled."""
        self._rewound.get(group, set()).discard(partition)

    def is_news(self, checkpoint: Checkpoint, *, copied_to: int | None = None) -> bool:
        """Whether it should be written: new, forward, the group was set back, or the target lost what the last one names.

        `copied_to` is the downstream offset up to which the copy is proven, if our ledger knows it.
        """
        last = self.at(checkpoint.group, checkpoint.partition)
        return (
            last is None
            or checkpoint.upstream_offset < last.upstream
            or checkpoint.downstream_offset > last.downstream
            or (copied_to is not None and last.downstream > copied_to)
        )
