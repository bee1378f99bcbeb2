"""What a Connect worker runs, read from assignments that the workers of MirrorMaker 2 4.3.1 were given."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.wire import MalformedInternalRecord, connect_tasks

LEADER = b"\x00.A->target-b11ece3a-5b92-4aa7-9f00-2c49d9cb62c7\x00\x07NOTUSED"
HEAD = b"\x00\x02\x00\x00" + LEADER + b"\x00\x00\x00\x00\x00\x00\x00\t"
# As it was after the connectors had started: only the tasks, which were new then.
TASKS = HEAD + b"\x00\x00\x00\x01\x00\x15MirrorSourceConnector\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x01" + bytes(8)
# As it was after a restart: connectors (task -1) and tasks at once.
ALL = (
    HEAD
    + b"\x00\x00\x00\x03\x00\x15MirrorSourceConnector\x00\x00\x00\x03\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x01"
    + b"\x00\x18MirrorHeartbeatConnector\x00\x00\x00\x01\xff\xff\xff\xff"
    + b"\x00\x19MirrorCheckpointConnector\x00\x00\x00\x01\xff\xff\xff\xff"
    + bytes(8)
)
SOURCE = {("MirrorSourceConnector", 0), ("MirrorSourceConnector", 1)}


def metadata(already: bytes | None, version: int = 2) -> bytes:
    head = struct.pack(">h", version) + b"\x00\x07NOTUSED" + struct.pack(">q", 9)
    if version == 0:
        return head
    return head + (struct.pack(">i", -1) if already is None else struct.pack(">i", len(already)) + already)


def work(*items: tuple[str, list[int]]) -> bytes:
    parts = [struct.pack(">i", len(items))]
    for name, tasks in items:
        parts.append(struct.pack(">h", len(name)) + name.encode() + struct.pack(f">i{len(tasks)}i", len(tasks), *tasks))
    return b"".join(parts)


def test_tasks_are_those_that_were_given_and_connectors_are_no_tasks() -> None:
    assert connect_tasks(metadata(None), TASKS) == SOURCE
    assert connect_tasks(b"", ALL) == SOURCE


def test_an_assignment_holds_only_what_is_new_the_rest_the_worker_said_itself() -> None:
    nothing_new = HEAD + work() + work() + bytes(4)
    assert connect_tasks(metadata(ALL), nothing_new) == SOURCE


def test_what_was_given_up_is_not_run_unless_it_was_given_again() -> None:
    given_up = HEAD + work() + work(("MirrorSourceConnector", [0, 1])) + bytes(4)
    assert connect_tasks(metadata(ALL), given_up) == set()
    again = HEAD + work(("MirrorSourceConnector", [1])) + work(("MirrorSourceConnector", [0, 1])) + bytes(4)
    assert connect_tasks(metadata(ALL), again) == {("MirrorSourceConnector", 1)}


def test_a_connector_that_was_stopped_has_no_tasks() -> None:
    stopped = HEAD + work(("mine", [-1])) + work() + bytes(4)
    assert connect_tasks(metadata(None), stopped) == set()


def test_the_eager_protocol_gives_everything_each_time() -> None:
    eager = b"\x00\x00" + HEAD[2:] + work(("mine", [-1, 3]))
    assert connect_tasks(metadata(None, version=0), eager) == {("mine", 3)}


def test_a_member_that_was_given_nothing_yet_runs_nothing() -> None:
    assert connect_tasks(b"", b"") == set()


@given(st.binary(max_size=120), st.binary(max_size=120))
def test_bytes_of_no_worker_are_refused_and_nothing_else_happens(said: bytes, given_: bytes) -> None:
    try:
        found = connect_tasks(said, given_)
    except MalformedInternalRecord:
        return
    assert all(isinstance(name, str) and number != -1 for name, number in found)


@pytest.mark.parametrize("cut", [3, 20, len(HEAD) + 3, len(TASKS) - 9])
def test_a_cut_assignment_is_refused(cut: int) -> None:
    with pytest.raises(MalformedInternalRecord):
        connect_tasks(b"", TASKS[:cut])
