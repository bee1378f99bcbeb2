"""How finely positions of groups can be translated: D3."""

from __future__ import annotations

from sparkmirror.diagnose.findings import INFO, LIKELY, PROVEN, WARNING, Fact, Finding, Rule, Verdicts
from sparkmirror.diagnose.wording import ago, copy_facts, counted, finding, lasting, subject_of
from sparkmirror.state.facts import Copy, Facts
from sparkmirror.state.parts import Part


def _coarse(facts: Facts) -> Verdicts:
    """Only for what MirrorMaker 2 copies: sparkmirror translates by its ledger, to the record."""
    if facts.is_ours or not facts.flow.emit_offset_syncs_enabled:
        return
    flush_s = facts.flow.offset_flush_interval_ms / 1000
    for copy in facts.copies.values():
        ends = copy.target_ends
        if ends is None or copy.sync is None or not ends[0] <= copy.sync.downstream < ends[1]:
            continue
        coarse = ends[1] - 1 - copy.sync.downstream
        if coarse <= 0:
            continue
        old = facts.past_before(2 * flush_s)
        has_held = old is not None and old.syncs.get(copy.partition) == copy.sync.downstream and (
            old.target_ends.get(copy.remote, 0) - 1 > copy.sync.downstream
        )
        yield _coarse_by(facts, copy, coarse, has_held=has_held)


def _coarse_by(facts: Facts, copy: Copy, coarse: int, *, has_held: bool) -> Finding:
    assert copy.sync is not None
    lag_max, flush_s = facts.flow.offset_lag_max, facts.flow.offset_flush_interval_ms / 1000
    is_old = () < facts.mm2_version < (3, 7)
    is_blocked = has_held and coarse > lag_max
    why = (
        f"MirrorMaker 2 {'.'.join(map(str, facts.mm2_version))} writes one only every {lag_max + 1} records (offset.lag.max)"
        if is_old and not is_blocked else
        "MirrorMaker 2 writes no syncs although it should: its writer is blocked, as over a slow link with many partitions"
        if is_blocked else
        f"MirrorMaker 2 writes one every {lag_max + 1} records (offset.lag.max), since 3.7 also at each flush of positions "
        f"(every {lasting(flush_s)})"
    )  # fmt: skip
    return finding(
        facts, "D3", WARNING if has_held and not is_old else INFO, LIKELY if has_held else PROVEN, subject_of(copy),
        cause="offset syncs are coarse" if not is_blocked else "offset syncs are not written",
        message=f"translation for {copy.partition} is {counted(coarse, 'record')} coarse: the last offset sync, written "
                f"{ago(facts, copy.sync.time_ms)} ago, is for downstream offset {copy.sync.downstream}; {why}. The data is "
                "complete; only positions of groups are coarse",
        evidence=copy_facts(copy,
            Fact("newest sync", f"{copy.sync.upstream} -> {copy.sync.downstream}", copy.sync.time_ms),
            Fact("offset.lag.max", str(lag_max)),
        ),
        mend=f"write {facts.name}.offset.lag.max = 0 (more syncs, finer positions) or a shorter offset.flush.interval.ms; "
             "MirrorMaker 2 before 3.7 should be upgraded",
    )  # fmt: skip


RULES = (
    Rule(
        "D3", "offset syncs are coarse", "W I",
        means="The copy is complete. Only the translation of positions is coarse, by as many records as follow the "
              "newest sync: `offset.lag.max` never delays the copying of records.",
        decides="Records on the target after the newest sync. Information at first; warning if the same sync is the "
                "newest for more than two flush intervals (by an earlier run), which should not happen since 3.7.",
        needs="Read on the topic of offset syncs, Describe on the target topics",
        mend="Lower offset.lag.max or offset.flush.interval.ms, or upgrade MirrorMaker 2. sparkmirror translates exactly.",
        check=_coarse, parts=(Part.SYNCS, Part.TARGET_ENDS),
    ),
)  # fmt: skip
