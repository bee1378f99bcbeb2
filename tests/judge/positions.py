"""Whether an offset map and the positions of groups are true of what Java reads (I5, I6)."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence

from judge.records import JudgeRecord

__all__ = ["group_violations", "map_violations"]

VIOLATIONS_MAX = 10


def _content(record: JudgeRecord) -> tuple[object, ...]:
    return record.key, record.value, record.headers, record.timestamp


def map_violations(
    source: Sequence[JudgeRecord], target: Sequence[JudgeRecord], downstream: Callable[[int], int | None]
) -> list[str]:
    """One sentence for each source record that the map does not lead to, or not to it first."""
    offsets = [record.offset for record in target]
    found = []
    for record in source:
        at = downstream(record.offset)
        index = len(target) if at is None else bisect.bisect_left(offsets, at)
        if index == len(target):
            found.append(f"offset {record.offset} is mapped to {at}, past the target's end")
        elif offsets[index] != at or _content(target[index]) != _content(record):
            found.append(f"offset {record.offset} is mapped to {at}, where another record or none lies")
        if len(found) == VIOLATIONS_MAX:
            break
    return found


def group_violations(
    source: Sequence[JudgeRecord], target: Sequence[JudgeRecord], *, at_source: int, at_target: int
) -> list[str]:
    """What is wrong with a group that has read up to `at_source` and goes on at `at_target`."""
    unread = [_content(record) for record in source if record.offset >= at_source]
    following = [_content(record) for record in target if record.offset >= at_target]
    if unread == following:
        return []
    if len(following) < len(unread):
        return [f"it never reads {len(unread) - len(following)} records"]
    return [f"it reads {len(following) - len(unread)} records again"]
