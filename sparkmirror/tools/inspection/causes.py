"""Why a group stands where it stands on the target, beyond the seven verdicts: one cause for each row. Pure.

The first rule that holds is the cause. A target position that is nobody's to sync (the group is read there, the topic came
from there) is not judged. What a row itself proves (positions past an end, records that would be skipped) comes before what
explains a missing commit by design, and that before "nothing explains it".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

from sparkmirror.tools.inspection.rows import RowFacts
from sparkmirror.tools.inspection.verdicts import ACTIVE_STATES, Verdict
from sparkmirror.tools.proof.values import Proof

__all__ = ["CAUSES", "Cause", "Circumstances", "Finding", "Severity", "find_cause"]


class Severity(IntEnum):
    """How bad."""

    FINE = 0
    INFO = 1
    WARNING = 2
    ERROR = 3


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason: a stable id, the check it belongs to, the verdict in a few words, what it means, and what to do.

    `action` may name {file}, {flow}, {group}, {topic} and {remote}.
    """

    id: str
    check: str
    severity: Severity
    title: str
    means: str
    action: str


_SET_GROUP = (
    "sparkmirror translate {file} --flow {flow} --group {group} --format csv > positions.csv, then on the target "
    "kafka-consumer-groups --reset-offsets --group {group} --from-file positions.csv --execute"
)
_WHY = "sparkmirror why {file} {group}"

CAUSES: Mapping[str, Cause] = {
    cause.id: cause
    for cause in (
        Cause(
            "ahead", "C01", Severity.ERROR, "target position is ahead: a failover skips records",
            "The group's position on the target is that of a later record than on the source.", _SET_GROUP,
        ),
        Cause(
            "beyond-end", "C07", Severity.ERROR, "target position lies past the end of its topic",
            "A consumer that fails over is set by its own auto.offset.reset: to the beginning or, with latest, past "
            "everything.", _SET_GROUP,
        ),
        Cause(
            "recreated", "C10", Severity.ERROR, "source position lies past the end of its topic",
            "The source topic was created again or cut: the position belongs to records that are gone. The seven verdicts "
            "call this intentional.", "sparkmirror why {file} {topic}",
        ),
        Cause(
            "stale-mapping", "C08", Severity.ERROR, "offset mapping is of an earlier life of the target topic",
            "An offset sync or checkpoint names an offset that the target topic does not have.",
            "sparkmirror why {file} {topic}",
        ),
        Cause(
            "missing-target", "C13", Severity.ERROR, "no such partition on the target",
            "The topic was not copied yet, was deleted on the target, or has fewer partitions there.",
            "sparkmirror why {file} {topic}",
        ),
        Cause(
            "not-synced", "", Severity.ERROR, "not synced, and nothing explains it",
            "The position can be translated, and the mirror knows the group, but the target has no position.", _WHY,
        ),
        Cause(
            "rewound", "C09", Severity.WARNING, "target position is past its checkpoint",
            "The group went back on the source, or was read on the target. MirrorMaker 2 never moves a position back, so a "
            "failover skips what is being read again.", _SET_GROUP,
        ),
        Cause(
            "stale", "C06", Severity.WARNING, "target position is older than its checkpoint",
            "Checkpoints are written, but for more than two intervals they were not committed.", _WHY,
        ),
        Cause(
            "untranslatable", "C05", Severity.WARNING, "position is older than the first offset mapping",
            "It was copied before the mirror began to note offsets, or its notes are gone; it is synced once the group has "
            "passed the first of them.", "wait, or " + _SET_GROUP,
        ),
        Cause(
            "unknown-group", "C25", Severity.INFO, "mirror has no checkpoint of this group yet",
            "New groups are looked for only now and then (refresh.groups.interval.seconds, 10 minutes by default).",
            "look again after that time; then " + _WHY,
        ),
        Cause(
            "unproven", "C01", Severity.INFO, "position could not be proven",
            "There is a position on the target, but which record it means is not known.", "look at the reason",
        ),
        Cause(
            "moving", "C01", Severity.INFO, "position moved while it was looked at",
            "The group is at work; what was proven was true of a moment ago.", "look again",
        ),
        Cause(
            "sync-off", "C04", Severity.INFO, "positions are only in checkpoints",
            "sync.group.offsets.enabled is false: a consumer that fails over must translate its positions.",
            "at failover " + _SET_GROUP,
        ),
        Cause(
            "active", "C03", Severity.INFO, "group is in use on the target",
            "It has members there, so its positions are its own, and no mirror syncs them.", "none",
        ),
        Cause(
            "came-from-target", "", Severity.INFO, "topic came from the target",
            "It is a copy of a topic there; no mirror writes positions back.", "at failover " + _SET_GROUP,
        ),
        Cause(
            "pending", "", Severity.INFO, "checkpoint is written, its commit follows",
            "The checkpoint is younger than two intervals of the commits.", "look again",
        ),
        Cause(
            "too-old", "", Severity.INFO, "source deleted the records at the group's position",
            "A consumer is set by its own auto.offset.reset: to the beginning or, with latest, past everything.", "none",
        ),
        Cause(
            "behind", "C02", Severity.INFO, "records are read again after a failover",
            "The target position is that of an earlier record; nothing is skipped.", "none",
        ),
        Cause(
            "empty", "", Severity.FINE, "source partition is empty",
            "There is nothing to read and nothing to sync.", "none",
        ),
        Cause("exact", "C01", Severity.FINE, "same record on both sides", "A failover goes on where it stopped.", "none"),
        Cause("synced", "", Severity.FINE, "target has a position", "Its record was not looked at.", "none"),
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What is known around a row.

    `translatable`: whether the mirror's notes reach back to the position (None: unknown), `first_translatable` where they
    begin. `is_target_known`: whether the target's side could be read at all.
    """

    now_ms: int
    syncs_commits: bool
    commits_interval_s: float
    comes_from_target: bool = False
    has_checkpoints: bool = True
    translatable: bool | None = None
    first_translatable: int | None = None
    is_target_known: bool = True
    behind_max: int | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """The cause of one row, how bad it is there, and the numbers that say so."""

    cause: Cause
    severity: Severity
    detail: str


def find_cause(facts: RowFacts, verdict: Verdict, proof: Proof | None, around: Circumstances) -> Finding:
    """The first cause that holds."""
    if facts.source_offset > facts.source_ends.end:
        return _finding("recreated", f"position {facts.source_offset}, topic ends at {facts.source_ends.end}")
    if around.comes_from_target:
        own = "" if facts.target_offset is None else f", where the group has its own position {facts.target_offset}"
        return _finding("came-from-target", f"{facts.source.topic} is {facts.target.topic} there{own}")
    if facts.target_state in ACTIVE_STATES:
        at = "" if facts.target_offset is None else f", position {facts.target_offset}"
        return _finding("active", f"state {facts.target_state} on the target{at}")
    for found in _past_target_end(facts, around):
        return found
    if facts.target_offset is not None:
        return _of_synced(facts, facts.target_offset, proof, around)
    if verdict.number in (2, 3):
        return _finding("empty", f"earliest and latest are {facts.source_ends.end}")
    if verdict.number in (4, 5):
        return _finding("too-old", f"position {facts.source_offset}, log starts at {facts.source_ends.first}")
    return _of_unsynced(facts, proof, around)


def _past_target_end(facts: RowFacts, around: Circumstances) -> Iterator[Finding]:
    ends = facts.target_ends
    if ends is None:
        if around.is_target_known:
            yield _finding("missing-target", f"{facts.target} does not exist")
        return
    if facts.target_offset is not None and facts.target_offset > ends.end:
        yield _finding("beyond-end", f"position {facts.target_offset}, topic ends at {ends.end}")
    if facts.sync is not None and facts.sync.downstream_offset >= ends.end:
        yield _finding("stale-mapping", f"offset sync to {facts.sync.downstream_offset}, topic ends at {ends.end}")
    if facts.checkpoint is not None and facts.checkpoint.downstream_offset > ends.end:
        yield _finding("stale-mapping", f"checkpoint at {facts.checkpoint.downstream_offset}, topic ends at {ends.end}")


def _of_synced(facts: RowFacts, at: int, proof: Proof | None, around: Circumstances) -> Finding:
    checkpoint = facts.checkpoint
    went_back = checkpoint is not None and (
        facts.source_offset < checkpoint.upstream_offset or checkpoint.downstream_offset < at
    )
    if proof is not None and proof.result == "ahead":
        detail = f"skips {_amount(proof)}: {_positions(proof)}"
        return _finding("rewound" if went_back else "ahead", detail, Severity.ERROR)
    is_left = checkpoint is not None and checkpoint.downstream_offset > at and _is_settled(facts, around)
    if is_left and around.syncs_commits and checkpoint is not None:
        return _finding("stale", f"position {at}, checkpoint {checkpoint.downstream_offset} since {_age(facts, around)}")
    if proof is None:
        if went_back:
            assert checkpoint is not None
            noted = f"checkpoint of {checkpoint.upstream_offset} at {checkpoint.downstream_offset}"
            return _finding("rewound", f"source {facts.source_offset}, target {at}, {noted}")
        return _finding("synced", f"position {at}")
    return _proven(proof, around)


def _proven(proof: Proof, around: Circumstances) -> Finding:
    if proof.result == "behind":
        is_much = around.behind_max is not None and (proof.records or 0) > around.behind_max
        detail = f"reads {_amount(proof)} again: {_positions(proof)}"
        return _finding("behind", detail, Severity.WARNING if is_much else None)
    if proof.result == "exact":
        return _finding("exact", _positions(proof))
    return _finding("moving" if proof.result == "moving" else "unproven", proof.reason or _positions(proof))


def _of_unsynced(facts: RowFacts, proof: Proof | None, around: Circumstances) -> Finding:
    """Verdicts 6 and 7: what the original calls an error, if nothing explains it."""
    checkpoint = facts.checkpoint
    if not around.syncs_commits and checkpoint is not None:
        worth = "" if proof is None else f", which {_worth(proof)}"
        severity = Severity.ERROR if proof is not None and proof.result == "ahead" else None
        return _finding("sync-off", f"checkpoint at {checkpoint.downstream_offset}{worth}", severity)
    if around.translatable is False:
        begins = "nothing is noted" if around.first_translatable is None else f"noted from {around.first_translatable} on"
        return _finding("untranslatable", f"position {facts.source_offset}, {begins}")
    if checkpoint is not None:
        is_left = _is_settled(facts, around)
        return _finding("not-synced" if is_left else "pending", f"checkpoint at {checkpoint.downstream_offset}")
    if not around.has_checkpoints:
        return _finding("unknown-group", f"position {facts.source_offset}")
    return _finding("not-synced", "the group has checkpoints, but none for this partition")


def _is_settled(facts: RowFacts, around: Circumstances) -> bool:
    """Whether the checkpoint is so old that its commit should have followed."""
    written = facts.checkpoint_time_ms
    return written is not None and around.now_ms - written > 2000 * max(around.commits_interval_s, 1)


def _age(facts: RowFacts, around: Circumstances) -> str:
    seconds = (around.now_ms - (facts.checkpoint_time_ms or around.now_ms)) // 1000
    return f"{seconds} s"


def _positions(proof: Proof) -> str:
    sure = "" if proof.is_certain else ", likely"
    return f"source {proof.upstream}, target {proof.downstream}{sure}"


def _amount(proof: Proof) -> str:
    if proof.records is None:
        return "records"
    if proof.records_min is not None and proof.records_min != proof.records:
        return f"{proof.records_min} to {proof.records} records"
    return f"{'' if proof.is_counted else 'about '}{proof.records} record{'' if proof.records == 1 else 's'}"


def _worth(proof: Proof) -> str:
    if proof.result in ("behind", "ahead"):
        return f"{'reads' if proof.result == 'behind' else 'skips'} {_amount(proof)}"
    return {"exact": "is exact", "beyond end": "lies past the end"}.get(proof.result, "is unproven")


def _finding(cause: str, detail: str, severity: Severity | None = None) -> Finding:
    found = CAUSES[cause]
    return Finding(found, found.severity if severity is None else severity, detail)
