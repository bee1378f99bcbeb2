"""MirrorMaker 2's internal topics as tables: the newest record counts, with its time and place; foreign bytes do no harm."""

from __future__ import annotations

import pytest

from sparkmirror.config import FlowSettings, parse
from sparkmirror.model import Checkpoint, FlowName, OffsetSync, TopicPartition
from sparkmirror.offsets import TimedCheckpoint
from sparkmirror.state import CheckpointTable, Note, Notes, PositionTable, SyncPair, SyncTable, mapped_partition
from sparkmirror.state.reading import NOTES_MAX
from sparkmirror.topology import policy_for
from sparkmirror.wire import Record, encode_checkpoint, encode_connect_offset, encode_offset_sync, source_key

ORDERS = TopicPartition("orders", 0)
PLACE = TopicPartition("internal", 0)


def a_record(entry: tuple[bytes | None, bytes | None], offset: int = 0, time_ms: int = 0) -> Record:
    return Record(offset, time_ms, *entry)


def a_position(
    last: int | None, *, cluster: str = "A", connector: str = "MirrorSourceConnector"
) -> tuple[bytes, bytes | None]:
    return source_key(connector, cluster, ORDERS), None if last is None else encode_connect_offset(last)


def test_newest_position_counts_and_a_tombstone_takes_it_back() -> None:
    table = PositionTable("A")
    for offset, last in enumerate((3, 9, 7)):
        assert table.take(PLACE, a_record(a_position(last), offset, 100 + offset)) is None
    known = table.of(ORDERS)
    assert known is not None
    assert (known.last_offset, known.time_ms, known.place) == (7, 102, PLACE)
    table.take(PLACE, a_record(a_position(None), 3, 103))
    assert table.of(ORDERS) is None
    [stored] = table.own()
    assert (stored.last_offset, stored.offset, stored.is_canonical) == (None, 3, True)


def test_positions_of_others_are_passed_over() -> None:
    table = PositionTable("A")
    table.take(PLACE, a_record(a_position(5, cluster="B")))
    assert list(table.own()) == []
    table.take(PLACE, a_record(a_position(5, connector="mine")))
    assert table.of(ORDERS) is None
    assert [stored.source.connector for stored in table.own() if stored.source] == ["mine"]


def test_key_with_blanks_is_another_key() -> None:
    table = PositionTable("A")
    key = b'["MirrorSourceConnector", {"cluster": "A", "partition": 0, "topic": "orders"}]'
    table.take(PLACE, a_record((key, b'{"offset":5}')))
    assert table.of(ORDERS) is None
    assert [stored.is_canonical for stored in table.own()] == [False]


def test_key_in_two_partitions_is_kept_twice_and_the_later_counts() -> None:
    table = PositionTable("A")
    table.take(TopicPartition("internal", 3), a_record(a_position(5), 0, 200))
    table.take(TopicPartition("internal", 9), a_record(a_position(8), 0, 100))
    assert len(list(table.own())) == 2
    assert table.of(ORDERS).last_offset == 5  # type: ignore[union-attr]


@pytest.mark.parametrize("entry", [(None, b"{}"), (b"\xff", b"{}"), (a_position(1)[0], b"text"), (b"{}", b"{}")])
def test_malformed_position_is_reported_by_its_offset(entry: tuple[bytes | None, bytes]) -> None:
    bad = PositionTable("A").take(PLACE, a_record(entry, 42))
    assert bad is not None
    assert (bad.place, bad.offset) == (PLACE, 42)


def test_newest_sync_is_known_with_its_time_and_older_ones_translate() -> None:
    table = SyncTable()
    for offset, (up, down) in enumerate(((0, 0), (100, 90), (250, 230))):
        assert table.take(PLACE, a_record(encode_offset_sync(OffsetSync(ORDERS, up, down)), offset, 10 + offset)) is None
    assert table.newest[ORDERS] == SyncPair(250, 230, 12)
    assert table.sync_of(ORDERS) == OffsetSync(ORDERS, 250, 230)
    history = table.histories.of(ORDERS)
    assert history is not None
    assert (history.translate(250), history.translate(251), history.translate(130)) == (230, 231, 1)  # as MM2 remembers


def test_partition_that_restarts_has_no_sync() -> None:
    table = SyncTable()
    table.take(PLACE, a_record(encode_offset_sync(OffsetSync(ORDERS, 5, 5))))
    table.take(PLACE, a_record(encode_offset_sync(OffsetSync(ORDERS, -1, -1))))
    assert table.newest == {}


def test_tombstone_among_syncs_is_a_foreign_record() -> None:
    table = SyncTable()
    bad = table.take(PLACE, a_record((encode_offset_sync(OffsetSync(ORDERS, 5, 5))[0], None), 7))
    assert bad is not None
    assert (bad.offset, table.newest) == (7, {})


def a_checkpoint(group: str, downstream: int) -> tuple[bytes, bytes]:
    return encode_checkpoint(Checkpoint(group, ORDERS, 5, downstream, "metadata"))


def test_newest_checkpoint_of_a_group_counts_and_a_tombstone_takes_it_away() -> None:
    table = CheckpointTable()
    for offset, (group, downstream) in enumerate((("g", 4), ("h", 6), ("g", 3))):
        assert table.take(PLACE, a_record(a_checkpoint(group, downstream), offset, 70 + offset)) is None
    last = table.last
    assert last.at("g", ORDERS) == TimedCheckpoint(5, 3, 72)
    assert last.timed("h") == {ORDERS: TimedCheckpoint(5, 6, 71)}
    assert last.of("g") == {ORDERS: Checkpoint("g", ORDERS, 5, 3, "metadata")}
    assert (sorted(last.groups()), last.has_group("x"), last.newest_ms) == (["g", "h"], False, 72)
    table.take(PLACE, a_record((a_checkpoint("g", 3)[0], None)))
    assert (last.at("g", ORDERS), last.has_group("g"), list(last.groups())) == (None, False, ["h"])


@pytest.mark.parametrize("entry", [(None, b""), (b"\x7f", b""), (a_checkpoint("g", 3)[0], b"\0"), a_checkpoint("g", -1)])
def test_malformed_checkpoint_is_reported_and_not_used(entry: tuple[bytes | None, bytes]) -> None:
    table = CheckpointTable()
    bad = table.take(PLACE, a_record(entry, 9))
    assert bad is not None
    assert (bad.offset, list(table.last.groups())) == (9, [])


# --- evidence ----------------------------------------------------------------------------------------------------


def a_flow(more: str = "") -> FlowSettings:
    text = f"clusters = A, B\nA.bootstrap.servers = x:1\nB.bootstrap.servers = x:1\nA->B.enabled = true\n{more}"
    return parse(text, "f", {}).flow(FlowName("A", "B"))


@pytest.mark.parametrize(
    ("topic", "mapped", "more"),
    [
        ("orders", "A.orders", ""),
        ("B.orders", "orders", ""),
        ("C.orders", "A.C.orders", ""),
        ("orders", "orders", "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"),
        ("B_orders", "orders", "replication.policy.separator = _\n"),
    ],
)
def test_topic_that_came_from_the_target_goes_back_to_it(topic: str, mapped: str, more: str) -> None:
    flow = a_flow(more)
    assert mapped_partition(flow, policy_for(flow), TopicPartition(topic, 3)) == TopicPartition(mapped, 3)


def test_notes_are_kept_once_and_counted_beyond_a_limit() -> None:
    notes = Notes()
    for number in range(NOTES_MAX + 5):
        notes.add(Note("malformed", "A", f"record {number}"))
        notes.add(Note("malformed", "A", "record 0"))
    assert (len(notes), notes.left_out, notes.is_complete) == (NOTES_MAX, 5, False)
    few = Notes()
    few.add(Note("malformed", "A", "one"))
    assert few.is_complete
    few.add(Note("refused", "A", "two", "Describe on group g"))
    assert not few.is_complete
