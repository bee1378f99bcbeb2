"""What a Connect worker runs, as its group metadata says (protocol type `connect`, KIP-415).

    metadata     int16 version, string url, int64 config_offset; from version 1 on: nullable bytes, what it runs already,
                 in the form of an assignment
    assignment   int16 version, int16 error, string leader, string leader_url, int64 config_offset,
                 array of (string connector, array of int32 task)         task −1 is the connector itself
                 from version 1 on: array of the same, to be given up; int32 scheduled delay

Either array may be null (−1). From version 1 on an assignment holds only what is *new*: a worker runs what it said when it
joined, and what it was given, without what it had to give up. A connector that was stopped (KIP-875) still belongs to a
worker; its tasks do not exist.
"""

from __future__ import annotations

import struct

from sparkmirror.wire.schema import MalformedInternalRecord

CONNECTOR_ITSELF = -1
_SHORT, _INT, _LONG = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")

Task = tuple[str, int]


def connect_tasks(metadata: bytes, assignment: bytes) -> set[Task]:
    """The tasks (connector, number) that a member of the group runs."""
    try:
        given, given_up = _assignment(assignment)
        return {task for task in (_already(metadata) - given_up) | given if task[1] != CONNECTOR_ITSELF}
    except (struct.error, ValueError) as error:
        found = (metadata + assignment)[:200]
        raise MalformedInternalRecord(f"what a Connect worker runs cannot be read: {found!r}") from error


def _already(metadata: bytes) -> set[Task]:
    if not metadata:
        return set()
    (version,) = _SHORT.unpack_from(metadata, 0)
    _, at = _string(metadata, _SHORT.size)
    at += _LONG.size
    if version == 0:
        return set()
    (size,) = _INT.unpack_from(metadata, at)
    at += _INT.size
    if size > len(metadata) - at:
        raise ValueError("an allocation longer than the metadata")
    return _assignment(metadata[at : at + size])[0] if size > 0 else set()


def _assignment(data: bytes) -> tuple[set[Task], set[Task]]:
    """What is given, and what is to be given up."""
    if not data:
        return set(), set()
    (version,) = _SHORT.unpack_from(data, 0)
    at = 2 * _SHORT.size  # behind the error
    for _ in ("leader", "leader_url"):
        _, at = _string(data, at)
    given, at = _work(data, at + _LONG.size)
    given_up = set() if version == 0 else _work(data, at)[0]
    return given, given_up


def _work(data: bytes, at: int) -> tuple[set[Task], int]:
    found: set[Task] = set()
    (count,) = _INT.unpack_from(data, at)
    at += _INT.size
    for _ in range(max(count, 0)):
        name, at = _string(data, at)
        (tasks,) = _INT.unpack_from(data, at)
        at += _INT.size
        if not 0 <= tasks <= (len(data) - at) // _INT.size:
            raise ValueError("a list of tasks longer than the assignment")
        found |= {(name, task) for task in struct.unpack_from(f">{tasks}i", data, at)}
        at += tasks * _INT.size
    return found, at


def _string(data: bytes, at: int) -> tuple[str, int]:
    (size,) = _SHORT.unpack_from(data, at)
    at += _SHORT.size
    if not 0 <= size <= len(data) - at:
        raise ValueError("a string longer than its record")
    return data[at : at + size].decode(), at + size
