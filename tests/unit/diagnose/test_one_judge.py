"""inspect, doctor and why say the same of the same group position, whatever its state."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from unit.diagnose.doctor_builders import NOW, ORDERS, REMOTE, a_copy, a_group, cluster_of, ends, facts_of, look, report_of

from sparkmirror.diagnose import CAUSES, Finding, PositionFinding, Severity, find_cause, judged_positions, why
from sparkmirror.diagnose.group_position import Circumstances, LogEnds, RowFacts
from sparkmirror.model import Checkpoint, OffsetSync
from sparkmirror.offsets.proof import Proof
from sparkmirror.state.facts import Facts, GroupProof, Runner, SyncPair, TimedCheckpoint

OFFSETS = st.integers(0, 14)
STATES = st.sampled_from(["Empty", "Dead", "Stable", "PreparingRebalance"])
RESULTS = st.sampled_from(["exact", "behind", "ahead", "beyond end", "unproven", "moving"])
WHOLE_FLOW = {"C04"}  # one finding for all groups


@st.composite
def proofs(draw: st.DrawFn, upstream: int, downstream: int) -> Proof:
    result = draw(RESULTS)
    records = draw(st.integers(1, 9)) if result in ("behind", "ahead", "beyond end") else None
    return Proof(
        result=result, upstream=upstream, downstream=downstream, records=records, is_certain=draw(st.booleans()),
        basis=draw(st.sampled_from(["records", "ledger", "estimate"])),
    )  # fmt: skip


@st.composite
def states(draw: st.DrawFn) -> Facts:
    """A flow with one group at one partition: ends, commits, mappings, proof, earlier samples and switches at will."""
    first, length = draw(st.integers(0, 5)), draw(st.integers(0, 9))
    end = draw(st.none() | st.integers(0, 12))
    sync = draw(st.none() | st.builds(SyncPair, OFFSETS, OFFSETS, st.just(NOW - 9_000)))
    ages = st.sampled_from([1_000, 15_000, 119_000, 125_000, 900_000])
    point = draw(st.none() | st.builds(lambda up, down, age: TimedCheckpoint(up, down, NOW - age), OFFSETS, OFFSETS, ages))
    committed = draw(st.none() | OFFSETS)
    group = a_group(
        target_state=draw(STATES), source={ORDERS: draw(OFFSETS)}, target={} if committed is None else {REMOTE: committed},
        checkpoints={} if point is None else {REMOTE: point}, translated={ORDERS: draw(st.none() | OFFSETS)},
    )  # fmt: skip
    copy = a_copy(source=ends(first, first + length), target=None if end is None else ends(0, end), sync=sync)
    found = [] if committed is None else draw(st.lists(proofs(group.source[ORDERS], committed), max_size=1))
    return facts_of(
        [copy], groups=[group], lines="" if draw(st.booleans()) else "sync.group.offsets.enabled = false\n",
        target=cluster_of("B", {} if end is None else {"A.orders": 1}),
        past=draw(st.sampled_from([(), (look(900, commits={("g", ORDERS): draw(OFFSETS)}),)])),
        runner=Runner("mm2", draw(st.sampled_from(["running", "dead"])), "A-mm2"),
        proofs=tuple(GroupProof("g", ORDERS, one, NOW) for one in found),
    )  # fmt: skip


def as_inspected(facts: Facts) -> PositionFinding:
    """What inspect finds at the position, from values as its own gathering makes them."""
    [judged] = judged_positions(facts)
    group, copy, point = facts.groups["g"], facts.copies[ORDERS], facts.groups["g"].checkpoints.get(REMOTE)
    assert copy.source_ends is not None
    row = RowFacts(
        flow="A->B", source=ORDERS, target=REMOTE, group="g", source_ends=LogEnds(*copy.source_ends), source_state="Stable",
        source_offset=group.source[ORDERS], target_ends=None if copy.target_ends is None else LogEnds(*copy.target_ends),
        target_state=group.target_state, target_offset=group.target.get(REMOTE), is_known=bool(group.target),
        sync=None if copy.sync is None else OffsetSync(ORDERS, copy.sync.upstream, copy.sync.downstream),
        checkpoint=None if point is None else Checkpoint("g", REMOTE, point.upstream, point.downstream, ""),
        checkpoint_time_ms=None if point is None else point.time_ms,
    )  # fmt: skip
    around = Circumstances(
        now_ms=NOW, syncs_commits=facts.flow.sync_group_offsets_enabled, commits_interval_s=60,
        has_checkpoints=point is not None, translatable=group.translated[ORDERS] is not None,
    )  # fmt: skip
    return find_cause(row, judged.proof, around)


def of_position(findings: tuple[Finding, ...], check: str) -> list[Finding]:
    """Findings of this check about the group at the partition, about the group, or about what lies under both."""
    return [f for f in findings if f.id == check and f.subject.group in ("", "g") and f.subject.topic in ("", "orders")]


@settings(max_examples=600)
@given(states())
def test_the_doctor_has_the_code_and_severity_of_the_position_and_no_other(facts: Facts) -> None:
    [judged] = judged_positions(facts)
    found, report = judged.finding, report_of(facts)
    mine = of_position(report.findings, found.cause.check)
    if found.severity is Severity.FINE or not found.cause.check:
        assert found.severity <= Severity.INFO
    elif found.cause.check == "C02" and not (judged.proof is not None and judged.proof.records):
        assert mine == []
    else:
        assert {f.severity for f in mine} == {found.severity}
        assert found.cause.check in {*WHOLE_FLOW, "C02"} or found.certainty in {f.certainty for f in mine}
    positional = {cause.check for cause in CAUSES.values()} - WHOLE_FLOW - {""}
    about_group = [f for f in report.findings if f.subject.group == "g" and f.id in positional - {"C02"}]
    assert {f.id for f in about_group} <= {one.cause.check for one in (found, *found.also)}


@settings(max_examples=600)
@given(states())
def test_inspect_finds_what_the_doctor_finds_but_for_what_only_earlier_samples_tell(facts: Facts) -> None:
    [judged] = judged_positions(facts)
    here, there = as_inspected(facts), judged.finding
    if facts.past:
        assert there.severity >= here.severity
    else:
        assert (here.cause.check, here.severity, here.certainty) == (there.cause.check, there.severity, there.certainty)


@settings(max_examples=300)
@given(states())
def test_why_names_the_code_and_severity_of_a_position_that_needs_somebody(facts: Facts) -> None:
    [judged] = judged_positions(facts)
    found = judged.finding
    [answer] = why(report_of(facts), "g")
    named = (*([answer.cause] if answer.cause is not None else []), *answer.also)
    if found.severity >= Severity.WARNING:
        assert found.severity in {f.severity for f in of_position(named, found.cause.check)}


def test_every_cause_that_needs_somebody_has_a_code() -> None:
    assert all(cause.check for cause in CAUSES.values() if cause.severity >= Severity.WARNING)
