"""The inspector's rows where a cluster could not be read: none of the seven verdicts, no number that nobody knows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from unit.examination.test_inspection import a_checkpoint, a_row
from unit.outages.worst_night import SOURCE_GONE, TARGET_GONE, worst_night

from sparkmirror.diagnose.group_position import Circumstances, find_cause
from sparkmirror.diagnose.inspector_rows import COLUMNS, columns, csv_line, judge, parse_csv_line
from sparkmirror.diagnose.inspector_verdicts import NO_SOURCE, NO_TARGET
from sparkmirror.examination import FlowTally, InspectedRow, Summary
from sparkmirror.offsets.proof import Proof

NO_SOURCE_ROW = a_row(source_ends=None, source_offset=None, source_state="", target_offset=8,
                      checkpoint=a_checkpoint(10, 10))  # fmt: skip
NO_TARGET_ROW = a_row(target_ends=None, target_offset=None, target_state="", is_known=None)
AROUND = Circumstances(now_ms=0, syncs_commits=True, commits_interval_s=60)
BEHIND = Proof(result="behind", upstream=10, downstream=8, records=2)


@pytest.mark.parametrize(
    ("row", "verdict", "unknown"),
    [
        (NO_SOURCE_ROW, NO_SOURCE, {4, 5, 7, 8, 14, 15, 16, 18}),
        (NO_TARGET_ROW, NO_TARGET, {9, 10, 12, 13, 14, 17, 18}),
        (replace(NO_SOURCE_ROW, target_ends=None, target_offset=None, is_known=None), NO_SOURCE, {4, 7, 12, 18}),
    ],
)
def test_what_could_not_be_read_is_a_dash_and_the_verdict_is_none_of_the_seven(
    row: object, verdict: object, unknown: set[int]
) -> None:
    assert judge(row) is verdict  # type: ignore[arg-type]
    values = columns(row, judge(row))  # type: ignore[arg-type]
    assert [values[at] for at in sorted(unknown)] == ["-"] * len(unknown), dict(zip(COLUMNS, values, strict=True))
    assert "false" not in (values[at] for at in unknown) and parse_csv_line(csv_line(values)) == values


def test_a_position_whose_source_is_unknown_is_said_as_of_its_checkpoint() -> None:
    found = find_cause(NO_SOURCE_ROW, BEHIND, AROUND)
    assert (found.cause.id, found.severity.letter) == ("source-unknown", "W")
    assert found.detail == "target position 8, checkpoint of 10 at 10: reads 2 records again"
    assert find_cause(replace(NO_SOURCE_ROW, checkpoint=None), None, AROUND).detail == "target position 8, no checkpoint"


def test_what_the_target_alone_proves_is_still_its_own_cause() -> None:
    past = replace(NO_SOURCE_ROW, target_offset=99)
    assert find_cause(past, None, AROUND).cause.id == "beyond-end"
    assert find_cause(replace(NO_SOURCE_ROW, target_state="Stable"), None, AROUND).cause.id == "active"


def test_an_unknown_target_is_no_missing_commit() -> None:
    found = find_cause(NO_TARGET_ROW, None, AROUND)
    assert (found.cause.id, found.detail) == ("target-unknown", "source position 10")


def test_rows_that_nobody_knows_count_as_unknown() -> None:
    tally, summary = FlowTally(), Summary()
    for row in (NO_SOURCE_ROW, NO_TARGET_ROW):
        seen = InspectedRow(row, judge(row), finding=find_cause(row, None, AROUND))
        tally.take(seen)
        summary.take(seen, target_state="Unknown")
    tally.finish()
    assert tally.results == {"unknown": 2} and tally.verdicts == {0: 2}
    assert [line.count("ok: unknown") for line in summary.lines()] == [1, 1]


def test_a_dead_source_leaves_the_groups_that_have_checkpoints(tmp_path: Path) -> None:
    with worst_night(SOURCE_GONE, tmp_path) as night:
        told = night.call("inspect", "FILE", "--json")
        strict = night.call("inspect", "FILE", "--compat", "strict")
    assert told.status == 2 and told.out.count('"flow": "A->B", "group"') == 4
    assert '"number": null, "ok": null' in told.out and '"last_copy_lag": 7' in told.out
    assert strict.out.count("\n") == 1  # the original reports nothing


def test_a_dead_target_leaves_the_sources_groups(tmp_path: Path) -> None:
    with worst_night(TARGET_GONE, tmp_path) as night:
        told = night.call("inspect", "FILE", "--include-inactive-groups")
    assert told.status == 2 and "who runs it is unknown, copy lag ?, 2 groups inspected" in told.out
    assert "no mirror has written anything" not in told.out and "4 positions: 4 unknown" in told.out

