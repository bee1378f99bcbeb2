"""The forms and options of `translate`, without brokers."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from sparkmirror.cli.app import app
from sparkmirror.cli.text import json_text
from sparkmirror.cli.translate import as_csv, as_lines, print_table
from sparkmirror.model import TopicPartition
from sparkmirror.positions.translating import TranslatedPosition, Translations, translations_json
from sparkmirror.state import Note, Notes
from sparkmirror.state.reading import NOTES_MAX

ORDERS, REMOTE = TopicPartition("orders", 3), TopicPartition("A.orders", 3)


def a_position(group: str = "billing", **more: object) -> TranslatedPosition:
    known = {"group": group, "origin": ORDERS, "offset": 120, "destination": REMOTE, "destination_offset": 118}
    return TranslatedPosition(**(known | {"sureness": "proven"} | more))  # type: ignore[arg-type]


def of(*positions: TranslatedPosition, notes: Notes | None = None) -> Translations:
    return Translations("A", "B", positions, Notes() if notes is None else notes)


UNKNOWN = {"destination": None, "destination_offset": None, "sureness": "unknown", "reason": "why"}


def test_csv_is_what_kafkas_tool_reads_and_leaves_out_what_is_unknown() -> None:
    assert list(as_csv(of(a_position(), a_position(**UNKNOWN)))) == ["A.orders,3,118"]


def test_csv_of_several_groups_names_them() -> None:
    assert list(as_csv(of(a_position(), a_position("audit")))) == ["billing,A.orders,3,118", "audit,A.orders,3,118"]


def test_lines_say_how_sure_a_position_is() -> None:
    rough = a_position(sureness="rough", again=40, missing=7, reason="syncs")
    assert list(as_lines(of(a_position(), rough, a_position(**UNKNOWN), a_position(sureness="rough")))) == [
        "from A to B",
        "  billing orders-3 at 120: A.orders-3 at 118, proven",
        "  billing orders-3 at 120: A.orders-3 at 118, rough (syncs; reads 40 records again; 7 offsets from there on were "
        "never copied)",
        "  billing orders-3 at 120: unknown (why)",
        "  billing orders-3 at 120: A.orders-3 at 118, rough (may read records again)",
    ]


def test_table_has_a_row_for_each_position() -> None:
    out = io.StringIO()
    print_table(of(a_position(), a_position(**UNKNOWN)), Console(file=out, width=120))
    assert [line.split()[0] for line in out.getvalue().splitlines() if "orders-3" in line] == ["billing", "billing"]


def test_json_has_a_schema_and_every_field() -> None:
    found = translations_json(of(a_position(again=0), notes=Notes([Note("refused", "A", "why", "Describe on group g")])))
    assert json.loads(json_text(found)) == {
        "schema": 1, "from": "A", "to": "B", "status": 2,
        "positions": [{
            "group": "billing", "from": {"topic": "orders", "partition": 3, "offset": 120},
            "to": {"topic": "A.orders", "partition": 3, "offset": 118}, "sureness": "proven", "records_again": 0,
            "offsets_missing": 0, "reason": "", "as_of_ms": None, "current": True, "committed": None,
        }],
        "unknown": [],
        "notes": [{"kind": "refused", "cluster": "A", "message": "why", "needs": "Describe on group g"}],
    }  # fmt: skip


def test_notes_that_are_only_counted_are_said_to_be_there() -> None:
    notes = Notes()
    for number in range(NOTES_MAX + 7):
        notes.add(Note("refused", "A", f"group {number}"))
    found = translations_json(of(a_position(), notes=notes))
    assert (len(found["notes"]), found["notes"][-1]["message"]) == (NOTES_MAX + 1, "cluster A: 7 more notes (refused)")


@pytest.mark.parametrize("form", [as_csv, as_lines])
def test_names_cannot_steer_a_terminal(form: object) -> None:
    found = of(a_position("g\x1b[31m\n"), a_position("h"))
    text = "\n".join(form(found))  # type: ignore[operator]
    assert "\x1b" not in text
    assert len(text.splitlines()) == len(list(form(of(a_position(), a_position("h")))))  # type: ignore[operator]


@pytest.mark.parametrize(
    ("positions", "status"),
    [
        ([a_position()], 0), ([a_position(sureness="ledger")], 0), ([], 0), ([a_position(sureness="rough")], 3),
        ([a_position(sureness="likely")], 3), ([a_position(missing=1)], 3), ([a_position(**UNKNOWN)], 2),
        ([a_position(sureness="rough"), a_position(**UNKNOWN)], 2),
    ],
)  # fmt: skip
def test_status(positions: list[TranslatedPosition], status: int) -> None:
    assert of(*positions).status == status


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["f"], "expected a group or positions"),
        (["f", "--group", "g", "--format", "xml"], "expected table, csv, json"),
        (["f", "--at", "orders:1"], "TOPIC:PARTITION=OFFSET"),
        (["f", "--at", "orders:-1=3"], "TOPIC:PARTITION=OFFSET"),
        (["f", "--at", "or/ders:1=3"], "TOPIC:PARTITION=OFFSET"),
        (["--group", "g"], "FILE"),
    ],
)
def test_wrong_options_are_status_1(words: list[str], said: str) -> None:
    result = CliRunner().invoke(app, ["translate", *words])
    assert (result.exit_code, said in result.output) == (1, True), result.output


def test_wrong_flow_is_status_1_and_names_those_there_are(tmp_path: Path) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(
        "clusters = A, B\nA.bootstrap.servers = x:1\nB.bootstrap.servers = x:1\nA->B.enabled = true\nB->A.enabled = true\n"
    )
    for words in ([], ["--flow", "A->C"]):
        error = CliRunner().invoke(app, ["translate", str(path), "--group", "g", *words]).exception
        assert getattr(error, "exit_status", None) == 1
        assert "--flow 'A->B' or --flow 'B->A'" in str(error)
