"""What MM2 accepts as new positions (Connect's `PATCH /connectors/{name}/offsets`), by its own rules and in its own words.

Connect checks the form of every entry first; only then the connector checks what each one means.

| checked                     | source connector   | checkpoint connector | heartbeat connector                        |
|-----------------------------|--------------------|----------------------|--------------------------------------------|
| partition null              | refused            | refused              | refused                                    |
| keys that must be strings   | `cluster`, `topic` | `group`, `topic`     | `sourceClusterAlias`, `targetClusterAlias` |
| `partition`                 | integer from 0 on  | integer from 0 on    | not checked                                |
| `offset`                    | integer from 0 on  | only 0               | only 0                                     |

An offset of null deletes the position, whatever the partition is, even null. Other keys are not checked; an alias or a
topic that does not exist is accepted and has no effect.

The offset is the *last* one copied: `{"offset":0}` resumes at 1. To copy from the start, delete the position.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

from sparkmirror.wire import java_text

INT32_MAX = (1 << 31) - 1
INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1

# One entry of a request: the partition and the offset, each an object or null.
Alteration = tuple[Mapping[str, object] | None, Mapping[str, object] | None]


class ConnectorKind(Enum):
    """MM2's three connectors, by the last part of their classes' names."""

    SOURCE = "MirrorSourceConnector"
    CHECKPOINT = "MirrorCheckpointConnector"
    HEARTBEAT = "MirrorHeartbeatConnector"


_STRINGS = {
    ConnectorKind.SOURCE: ("cluster", "topic"),
    ConnectorKind.CHECKPOINT: ("group", "topic"),
    ConnectorKind.HEARTBEAT: ("sourceClusterAlias", "targetClusterAlias"),
}
_WITH_PARTITION = (ConnectorKind.SOURCE, ConnectorKind.CHECKPOINT)


def alteration_problem(kind: ConnectorKind, entries: Sequence[Alteration]) -> str | None:
    """The words with which Connect or the connector refuses the entries; None if they are accepted. None of them is fine."""
    forms = (problem for entry in entries for part in entry if (problem := _form_problem(part)) is not None)
    meanings = (problem for entry in entries if (problem := _entry_problem(kind, *entry)) is not None)
    return next(forms, None) or next(meanings, None)


def _form_problem(part: Mapping[str, object] | None) -> str | None:
    for name, value in (part or {}).items():
        found = _no_primitive(value)
        if found:
            return f"Offsets may only contain primitive types as values, but field {name} contains {found}"
    return None


def _no_primitive(value: object) -> str:
    if isinstance(value, Mapping):
        return "MAP"
    if isinstance(value, list | tuple):
        return "ARRAY"
    is_huge = type(value) is int and not INT64_MIN <= value <= INT64_MAX
    return "class java.math.BigInteger" if is_huge else ""


def _entry_problem(
    kind: ConnectorKind, partition: Mapping[str, object] | None, offset: Mapping[str, object] | None
) -> str | None:
    if offset is None:
        return None
    if partition is None:
        return "Source partitions may not be null"
    for name in _STRINGS[kind]:
        if (problem := _string_problem(partition, name)) is not None:
            return problem
    if kind in _WITH_PARTITION and (problem := _partition_problem(partition)) is not None:
        return problem
    return _offset_problem(partition, offset, only_zero=kind is not ConnectorKind.SOURCE)


def _string_problem(partition: Mapping[str, object], name: str) -> str | None:
    if name not in partition:
        return f"Source partition {java_text(partition)} is missing the '{name}' key, which is required"
    if not isinstance(partition[name], str):
        return _wrong(f"Source partition {java_text(partition)}", partition[name], name, ", which must be a string")
    return None


def _partition_problem(partition: Mapping[str, object]) -> str | None:
    where, name = f"Source partition {java_text(partition)}", "partition"
    if name not in partition:
        return f"{where} is missing the '{name}' key, which is required"
    value = partition[name]
    # type() and not isinstance(): a bool is an int in Python.
    if type(value) is not int or value > INT32_MAX:
        return _wrong(where, value, name, ", which must be an integer")
    # MM2 cuts the number to 32 bits before it checks the sign, so -3000000000 passes.
    if value & 1 << 31:
        return _wrong(where, value, name, ", which cannot be negative")
    return None


def _offset_problem(partition: Mapping[str, object], offset: Mapping[str, object], *, only_zero: bool) -> str | None:
    where, name = f"Source offset {java_text(offset)} for source partition {java_text(partition)}", "offset"
    if name not in offset:
        return f"{where} is missing the '{name}' key, which is required"
    value = offset[name]
    if type(value) is not int:
        return _wrong(where, value, name, ", which must be an integer")
    if only_zero and value != 0:
        return _wrong(where, value, name, "; the only accepted value is 0")
    if value < 0:
        return _wrong(where, value, name, ", which cannot be negative")
    return None


def _wrong(where: str, value: object, name: str, rule: str) -> str:
    return f"{where} has an invalid value {java_text(value)} for the '{name}' key{rule}"
