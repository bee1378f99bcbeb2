"""Records in internal topics that do not belong there: each is passed over alone, counted, and the first one is located."""

from __future__ import annotations

from sparkmirror.model import TopicPartition

__all__ = ["Strays"]


class Strays:
    """What was passed over and not told yet."""

    def __init__(self) -> None:
        self._count, self._first = 0, ""

    def add(self, partition: TopicPartition, offset: int) -> None:
        """One more."""
        self._count += 1
        self._first = self._first or f"{partition} at offset {offset}"

    def told(self) -> list[str]:
        """One sentence if there are some; the next one is about those that come after."""
        count, first = self._count, self._first
        self._count, self._first = 0, ""
        if not count:
            return []
        what = "a record that does not belong there is" if count == 1 else f"{count} records that do not belong there are"
        return [f"{first}: {what} passed over"]
