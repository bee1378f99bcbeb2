"""Files of positions: they read back as they were written, and whatever else they hold is refused with a reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkmirror.config import parse
from sparkmirror.errors import MoveRefused
from sparkmirror.model import TopicPartition
from sparkmirror.positions import Goal, Snapshot, StoragePlace, parse_goal, read_entries, read_snapshot
from sparkmirror.positions.snapshots import LedgerPosition, SavedCommit, SavedRecord
from sparkmirror.positions.undo_file import save, undo_path
from sparkmirror.wire import source_key

PLACE = TopicPartition("mm2-offsets.A.internal", 3)
P, Q = TopicPartition("orders", 0), TopicPartition("orders", 1)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
places = st.builds(TopicPartition, names, st.integers(0, 1 << 31))
records = st.builds(SavedRecord, places, st.binary(max_size=30), st.none() | st.binary(max_size=30))
offsets = st.integers(-1, (1 << 63) - 1)
snapshots = st.builds(
    Snapshot,
    kind=st.just("undo"),
    flow=names,
    connector=names,
    time=names,
    command=names,
    positions=st.lists(records, max_size=3).map(tuple),
    ledger=st.lists(st.builds(LedgerPosition, places, offsets, offsets), max_size=2).map(tuple),
    ledger_keys=st.lists(names.map(str.encode), max_size=2).map(tuple),
    topic_ids=st.dictionaries(names, names, max_size=2),
    with_target=st.booleans(),
    syncs=st.lists(records, max_size=2).map(tuple),
    checkpoints=st.lists(records, max_size=2).map(tuple),
    commits=st.lists(st.builds(SavedCommit, names, places, offsets, names), max_size=2).map(tuple),
)


@settings(max_examples=40)
@given(snapshots)
def test_a_snapshot_reads_back_to_the_byte(snapshot: Snapshot) -> None:
    assert read_snapshot(snapshot.to_json(), "f") == snapshot


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: c.update(schema=2), "expected schema 1, found 2"),
        (lambda c: c.update(kind="something"), "is neither a file of `offsets export` nor an undo file"),
        (lambda c: c.update(positions={}), r"is damaged: ValidationError Expected `array`, got `object` - at `\$\.pos"),
        (lambda c: c.pop("positions"), "is damaged: ValidationError Object missing required field `positions`"),
        (lambda c: c.update(flow=7), r"is damaged: ValidationError Expected `str`, got `int` - at `\$\.flow`"),
        (lambda c: c["positions"][0].pop("key"), "is damaged"),
        (lambda c: c["positions"][0].update(key=None), "is damaged: ValidationError Expected `bytes`, got `null`"),
        (lambda c: c["positions"][0].update(partition="3"), r"Expected `int`, got `str` - at `\$\.positions\[0\]"),
        (lambda c: c["positions"][0].update(value_base64="?"), "is damaged"),
    ],
)
def test_a_damaged_file_is_refused_with_what_is_wrong(change, words: str) -> None:  # type: ignore[no-untyped-def]
    record = SavedRecord(PLACE, b"k", None)
    content = json.loads(Snapshot(kind="undo", flow="A->B", connector="c", time="t", positions=(record,)).to_json())
    change(content)
    with pytest.raises(MoveRefused, match=words):
        read_snapshot(json.dumps(content), "f")


@pytest.mark.parametrize("text", ["", "[", "null", "[]", "7", '{"a":1}', "[" * 100_000])
def test_what_is_no_snapshot_at_all_is_refused(text: str) -> None:
    with pytest.raises(MoveRefused, match=r"^f "):
        read_snapshot(text, "f")


def entries(text: str, topic: str | None = None, **place: str) -> dict[TopicPartition, int | None]:
    return read_entries(text, "f", alias="A", storage=StoragePlace(**place), topic=topic)  # type: ignore[arg-type]


def connect_form(*offsets: tuple[object, object]) -> str:
    return json.dumps({"offsets": [{"partition": partition, "offset": offset} for partition, offset in offsets]})


MINE, YOURS = {"cluster": "A", "topic": "orders", "partition": 0}, {"cluster": "A", "topic": "bills", "partition": 0}


def test_offsets_of_connect_become_next_offsets_and_null_the_beginning() -> None:
    text = connect_form((MINE, {"offset": 40}), (YOURS, None))
    assert entries(text) == {P: 41, TopicPartition("bills", 0): None}
    assert entries(text, "orders") == {P: 41}
    assert entries(connect_form((MINE, {"offset": 0}))) == {P: 1}, "the last copied one is 0: 1 comes next"


@pytest.mark.parametrize(
    ("offset", "words"),
    [
        ((MINE, {"offset": -1}), "an invalid value -1 for the 'offset' key, which cannot be negative"),
        ((MINE, {"offset": "40"}), "which must be an integer"),
        ((MINE, {}), "is missing the 'offset' key, which is required"),
        ((MINE, {"offset": {}}), "Offsets may only contain primitive types as values"),
        (({"cluster": "A", "topic": "orders"}, {"offset": 1}), "is missing the 'partition' key, which is required"),
        ((None, {"offset": 1}), "Source partitions may not be null"),
        ((MINE | {"cluster": "Z"}, {"offset": 1}), "entry 1 is no partition of cluster A"),
        ((MINE | {"x": 1}, None), "entry 1 is no partition of cluster A"),
        ((MINE | {"partition": -3_000_000_000}, {"offset": 1}), "entry 1 is no partition of cluster A"),
        ((None, None), "entry 1 is no partition of cluster A"),
        (("orders", {"offset": 1}), "entry 1 is no partition and offset"),
    ],
)
def test_what_mm2_refuses_or_would_not_heed_is_refused(offset: tuple[object, object], words: str) -> None:
    with pytest.raises(MoveRefused, match=words):
        entries(connect_form(offset))


def snapshot_of(*records: SavedRecord) -> str:
    return Snapshot(kind="export", flow="A->B", connector="c", time="t", positions=records).to_json()


def key(partition: TopicPartition, connector: str = "MirrorSourceConnector", cluster: str = "A") -> bytes:
    return source_key(connector, cluster, partition)


def test_an_export_can_be_imported() -> None:
    text = snapshot_of(
        SavedRecord(PLACE, key(P), b'{"offset":40}'),
        SavedRecord(PLACE, key(Q), None),
        SavedRecord(PLACE, key(P, cluster="Z"), b'{"offset":1}'),
        SavedRecord(PLACE, key(P, "other"), b'{"offset":1}'),
        SavedRecord(PLACE, b"\xff junk", b"\xff"),
        SavedRecord(PLACE, key(TopicPartition("odd", 0)), b"{}"),
    )
    assert entries(text) == {P: 41, Q: None}
    assert entries(text, connector="other") == {P: 2}
    with pytest.raises(MoveRefused, match="holds no position of topic bills"):
        entries(text, "bills")


def test_a_file_that_says_two_things_of_one_partition_is_refused() -> None:
    other = TopicPartition(PLACE.topic, 9)
    both = [SavedRecord(PLACE, key(P), b'{"offset":40}'), SavedRecord(other, key(P), b'{"offset":40}')]
    assert entries(snapshot_of(*both)) == {P: 41}
    with pytest.raises(MoveRefused, match="two positions of orders-0"):
        entries(snapshot_of(both[0], SavedRecord(other, key(P), None)))


@pytest.mark.parametrize(
    ("text", "goal"),
    [
        ("earliest", Goal("earliest")),
        ("latest", Goal("latest")),
        ("0", Goal("offset", 0)),
        ("offset:41", Goal("offset", 41)),
        ("2026-01-31T12:00:00Z", Goal("time", 1769860800000)),
        ("time:2026-01-31T13:00:00.5+01:00", Goal("time", 1769860800500)),
    ],
)
def test_where_to_is_read(text: str, goal: Goal) -> None:
    assert parse_goal(text) == goal
    assert parse_goal(str(goal)) == goal


@pytest.mark.parametrize("text", ["", "soon", "-1", "1.5", "offset:", "offset:x", "time:5", "2026-01-31", "٣", "1e3"])
def test_where_to_is_refused(text: str) -> None:
    with pytest.raises(MoveRefused, match="expected earliest, latest, an offset or a time"):
        parse_goal(text)


FILE = "clusters = A, B\nA.bootstrap.servers = h:1\nB.bootstrap.servers = h:1\nA->B.enabled = true\n"


def test_the_undo_file_lies_beside_the_configuration_and_is_never_written_over(tmp_path: Path) -> None:
    [flow] = parse(FILE, str(tmp_path / "mm2.properties"), {}).enabled_flows(None)
    path = undo_path(flow, None)
    assert Path(path).parent == tmp_path
    assert Path(path).name.startswith("sparkmirror-undo-A-to-B-2")
    snapshot = Snapshot(kind="undo", flow="A->B", connector="c", time="t")
    save(path, snapshot)
    assert read_snapshot(Path(path).read_text(), path) == snapshot
    with pytest.raises(MoveRefused, match="cannot be written: File exists"):
        save(path, snapshot)
    with pytest.raises(MoveRefused, match="No such file or directory"):
        save(str(tmp_path / "no" / "folder.json"), snapshot)
