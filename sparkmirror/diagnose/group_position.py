"""The cause of a group's position on the target. Pure.

`inspect` prints the cause for each row; `doctor` and `why` make their findings about groups from the same values. The first
rule that holds is the cause. A target position that no mirror syncs (the group is in use there, the topic came from there)
has no cause. What a position itself proves (past an end, records that would be skipped) comes before what explains a
missing commit by design, and that before "nothing explains it".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from sparkmirror.diagnose.findings import ERROR, INFO, LIKELY, POSSIBLE, PROVEN, WARNING, Certainty, Severity
from sparkmirror.model import Checkpoint, OffsetSync, TopicPartition
from sparkmirror.offsets.proof import Proof
from sparkmirror.state.facts import ALIVE_STATES

# Positions that belong to readers on the target: no failover changes them.
OWN_POSITIONS = ("active", "came-from-target")
SETTLED_S_MIN = 10.0  # a commit may follow its checkpoint this late even where the intervals are short


@dataclass(frozen=True, slots=True)
class LogEnds:
    """The first offset of a partition and the one behind its last."""

    first: int
    end: int

    @property
    def is_empty(self) -> bool:
        """Whether it holds no offset at all."""
        return self.first == self.end

    def holds(self, offset: int) -> bool:
        """Whether a position lies between the ends, both included."""
        return self.first <= offset <= self.end


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFacts:
    """What was read of one group at one partition.

    `target` is the target partition: under the remote topic's name, or in strict mode under the
    source's own. `is_known` is G of the decision tree. `sync` is the newest one of the source partition.
    What could not be read is None: ends and position of the source, or `is_known` of the target.
    """

    flow: str
    source: TopicPartition
    target: TopicPartition
    group: str
    source_ends: LogEnds | None
    source_state: str
    source_offset: int | None
    target_ends: LogEnds | None
    target_state: str
    target_offset: int | None
    is_known: bool | None
    sync: OffsetSync | None = None
    checkpoint: Checkpoint | None = None
    checkpoint_time_ms: int | None = None
    read_at_ms: int = 0


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause: a stable id, the check it belongs to, its severity and certainty, what it means, and what to do.

    `action` may name {file}, {flow}, {group}, {topic} and {remote}.
    """

    id: str
    check: str
    severity: Severity
    certainty: Certainty
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
            "ahead", "C01", ERROR, PROVEN, "target position is ahead: a failover skips records",
            "The group's position on the target points to a later record than on the source.", _SET_GROUP,
        ),
        Cause(
            "beyond-end", "C07", ERROR, PROVEN, "target position lies past the end of its topic",
            "auto.offset.reset decides where a consumer that fails over starts: at the beginning or, with latest, past "
            "everything.", _SET_GROUP,
        ),
        Cause(
            "recreated", "C10", ERROR, LIKELY, "source position lies past the end of its topic",
            "The source topic was created again or cut: the position belongs to records that are gone. The seven verdicts "
            "call this intentional.", "sparkmirror why {file} {topic}",
        ),
        Cause(
            "stale-mapping", "C08", ERROR, PROVEN, "offset mapping belongs to an earlier incarnation of the target topic",
            "An offset sync or checkpoint names an offset that the target topic does not have.",
            "sparkmirror why {file} {topic}",
        ),
        Cause(
            "missing-target", "C13", ERROR, PROVEN, "no such partition on the target",
            "The topic was not copied yet, was deleted on the target, or has fewer partitions there.",
            "sparkmirror why {file} {topic}",
        ),
        Cause(
            "not-synced", "C06", ERROR, LIKELY, "not synced, and nothing explains it",
            "The position can be translated, and the mirror knows the group, but the target has no position.", _WHY,
        ),
        Cause(
            "rewound", "C09", WARNING, LIKELY, "target position is past its checkpoint",
            "The group went back on the source, or was read on the target. MirrorMaker 2 never moves a position back, so a "
            "failover skips what is being read again.", _SET_GROUP,
        ),
        Cause(
            "stale", "C06", WARNING, LIKELY, "target position is older than its checkpoint",
            "Checkpoints are written, but for more than two intervals they were not committed.", _WHY,
        ),
        Cause(
            "source-unknown", "C27", WARNING, PROVEN, "source cannot be read: position as of its checkpoint",
            "What the group read on the source since its checkpoint is unknown; a failover now reads it again.", _SET_GROUP,
        ),
        Cause(
            "target-unknown", "V1", WARNING, PROVEN, "target cannot be read: its position is unknown",
            "Whether a failover would read records again or skip some is unknown.", "sparkmirror doctor {file}",
        ),
        Cause(
            "untranslatable", "C05", WARNING, LIKELY, "position is older than the first offset mapping",
            "It was copied before the mirror wrote offset syncs, or they are gone; it is synced once the group has "
            "passed the first of them.", "wait, or " + _SET_GROUP,
        ),
        Cause(
            "unknown-group", "C25", INFO, POSSIBLE, "mirror has no checkpoint of this group yet",
            "The mirror refreshes its groups every refresh.groups.interval.seconds (10 minutes by default).",
            "check again after that time; then " + _WHY,
        ),
        Cause(
            "unproven", "C01", INFO, PROVEN, "position could not be proven",
            "There is a position on the target, but it is unknown which record it points to.", "see the reason",
        ),
        Cause(
            "moving", "C01", INFO, PROVEN, "position moved during the check",
            "The group is active; the proof is of a moment ago.", "check again",
        ),
        Cause(
            "sync-off", "C04", INFO, PROVEN, "positions are only in checkpoints",
            "sync.group.offsets.enabled is false: a consumer that fails over must translate its positions.",
            "at failover " + _SET_GROUP,
        ),
        Cause(
            "active", "C03", INFO, PROVEN, "group is in use on the target",
            "It has members there, so the mirror does not sync its positions.", "none",
        ),
        Cause(
            "came-from-target", "", INFO, PROVEN, "topic came from the target",
            "It is a copy of a topic there; no mirror writes positions back.", "at failover " + _SET_GROUP,
        ),
        Cause(
            "pending", "", INFO, PROVEN, "checkpoint is written, its commit follows",
            "The checkpoint is younger than two sync intervals.", "check again",
        ),
        Cause(
            "too-old", "", INFO, PROVEN, "source deleted the records at the group's position",
            "auto.offset.reset decides where a consumer starts: at the beginning or, with latest, past everything.", "none",
        ),
        Cause(
            "behind", "C02", INFO, PROVEN, "records are read again after a failover",
            "The target position points to an earlier record; nothing is skipped.", "none",
        ),
        Cause(
            "empty", "", Severity.FINE, PROVEN, "source partition is empty",
            "There is nothing to read and nothing to sync.", "none",
        ),
        Cause(
            "exact", "C01", Severity.FINE, PROVEN, "same record on both sides",
            "A failover resumes at the same record.", "none",
        ),
        Cause("synced", "", Severity.FINE, LIKELY, "target has a position", "Its record was not read.", "none"),
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What is known around a position; None where it is not known.

    `translatable`: whether the mirror's offset mappings reach back to the position, `first_translatable` where they begin.
    `is_target_known`: whether the target's side could be read at all. Only earlier samples (`doctor --baseline`) show that
    something is overdue: that the group had commits before the last refresh of groups, or that it advanced and no
    checkpoint followed.
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
    is_group_overdue: bool | None = None
    is_checkpoint_overdue: bool | None = None


@dataclass(frozen=True, slots=True)
class PositionFinding:
    """The cause of one position, its severity and certainty, and the numbers behind it.

    `also`: the other things past the target's end: such a commit comes from a stale mapping.
    """

    cause: Cause
    severity: Severity
    certainty: Certainty
    detail: str
    also: tuple[PositionFinding, ...] = ()


def find_cause(facts: RowFacts, proof: Proof | None, around: Circumstances) -> PositionFinding:
    """The first cause that holds; earlier samples only raise its severity."""
    found = _by_this_sample(facts, proof, around)
    if found.cause.id in OWN_POSITIONS or found.severity >= WARNING or not around.is_checkpoint_overdue:
        return found
    upstream = "" if facts.checkpoint is None else f", its checkpoint is of {facts.checkpoint.upstream_offset}"
    return _finding("stale", f"source position {facts.source_offset}{upstream} since {_age_s(facts, around)} s")


def _by_this_sample(facts: RowFacts, proof: Proof | None, around: Circumstances) -> PositionFinding:
    offset, ends = facts.source_offset, facts.source_ends
    if offset is not None and ends is not None and offset > ends.end:
        return _finding("recreated", f"position {offset}, topic ends at {ends.end}")
    if around.comes_from_target:
        own = "" if facts.target_offset is None else f", where the group has its own position {facts.target_offset}"
        return _finding("came-from-target", f"{facts.source.topic} is {facts.target.topic} there{own}")
    if facts.target_state in ALIVE_STATES:
        at = "" if facts.target_offset is None else f", position {facts.target_offset}"
        return _finding("active", f"state {facts.target_state} on the target{at}")
    if facts.is_known is None:
        return _finding("target-unknown", "source position " + ("unknown" if offset is None else str(offset)))
    past = tuple(_past_target_end(facts, around))
    if past:
        return replace(past[0], also=past[1:])
    if offset is None or ends is None:
        return _without_source(facts, proof)
    if facts.target_offset is not None:
        return _of_synced(facts, facts.target_offset, offset, proof, around)
    if ends.is_empty:
        return _finding("empty", f"earliest and latest are {ends.end}")
    if not ends.holds(offset):
        return _finding("too-old", f"position {offset}, log starts at {ends.first}")
    return _of_unsynced(facts, offset, proof, around)


def _without_source(facts: RowFacts, proof: Proof | None) -> PositionFinding:
    """What the target alone says: its position, and how far it is from the group's checkpoint."""
    at = "no position on the target" if facts.target_offset is None else f"target position {facts.target_offset}"
    if facts.source_offset is not None:
        return _finding("source-unknown", f"source position {facts.source_offset}, {at}")
    if facts.checkpoint is None:
        return _finding("source-unknown", f"{at}, no checkpoint")
    point = f"checkpoint of {facts.checkpoint.upstream_offset} at {facts.checkpoint.downstream_offset}"
    worth = "" if proof is None else f": {'skips ' + _amount(proof) if proof.result == 'ahead' else _worth(proof)}"
    return _finding("source-unknown", f"{at}, {point}{worth}")


def _past_target_end(facts: RowFacts, around: Circumstances) -> Iterator[PositionFinding]:
    ends = facts.target_ends
    if ends is None:
        if around.is_target_known:
            was_copied = facts.sync is not None or facts.checkpoint is not None or facts.target_offset is not None
            yield _finding("missing-target", f"{facts.target} does not exist", None if was_copied else WARNING)
        return
    if facts.target_offset is not None and facts.target_offset > ends.end:
        yield _finding("beyond-end", f"position {facts.target_offset}, topic ends at {ends.end}")
    if facts.sync is not None and facts.sync.downstream_offset >= ends.end:
        yield _finding("stale-mapping", f"offset sync to {facts.sync.downstream_offset}, topic ends at {ends.end}")
    if facts.checkpoint is not None and facts.checkpoint.downstream_offset > ends.end:
        yield _finding("stale-mapping", f"checkpoint at {facts.checkpoint.downstream_offset}, topic ends at {ends.end}")


def _of_synced(facts: RowFacts, at: int, offset: int, proof: Proof | None, around: Circumstances) -> PositionFinding:
    checkpoint = facts.checkpoint
    went_back = checkpoint is not None and (
        offset < checkpoint.upstream_offset or checkpoint.downstream_offset < at
    )
    if proof is not None and proof.result == "ahead":
        return _ahead(proof, went_back=went_back)
    if checkpoint is not None:
        is_left = around.syncs_commits and checkpoint.downstream_offset > at and _is_settled(facts, around)
        if is_left:
            age_s = _age_s(facts, around)
            return _finding("stale", f"position {at}, checkpoint {checkpoint.downstream_offset} since {age_s} s")
        if went_back and (proof is None or proof.result == "unproven"):
            noted = f"checkpoint of {checkpoint.upstream_offset} at {checkpoint.downstream_offset}"
            return _finding("rewound", f"source {offset}, target {at}, {noted}")
    return _finding("synced", f"position {at}") if proof is None else _proven(proof, around)


def _ahead(proof: Proof, *, went_back: bool) -> PositionFinding:
    """An estimate counts offsets, and offsets without a record (transactions, compaction) make it too large: a warning."""
    severity = WARNING if proof.basis == "estimate" else ERROR
    detail = f"skips {_amount(proof)}: {_positions(proof)}"
    return _finding("rewound" if went_back else "ahead", detail, severity, _certainty(proof))


def _proven(proof: Proof, around: Circumstances) -> PositionFinding:
    if proof.result == "behind":
        is_much = around.behind_max is not None and (proof.records or 0) > around.behind_max
        detail = f"reads {_amount(proof)} again: {_positions(proof)}"
        return _finding("behind", detail, WARNING if is_much else None, _certainty(proof))
    if proof.result == "exact":
        return _finding("exact", _positions(proof), certainty=_certainty(proof))
    return _finding("moving" if proof.result == "moving" else "unproven", proof.reason or _positions(proof))


def _of_unsynced(facts: RowFacts, offset: int, proof: Proof | None, around: Circumstances) -> PositionFinding:
    """Verdicts 6 and 7: what the original calls an error, if nothing explains it."""
    checkpoint = facts.checkpoint
    if checkpoint is not None and not around.syncs_commits:
        return _in_checkpoint(offset, checkpoint, proof)
    is_covered = checkpoint is not None and checkpoint.upstream_offset == offset
    if around.translatable is False and not is_covered:  # MirrorMaker 2 remembers older syncs than the topic holds
        first = around.first_translatable
        begins = "no mapping is known" if first is None else f"mappings start at {first}"
        return _finding("untranslatable", f"position {offset}, {begins}")
    if checkpoint is not None:
        is_left = _is_settled(facts, around)
        return _finding("not-synced" if is_left else "pending", f"checkpoint at {checkpoint.downstream_offset}")
    if not around.has_checkpoints:
        overdue = (WARNING, LIKELY) if around.is_group_overdue else (None, None)
        return _finding("unknown-group", f"position {offset}", *overdue)
    return _finding("not-synced", "the group has checkpoints, but none for this partition")


def _in_checkpoint(offset: int, checkpoint: Checkpoint, proof: Proof | None) -> PositionFinding:
    """Commits are not synced: a failover uses the checkpoint."""
    went_back = offset < checkpoint.upstream_offset
    if proof is not None and proof.result == "ahead":
        return _ahead(proof, went_back=went_back)
    at = f"checkpoint at {checkpoint.downstream_offset}"
    if went_back and (proof is None or proof.result == "unproven"):
        return _finding("rewound", f"source {offset}, {at}, which is of {checkpoint.upstream_offset}")
    return _finding("sync-off", at if proof is None else f"{at}, which {_worth(proof)}")


def _is_settled(facts: RowFacts, around: Circumstances) -> bool:
    """Whether the checkpoint is so old that its commit should have followed."""
    written = facts.checkpoint_time_ms
    return written is not None and around.now_ms - written > 1000 * max(2 * around.commits_interval_s, SETTLED_S_MIN)


def _age_s(facts: RowFacts, around: Circumstances) -> int:
    """How old the checkpoint is."""
    return (around.now_ms - (facts.checkpoint_time_ms or around.now_ms)) // 1000


def _certainty(proof: Proof) -> Certainty:
    return PROVEN if proof.is_certain else LIKELY


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
    if proof.result == "behind":
        return f"reads {_amount(proof)} again"
    return {"exact": "is exact", "beyond end": "lies past the end"}.get(proof.result, "is unproven")


def _finding(
    cause: str, detail: str, severity: Severity | None = None, certainty: Certainty | None = None
) -> PositionFinding:
    found = CAUSES[cause]
    return PositionFinding(
        found, found.severity if severity is None else severity, found.certainty if certainty is None else certainty, detail
    )
