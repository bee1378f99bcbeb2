"""The inspector's judgement: the decision tree, the exact texts and columns, order, durations, summary, causes, status."""

from __future__ import annotations

import csv
import io
import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.cli.inspect.durations import parse_duration
from sparkmirror.diagnose.findings import Severity
from sparkmirror.diagnose.group_position import CAUSES, Circumstances, LogEnds, RowFacts, find_cause
from sparkmirror.diagnose.inspector_rows import (
    COLUMNS,
    HEADER,
    columns,
    csv_line,
    judge,
    parse_csv_line,
    quoted_line,
    sort_key,
    strict_columns,
)
from sparkmirror.diagnose.inspector_verdicts import VERDICTS, StrictLoop, verdict_of, verdict_of_text
from sparkmirror.examination import FlowTally, InspectedFlow, InspectedRow, Summary, exit_status
from sparkmirror.model import Checkpoint, OffsetSync, TopicPartition
from sparkmirror.offsets.proof import Proof

NOW_MS = 1_000_000_000


def a_row(**more: object) -> RowFacts:
    """The sample row of the contract."""
    facts = RowFacts(
        flow="A->B", source=TopicPartition("orders", 0), target=TopicPartition("A.orders", 0), group="billing",
        source_ends=LogEnds(0, 10), source_state="Stable", source_offset=10,
        target_ends=LogEnds(0, 10), target_state="Empty", target_offset=10,
        is_known=True, sync=OffsetSync(TopicPartition("orders", 0), 9, 9), read_at_ms=NOW_MS,
    )  # fmt: skip
    return replace(facts, **more)  # type: ignore[arg-type]


def a_checkpoint(upstream: int, downstream: int) -> Checkpoint:
    return Checkpoint("billing", TopicPartition("A.orders", 0), upstream, downstream, "")


# --- verdicts ----------------------------------------------------------------------------------------------------

TREE = {
    # G, T, E, V
    (True, True, None, None): 1, (True, False, True, None): 2, (True, False, False, False): 4,
    (True, False, False, True): 6, (False, None, True, None): 3, (False, None, False, False): 5,
    (False, None, False, True): 7,
}  # fmt: skip


def test_decision_tree_is_the_contracts_for_every_combination() -> None:
    for facts in itertools.product((True, False), repeat=4):
        [expected] = [
            number for case, number in TREE.items() if all(w in (None, f) for w, f in zip(case, facts, strict=True))
        ]
        has_group, has_offset, is_empty, is_valid = facts
        found = verdict_of(has_group=has_group, has_offset=has_offset, is_empty=is_empty, is_valid=is_valid)
        assert found.number == expected


def test_seven_texts_are_the_programs_own() -> None:
    assert [VERDICTS[number].text for number in range(1, 8)] == [
        "Successfully synced, operating normally",
        "Intentionally not synced because source partition is empty. Other partitions in this group are synced.",
        "Intentionally not synced because source partition is empty. Other partitions in this group are not synced.",
        "Intentionally not synced because source group is too old. Other partitions in this group are synced.",
        "Intentionally not synced because source group is too old. Other partitions in this group are not synced.",
        "Erroneously not synced. Source partition has data, and other partitions for this group are synced.",
        "Erroneously not synced. Source partition has data, and other partitions for this group are not synced.",
    ]
    assert [VERDICTS[number].is_ok for number in range(1, 8)] == [True] * 5 + [False] * 2
    blocking = ["", "SOURCE PARTITION", "SOURCE PARTITION", "SOURCE GROUP", "SOURCE GROUP", "REPLICATION", "REPLICATION"]
    assert [VERDICTS[number].blocking for number in range(1, 8)] == blocking


def test_texts_of_the_documentation_are_known_too() -> None:
    documented = "Intentionally not synced because the source group is too old. Other partitions in this group are synced."
    assert verdict_of_text(documented) is VERDICTS[4]
    assert verdict_of_text("Intentionally not synced") is None
    for verdict in VERDICTS.values():
        assert verdict_of_text(verdict.text) is verdict


GOLDEN = [
    # earliest, latest, committed, target, verdict with G, without
    (0, 10, 10, 10, 1, None), (0, 10, 0, 0, 1, None), (0, 10, 10, 999, 1, None), (0, 0, 0, None, 2, 3),
    (7, 7, 7, None, 2, 3), (7, 7, 3, None, 2, 3), (5, 10, 4, None, 4, 5), (5, 10, 5, None, 6, 7), (5, 10, 10, None, 6, 7),
    (5, 10, 11, None, 4, 5),
]  # fmt: skip


@pytest.mark.parametrize(("first", "end", "committed", "target", "known", "unknown"), GOLDEN)
def test_golden_case(first: int, end: int, committed: int, target: int | None, known: int, unknown: int | None) -> None:
    row = a_row(source_ends=LogEnds(first, end), source_offset=committed, target_offset=target)
    assert judge(row).number == known
    if unknown is not None:
        assert judge(replace(row, is_known=False)).number == unknown


def test_first_failure_ends_the_originals_loop() -> None:
    loop = StrictLoop()
    assert loop.take(source_failed=False, target_failed=False) == (True, True)
    assert loop.take(source_failed=False, target_failed=True) == (True, False)
    assert loop.take(source_failed=False, target_failed=False) == (True, False)
    assert loop.take(source_failed=True, target_failed=False) == (False, False)
    assert loop.take(source_failed=False, target_failed=False) == (False, False)


# --- columns -----------------------------------------------------------------------------------------------------


def test_header_and_sample_row_are_the_contracts() -> None:
    assert len(COLUMNS) == 21
    assert HEADER == (
        "CLUSTER PAIR,TOPIC,PARTITION,GROUP,SOURCE TOPIC EARLIEST OFFSET,SOURCE TOPIC LATEST OFFSET,SOURCE GROUP STATE,"
        "SOURCE GROUP OFFSET,SOURCE GROUP LAG,TARGET TOPIC EARLIEST OFFSET,TARGET TOPIC LATEST OFFSET,TARGET GROUP STATE,"
        "TARGET GROUP OFFSET,TARGET GROUP LAG,TARGET GROUP LAG TO SOURCE,SOURCE HAS DATA,SOURCE GROUP VALID,TARGET HAS DATA,"
        "IS OK,BLOCKING COMPONENT,MESSAGE"
    )
    row = a_row(target=TopicPartition("orders", 0))
    assert csv_line(strict_columns(row, judge(row))) == (
        "A->B,orders,0,billing,0,10,Stable,10,0,0,10,Unknown,10,0,0,true,true,true,true,-,"
        "Successfully synced, operating normally"
    )
    assert columns(row, judge(row))[11] == "Empty"


def values_of(row: RowFacts) -> dict[str, str]:
    return dict(zip(COLUMNS, columns(row, judge(row)), strict=True))


def test_lags_are_clamped_only_on_the_target() -> None:
    found = values_of(a_row(source_ends=LogEnds(5, 10), source_offset=11, target_offset=999))
    assert (found["SOURCE GROUP LAG"], found["TARGET GROUP LAG"]) == ("-1", "0")


def test_lag_to_source_goes_by_the_difference_of_the_newest_sync() -> None:
    sync = OffsetSync(TopicPartition("orders", 0), 100, 40)
    row = a_row(source_ends=LogEnds(0, 150), target_offset=80, target_ends=LogEnds(0, 90), sync=sync)
    assert values_of(row)["TARGET GROUP LAG TO SOURCE"] == "10"
    assert values_of(replace(row, target_offset=95))["TARGET GROUP LAG TO SOURCE"] == "-5"
    assert values_of(replace(row, sync=None))["TARGET GROUP LAG TO SOURCE"] == "-"
    assert values_of(replace(row, target_offset=None))["TARGET GROUP LAG TO SOURCE"] == "-"


def test_missing_target_partition_is_a_row_and_no_crash() -> None:
    found = values_of(a_row(target_ends=None, target_offset=None, is_known=False))
    missing = [found[name] for name in COLUMNS[9:11]] + [found[name] for name in COLUMNS[12:15]]
    assert missing == ["-"] * 5
    assert found["TARGET HAS DATA"] == "false"


@given(st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=20), st.sampled_from(sorted(VERDICTS)))
def test_row_of_any_group_is_read_back(group: str, number: int) -> None:
    values = columns(a_row(group=group), VERDICTS[number])
    assert parse_csv_line(csv_line(values)) == values
    assert next(csv.reader(io.StringIO(quoted_line(values)))) == values


def test_line_that_is_no_row_is_not_read() -> None:
    assert parse_csv_line(HEADER) is None
    assert parse_csv_line("a,b,Successfully synced, operating normally") is None


def test_rows_are_sorted_by_group_topic_and_partition_without_case() -> None:
    rows = [
        a_row(group=group, source=TopicPartition(topic, partition))
        for group, topic, partition in [("b", "T", 2), ("B", "t", 10), ("a", "z", 0), ("b", "S", 3), ("b", "t", 2)]
    ]
    found = [(row.group, row.source.topic, row.source.partition) for row in sorted(rows, key=sort_key)]
    assert found == [("a", "z", 0), ("b", "S", 3), ("b", "T", 2), ("b", "t", 2), ("B", "t", 10)]


# --- durations ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("PT1M", 60), ("PT30S", 30), ("PT0.5S", 0.5), ("P1D", 86_400), ("pt1m", 60), ("PT1H2M3S", 3723),
        ("P2DT3H4M", 183_840), ("PT20.345S", 20.345), ("PT-6H+3M", -21_420), ("-PT6H", -21_600), ("PT1.S", 1),
        ("PT0,25S", 0.25), ("PT-0.5S", -0.5),
    ],
)  # fmt: skip
def test_duration_is_read_as_java_reads_it(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


WRONG = ["", "P", "PT", "1M", "PT1", "P1DT", "PT1X", "30s", "P1M", "PT.5S", "PT0.1234567890S", " PT1M"]


@pytest.mark.parametrize("text", WRONG)
def test_text_that_java_refuses_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


# --- summary, tally and status -----------------------------------------------------------------------------------


def inspected(proof: Proof | None = None, *, cause: str | None = None, **more: object) -> InspectedRow:
    row = a_row(**more)
    finding = find_cause(row, proof, around())
    assert cause is None or finding.cause.id == cause
    return InspectedRow(row, judge(row), proof, finding)


def around(**more: object) -> Circumstances:
    known = Circumstances(now_ms=NOW_MS, syncs_commits=True, commits_interval_s=60, translatable=True)
    return replace(known, **more)  # type: ignore[arg-type]


def a_proof(result: str, records: int | None = None, **more: object) -> Proof:
    return Proof(result=result, upstream=10, downstream=8, records=records, **more)  # type: ignore[arg-type]


def test_summary_counts_rows_of_a_kind() -> None:
    summary = Summary()
    for row in (inspected(), inspected(group="other"), inspected(target_offset=None, is_known=False, target_ends=None)):
        summary.take(row, target_state="Unknown")
    assert list(summary.lines()) == [
        "2 partitions in state: Source has data: true, Source group: Stable, Target has data: true, Target group: Unknown, "
        "ok: true, Blocking component: null, Message: Successfully synced, operating normally",
        "1 partitions in state: Source has data: true, Source group: Stable, Target has data: false, Target group: Unknown, "
        "ok: false, Blocking component: REPLICATION, Message: Erroneously not synced. Source partition has data, and other "
        "partitions for this group are not synced.",
    ]


def tally_of(*rows: InspectedRow) -> FlowTally:
    tally = FlowTally()
    for row in rows:
        tally.take(row)
    tally.finish()
    return tally


def test_cost_of_a_failover_is_added_up_by_group_and_the_worst_are_named() -> None:
    rows = [
        inspected(a_proof("behind", number), group=f"g{number:02}", source=TopicPartition("t", at))
        for number in range(1, 21)
        for at in range(2)
    ]
    tally = tally_of(*rows, inspected(a_proof("ahead", 3), group="loss"), inspected(a_proof("unproven"), group="x"))
    assert (tally.again, tally.skipped, tally.unknown) == (420, 3, 1)
    assert (tally.groups_again, tally.groups_skipping) == (20, 1)
    assert [(cost.group, cost.again, cost.skipped) for cost in tally.costs] == [
        ("loss", 0, 3), ("g20", 40, 0), ("g19", 38, 0), ("g18", 36, 0), ("g17", 34, 0),
    ]  # fmt: skip


def test_causes_are_told_worst_first_with_few_examples() -> None:
    rows = [inspected(a_proof("behind", number), group=f"g{number:02}") for number in range(1, 21)]
    tally = tally_of(*rows, inspected(a_proof("exact")), inspected(a_proof("ahead", 3), group="loss"))
    assert [(c.cause.id, c.rows, c.groups, c.records) for c in tally.causes] == [
        ("ahead", 1, 1, 3), ("behind", 20, 20, 210), ("exact", 1, 1, 0),
    ]  # fmt: skip
    assert [row.facts.group for row in tally.causes[1].examples] == ["g20", "g19", "g18", "g17", "g16"]


@pytest.mark.parametrize(
    ("causes", "is_complete", "status"),
    [
        ([], True, 0), (["exact", "behind"], True, 0), (["rewound"], True, 3), (["ahead"], True, 4), ([], False, 2),
        (["rewound"], False, 2), (["ahead"], False, 4), (["rewound", "ahead"], True, 4),
    ],
)  # fmt: skip
def test_status_is_the_contracts(causes: list[str], is_complete: bool, status: int) -> None:
    tally = FlowTally()
    for cause in causes:
        row = a_row()
        finding = replace(find_cause(row, None, around()), cause=CAUSES[cause], severity=CAUSES[cause].severity)
        tally.take(InspectedRow(row, judge(row), None, finding))
    assert exit_status([InspectedFlow("A->B", tally, is_complete=is_complete)]) == status


def test_status_of_bare_columns_goes_by_the_verdict() -> None:
    row = a_row(target_offset=None)
    assert exit_status([InspectedFlow("A->B", tally_of(InspectedRow(row, judge(row))))]) == 4
    assert exit_status([InspectedFlow("A->B", tally_of(InspectedRow(a_row(), judge(a_row()))))]) == 0
    assert exit_status([]) == 0


# --- causes ------------------------------------------------------------------------------------------------------

OLD_MS, YOUNG_MS = NOW_MS - 121_000, NOW_MS - 119_000
UNSYNCED = {"target_offset": None, "is_known": False}


@pytest.mark.parametrize(
    ("cause", "facts", "proof", "circumstances"),
    [
        ("exact", {}, a_proof("exact"), {}),
        ("synced", {}, None, {}),
        ("behind", {}, a_proof("behind", 2), {}),
        ("ahead", {}, a_proof("ahead", 2), {}),
        ("unproven", {}, a_proof("unproven", reason="why"), {}),
        ("moving", {}, a_proof("moving"), {}),
        ("recreated", {"source_offset": 11}, None, {}),
        ("beyond-end", {"target_offset": 11}, a_proof("beyond end", 1), {}),
        ("stale-mapping", {"sync": OffsetSync(TopicPartition("orders", 0), 9, 10)}, None, {}),
        ("stale-mapping", {"checkpoint": a_checkpoint(11, 11)}, None, {}),
        ("missing-target", UNSYNCED | {"target_ends": None}, None, {}),
        ("rewound", {"source_offset": 5, "checkpoint": a_checkpoint(9, 9)}, a_proof("ahead", 4), {}),
        ("rewound", {"source_offset": 5, "checkpoint": a_checkpoint(9, 9)}, None, {}),
        ("stale", {"target_offset": 3, "checkpoint": a_checkpoint(9, 9), "checkpoint_time_ms": OLD_MS},
         a_proof("behind"), {}),
        ("behind", {"target_offset": 3, "checkpoint": a_checkpoint(9, 9), "checkpoint_time_ms": YOUNG_MS},
         a_proof("behind", 6), {}),
        ("active", {"target_state": "Stable"}, a_proof("ahead", 6), {}),
        ("recreated", {"target_state": "Stable", "source_offset": 11}, None, {}),
        ("came-from-target", {"target_offset": 99}, a_proof("beyond end", 6), {"comes_from_target": True}),
        ("active", UNSYNCED | {"target_state": "PreparingRebalance"}, None, {}),
        ("empty", UNSYNCED | {"source_ends": LogEnds(10, 10)}, None, {}),
        ("too-old", UNSYNCED | {"source_ends": LogEnds(10, 12), "source_offset": 9}, None, {}),
        ("came-from-target", UNSYNCED, None, {"comes_from_target": True}),
        ("came-from-target", UNSYNCED | {"target_ends": None}, None, {"comes_from_target": True}),
        ("sync-off", UNSYNCED | {"checkpoint": a_checkpoint(9, 9)}, a_proof("exact"), {"syncs_commits": False}),
        ("untranslatable", UNSYNCED, None, {"translatable": False, "first_translatable": 50}),
        ("pending", UNSYNCED | {"checkpoint": a_checkpoint(9, 9), "checkpoint_time_ms": YOUNG_MS}, None, {}),
        ("not-synced", UNSYNCED | {"checkpoint": a_checkpoint(9, 9), "checkpoint_time_ms": OLD_MS}, None, {}),
        ("unknown-group", UNSYNCED, None, {"has_checkpoints": False}),
        ("not-synced", UNSYNCED, None, {}),
        ("not-synced", UNSYNCED | {"target_ends": None}, None, {"is_target_known": False}),
    ],
)  # fmt: skip
def test_cause_of_a_row(
    cause: str, facts: dict[str, object], proof: Proof | None, circumstances: dict[str, object]
) -> None:
    row = a_row(**facts)
    assert find_cause(row, proof, around(**circumstances)).cause.id == cause


def test_proven_loss_is_an_error_whatever_explains_it() -> None:
    went_back = a_row(source_offset=5, checkpoint=a_checkpoint(9, 9))
    assert find_cause(went_back, a_proof("ahead", 4), around()).severity is Severity.ERROR
    assert find_cause(went_back, None, around()).severity is Severity.WARNING
    off = a_row(checkpoint=a_checkpoint(9, 9), **UNSYNCED)
    assert find_cause(off, a_proof("ahead", 4), around(syncs_commits=False)).severity is Severity.ERROR


def test_more_read_again_than_allowed_is_a_warning() -> None:
    row = a_row()
    assert find_cause(row, a_proof("behind", 6), around(behind_max=5)).severity is Severity.WARNING
    assert find_cause(row, a_proof("behind", 5), around(behind_max=5)).severity is Severity.INFO


def test_detail_names_the_numbers_and_how_sure_they_are() -> None:
    row = a_row()
    band = a_proof("behind", 30, records_min=20, is_certain=False, basis="estimate")
    assert find_cause(row, band, around()).detail == "reads 20 to 30 records again: source 10, target 8, likely"
    one = find_cause(row, a_proof("ahead", 1), around())
    assert one.detail == "skips 1 record: source 10, target 8"
    rough = find_cause(row, a_proof("behind", 9, is_counted=False), around())
    assert rough.detail.startswith("reads about 9 records again")
