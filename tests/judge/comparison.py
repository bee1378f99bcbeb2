"""Whether two topics hold the same records in the same order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from judge.records import JudgeRecord

__all__ = ["compare"]

DIFFERENCES_MAX = 10  # told for each partition; after one lost record every later one differs

_COMPARED = ("key", "value", "headers", "timestamp")


def compare(
    source: Mapping[int, Sequence[JudgeRecord]], target: Mapping[int, Sequence[JudgeRecord]]
) -> list[str]:
    """One line for each difference in key, value, headers, timestamp, order or number; empty if there is none."""
    differences = []
    for partition in sorted(source.keys() | target.keys()):
        if partition not in target or partition not in source:
            where = "source" if partition not in target else "target"
            differences.append(f"partition {partition}: exists only on the {where}")
            continue
        differences += _compare_partition(partition, source[partition], target[partition])
    return differences


def _compare_partition(partition: int, source: Sequence[JudgeRecord], target: Sequence[JudgeRecord]) -> list[str]:
    found = []
    if len(source) != len(target):
        found.append(f"partition {partition}: {len(source)} records on the source, {len(target)} on the target")
    different = 0
    for at, (ours, theirs) in enumerate(zip(source, target, strict=False)):
        fields = [name for name in _COMPARED if getattr(ours, name) != getattr(theirs, name)]
        if not fields:
            continue
        different += 1
        if different <= DIFFERENCES_MAX:
            values = "; ".join(f"{name}: {_short(ours, name)} became {_short(theirs, name)}" for name in fields)
            found.append(f"partition {partition}: record {at}, offset {ours.offset} -> {theirs.offset}: {values}")
    if different > DIFFERENCES_MAX:
        found.append(f"partition {partition}: {different - DIFFERENCES_MAX} more records differ")
    return found


def _short(record: JudgeRecord, name: str) -> str:
    text = repr(getattr(record, name))
    return text if len(text) <= 80 else f"{text[:60]}... ({len(text)} characters)"
