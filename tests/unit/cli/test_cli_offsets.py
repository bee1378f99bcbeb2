"""`offsets skip` and `offsets reset`: words, what is told, and what is refused before any cluster is asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sparkmirror.cli.app import app
from sparkmirror.cli.offsets import words
from sparkmirror.cli.offsets.words import as_lines
from sparkmirror.config import Settings, parse
from sparkmirror.errors import MoveRefused
from sparkmirror.ledger import Life, Move, Position
from sparkmirror.model import TopicPartition
from sparkmirror.tools import MoveRequest, MoveVerdict, preview

FILE = """\
clusters = A, B
A.bootstrap.servers = 127.0.0.1:1
B.bootstrap.servers = 127.0.0.1:1
A->B.enabled = true
"""
P, Q = TopicPartition("orders", 0), TopicPartition("orders", 1)
MOVE = Move(P, Position(10, 10, 0), Position(17, 11, 0), Life("s", "t"), "on", (10, 17), 0, False, False)
VERDICT = MoveVerdict("A->B", "orders", "A.orders", (MOVE,), (Q,), False, False)


def test_a_verdict_says_old_and_new_position_and_what_is_given_up() -> None:
    assert as_lines(VERDICT) == [
        "flow A->B: orders -> A.orders",
        "  orders-0: next upstream offset 10 -> 17, written at 11 on the target; offsets 10 to 16 (7) are never copied",
        "  orders-1: stays as it is",
        "nothing was changed; --yes does it",
    ]


def test_a_verdict_that_was_carried_out_says_so() -> None:
    assert as_lines(replace(VERDICT, is_applied=True))[-1] == "changed; the next run goes on there"
    assert as_lines(replace(VERDICT, moves=()))[-1] == "there is nothing to change"


def test_a_verdict_says_what_comes_again_and_what_the_map_forgets() -> None:
    move = replace(MOVE, old=None, gap=None, copied_again=1234, is_map_new=True)
    told = as_lines(replace(VERDICT, moves=(move,), creates_remote=True))
    assert told[1] == "  A.orders would be created on the target"
    assert "next upstream offset nothing -> 17" in told[2]
    assert "1,234 offsets that were copied come again" in told[2]
    assert "the offset map begins anew" in told[2]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, MoveRequest]]:
    """What the verbs ask for; no cluster is talked to."""
    found: list[tuple[str, MoveRequest]] = []

    def note(kind: str, request: MoveRequest) -> MoveVerdict:
        found.append((kind, request))
        return VERDICT

    monkeypatch.setattr(words, "apply", lambda _settings, request: note("apply", request))
    monkeypatch.setattr(words, "preview", lambda _settings, request: note("preview", request))
    return found


@pytest.mark.parametrize(
    ("line", "kind", "request_"),
    [
        ("skip {} --topic t", "preview", MoveRequest("skip", "t")),
        ("skip {} --topic t --partition 3 --to 9 --yes", "apply", MoveRequest("skip", "t", 3, "9")),
        ("reset {} --topic t", "preview", MoveRequest("reset", "t", None, "earliest")),
        ("reset {} --topic t --to latest --flow A->B", "preview", MoveRequest("reset", "t", None, "latest", "A->B")),
        ("reset {} --topic t --partition 0 --to 41 --yes", "apply", MoveRequest("reset", "t", 0, "41")),
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


@pytest.mark.parametrize(
    "line",
    [
        "skip {}",
        "skip {} --topic t --to soon",
        "skip {} --topic t --to -1",
        "skip {} --topic t --to earliest",
        "reset {} --topic t --to soon",
        "reset {} --topic t --to -1",
        "reset {} --topic t --to ²",
        "reset {} --topic t --partition all",
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
    with pytest.raises(MoveRefused) as refused:
        preview(settings_of(more), MoveRequest("skip", "t", flow=flow))
    assert all(word in str(refused.value) for word in words_)
