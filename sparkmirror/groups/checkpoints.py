"""Which checkpoints are written: a group's position on the target only goes forward, unless the group itself went back."""

from __future__ import annotations

from collections.abc import Iterator

from sparkmirror.model import Checkpoint, TopicPartition

__all__ = ["Checkpoints"]


class Checkpoints:
    """The last checkpoint of every group and remote partition, as the checkpoints topic holds it."""

    def __init__(self) -> None:
        self._last: dict[str, dict[TopicPartition, Checkpoint]] = {}
        self._rewound: dict[str, set[TopicPartition]] = {}

    def take(self, checkpoint: Checkpoint) -> None:
        """One that was read from the topic or written to it."""
        known = self._last.setdefault(checkpoint.group, {})
        last = known.get(checkpoint.partition)
        if last is not None and checkpoint.upstream_offset < last.upstream_offset:
            self._rewound.setdefault(checkpoint.group, set()).add(checkpoint.partition)
        known[checkpoint.partition] = checkpoint

    def forget(self, group: str, partition: TopicPartition) -> None:
        """A tombstone in the topic."""
        self._last.get(group, {}).pop(partition, None)

    def of(self, group: str) -> dict[TopicPartition, Checkpoint]:
        """The last ones of a group."""
        return dict(self._last.get(group, {}))

    def groups(self) -> Iterator[str]:
        """All groups that have one."""
        return iter(self._last)

    def rewound(self, group: str) -> frozenset[TopicPartition]:
        """Partitions of a group that were set back on the source and not yet on the target."""
        return frozenset(self._rewound.get(group, ()))

    def is_followed(self, group: str, partition: TopicPartition) -> None:
        """The group on the target stands at its checkpoint: what was set back is settled."""
        self._rewound.get(group, set()).discard(partition)

    def is_news(self, checkpoint: Checkpoint, *, copied_to: int | None = None) -> bool:
        """Whether it should be written: new, forward, the group was set back, or the target lost what the last one names.

        `copied_to` is the downstream offset up to which the copy is proven, if our ledger knows it.
        """
        last = self._last.get(checkpoint.group, {}).get(checkpoint.partition)
        return (
            last is None
            or checkpoint.upstream_offset < last.upstream_offset
            or checkpoint.downstream_offset > last.downstream_offset
            or (copied_to is not None and last.downstream_offset > copied_to)
        )
