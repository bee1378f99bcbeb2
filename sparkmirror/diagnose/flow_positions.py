"""The cause of every group position of a flow. `doctor` and `why` make their group findings from these. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sparkmirror.diagnose.group_position import Circumstances, LogEnds, PositionFinding, RowFacts, find_cause
from sparkmirror.model import Checkpoint, OffsetSync
from sparkmirror.offsets import Basis, Translation
from sparkmirror.offsets.proof import Proof, by_ledger, by_position
from sparkmirror.state.facts import Copy, Facts, GroupFacts
from sparkmirror.state.parts import Part

SLACK_S = 10.0


@dataclass(frozen=True, slots=True)
class JudgedPosition:
    """One group at one source partition, with the proof of its target position and the cause."""

    group: GroupFacts
    copy: Copy
    facts: RowFacts
    proof: Proof | None
    finding: PositionFinding


def judged_positions(facts: Facts) -> Iterator[JudgedPosition]:
    """Positions known on both sides; what could not be read is in the flow's notes."""
    proofs = {(proof.group, proof.partition): proof.found for proof in facts.proofs}
    for group in facts.groups.values():
        if not group.is_source_known or not group.is_target_known:
            continue
        is_overdue = _is_group_overdue(facts, group)
        for partition, offset in group.source.items():
            copy = facts.copies.get(partition)
            row = None if copy is None else _row(facts, group, copy, offset)
            if copy is None or row is None:
                continue
            proof = proofs.get((group.name, partition)) or _estimate(group, copy, row)
            around = _around(facts, group, copy, offset, is_group_overdue=is_overdue)
            yield JudgedPosition(group, copy, row, proof, find_cause(row, proof, around))


def _row(facts: Facts, group: GroupFacts, copy: Copy, offset: int) -> RowFacts | None:
    source, target, committed = copy.source_ends, copy.target_ends, group.target.get(copy.remote)
    is_mirrored = facts.flow.emit_checkpoints_enabled or committed is not None
    if source is None or not is_mirrored or (target is None and not _is_absent(facts, copy)):
        return None
    sync, point = copy.sync, group.checkpoints.get(copy.remote)
    return RowFacts(
        flow=facts.name,
        source=copy.partition,
        target=copy.remote,
        group=group.name,
        source_ends=LogEnds(*source),
        source_state=group.source_state,
        source_offset=offset,
        target_ends=None if target is None else LogEnds(*target),
        target_state=group.target_state,
        target_offset=committed,
        is_known=bool(group.target),
        sync=None if sync is None else OffsetSync(copy.partition, sync.upstream, sync.downstream),
        checkpoint=None if point is None else Checkpoint(group.name, copy.remote, point.upstream, point.downstream, ""),
        checkpoint_time_ms=None if point is None else point.time_ms,
        read_at_ms=facts.now_ms,
    )


def _is_absent(facts: Facts, copy: Copy) -> bool:
    """Whether the target is known not to have the partition."""
    is_known = facts.target.view is not None and Part.TARGET not in facts.missing
    return is_known and copy.remote.partition >= facts.target.partitions(copy.remote.topic)


def _estimate(group: GroupFacts, copy: Copy, row: RowFacts) -> Proof | None:
    """An estimate from offsets alone, where no records were read."""
    at, ends, expected = row.target_offset, row.target_ends, group.translated.get(copy.partition)
    if at is None or ends is None or row.source_ends is None or row.source_offset is None:
        return None
    if expected is not None and copy.first_run is not None and row.source_offset >= copy.first_run[0]:
        return by_ledger(row.source_offset, at, Translation(expected, Basis.EXACT))
    if copy.reached is None:
        return None
    return by_position(
        row.source_offset, at, next_upstream=copy.reached, source_end=row.source_ends.end, target_end=ends.end
    )


def _around(
    facts: Facts, group: GroupFacts, copy: Copy, offset: int, *, is_group_overdue: bool | None
) -> Circumstances:
    flow, partition = facts.flow, copy.partition
    return Circumstances(
        now_ms=facts.now_ms,
        syncs_commits=flow.emit_checkpoints_enabled and flow.sync_group_offsets_enabled,
        commits_interval_s=max(flow.sync_group_offsets_interval_seconds, 0),
        comes_from_target=facts.policy.topic_source(partition.topic) == flow.name.target,
        has_checkpoints=bool(group.checkpoints),
        translatable=group.translated[partition] is not None if partition in group.translated else None,
        first_translatable=None if copy.sync is None else copy.sync.upstream,
        is_group_overdue=is_group_overdue,
        is_checkpoint_overdue=_is_checkpoint_overdue(facts, group, copy, offset),
    )


def _is_group_overdue(facts: Facts, group: GroupFacts) -> bool | None:
    """Whether an earlier sample saw the group before the mirror last refreshed its groups, and the mirror runs."""
    old = facts.past_before(facts.refresh_groups_s + 2 * facts.flow.emit_checkpoints_interval_seconds + SLACK_S)
    if old is None:
        return None
    return facts.runner.is_running and any((group.name, p) in old.commits for p in group.source if p in facts.copies)


def _is_checkpoint_overdue(facts: Facts, group: GroupFacts, copy: Copy, offset: int) -> bool | None:
    """Whether an earlier sample saw a commit that no checkpoint has followed since, though it can be translated."""
    patience_s = 2 * facts.flow.emit_checkpoints_interval_seconds + SLACK_S
    old, point = facts.past_before(patience_s), group.checkpoints.get(copy.remote)
    wanted = group.translated.get(copy.partition)
    if old is None or point is None or wanted is None or not facts.runner.is_running:
        return None
    seen = old.commits.get((group.name, copy.partition), -1)
    has_waited = facts.age_s(point.time_ms) >= patience_s and seen > point.upstream
    return has_waited and offset > point.upstream and wanted > point.downstream
