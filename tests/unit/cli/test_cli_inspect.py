"""The inspector's forms and options, without brokers."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sparkmirror.cli.app import app
from sparkmirror.cli.inspect.actions import action_of
from sparkmirror.cli.inspect.command import ORIGINAL, unabbreviated
from sparkmirror.cli.inspect.forms import EXTRA_COLUMNS, CsvForm, ExtendedCsvForm, JsonForm, is_listed
from sparkmirror.cli.inspect.table import TableForm, flow_lines
from sparkmirror.diagnose.group_position import Circumstances, LogEnds, RowFacts, find_cause
from sparkmirror.diagnose.inspector_rows import COLUMNS, HEADER, judge, parse_csv_line
from sparkmirror.examination import FlowHealth, FlowTally, InspectedFlow, InspectedRow
from sparkmirror.model import OffsetSync, TopicPartition
from sparkmirror.offsets.proof import Proof
from sparkmirror.state import Note, Notes

EVIL = "g\x1b[31m\r\nA->B,x"
AROUND = Circumstances(now_ms=5000, syncs_commits=True, commits_interval_s=60, translatable=True)


def a_row(result: str = "exact", records: int | None = None, **more: object) -> InspectedRow:
    facts = RowFacts(
        flow="A->B", source=TopicPartition("orders", 0), target=TopicPartition("A.orders", 0), group="billing",
        source_ends=LogEnds(0, 10), source_state="Stable", source_offset=10, target_ends=LogEnds(0, 10),
        target_state="Empty", target_offset=10, is_known=True, sync=OffsetSync(TopicPartition("orders", 0), 9, 9),
        read_at_ms=5000,
    )  # fmt: skip
    facts = replace(facts, **more)  # type: ignore[arg-type]
    proof = Proof(result=result, upstream=10, downstream=8, records=records)  # type: ignore[arg-type]
    return InspectedRow(facts, judge(facts), proof, find_cause(facts, proof, AROUND))


def a_report(*rows: InspectedRow, lag: int = 7, at_ms: int = 5000, is_complete: bool = True) -> InspectedFlow:
    tally = FlowTally()
    for row in rows:
        tally.take(row)
    tally.finish()
    health = FlowHealth("MirrorMaker 2", at_ms - 3000, lag, 2, 1, at_ms, partitions=3)
    return InspectedFlow("A->B", tally, health, is_complete)


def written(form: type, row: InspectedRow) -> str:
    out = io.StringIO()
    made = form(out, is_strict=False) if form is CsvForm else form(out, "f.properties")
    made.begin("f.properties")
    made.row(row)
    made.end([(a_report(row), Notes())], 0)
    return out.getvalue()


def test_csv_is_header_and_rows_ending_in_line_feeds() -> None:
    text = written(CsvForm, a_row())
    assert text.split("\n") == [HEADER, text.split("\n")[1], ""]
    assert parse_csv_line(text.split("\n")[1]) is not None


def test_extended_csv_quotes_and_adds_columns() -> None:
    [row] = csv.DictReader(io.StringIO(written(ExtendedCsvForm, a_row("ahead", 3, group='a,"b"'))))
    assert list(row) == [*COLUMNS, *EXTRA_COLUMNS]
    assert row["GROUP"] == 'a,"b"'
    assert (row["PROOF"], row["PROOF RECORDS"], row["CAUSE"], row["CHECK"]) == ("ahead", "3", "ahead", "C01")
    assert row["MESSAGE"] == "Successfully synced, operating normally"


def test_json_is_one_document_however_many_rows() -> None:
    out = io.StringIO()
    form = JsonForm(out, "f.properties")
    rows = [a_row(group=f"g{number}") for number in range(3)]
    form.begin("f.properties")
    for row in rows:
        form.row(row)
    form.end([(a_report(*rows), Notes([Note("refused", "A", "why", "Describe on group g")]))], 2)
    found = json.loads(out.getvalue())
    assert (found["schema"], [row["group"] for row in found["rows"]]) == (1, ["g0", "g1", "g2"])
    assert found["flows"][0]["notes"] == [
        {"kind": "refused", "cluster": "A", "message": "why", "needs": "Describe on group g"}
    ]
    assert (found["status"], found["flows"][0]["results"]) == (2, {"exact": 3})
    empty = io.StringIO()
    form = JsonForm(empty, "f")
    form.begin("f")
    form.end([], 0)
    assert json.loads(empty.getvalue())["rows"] == []


@pytest.mark.parametrize("form", [CsvForm, ExtendedCsvForm, JsonForm])
def test_names_cannot_steer_a_terminal_or_break_a_line(form: type) -> None:
    text = written(form, a_row(group=EVIL))
    assert "\x1b" not in text
    assert "\r" not in text
    plain = written(form, a_row())
    assert len(text.splitlines()) == len(plain.splitlines())


def table_of(*reports: InspectedFlow, includes_ok: bool = False) -> str:
    out = io.StringIO()
    form = TableForm(out, includes_ok=includes_ok, path="my file.properties")
    for report in reports:
        form.begin("")
        form.end([(report, Notes())], 0)
    return out.getvalue()


def test_report_for_people_tells_worst_first_what_it_means_and_what_to_do() -> None:
    rows = [a_row("behind", 12, group="audit"), a_row("ahead", 3, group="it's"), a_row(group="fine")]
    lines = table_of(a_report(*rows)).splitlines()
    assert lines == [
        "A->B  MirrorMaker 2, last written 3 s ago, copy lag 7 in 3 partitions, 2 groups inspected, 1 without members "
        "left out (--include-inactive-groups)",
        "  3 positions: 1 exact, 1 behind, 1 ahead",
        "  a failover now reads 12 records again in 1 group and skips 3 records in 1 group: it's 3 skipped; audit 12 again",
        "",
        "ERROR    target position is ahead: a failover skips records  1 row, 1 group",
        "         means  The group's position on the target points to a later record than on the source.",
        "         do     sparkmirror translate 'my file.properties' --flow 'A->B' --group 'it'\"'\"'s' --format csv > "
        "positions.csv, then on the target kafka-consumer-groups --reset-offsets --group 'it'\"'\"'s' --from-file "
        "positions.csv --execute",
        "         rows   it's  orders-0  skips 3 records: source 10, target 8",
        "",
        "INFO     records are read again after a failover  1 row, 1 group",
        "         means  The target position points to an earlier record; nothing is skipped.",
        "         rows   audit  orders-0  reads 12 records again: source 10, target 8",
    ]
    assert "same record on both sides" in table_of(a_report(*rows), includes_ok=True)


def test_report_without_a_terminal_has_no_colours_and_no_control_characters() -> None:
    text = table_of(a_report(a_row("ahead", 3, group=EVIL)))
    assert "\x1b" not in text
    assert "\\x1b[31m\\r\\n" in text


def test_second_sample_tells_what_changed() -> None:
    first = a_report(a_row("ahead", 3), lag=100, at_ms=5000)
    rows = [a_row("ahead", 3), a_row("ahead", 3, group="other")]
    second = a_report(*rows, lag=40, at_ms=15000)
    text = table_of(first, second)
    assert "copy lag 40 in 3 partitions (-60 in 10 s, done in about 7 s)" in text
    assert "2 rows, 2 groups (+1)" in text


def test_incomplete_and_skipped_flows_say_so() -> None:
    [*_, last] = flow_lines(a_report(a_row(), is_complete=False), "f")
    assert "".join(words for words, _ in last).startswith("not complete")
    [[*first]] = flow_lines(InspectedFlow("A->B", FlowTally(), skipped="not inspected: why"), "f")
    assert first[1][0].strip() == "not inspected: why"


def test_rows_are_listed_as_the_original_does_and_worse_ones_where_more_is_known() -> None:
    fine, ahead, error = a_row(), a_row("ahead", 3), a_row(target_offset=None)
    assert [is_listed(row, includes_ok=False, knows_more=False) for row in (fine, ahead, error)] == [False, False, True]
    assert [is_listed(row, includes_ok=False, knows_more=True) for row in (fine, ahead, error)] == [False, True, True]
    assert is_listed(fine, includes_ok=True, knows_more=False)


def test_action_is_quoted_for_the_shell() -> None:
    row = a_row("ahead", 3, group="$(rm -rf ~)")
    assert "--group '$(rm -rf ~)'" in action_of(row, "f")
    assert action_of(a_row(), "f") == ""


# --- options -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "whole"),
    [
        (["--mm2", "f", "--emit"], ["--mm2-config", "f", "--emit-summary"]),
        (["--e"], ["--emit-summary"]),
        (["--o=x"], ["--output-path=x"]),
        (["--include"], ["--include"]),
        (["--include-o", "--include-i"], ["--include-ok-groups", "--include-inactive-groups"]),
        (["--exit"], ["--exit-zero"]),
        (["--", "-x", "--unknown"], ["--", "-x", "--unknown"]),
    ],
)
def test_unique_beginning_of_an_option_is_the_option(words: list[str], whole: list[str]) -> None:
    assert unabbreviated(words, [*ORIGINAL, "--exit-zero", "--flow"]) == whole


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ([], 1, "expected one properties file"),
        (["f", "--mm2-config", "f"], 1, "expected one properties file"),
        (["f", "--admin-timeout", "1 minute"], 1, "is not an ISO-8601 duration"),
        (["f", "--request-timeout", "PT0S"], 1, "expected a positive duration"),
        (["f", "--admin-timeout", "PT10S"], 1, "at least --request-timeout"),
        (["f", "--format", "xml"], 1, "expected table, csv, csv-ext, json"),
        (["f", "--json", "--format", "csv"], 1, "found csv"),
        (["f", "--watch", "5", "--format", "csv"], 1, "csv has no column"),
        (["f", "--compat", "loose"], 255, "expected strict"),
        (["f", "--compat", "strict", "--format", "json"], 255, "strict supports only csv"),
        (["f", "--compat", "strict", "--nonsense"], 255, "nonsense"),
        (["f", "--group", "("], 1, "--group"),
        (["f", "--nonsense"], 1, "nonsense"),
        (["f", "--budget", "-1"], 1, "--budget"),
    ],
)
def test_wrong_options_end_with_the_contracts_status(words: list[str], status: int, said: str) -> None:
    result = CliRunner().invoke(app, ["inspect", *words])
    assert (result.exit_code, said in result.output) == (status, True), result.output


@pytest.mark.parametrize(
    ("text", "words", "said"),
    [
        (None, [], "cannot be read"),
        ("nonsense", [], "clusters"),
        ("clusters = A, B\nA.bootstrap.servers = x:1\nB.bootstrap.servers = x:1\n", [], "no flow is enabled"),
        ("clusters = A, B\nA.bootstrap.servers = x:1\nB.bootstrap.servers = x:1\nA->B.enabled = true\n",
         ["--flow", "B->A"], "expected one of its enabled flows, found B->A"),
    ],
)  # fmt: skip
def test_wrong_configuration_is_status_1(tmp_path: Path, text: str | None, words: list[str], said: str) -> None:
    path = tmp_path / "mm2.properties"
    if text is not None:
        path.write_text(text)
    result = CliRunner().invoke(app, ["inspect", str(path), *words])
    error = result.exception
    assert said in str(error)
    assert getattr(error, "exit_status", None) == 1


def test_original_prints_its_header_where_no_flow_is_enabled(tmp_path: Path) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text("clusters = A, B\nA.bootstrap.servers = x:1\nB.bootstrap.servers = x:1\n")
    result = CliRunner().invoke(app, ["inspect", "--mm2-config", str(path), "--compat", "strict"])
    assert (result.exit_code, result.output) == (0, HEADER + "\n")
    out = tmp_path / "out.csv"
    result = CliRunner().invoke(app, ["inspect", "--mm2-config", str(path), "--compat", "strict", "--output-path", str(out)])
    assert (result.output, out.read_text()) == ("", HEADER + "\n")
    result = CliRunner().invoke(
        app, ["inspect", "--mm2-config", str(path), "--compat", "strict", "--output-path", str(tmp_path / "no" / "x")]
    )
    assert (result.exit_code, "cannot be written" in result.output) == (255, True)


def test_flow_without_checkpoints_is_told_and_not_asked(tmp_path: Path) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(
        "clusters = A, B\nA.bootstrap.servers = x:1\nB.bootstrap.servers = x:1\nA->B.enabled = true\n"
        "emit.checkpoints.enabled = false\n"
    )
    result = CliRunner().invoke(app, ["inspect", str(path)])
    assert (result.exit_code, "not inspected: checkpoints are off" in result.output) == (0, True)
    strict = CliRunner().invoke(app, ["inspect", "--mm2-config", str(path), "--compat", "strict"])
    assert strict.output == HEADER + "\n"
