"""`sparkmirror offsets …`: words, what is told, and what is refused before any cluster is asked."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sparkmirror.cli.app import app
from sparkmirror.cli.offsets import listing, words
from sparkmirror.cli.offsets.report import as_json, as_lines, undo_json, undo_lines
from sparkmirror.cli.text import json_text
from sparkmirror.config import Settings, parse
from sparkmirror.errors import FlowUnknown, MoveRefused
from sparkmirror.ledger import Move, Position, TopicIncarnation
from sparkmirror.model import TopicPartition
from sparkmirror.positions import (
    FlowListing,
    Goal,
    GroupCommit,
    ListedPosition,
    MoveRequest,
    MoveVerdict,
    PositionChange,
    StoragePlace,
    TargetPlan,
    UndoVerdict,
    WorkerGroup,
    WrittenBack,
    preview,
)
from sparkmirror.positions.snapshots import SavedRecord
from sparkmirror.state import StoredRecord

FILE = """\
clusters = A, B
A.bootstrap.servers = 127.0.0.1:1
B.bootstrap.servers = 127.0.0.1:1
A->B.enabled = true
"""
P, Q = TopicPartition("orders", 0), TopicPartition("orders", 1)
MOVE = Move(P, Position(10, 10, 0), Position(17, 11, 0), TopicIncarnation("s", "t"), "on", (10, 17), 0, False, False)
VERDICT = MoveVerdict(
    flow="A->B", run_by="sparkmirror", topics=(("orders", "A.orders"),), moves=(MOVE,), unmoved=(Q,), undo_file="u.json"
)
KEY = b'["MirrorSourceConnector",{"cluster":"A","partition":0,"topic":"orders"}]'
PLACE, OTHER_PLACE = TopicPartition("mm2-offsets.A.internal", 3), TopicPartition("mm2-offsets.A.internal", 9)
OLD = StoredRecord(PLACE, 7, KEY, b'{"offset":41}', 1_700_000_000_000)
CHANGE = PositionChange(P, KEY, None, (PLACE,), (OLD,), 42, 0, 0, 50, 42, 0, False)
THEIRS = MoveVerdict(
    flow="A->B",
    run_by="MirrorMaker 2",
    topics=(("orders", "A.orders"),),
    changes=(CHANGE,),
    commits=(GroupCommit("billing", TopicPartition("A.orders", 0), 40, "", False),),
    target_ends={P: 42},
    proof="group A-mm2 on B has no members",
    undo_file="u.json",
)
PLAN = TargetPlan(("A.orders",), "A.checkpoints.internal", None, (P,), THEIRS.commits, ("A.gone",), ())


def test_a_verdict_says_old_and_new_position_and_what_is_given_up() -> None:
    assert as_lines(VERDICT) == [
        "flow A->B: orders -> A.orders",
        "  orders-0: next upstream offset 10 -> 17, written at 11 on the target; offsets 10 to 16 (7) are never copied",
        "  orders-1: stays as it is",
        "  what is there now would be saved to u.json",
        "nothing was changed; --yes applies it",
    ]


def test_a_verdict_after_a_reset_says_what_the_target_holds() -> None:
    move = replace(MOVE, old=Position(0, 10, 0), gap=(0, 17), held_until=10)
    told = as_lines(replace(VERDICT, moves=(move,)))[1]
    assert told.endswith(
        "offsets 0 to 9 (10) are not copied again: the target holds them; offsets 10 to 16 (7) are never copied"
    )
    [value] = as_json(replace(VERDICT, moves=(move,)))["moves"]
    assert (value["held_by_target"], value["never_copied"]) == ([0, 10], [10, 17])
    reset_once = replace(CHANGE, old=(replace(OLD, value=None),), old_next_offset=None, next_offset=45, given_up=45)
    told = "\n".join(as_lines(replace(THEIRS, changes=(replace(reset_once, copied_again=0),))))
    assert "offsets 0 to 44 (45) are not copied now; the target holds what was copied before the reset" in told


def test_a_verdict_that_was_carried_out_says_so() -> None:
    *_, saved, last = as_lines(replace(VERDICT, is_applied=True))
    assert (saved, last) == ("  what was there before is in u.json", "changed; the next run resumes there")
    assert as_lines(replace(VERDICT, moves=()))[-1] == "there is nothing to change"


def test_a_verdict_says_what_comes_again_and_what_the_map_forgets() -> None:
    move = replace(MOVE, old=None, gap=None, copied_again=1234, is_map_new=True)
    told = as_lines(replace(VERDICT, moves=(move,), created=("A.orders",)))
    assert told[1] == "  A.orders would be created on the target"
    assert "next upstream offset nothing -> 17" in told[2]
    assert "1,234 copied offsets are copied again" in told[2]
    assert "the offset map restarts" in told[2]


def test_a_change_of_mm2s_records_is_told_to_the_byte() -> None:
    assert as_lines(THEIRS) == [
        "flow A->B: orders -> A.orders",
        "  owner: MirrorMaker 2 (stopped; proof: group A-mm2 on B has no members)",
        "  orders-0: next upstream offset 42 -> 0; the source has 0 to 50, the target ends at 42; "
        "42 copied offsets are copied again, after what the target holds",
        f"    mm2-offsets.A.internal-3 {KEY.decode()}: "
        '{"offset":41} -> a tombstone',
        "  group billing at 40 in A.orders-0: the 42 offsets that come again lie behind it, it may read them twice",
        "  what is there now would be saved to u.json",
        "nothing was changed; --yes applies it",
    ]


def test_an_unseen_key_two_places_and_offsets_that_are_never_copied_are_told() -> None:
    told_44 = replace(CHANGE, value=b'{"offset":44}', next_offset=45, copied_again=0, given_up=45)
    unseen = replace(told_44, old=(), old_next_offset=None, is_unseen=True)
    told = "\n".join(as_lines(replace(THEIRS, changes=(unseen,))))
    assert "nobody wrote this key before: its partition is computed" in told
    assert 'no record -> {"offset":44}' in told
    assert "offsets 0 to 44 (45) are never copied" in told
    assert "group billing at 40 in A.orders-0: it never sees what is not copied" in told
    twice = replace(CHANGE, places=(PLACE, OTHER_PLACE))
    told = "\n".join(as_lines(replace(THEIRS, changes=(twice,))))
    assert "the key lies in 2 partitions, all are written" in told
    assert f"mm2-offsets.A.internal-9 {KEY.decode()}: no record -> a tombstone" in told


def test_what_is_deleted_on_the_target_is_told() -> None:
    told = as_lines(replace(THEIRS, target=PLAN))
    assert "  A.orders would be deleted on the target" in told
    assert "  A.checkpoints.internal would be deleted" in told
    assert "  orders-0: an offset sync that restarts the offset map would be written" in told
    assert "  A.gone stays: the source does not have its topic any more" in told
    assert "  group billing at 40 in A.orders-0: its offset would be deleted with the topic" in told
    assert "copied offsets are copied again, into a new topic" in told[2]
    same = as_lines(replace(THEIRS, target=replace(PLAN, namesakes=("A.orders",)), is_applied=True))
    assert any("A.orders was deleted on the target; it has the same name on both sides" in line for line in same)


def test_control_characters_in_names_are_harmless() -> None:
    evil = replace(THEIRS, commits=(GroupCommit("b\x1b[31mad", TopicPartition("A.orders", 0), 1, "", False),), notes=("\r",))
    assert all(line.isprintable() for line in as_lines(evil))
    assert r"group b\x1b[31mad" in "\n".join(as_lines(evil))


def test_json_of_a_verdict_has_a_schema_and_survives_json() -> None:
    found = json.loads(json.dumps(as_json(replace(THEIRS, target=PLAN))))
    assert (found["schema"], found["applied"], found["run_by"]) == (1, False, "MirrorMaker 2")
    [change] = found["changes"]
    assert change["key"] == KEY.decode()
    assert (change["value"], change["next_offset"], change["copied_again"]) == (None, 0, 42)
    assert change["places"] == [{"topic": "mm2-offsets.A.internal", "partition": 3, "old": '{"offset":41}'}]
    assert found["deleted"] == ["A.orders", "A.checkpoints.internal"]
    [move] = as_json(VERDICT)["moves"]
    assert (move["old_next_offset"], move["next_offset"], move["never_copied"]) == (10, 17, [10, 17])


def test_an_undo_says_which_command_it_undoes_and_every_record() -> None:
    back = WrittenBack(SavedRecord(PLACE, KEY, b'{"offset":41}'), None)
    verdict = UndoVerdict(
        flow="A->B", run_by="MirrorMaker 2", command="sparkmirror offsets reset f --all --yes", time="2026-01-31T12:00:00Z",
        records=(back,), ledger_records=2, commits=1, proof="group A-mm2 on B has no members", undo_file="v.json",
    )  # fmt: skip
    told = undo_lines(verdict)
    assert told[0] == "flow A->B: as it was at 2026-01-31T12:00:00Z, before: sparkmirror offsets reset f --all --yes"
    assert f"    mm2-offsets.A.internal-3 {KEY.decode()}: a tombstone -> " + '{"offset":41}' in told
    assert told[-1] == "nothing was changed; --yes applies it"
    assert undo_json(verdict)["records"][0]["value"] == '{"offset":41}'


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, MoveRequest]]:
    """What the verbs ask for; no cluster is talked to."""
    found: list[tuple[str, MoveRequest]] = []

    def note(kind: str, request: MoveRequest) -> MoveVerdict:
        found.append((kind, request))
        return VERDICT

    monkeypatch.setattr(words, "apply", lambda _settings, request, _command: note("apply", request))
    monkeypatch.setattr(words, "preview", lambda _settings, request: note("preview", request))
    return found


EARLIEST, NOON, OTHER = Goal("earliest"), Goal("time", 1769860800000), StoragePlace("C", ("one", "two"), "workers")


@pytest.mark.parametrize(
    ("line", "kind", "request_"),
    [
        ("skip {} --topic t", "preview", MoveRequest("skip", "t")),
        ("skip {} --topic t --partition 3 --to 9 --yes", "apply", MoveRequest("skip", "t", 3, Goal("offset", 9))),
        ("reset {} --topic t", "preview", MoveRequest("reset", "t", None, EARLIEST)),
        ("reset {} --topic t --dry-run", "preview", MoveRequest("reset", "t", None, EARLIEST)),
        ("reset {} --all --yes --with-target", "apply", MoveRequest("reset", None, None, EARLIEST, with_target=True)),
        ("reset {} --topic t --to latest --flow A->B", "preview", MoveRequest("reset", "t", None, Goal("latest"), "A->B")),
        ("reset {} --topic t --partition 0 --to 41 --yes", "apply", MoveRequest("reset", "t", 0, Goal("offset", 41))),
        ("set {} --topic t --to 2026-01-31T12:00:00Z", "preview", MoveRequest("set", "t", None, NOON)),
        (
            "set {} --to 0 --all --connector C --offsets-topic one --offsets-topic two --worker-group workers",
            "preview",
            MoveRequest("set", None, None, Goal("offset", 0), storage=OTHER),
        ),
        (
            "set {} --topic t --to 5 --force-unseen --undo-file u",
            "preview",
            MoveRequest("set", "t", None, Goal("offset", 5), force_unseen=True, undo_file="u"),
        ),
    ],
)
def test_words_become_a_request_that_is_only_carried_out_with_yes(
    line: str, kind: str, request_: MoveRequest, asked: list[tuple[str, MoveRequest]], tmp_path: Path
) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(FILE)
    ended = CliRunner().invoke(app, ["offsets", *line.format(file).split()])
    assert (ended.exit_code, asked) == (0, [(kind, request_)]), ended.output
    assert "flow A->B: orders -> A.orders" in ended.output


@pytest.mark.parametrize("verb", ["import", "undo"])
def test_a_file_of_positions_is_read_before_anything_else(verb: str, tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(FILE)
    ended = CliRunner().invoke(app, ["offsets", verb, str(file), str(tmp_path / "missing.json")])
    assert isinstance(ended.exception, MoveRefused)
    assert "missing.json cannot be read: No such file or directory" in ended.exception.message


def test_import_asks_for_the_next_offset_of_each_partition(asked: list[tuple[str, MoveRequest]], tmp_path: Path) -> None:
    file, positions = tmp_path / "mm2.properties", tmp_path / "p.json"
    file.write_text(FILE)
    one = {"partition": {"cluster": "A", "topic": "orders", "partition": 1}, "offset": {"offset": 40}}
    positions.write_text(json.dumps({"offsets": [one]}))
    ended = CliRunner().invoke(app, ["offsets", "import", str(file), str(positions), "--json"])
    assert ended.exit_code == 0, ended.output
    assert asked == [("preview", MoveRequest("import", None, entries={Q: 41}))]
    assert json.loads(ended.output)["schema"] == 1


@pytest.mark.parametrize(
    "line",
    [
        "skip {}",
        "skip {} --topic t --to soon",
        "skip {} --topic t --to -1",
        "skip {} --topic t --to earliest",
        "reset {}",
        "reset {} --topic t --all",
        "reset {} --topic t --to soon",
        "reset {} --topic t --to -1",
        "reset {} --topic t --to ²",
        "reset {} --topic t --to 2026-01-31T12:00:00",
        "reset {} --topic t --to 9223372036854775808",
        "reset {} --topic t --partition all",
        "reset {} --topic t --partition -1",
        "reset {} --topic t --yes --dry-run",
        "set {} --topic t",
        "undo {}",
        "import {}",
        "export {}",
    ],
)
def test_wrong_words_end_with_2(line: str, asked: list[tuple[str, MoveRequest]], tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(FILE)
    ended = CliRunner().invoke(app, ["offsets", *line.format(file).split()])
    assert (ended.exit_code, asked) == (2, [])


def settings_of(more: str) -> Settings:
    return parse(FILE + more, "mm2.properties", {})


@pytest.mark.parametrize(
    ("more", "flow", "words_"),
    [
        ("B->A.enabled = true\n", None, ["found 2 flows", "--flow 'A->B' or --flow 'B->A'"]),
        ("", "B->A", ["found B->A", "--flow 'A->B'"]),
    ],
)
def test_a_flow_must_be_named_where_there_are_several(more: str, flow: str | None, words_: list[str]) -> None:
    with pytest.raises(FlowUnknown) as refused:
        preview(settings_of(more), MoveRequest("skip", "t", flow=flow))
    assert all(word in str(refused.value) for word in words_)


@pytest.mark.parametrize(
    ("request_", "words_"),
    [
        (MoveRequest("reset", None, 3), "a partition needs its topic"),
        (MoveRequest("reset", "t", 3, with_target=True), "deletes whole topics"),
        (MoveRequest("skip", "t", with_target=True), "leaves the target as it is"),
        (MoveRequest("skip", "t", to=Goal("latest")), "needs an offset, found latest"),
    ],
)
def test_nonsense_is_refused(request_: MoveRequest, words_: str) -> None:
    with pytest.raises(MoveRefused, match=words_):
        preview(settings_of(""), request_)


LISTED = ListedPosition("orders", 0, "A.orders", 41, 1_700_000_000_000, (PLACE, OTHER_PLACE), 42, 0, 50, 42, 8, "odd\x1b")


def test_a_listing_shows_what_is_stored_beside_what_there_is() -> None:
    bare = ListedPosition("orders", 11, "A.orders", None, None, (), None, None, None, None, None, "", ("source", "lag"))
    found = FlowListing(
        "A->B", "MirrorSourceConnector", ("mm2-offsets.A.internal",), WorkerGroup("A-mm2", "Stable", 2), "host-1", True,
        (LISTED, bare), ("something",), True,
    )  # fmt: skip
    assert listing.as_lines([found]) == [
        "flow A->B",
        "  MirrorMaker 2: group A-mm2 has 2 members: it runs",
        "  positions: mm2-offsets.A.internal, connector MirrorSourceConnector",
        "  sparkmirror: released by host-1",
        "  note: something",
        "  partition  MM2 last  ledger next   source  target end  lag  stored in               written",
        "  orders-0         41           42  0 to 50          42    8  3, 9       2023-11-14T22:13:20Z",
        "  orders-11         -            -        ?           -    ?  -                             -",
        r"  orders-0: odd\x1b",
    ]
    told = json.loads(json_text(listing.as_json([found])))
    [row, _] = told["flows"][0]["positions"]
    assert (told["schema"], row["mm2_offset"]) == (1, 41)
    assert row["places"][0] == {"topic": "mm2-offsets.A.internal", "partition": 3}
