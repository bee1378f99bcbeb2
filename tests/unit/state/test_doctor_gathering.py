"""What the doctor makes of internal topics: MirrorMaker 2's states and settings, offset syncs in their order, odd keys."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from unit.diagnose.doctor_builders import NOW, ORDERS, a_group, cluster_of, facts_of, flow_of, look

from sparkmirror.clusters import ClusterView
from sparkmirror.errors import BrokerTooOld
from sparkmirror.examination.examine import sample_of
from sparkmirror.ledger import Attempt, Open, Position, Receipt, Run
from sparkmirror.model import OffsetSync, TopicPartition
from sparkmirror.positions.listing import _Gathering
from sparkmirror.positions.requests import StoragePlace
from sparkmirror.state import CheckpointTable, FlowState, LedgerTable, Note, PositionTable, SyncTable
from sparkmirror.state.facts import SyncPair
from sparkmirror.state.flow_logs import FlowLogs
from sparkmirror.state.gathering.connect import Connectors
from sparkmirror.state.gathering.flow import _opens
from sparkmirror.state.gathering.internal import odd_keys_of
from sparkmirror.state.gathering.proofs import _pairs
from sparkmirror.state.parts import Outage, Part
from sparkmirror.state.reading import NOTES_MAX
from sparkmirror.state.samples import BaselineUnreadable, load_samples, save_samples
from sparkmirror.wire import Record, connect_partition, encode_connect_offset, encode_offset_sync, source_key

SOURCE = "MirrorSourceConnector"
PLACE = TopicPartition("mm2-offset-syncs.B.internal", 0)


def record(key: str | bytes, value: object, time: int = NOW, offset: int = 0) -> Record:
    """A record with a JSON value."""
    body = value if isinstance(value, bytes | type(None)) else json.dumps(value).encode()
    return Record(offset, time, key.encode() if isinstance(key, str) else key, body)


def state(name: str, time: int = NOW, trace: str | None = None) -> dict[str, object]:
    return {"state": name, "trace": trace, "worker_id": "w", "generation": 3, "version": "4.3.1"}


def test_the_newest_state_of_each_task_counts_and_carries_the_version() -> None:
    found = Connectors()
    found.take_states([
        record(f"status-connector-{SOURCE}", state("RUNNING")),
        record(f"status-task-{SOURCE}-0", state("RUNNING"), NOW - 9),
        record(f"status-task-{SOURCE}-0", state("FAILED", trace="a\nCaused by: b: c"), NOW),
        record("status-task-somebody-else-0", state("FAILED")),
        record("status-topic-A.orders:connector-MirrorSourceConnector", {"topic": {}}),
    ])  # fmt: skip
    [connector] = found.all().values()
    assert (connector.kind, connector.version, connector.tasks[0].state) == ("source", "4.3.1", "FAILED")
    assert connector.tasks[0].reason == "b: c" and connector.tasks[0].time_ms == NOW


def test_a_removed_task_is_gone_by_tombstone_state_or_count() -> None:
    found = Connectors()
    found.take_states([record(f"status-task-{SOURCE}-{n}", state("RUNNING")) for n in range(4)])
    found.take_states([record(f"status-task-{SOURCE}-3", None), record(f"status-task-{SOURCE}-2", state("DESTROYED"))])
    found.take_settings([record(f"commit-{SOURCE}", {"tasks": 1})])
    assert set(found.all()[SOURCE].tasks) == {0}


def test_only_compared_settings_are_kept_and_shares_are_read() -> None:
    properties = {"topics": "orders", "source.cluster.alias": "A", "source.consumer.sasl.jaas.config": "secret"}
    share = {**properties, "task.assigned.partitions": "my-topic-0,orders-12"}
    found = Connectors()
    found.take_settings([
        record("session-key", {"key": "secret"}), record(f"connector-{SOURCE}", {"properties": properties}),
        record(f"task-{SOURCE}-0", {"properties": share}),
    ])  # fmt: skip
    connector = found.all()[SOURCE]
    assert dict(connector.settings) == {"topics": "orders", "source.cluster.alias": "A"}
    assert connector.assigned[0] == {TopicPartition("my-topic", 0), TopicPartition("orders", 12)}
    assert "secret" not in repr(found.all())


@pytest.mark.parametrize("value", [b"no json", b"[1]", b'{"state": 3}', b"\xff", b"[" * 5000, None])
def test_what_is_no_state_is_passed_over(value: bytes | None) -> None:
    found = Connectors()
    found.take_states([record(f"status-connector-{SOURCE}", value), record(b"\xff\xfe", value)])
    found.take_settings([record(f"connector-{SOURCE}", value)])
    assert all(connector.own is None for connector in found.all().values())


def story_of(*pairs: tuple[int, int]) -> SyncTable:
    story = SyncTable()
    for number, (upstream, downstream) in enumerate(pairs):
        key, value = encode_offset_sync(OffsetSync(ORDERS, upstream, downstream))
        story.take(PLACE, Record(number, NOW + number, key, value))
    return story


def test_syncs_without_holes_tell_nothing() -> None:
    story = story_of((0, 0), (100, 100), (201, 201))
    assert (story.holes, story.rewinds) == ({}, {})


def test_offsets_that_are_missing_between_two_syncs_are_a_hole() -> None:
    found = story_of((0, 0), (100, 100), (150, 140)).holes
    assert found == {ORDERS: [(SyncPair(100, 100, NOW + 1), SyncPair(150, 140, NOW + 2))]}


def test_syncs_that_go_back_are_a_rewind_and_forget_holes_before_it() -> None:
    story = story_of((0, 0), (100, 90), (40, 101), (120, 181))
    assert story.rewinds[ORDERS] == (SyncPair(100, 90, NOW + 1), SyncPair(40, 101, NOW + 2))
    assert ORDERS not in story.holes


def test_the_oldest_sync_is_that_since_either_side_began_anew() -> None:
    assert story_of((3, 3), (100, 100)).firsts[ORDERS].upstream == 3
    assert story_of((3, 3), (100, 100), (110, 0), (120, 10)).firsts[ORDERS].upstream == 110  # the target was created again
    assert story_of((3, 3), (100, 100), (0, 101), (9, 110)).firsts[ORDERS].upstream == 0  # the copy began anew


def test_a_new_beginning_of_ours_forgets_everything() -> None:
    story = story_of((0, 0), (100, 90), (40, 101), (-1, 99), (5, 105))
    assert (story.holes, story.rewinds) == ({}, {})


def test_what_is_no_sync_is_passed_over() -> None:
    story = story_of((0, 0))
    for bad in (Record(1, 0, None, b""), Record(2, 0, b"\0", b"\0"), Record(3, 0, b"x", None)):
        assert story.take(PLACE, bad) is not None
    assert story.holes == {}


def odd_of(records: list[tuple[int, Record]], topics: dict[str, int] | None = None) -> list[str]:
    table = PositionTable("A")
    for index, found in records:
        assert table.take(TopicPartition("mm2-offsets.A.internal", index), found) is None
    source = cluster_of("A", topics or {"orders": 1})
    known = odd_keys_of(source, table, 25, ("s", SyncTable()), ("c", CheckpointTable()), {})
    return [odd.kind for odd in known]


def test_positions_in_their_place_are_not_odd_others_are() -> None:
    key, value = source_key(SOURCE, "A", ORDERS), encode_connect_offset(7)
    right = connect_partition(key)
    assert odd_of([(right, record(key, value))]) == []
    assert odd_of([((right + 1) % 25, record(key, value))]) == ["misplaced"]
    assert odd_of([(right, record(key, value)), ((right + 1) % 25, record(key, value))]) == ["doubled"]
    assert odd_of([(right, record(key, value))], {"other": 1}) == ["orphan position"]
    assert odd_of([(right, record(key, None))], {"other": 1}) == []


def test_a_look_survives_its_file_and_the_last_few_are_kept(tmp_path: Path) -> None:
    path = str(tmp_path / "looks.json")
    assert load_samples(path) == {}
    sample = sample_of(facts_of())
    assert sample.source_ends == {ORDERS: 10} and sample.syncs == {ORDERS: 9}
    save_samples(path, {"A->B": tuple(look(seconds) for seconds in range(9, 0, -1))})
    assert load_samples(path) == {"A->B": tuple(look(seconds) for seconds in (4, 3, 2, 1))}


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b'{"schema": 9, "flows": {}}', b"\xff", b'{"schema":1,"flows":{"a":[{}]}}']
)
def test_a_file_that_holds_no_looks_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "looks.json"
    path.write_bytes(content)
    with pytest.raises(BaselineUnreadable):
        load_samples(str(path))
    assert path.read_bytes() == content


# --- the map that the record proof uses ------------------------------------------------------------------------


def bounds_by_ledger(target_topic: str) -> object:
    """Where the record at 5 of A.orders comes from, by a ledger that copied ten records to this topic."""
    ledger, attempt = LedgerTable(), Attempt(0, 1, 1)
    start = Position(0, 0, 0)
    ledger.view.apply(Open(ORDERS, attempt, None, 0, 0, target_topic, 7, 1, start, "", "", False, False, False, False))
    ledger.view.apply(Receipt(ORDERS, attempt, Position(30, 10, 10), -1, 10, 0, (Run(20, 0, 10),)))
    flow = FlowState(flow_of())
    flow.reader._kept |= {Part.LEDGER: ledger, Part.SYNCS: SyncTable()}
    [(_, pair)] = _pairs(FlowLogs(flow), facts_of(groups=[a_group()]))
    flow.close()
    return pair.bounds(5)


def test_a_ledger_of_another_target_topic_says_nothing_of_this_one() -> None:
    assert bounds_by_ledger("A.orders") is not None
    assert bounds_by_ledger("orders") is None


# --- what stayed open ------------------------------------------------------------------------------------------


class _OldCluster:
    """A cluster whose brokers lack an API: no real one of that age runs here."""

    alias = "A"

    def view(self, _: object) -> ClusterView:
        raise BrokerTooOld("A at a:1: API 10 is needed in version 4 to 6, found 0 to 3")

    def close(self) -> None:
        """Nothing is open."""


def test_a_broker_that_is_too_old_leaves_the_part_unknown_with_the_reason() -> None:
    flow = FlowState(flow_of())
    flow.clients["source"] = _OldCluster()  # type: ignore[assignment]  # only these are called
    assert flow.groups("source") == {}
    assert "API 10 is needed in version 4 to 6" in flow.unknown[Part.SOURCE_GROUPS].reason
    assert {note.kind for note in flow.notes} == {"refused"} and not flow.notes.is_complete


def full_of_notes() -> FlowState:
    """As many as are kept, and the clusters do not answer any more."""
    flow = FlowState(flow_of())
    flow.reader.outages |= {side: Outage(side, "does not answer") for side in ("source", "target")}
    for number in range(NOTES_MAX):
        flow.notes.add(Note("malformed", "B", f"record {number}"))
    return flow


def test_a_refusal_beyond_the_notes_that_are_kept_still_leaves_its_question_open() -> None:
    flow = full_of_notes()
    flow.notes.add(Note("refused", "A", "commits of group g", group="g"))
    assert [left.reason for left in _opens(flow)] == ["cluster A: 1 more notes (refused)"]


def test_what_is_refused_of_one_group_or_topic_is_open_alone() -> None:
    flow = FlowState(flow_of())
    flow.notes.add(Note("refused", "A", "commits of group g", "Describe on group g", group="g"))
    flow.notes.add(Note("refused", "A", "positions: topic p", "Read on topic p"))
    [left] = _opens(flow)
    assert (left.subject.group, left.needs) == ("g", "Describe on group g")


def test_a_listing_says_how_many_notes_it_leaves_out_and_is_not_complete() -> None:
    flow = full_of_notes()
    assert flow.notes.is_complete
    flow.notes.add(Note("refused", "A", "ends of orders-0"))
    listing = _Gathering(flow.flow, StoragePlace(), flow).listing(None)
    assert (listing.is_complete, listing.notes[-1]) == (False, "cluster A: 1 more notes (refused)")
    assert not flow.notes.is_complete
