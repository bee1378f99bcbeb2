"""The fault table: every row is staged by a test or says why not, and a partial run changes only what it ran."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from faults.marks import MarkedTest, marked_tests
from faults.recording import Recorder, result_of
from faults.results import Result, Run, load, prune, store
from faults.rows import MM2_ROWS, ROWS
from faults.table import render

RUN = Run(commit="abc1234", date="2026-01-02", seed="5eed")
FIRST = MarkedTest("tests/faults/test_x.py::test_F12_a[one way]", "ours", ("F12", "F13"), False)
SECOND = MarkedTest("tests/faults/test_x.py::test_F12_b", "ours", ("F12",), True)
THEIRS = MarkedTest("tests/faults/mm2/test_y.py::test_F12", "mm2", ("F12",), True)
MARKED = (FIRST, SECOND, THEIRS)

@pytest.fixture(scope="module")
def marked() -> list[MarkedTest]:
    return marked_tests()


def result(test: MarkedTest, **fields: object) -> Result:
    made = Result(
        test.test, test.whose, test.rows, outcome="passed", seen="", recovered=None, seconds=1.0, message="", run=RUN
    )
    return replace(made, **fields)


def line_of(row: str, page: str) -> list[str]:
    [line] = [line for line in page.splitlines() if line.startswith(f"| {row} ")]
    return [cell.strip() for cell in line.strip("|").split(" | ")]


def test_rows_are_numbered_without_a_gap() -> None:
    assert [row.id for row in ROWS] == [f"F{number:02}" for number in range(1, 56)]
    assert set(MM2_ROWS) <= {row.id for row in ROWS}


def test_every_mark_names_a_row(marked: list[MarkedTest]) -> None:
    ids = {row.id for row in ROWS}
    assert [test for test in marked if not set(test.rows) <= ids] == []


def test_every_row_of_each_push_has_a_test_that_is_not_nightly(marked: list[MarkedTest]) -> None:
    staged = {row for test in marked if test.whose == "ours" and not test.is_nightly for row in test.rows}
    assert [row.id for row in ROWS if row.run == "P" and row.id not in staged] == []


def test_every_other_row_has_a_test(marked: list[MarkedTest]) -> None:
    staged = {row for test in marked if test.whose == "ours" for row in test.rows}
    assert [row.id for row in ROWS if row.id not in staged] == []


def test_every_test_of_mirror_maker_is_nightly_and_every_row_of_it_has_one(marked: list[MarkedTest]) -> None:
    theirs = [test for test in marked if test.whose == "mm2"]
    assert [test.test for test in theirs if not test.is_nightly] == []
    assert sorted({row for test in theirs for row in test.rows}) == sorted(MM2_ROWS)


def phase(when: str, outcome: str, longrepr: object = None, said: tuple[tuple[str, object], ...] = ()) -> pytest.TestReport:
    place = ("tests/faults/test_x.py", 1, "test")
    return pytest.TestReport(FIRST.test, place, {}, outcome, longrepr, when, (), 1.5, user_properties=said)


def test_reports_of_a_test_give_outcome_words_and_seconds(tmp_path: Path) -> None:
    said = (("ours", "F12 F13"), ("seen", "lost 0"), ("recovered", "3.5"))
    well = [phase("setup", "passed"), phase("call", "passed"), phase("teardown", "passed", said=said)]
    assert result_of(well, "ours", RUN) == result(FIRST, seen="lost 0", recovered=3.5, seconds=4.5)
    badly = [phase("setup", "passed"), phase("call", "failed", "lost\n 7"), phase("teardown", "passed", said=said[:1])]
    assert result_of(badly, "ours", RUN) == result(FIRST, outcome="failed", message="lost 7", seconds=4.5)
    elsewhere = [phase("setup", "skipped", ("x.py", 1, "no network")), phase("teardown", "passed", said=said[:1])]
    assert result_of(elsewhere, "ours", RUN) == result(FIRST, outcome="skipped", message="no network", seconds=3.0)


def test_every_result_is_stored_when_its_test_ends(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "faults.json", RUN)
    for when in ("setup", "call"):
        recorder.pytest_runtest_logreport(phase(when, "passed"))
        assert load(tmp_path / "faults.json") == []
    recorder.pytest_runtest_logreport(phase("teardown", "passed", said=(("ours", "F12 F13"),)))
    assert load(tmp_path / "faults.json") == [result(FIRST, seconds=4.5)]


def test_a_test_that_took_its_process_down_has_failed(tmp_path: Path) -> None:
    Recorder(tmp_path / "faults.json", RUN).pytest_runtest_logreport(phase("???", "failed", "worker crashed"))
    [found] = prune(tmp_path / "faults.json", MARKED)
    assert found == result(FIRST, outcome="failed", message="worker crashed", seconds=1.5)


def test_a_partial_run_changes_only_what_it_ran_and_drops_what_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "faults.json"
    store(path, [result(FIRST, seen="old"), result(SECOND, seen="old"), result(replace(FIRST, test="gone"))])
    store(path, [result(SECOND, seen="new")])
    assert prune(path, MARKED) == [result(FIRST, seen="old"), result(SECOND, seen="new")] == load(path)


def test_a_result_is_shown_in_the_rows_that_its_test_stages_now(tmp_path: Path) -> None:
    store(tmp_path / "faults.json", [result(FIRST)])
    [moved] = prune(tmp_path / "faults.json", [replace(FIRST, rows=("F20",))])
    assert moved.rows == ("F20",)


def test_a_page_tells_what_passed_failed_and_was_not_run() -> None:
    results = [result(FIRST, seen="lost 0", recovered=3.5), result(SECOND, outcome="failed", message="lost 7")]
    page = render(MARKED, [*results, result(THEIRS, seen="doubled 9", recovered=12.0)])
    assert "2026-01-02, at `abc1234`" in page
    assert line_of("F12", page)[4:] == [
        "**failed**: `test_F12_b`: lost 7<br>as expected; lost 0", "`5eed`", "3.5", "doubled 9 (12.0 s)",
    ]  # fmt: skip
    assert line_of("F13", page)[4:] == ["as expected; lost 0", "`5eed`", "3.5", "not run yet"]
    assert line_of("F15", page)[4] == "not run: no test stages it yet"
    kerberos = replace(FIRST, rows=("F38",))
    alone = render([kerberos], [result(kerberos)])
    assert line_of("F38", alone)[4] == "as expected<br>left out: Kerberos, for want of a KDC"
    unrun = render(MARKED, [])
    assert line_of("F12", unrun)[4] == "2 of 2 tests not run yet"
