"""Reports of the doctor on a terminal, in a file and as JSON."""

from __future__ import annotations

import io
import json
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from typer.main import get_command
from typer.testing import CliRunner, Result
from unit.diagnose.doctor_builders import NOW, ORDERS, OURS, a_copy, a_group, ends, facts_of, our_copy, report_of

from sparkmirror.cli.app import app
from sparkmirror.cli.findings_view import report_lines, report_value
from sparkmirror.cli.styled_lines import print_lines
from sparkmirror.diagnose import RULES, Report
from sparkmirror.diagnose.findings import OpenQuestion, Subject
from sparkmirror.errors import ConfigError
from sparkmirror.model import TopicPartition
from sparkmirror.state.facts import Copy, LargeRecord, Reads, Runner, Stop, SyncPair


def report(*facts: object, opens: tuple[OpenQuestion, ...] = ()) -> Report:
    flows = tuple(report_of(found) for found in facts)  # type: ignore[arg-type]
    if opens:
        flows = tuple(type(flow)(flow.facts, flow.findings, opens) for flow in flows)
    return Report("/etc/mm2.properties", (), NOW, NOW + 1500, flows)


def text_of(found: Report, **options: bool) -> str:
    out = io.StringIO()
    print_lines(report_lines(found), Console(file=out, width=100, force_terminal=options.get("terminal", False)))
    return out.getvalue()


LOST = facts_of([a_copy(source=ends(17, 20))])


def test_a_finding_is_told_with_id_cause_certainty_numbers_and_what_to_do() -> None:
    text = text_of(report(LOST))
    assert "ERROR    D7 the source deleted records before they were copied  proven" in text
    assert "7 offsets (10 to 16)" in text and "→ longer retention" in text
    assert "1 error, 0 warnings" in text


def test_there_are_no_colours_unless_there_is_a_terminal() -> None:
    assert "\x1b" not in text_of(report(LOST))
    assert "\x1b[" in text_of(report(LOST), terminal=True)


def test_names_cannot_steer_the_terminal() -> None:
    evil = a_group("g\x1b[31m\n\u202e", target={})
    evil = type(evil)(**{**{k: getattr(evil, k) for k in evil.__slots__}, "checkpoints": {}})
    text = text_of(report(facts_of(groups=[evil])))
    assert "\x1b" not in text and "\u202e" not in text and "g\\x1b[31m\\n\\u202e" in text


def test_findings_of_one_cause_are_one_block() -> None:
    copies = [a_copy(partition=type(ORDERS)("orders", n), source=ends(17, 20)) for n in range(9)]
    text = text_of(report(facts_of(copies)))
    assert text.count("ERROR    D7") == 1 and "9 times" in text and "and 5 more (--json has all)" in text


def stopped(index: int, state: str = "stopped") -> Copy:
    """Of five records two are copied, and the partition is not copied any more."""
    return our_copy(
        partition=TopicPartition("orders", index), source=ends(0, 5), next_upstream=2,
        stop=Stop(state, "TARGET_REFUSED_RECORDS", "a policy refuses them", NOW - 2000),
    )  # fmt: skip


def test_a_flow_with_stopped_partitions_is_degraded_with_their_count_and_the_age_of_the_lag() -> None:
    copies = [stopped(0), stopped(1), our_copy(partition=TopicPartition("orders", 2))]
    read = Reads(next_records={copy.partition: LargeRecord(2, 10, NOW - 90_000) for copy in copies[:2]})
    found = report(facts_of(copies, runner=OURS, reads=read))
    assert text_of(found).splitlines()[0] == (
        "A->B  sparkmirror degraded: 2 of 3 partitions stopped  lag 6, oldest 1 min 30 s"
    )
    [value] = report_value(found)["flows"]
    assert (value["lag"], value["lag_seconds"], value["stopped_partitions"]) == (6, 90.0, 2)


def test_an_age_that_was_not_read_is_unknown() -> None:
    found = report(facts_of([stopped(0)], runner=OURS))
    assert "lag 3, oldest ?" in text_of(found)
    assert report_value(found)["flows"][0]["lag_seconds"] is None
    healthy = report(facts_of(runner=OURS))
    assert text_of(healthy).startswith("A->B  sparkmirror running  lag 0\n")
    assert report_value(healthy)["flows"][0]["lag_seconds"] == 0


@pytest.mark.parametrize(("state", "words"), [("stopped", "stopped 2 s ago"), ("waiting", "waiting")])
def test_the_same_reason_on_many_partitions_is_one_line_with_a_count(state: str, words: str) -> None:
    found = report(facts_of([stopped(index, state) for index in range(9)], runner=OURS))
    line = f"orders-0, orders-1, orders-2, orders-3 and 5 more {words}: TARGET_REFUSED_RECORDS: a policy refuses them"
    assert text_of(found).count("a policy refuses them") == 1 and line in " ".join(text_of(found).split())
    assert sum(f["id"] == "D11" for f in report_value(found)["flows"][0]["findings"]) == 9


def test_open_questions_are_told_with_what_they_take() -> None:
    opens = tuple(OpenQuestion(i, "A->B", Subject(), "positions: not authorized", "Read on topic p") for i in ("D7", "D5"))
    found = report(facts_of(), opens=opens)
    assert "not authorized; needs Read on topic p  (D7, D5)" in text_of(found)
    assert found.status == 2
    [named] = [OpenQuestion("D7", "A->B", Subject(), "ledger: refused: User:me needs Read on topic p", "Read on topic p")]
    assert "refused: User:me needs Read on topic p  (D7)\n" in text_of(report(facts_of(), opens=(named,)))


@pytest.mark.parametrize(
    ("facts", "opens", "status"),
    [
        (facts_of(), (), 0),
        (facts_of(target=None, lines="errors.tolerance = all\n"), (), 3),
        (LOST, (), 4),
        (LOST, (OpenQuestion("D3", "A->B", Subject(), "x"),), 4),
        (facts_of(lines="errors.tolerance = all\n"), (OpenQuestion("D3", "A->B", Subject(), "x"),), 2),
    ],
)
def test_the_status_is_that_of_the_worst(facts: object, opens: tuple[OpenQuestion, ...], status: int) -> None:
    assert report(facts, opens=opens).status == status


def test_the_json_has_a_schema_and_every_fact_its_time() -> None:
    value = json.loads(json.dumps(report_value(report(LOST))))
    assert value["schema"] == 1 and value["status"] == 4
    [flow] = value["flows"]
    assert flow["flow"] == "A->B" and flow["runner"]["program"] == "mm2"
    found = next(f for f in flow["findings"] if f["id"] == "D7")
    assert found["subject"] == {"topic": "orders", "partition": 0, "group": "", "cluster": ""}
    assert found["rule"] == RULES["D7"].decides and found["severity"] == "E"
    assert found["facts"] and all(isinstance(fact["time_ms"], int) for fact in found["facts"])


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("doctor",), "properties file"),
        (("doctor", "--only", "Z1", "f"), "found Z1"),
        (("doctor", "--bogus"), "No such option"),
        (("why", "/nowhere/mm2.properties"), "Missing argument"),
    ],
)
def test_wrong_usage_ends_with_status_1(words: tuple[str, ...], said: str) -> None:
    ended = run(*words)
    assert (ended.exit_code, said in ended.stderr, ended.stdout) == (1, True, ""), ended.output


@pytest.mark.parametrize(
    ("text", "words", "said"),
    [
        (None, (), "cannot be read"),
        ("nonsense", (), "clusters"),
        ("clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\n", (), "no flow is enabled"),
        (
            "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n",
            ("--flow", "X->Y"),
            "expected one of its enabled flows, found X->Y (give --flow 'A->B')",
        ),
    ],
)
@pytest.mark.parametrize("verb", ["doctor", "why x", "translate --group g", "inspect"])
def test_wrong_configuration_ends_with_status_1(
    tmp_path: Path, verb: str, text: str | None, words: tuple[str, ...], said: str
) -> None:
    path = tmp_path / "mm2.properties"
    if text is not None:
        path.write_text(text)
    error = run(verb.split()[0], str(path), *verb.split()[1:], *words).exception
    assert isinstance(error, ConfigError) and error.exit_status == 1 and said in str(error)


def test_a_rule_is_explained_without_a_file() -> None:
    ended = run("doctor", "--explain", "d6")
    assert ended.exit_code == 0 and ended.stdout.startswith("D6  source topic created again")


def test_every_command_of_a_finding_is_one_that_the_program_takes() -> None:
    past_end = a_group("g", target={type(ORDERS)("A.orders", 0): 99})
    old = a_group("o", source={ORDERS: 2}, translated={ORDERS: None}, checkpoints={}, target={})
    sick = [
        LOST,
        facts_of([a_copy(source=ends(0, 4))]),
        facts_of(groups=[past_end, old]),
        facts_of([our_copy(source=ends(17, 20))], runner=OURS),
        facts_of([our_copy()], runner=Runner("sparkmirror", "dead", "h")),
        facts_of([a_copy(sync=SyncPair(9, 30, NOW))]),
    ]
    commands = {f.command for facts in sick for f in report_of(facts).findings if f.command.startswith("sparkmirror ")}
    assert {command.split()[1] for command in commands} == {"offsets", "translate", "run"}
    for command in commands:
        words = shlex.split(command)[1:]
        taken = get_command(app)
        while hasattr(taken, "commands"):
            taken = taken.commands[words.pop(0)]
        taken.make_context(command, list(words))  # raises for a word that it does not know


WORDS = st.lists(st.text("ab .-,→", min_size=1, max_size=60), min_size=1, max_size=4)


@given(WORDS, st.integers(40, 90))
def test_folding_keeps_every_word_in_order_and_fits_the_terminal(parts: list[str], width: int) -> None:
    out = io.StringIO()
    terminal = Console(file=out, width=width, force_terminal=True, color_system=None)
    print_lines([[(words, "bold") for words in parts]], terminal)
    found, wanted = out.getvalue(), "".join(parts)
    assert "".join(found.split()) == "".join(wanted.split())
    assert all(len(line) <= max(width, max(map(len, wanted.split()), default=0) + 16) for line in found.splitlines())
