"""Which checkpoints are written: a group's position on the target only goes forward, unless the group itself went back."""

from __future__ import annotations

from collections.abc import Iterator

from sparkmirror.model import Checkpoint, TopicPartition

__all__ = ["Checkpoints"]


class Checkpoints:
    """The last checkpoint of every group and remote partition, as the checkpoints topic holds it."""

    def __init__(self) -> None:
        self._last: dict[str, dict[TopicPartition, Checkpoint]] = {}

    def take(self, checkpoint: Checkpoint) -> None:
        """One that was read from the topic or written to it."""
        self._last.setdefault(checkpoint.group, {})[checkpoint.partition] = checkpoint

    def of(self, group: str) -> dict[TopicPartition, Checkpoint]:
        """The last ones of a group."""
        return dict(self._last.get(group, {}))

    def groups(self) -> Iterator[str]:
        """All groups that have one."""
        return iter(self._last)

    def is_news(self, checkpoint: Checkpoint) -> bool:
        """Whether it should be written: new, forward, or the group was set back on the source."""
        last = self._last.get(checkpoint.group, {}).get(checkpoint.partition)
        return (
            last is None
            or checkpoint.upstream_offset < last.upstream_offset
            or checkpoint.downstream_offset > last.downstream_offset
        )
