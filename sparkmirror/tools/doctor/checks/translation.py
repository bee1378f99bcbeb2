"""Whether positions of groups can be translated, and how finely: D3, C05, C08."""

from __future__ import annotations

import shlex

from sparkmirror.tools.doctor.facts import ERROR, INFORMATION, LIKELY, PROVEN, WARNING, Copy, Facts, GroupFacts, Part
from sparkmirror.tools.doctor.findings import Fact, Finding, Rule, Subject, Verdicts
from sparkmirror.tools.doctor.telling import ago, counted, finding, lasting

__all__ = ["RULES"]


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
        yield _told(facts, copy, coarse, has_held=has_held)


def _told(facts: Facts, copy: Copy, coarse: int, *, has_held: bool) -> Finding:
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
        facts, "D3", WARNING if has_held and not is_old else INFORMATION, LIKELY if has_held else PROVEN, copy.subject,
        cause="offset syncs are coarse" if not is_blocked else "offset syncs are not written",
        message=f"translation for {copy.partition} is {counted(coarse, 'record')} coarse: the last offset sync, written "
                f"{ago(facts, copy.sync.time_ms)} ago, is for downstream offset {copy.sync.downstream}; {why}. The data is "
                "complete; only positions of groups are coarse",
        evidence=copy.facts(
            Fact("newest sync", f"{copy.sync.upstream} -> {copy.sync.downstream}", copy.sync.time_ms),
            Fact("offset.lag.max", str(lag_max)),
        ),
        mend=f"write {facts.name}.offset.lag.max = 0 (more syncs, finer positions) or a shorter offset.flush.interval.ms; "
             "MirrorMaker 2 before 3.7 should be updated",
    )  # fmt: skip


# --- C05 -------------------------------------------------------------------------------------------------------


def _untranslatable(facts: Facts) -> Verdicts:
    if not facts.flow.emit_checkpoints_enabled:
        return
    for group in facts.groups.values():
        for partition, offset in group.source.items():
            copy = facts.copies.get(partition)
            if copy is not None and group.translated.get(partition) is None and partition in group.translated:
                yield from _unplaced(facts, group, copy, offset)


def _unplaced(facts: Facts, group: GroupFacts, copy: Copy, offset: int) -> Verdicts:
    ends, target = copy.source_ends, copy.target_ends
    known = group.checkpoints.get(copy.remote)
    if ends is None or target is None or ends[0] == ends[1] or target[1] == 0 or not ends[0] <= offset <= ends[1]:
        return  # nothing to read, nothing copied yet, or a position that the source itself does not know any more
    if known is not None and known.upstream == offset:
        return  # MirrorMaker 2 remembers older syncs than the topic holds
    subject = Subject(copy.partition.topic, copy.partition.partition, group.name)
    if not facts.flow.emit_offset_syncs_enabled:
        why, until = "emit.offset-syncs.enabled is false", "nothing is translated"
    elif copy.sync is None:
        why, until = "no offset sync of the partition is known", "it is translated once records are copied"
    else:
        why = f"older than the first offset mapping ({copy.sync.upstream})"
        until = f"it syncs once it passes {copy.sync.upstream}"
    yield finding(
        facts, "C05", WARNING, LIKELY, subject,
        cause="a position that cannot be translated yet",
        message=f"group {group.name} at {copy.partition} offset {offset} cannot be translated: {why}; {until}",
        evidence=copy.facts(Fact(f"commit of {group.name}", str(offset))),
        mend="let it read on on the source, or translate it by the records themselves",
        command=f"sparkmirror translate {facts.file_words} --group {shlex.quote(group.name)}",
    )  # fmt: skip


# --- C08 -------------------------------------------------------------------------------------------------------


def _stale(facts: Facts) -> Verdicts:
    for copy in facts.copies.values():
        ends = copy.target_ends
        if ends is None or copy.sync is None or copy.sync.downstream < ends[1]:
            continue
        yield finding(
            facts, "C08", ERROR, PROVEN, copy.subject,
            cause="a mapping of an earlier life of the target topic",
            message=f"the newest offset sync of {copy.partition} names downstream offset {copy.sync.downstream}, "
                    f"{copy.remote} ends at {ends[1]}: groups would be sent past the end",
            evidence=copy.facts(Fact("newest sync", f"{copy.sync.upstream} -> {copy.sync.downstream}", copy.sync.time_ms)),
            mend="stop the flow and reset the topic with its syncs and checkpoints",
            command=facts.command("offsets reset", Subject(copy.partition.topic), "--with-target"),
        )  # fmt: skip
    for group in facts.groups.values():
        for partition in group.source:
            held = facts.copies.get(partition)
            point = None if held is None else group.checkpoints.get(held.remote)
            if held is None or held.target_ends is None or point is None or point.downstream <= held.target_ends[1]:
                continue
            yield finding(
                facts, "C08", ERROR, PROVEN, Subject(partition.topic, partition.partition, group.name),
                cause="a checkpoint of an earlier life of the target topic",
                message=f"the checkpoint of group {group.name} names {point.downstream} of {held.remote}, which ends at "
                        f"{held.target_ends[1]}",
                evidence=held.facts(Fact("checkpoint", f"{point.upstream} -> {point.downstream}", point.time_ms)),
                mend="stop the flow and reset the topic with its syncs and checkpoints",
                command=facts.command("offsets reset", Subject(partition.topic), "--with-target"),
            )  # fmt: skip


RULES = (
    Rule(
        "D3", "offset syncs are coarse", "W I",
        means="The copy is complete. Only the translation of positions is coarse, by so many records as lie behind the "
              "newest sync: `offset.lag.max` never delays the copying of records.",
        decides="Records on the target behind the newest sync. Information at first; warning if the same sync is the "
                "newest for more than two flush intervals (an earlier look tells), which since 3.7 should not be.",
        needs="Read on the topic of offset syncs, Describe on the target topics",
        mend="Lower offset.lag.max or offset.flush.interval.ms, or update MirrorMaker 2. sparkmirror translates exactly.",
        check=_coarse, parts=(Part.SYNCS, Part.TARGET_ENDS),
    ),
    Rule(
        "C05", "position not translatable yet", "W",
        means="The group stands before the first mapping that is known. It is not synced until it passes it.",
        decides="MirrorMaker 2's own rule over its offset syncs (sparkmirror: the ledger) gives no answer, the partition "
                "has records, and no checkpoint covers the position.",
        needs="Read on offset syncs, checkpoints and the ledger; Describe on the groups",
        mend="Let the group read on, or `sparkmirror translate`.",
        check=_untranslatable, parts=(Part.SYNCS, Part.SOURCE_GROUPS, Part.SOURCE_ENDS, Part.TARGET_ENDS),
    ),
    Rule(
        "C08", "stale sync or checkpoint", "E",
        means="A mapping belongs to an earlier life of the target topic: groups would be sent past its end.",
        decides="The newest sync names a record at or behind the target's end, or a checkpoint names an offset behind it. "
                "Both are read before the ends.",
        needs="Read on offset syncs and checkpoints, Describe on the target topics",
        mend="Stop the flow and reset the topic with syncs and checkpoints.",
        check=_stale, parts=(Part.SYNCS, Part.CHECKPOINTS, Part.TARGET_ENDS),
    ),
)  # fmt: skip
