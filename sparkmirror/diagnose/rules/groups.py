"""Groups on both sides: C01 to C10, C13, C25, C26. Every finding about a position comes from its one cause."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from itertools import groupby

from sparkmirror.diagnose.findings import ERROR, INFO, LIKELY, PROVEN, WARNING, Fact, Finding, Rule, Verdicts
from sparkmirror.diagnose.flow_positions import JudgedPosition
from sparkmirror.diagnose.group_position import OWN_POSITIONS, PositionFinding
from sparkmirror.diagnose.wording import ago, command_for, copy_facts, counted, finding, lasting, paused_finding, subject_of
from sparkmirror.ledger import CHECKPOINT
from sparkmirror.offsets.proof import Proof
from sparkmirror.state.facts import Facts, Subject
from sparkmirror.state.parts import Part

Positions = Sequence[JudgedPosition]


def _of(positions: Positions, check: str) -> list[JudgedPosition]:
    return [p for p in positions if p.finding.cause.check == check and p.finding.severity >= INFO]


def _by_group(positions: Positions) -> Iterator[tuple[str, list[JudgedPosition]]]:
    """Positions of a group come one after the other."""
    for name, found in groupby(positions, key=lambda p: p.group.name):
        yield name, list(found)


def _at(
    facts: Facts, position: JudgedPosition, cause: str, message: str, *evidence: Fact, mend: str = "", command: str = "",
    judged: PositionFinding | None = None,
) -> Finding:  # fmt: skip
    """A finding about one position, with the id, severity and certainty of its cause."""
    found, place, name = judged or position.finding, position.copy.partition, position.group.name
    return finding(
        facts, found.cause.check, found.severity, found.certainty, Subject(place.topic, place.partition, name),
        cause=cause, message=f"group {name} at {place}: {message}", evidence=evidence, mend=mend, command=command,
    )  # fmt: skip


def _about(facts: Facts, positions: Positions, cause: str, message: str, evidence: Fact, mend: str = "") -> Finding:
    """A finding about all these positions of one group, with the worst severity among them."""
    first = max(positions, key=lambda p: p.finding.severity)
    return finding(
        facts, first.finding.cause.check, first.finding.severity, first.finding.certainty, Subject(group=first.group.name),
        cause=cause, message=f"group {first.group.name} {message}", evidence=(evidence,), mend=mend,
    )  # fmt: skip


def _translate(facts: Facts, group: str) -> str:
    return f"sparkmirror translate {facts.file_words} --group {shlex.quote(group)}"


# --- C01, C02: what a failover costs -----------------------------------------------------------------------------


def _same_record(facts: Facts, positions: Positions) -> Verdicts:
    times = {(proof.group, proof.partition): proof.time_ms for proof in facts.proofs}
    for position in _of(positions, "C01"):
        proof = position.proof
        assert proof is not None
        evidence = Fact("record proof", _proof_words(proof), times.get((position.group.name, position.copy.partition)))
        if position.finding.cause.id != "ahead":
            yield _at(facts, position, "not proven to be the same record", _proof_words(proof), evidence)
            continue
        lost = "some records" if proof.records is None else counted(proof.records, "record")
        yield _at(
            facts, position, "a failover would skip records",
            f"a failover now would skip {lost}: {_proof_words(proof)}", evidence,
            mend="reset the group on the target to the position that translate prints",
            command=_translate(facts, position.group.name),
        )  # fmt: skip


def _proof_words(proof: Proof) -> str:
    count = f" by {proof.records}" if proof.records is not None else ""
    reason = f" ({proof.reason})" if proof.reason else ""
    alike = "" if proof.is_certain or proof.basis != "records" else ", but so many records are alike that it is not certain"
    return f"source position {proof.upstream}, target position {proof.downstream}: {proof.result}{count}{reason}{alike}"


def _redelivery(facts: Facts, positions: Positions) -> Verdicts:
    for name, found in _by_group(positions):
        worth = [
            (p.proof.records or 0, p)
            for p in found
            if p.proof is not None and p.proof.result in ("exact", "behind") and p.facts.target_offset is not None
            and p.finding.cause.id not in OWN_POSITIONS
        ]  # fmt: skip
        total = sum(records for records, _ in worth)
        if not total:
            continue
        is_proven = all(p.proof is not None and p.proof.basis == "records" for _, p in worth)
        most, worst = max(worth, key=lambda one: one[0])
        yield finding(
            facts, "C02", WARNING if total > facts.redelivery_max else INFO, PROVEN if is_proven else LIKELY,
            Subject(group=name),
            cause="records that come again after a failover",
            message=f"failover now re-reads {'' if is_proven else 'about '}{counted(total, 'record')} in group {name}, most "
                    f"in {worst.copy.partition} ({most:,})",
            evidence=(Fact("by", "reading records" if is_proven else "offsets alone"),),
            mend="more frequent offset syncs (D3), or sparkmirror, which translates exactly",
        )  # fmt: skip


# --- C03, C04 ----------------------------------------------------------------------------------------------------


def _in_use(facts: Facts, positions: Positions) -> Verdicts:
    for _, found in _by_group(_of(positions, "C03")):
        state = found[0].group.target_state
        yield _about(
            facts, found, "in use on the target",
            f"is {state} on the target: it is not synced while it has members there",
            Fact("state on the target", state, facts.target.read_ms),
        )  # fmt: skip


def _switched_off(facts: Facts) -> Verdicts:
    flow = facts.flow
    yield from (paused_finding(facts, "C04", wish) for wish in facts.paused(CHECKPOINT))
    if flow.emit_checkpoints_enabled and flow.sync_group_offsets_enabled:
        return
    off = "sync.group.offsets.enabled" if flow.emit_checkpoints_enabled else "emit.checkpoints.enabled"
    what = (
        "offsets of groups are only in checkpoints; translate them at a failover" if flow.emit_checkpoints_enabled
        else "positions of groups are not mirrored at all"
    )  # fmt: skip
    yield finding(
        facts, "C04", INFO, PROVEN, Subject(),
        cause=f"{off} is false", message=f"{off} is false: {what}",
        evidence=(Fact(off, facts.places.get(off, "default")),),
        mend=f"write {facts.name}.{off} = true if groups should find their position on the target",
    )  # fmt: skip


# --- C05, C06: not synced ----------------------------------------------------------------------------------------


def _untranslatable(facts: Facts, positions: Positions) -> Verdicts:
    for position in _of(positions, "C05"):
        sync, offset = position.copy.sync, position.facts.source_offset
        if not facts.flow.emit_offset_syncs_enabled:
            why, until = "emit.offset-syncs.enabled is false", "nothing is translated"
        elif sync is None:
            why, until = "no offset sync of the partition is known", "it is translated once records are copied"
        else:
            why = f"older than the first offset mapping ({sync.upstream})"
            until = f"it syncs once it passes {sync.upstream}"
        yield _at(
            facts, position, "a position that cannot be translated yet",
            f"offset {offset} cannot be translated: {why}; {until}", *_evidence(position),
            mend="let it read further on the source, or translate it by the records themselves",
            command=_translate(facts, position.group.name),
        )  # fmt: skip


def _not_brought_forward(facts: Facts, positions: Positions) -> Verdicts:
    mend = "check the checkpoint task (D11) and the rights on the group (V3)"
    for position in _of(positions, "C06"):
        point, row = position.group.checkpoints.get(position.copy.remote), position.facts
        if point is None:
            cause, words = "a position without a checkpoint", "the group has checkpoints, but none for this partition"
        elif position.finding.cause.id == "stale" and (row.target_offset is None or row.target_offset >= point.downstream):
            cause = "the checkpoint is not renewed"
            words = f"it has committed {row.source_offset} on the source, its checkpoint of {ago(facts, point.time_ms)} ago "
            words += f"is of {point.upstream}"
        else:
            cause = "the checkpoint is not committed on the target"
            words = f"its checkpoint of {ago(facts, point.time_ms)} ago says {point.downstream}, committed is "
            words += "nothing" if row.target_offset is None else str(row.target_offset)
        yield _at(facts, position, cause, words, *_evidence(position), mend=mend)


def _evidence(position: JudgedPosition) -> tuple[Fact, ...]:
    """Ends, commits and the checkpoint of a position."""
    name, row = position.group.name, position.facts
    point = position.group.checkpoints.get(position.copy.remote)
    found = [Fact(f"commit of {name}", str(row.source_offset))]
    if row.target_offset is not None:
        found.append(Fact(f"commit of {name} on the target", str(row.target_offset)))
    if point is not None:
        found.append(Fact("checkpoint", f"{point.upstream} -> {point.downstream}", point.time_ms))
    return copy_facts(position.copy, *found)


# --- C07 to C10: too far -----------------------------------------------------------------------------------------


def _past_end(facts: Facts, positions: Positions) -> Verdicts:
    for position in _of(positions, "C07"):
        row, name = position.facts, position.group.name
        assert row.target_ends is not None
        yield _at(
            facts, position, "a position past the end of the target",
            f"its position is {row.target_offset} in {row.target}, which ends at {row.target_ends.end}: its "
            "lag is negative, "
            "and auto.offset.reset decides where a consumer there starts", *_evidence(position),
            mend="delete or reset the group's offsets on the target; C08 and D6 say where they came from",
            command=f"kafka-consumer-groups.sh --bootstrap-server {facts.target.bootstrap} --delete-offsets --group "
                    f"{shlex.quote(name)} --topic {shlex.quote(row.target.topic)}",
        )  # fmt: skip


def _stale_checkpoint(facts: Facts, positions: Positions) -> Verdicts:
    """Checkpoints only: a sync past the end is reported once for its partition."""
    for position in positions:
        judged = next((one for one in (position.finding, *position.finding.also) if one.cause.check == "C08"), None)
        row, ends = position.facts, position.facts.target_ends
        if judged is None or ends is None or row.checkpoint is None or row.checkpoint.downstream_offset <= ends.end:
            continue
        yield _at(
            facts, position, "a checkpoint of an earlier incarnation of the target topic",
            f"its checkpoint names {row.checkpoint.downstream_offset} of {row.target}, which ends at {ends.end}",
            *_evidence(position), judged=judged,
            mend="stop the flow and reset the topic with its syncs and checkpoints",
            command=command_for(facts, "offsets reset", Subject(row.source.topic), "--with-target"),
        )  # fmt: skip


def _rewound(facts: Facts, positions: Positions) -> Verdicts:
    moves_back = facts.is_ours and facts.flow.sync_group_offsets_rewind
    for position in _of(positions, "C09"):
        row, point = position.facts, position.facts.checkpoint
        assert point is not None and row.source_offset is not None  # without the source there is another cause
        is_ahead = row.target_offset is not None and row.target_offset > point.downstream_offset
        skipped = point.upstream_offset - row.source_offset
        if is_ahead:
            skipped = (row.target_offset or 0) - point.downstream_offset
        where = (
            f"its position on the target is {row.target_offset}, its checkpoint says {point.downstream_offset}" if is_ahead
            else f"it was set back on the source to {row.source_offset}, its checkpoint is of {point.upstream_offset}"
        )  # fmt: skip
        yield _at(
            facts, position, "the target is ahead of the source",
            f"{where}: " + ("it is set back at the next round" if moves_back else
                            f"a target offset is never moved back, and a failover would skip {counted(skipped, 'record')}"),
            *_evidence(position),
            mend="reset the group on the target by hand, or with sparkmirror: sync.group.offsets.rewind = true",
            command=_translate(facts, position.group.name),
        )  # fmt: skip


def _past_source_end(facts: Facts, positions: Positions) -> Verdicts:
    """A client can commit anything, so this is only likely; D6 says what is known of the topic itself."""
    for position in _of(positions, "C10"):
        row = position.facts
        assert row.source_ends is not None
        yield _at(
            facts, position, "a group's position lies past the end of the source",
            f"it has committed {row.source_offset}, and the topic ends at {row.source_ends.end}: the topic was created "
            "again or truncated, and auto.offset.reset decides where the group resumes", *_evidence(position),
            mend="reset the group on the source; see what D6 says of the partition itself",
        )  # fmt: skip


def _no_target(facts: Facts, positions: Positions) -> Verdicts:
    for _, found in _by_group(_of(positions, "C13")):
        yield _about(
            facts, found, "no such partition on the target",
            f"has committed in {counted(len(found), 'partition')} that the target does not have, first in "
            f"{found[0].copy.partition}",
            Fact("partitions of the target", f"no {found[0].copy.remote}", facts.target.read_ms),
            mend="D9 and D12 say why it is not there",
        )  # fmt: skip


# --- C25, C26 ----------------------------------------------------------------------------------------------------


def _without_checkpoints(facts: Facts, positions: Positions) -> Verdicts:
    for _, found in _by_group(_of(positions, "C25")):
        is_overdue = found[0].finding.severity >= WARNING
        yield _about(
            facts, found, "a group without checkpoints" if is_overdue else "a group without checkpoints yet",
            f"is selected and has committed in {counted(len(found), 'copied partition')}, but has no checkpoint; groups "
            f"are refreshed every {lasting(facts.refresh_groups_s)}",
            Fact("checkpoints", "none"),
            mend="check the checkpoint task (D11)" if is_overdue else "check again later, with --baseline FILE",
        )  # fmt: skip


def _on_target_alone(facts: Facts) -> Verdicts:
    for group in facts.groups.values():
        if facts.flow.emit_checkpoints_enabled and not group.source_state and group.target:
            yield finding(
                facts, "C25", INFO, PROVEN, Subject(group=group.name),
                cause="a group on the target alone",
                message=f"group {group.name} has offsets in {counted(len(group.target), 'mirrored partition')} on the "
                        "target and is not on the source",
                evidence=(Fact("groups of the source", f"no {group.name}", facts.source.read_ms),),
            )  # fmt: skip


def _expiry(facts: Facts) -> Verdicts:
    minutes = facts.target.offsets_retention_minutes
    resting = [g.name for g in facts.groups.values() if g.target and g.target_state == "Empty"]
    is_synced = facts.flow.emit_checkpoints_enabled and facts.flow.sync_group_offsets_enabled
    if minutes is not None and resting and is_synced:
        yield finding(
            facts, "C26", INFO, PROVEN, Subject(),
            cause="commits on the target expire if the flow stops",
            message=f"{counted(len(resting), 'group')} without members on the target: their offsets expire "
                    f"{lasting(minutes * 60)} after the flow stops renewing them",
            evidence=(Fact("offsets.retention.minutes of the target", str(minutes)),),
        )  # fmt: skip


def _stale_sync(facts: Facts) -> Verdicts:
    for copy in facts.copies.values():
        ends, sync = copy.target_ends, copy.sync
        if ends is None or sync is None or sync.downstream < ends[1]:
            continue
        yield finding(
            facts, "C08", ERROR, PROVEN, subject_of(copy),
            cause="a mapping of an earlier incarnation of the target topic",
            message=f"the newest offset sync of {copy.partition} names downstream offset {sync.downstream}, {copy.remote} "
                    f"ends at {ends[1]}: groups would be sent past the end",
            evidence=copy_facts(copy, Fact("newest sync", f"{sync.upstream} -> {sync.downstream}", sync.time_ms)),
            mend="stop the flow and reset the topic with its syncs and checkpoints",
            command=command_for(facts, "offsets reset", Subject(copy.partition.topic), "--with-target"),
        )  # fmt: skip


_NEEDS = "Describe on the groups of both clusters, Read on checkpoints"
_SIDES = (Part.SOURCE_GROUPS, Part.TARGET_GROUPS, Part.SOURCE_ENDS, Part.TARGET_ENDS)
RULES = (
    Rule(
        "C01", "same record on both sides", "E W I",
        means="Whether the group's position on the target is the same record as on the source. *Ahead* means that a "
              "failover would skip records.",
        decides="The record proof reads the records at both positions and compares key, value, headers and timestamp. Where "
                "no record was read, an estimate from offsets: *ahead* is then a likely warning.",
        needs="Read on the topics of both clusters, Describe on the groups",
        mend="Reset the group on the target (`sparkmirror translate`).",
        report=_same_record, parts=_SIDES,
    ),
    Rule(
        "C02", "redelivery at a failover", "W I",
        means="How many records a group would read again if it failed over now.",
        decides="Sum of what C01 proves; where no record was read, an estimate from offsets. Warning from 10,000 records "
                "on.",
        needs="as C01",
        mend="More frequent offset syncs, or sparkmirror.",
        report=_redelivery, parts=_SIDES,
    ),
    Rule(
        "C03", "group in use on the target", "I",
        means="The group has members on the target, so its offsets are not synced. Its positions there are "
              "its own and are not checked.",
        decides="The state of the group on the target is neither Empty nor Dead.",
        needs=_NEEDS, mend="Nothing.", report=_in_use, parts=_SIDES,
    ),
    Rule(
        "C04", "syncing of group offsets is off", "I W",
        means="`sync.group.offsets.enabled` is false, which is MirrorMaker 2's default: offsets are only in checkpoints. "
              "Warning: somebody paused or stopped the checkpoint connector of sparkmirror.",
        decides="The file and the ledger.", needs="nothing", mend="Switch it on, or translate at a failover.",
        check=_switched_off,
    ),
    Rule(
        "C05", "position not translatable yet", "W",
        means="The group's position is before the first known mapping, and the target has no position of it. It is not "
              "synced until it passes that mapping.",
        decides="MirrorMaker 2's own rule over its offset syncs (sparkmirror: the ledger) gives no answer, the partition "
                "has records, and neither a commit on the target nor a checkpoint covers the position.",
        needs="Read on offset syncs, checkpoints and the ledger; Describe on the groups",
        mend="Let the group read further, or `sparkmirror translate`.",
        report=_untranslatable, parts=(Part.SYNCS, *_SIDES),
    ),
    Rule(
        "C06", "target offset is stale or missing", "E W",
        means="The group's position on the target is older than its checkpoint, or the target has none at all though the "
              "position can be translated (error).",
        decides="A checkpoint older than two intervals (at least 10 s) is not committed on the target although the group is "
                "not in use there; the group has checkpoints, but none for a partition; or an earlier run (`--baseline`) "
                "saw a commit on the source that has no newer checkpoint after two intervals.",
        needs=_NEEDS, mend="Check the checkpoint task and the rights on the group.",
        report=_not_brought_forward, parts=(Part.CHECKPOINTS, *_SIDES),
    ),
    Rule(
        "C07", "target offset past the end", "E",
        means="A consumer's position on the target is out of range, and its auto.offset.reset applies: everything again, "
              "or everything skipped.",
        decides="The commit on the target, read before the ends, is larger than the target's end.",
        needs=_NEEDS + "; Describe on the target topics",
        mend="Delete or reset the group's offsets on the target.",
        report=_past_end, parts=_SIDES,
    ),
    Rule(
        "C08", "stale sync or checkpoint", "E",
        means="A mapping belongs to an earlier incarnation of the target topic: groups would be sent past its end.",
        decides="The newest sync names a record at or behind the target's end, or a checkpoint names an offset behind it. "
                "Both are read before the ends.",
        needs="Read on offset syncs and checkpoints, Describe on the target topics",
        mend="Stop the flow and reset the topic with syncs and checkpoints.",
        check=_stale_sync, report=_stale_checkpoint, parts=(Part.SYNCS, Part.CHECKPOINTS, Part.TARGET_ENDS),
    ),
    Rule(
        "C09", "source was set back, target was not", "E W",
        means="The group was reset to an earlier record on the source. The target never moves back, so a failover "
              "would skip what it has not read again.",
        decides="The commit on the source is before the checkpoint's, or the commit on the target is behind the checkpoint "
                "although the group has no members there. Error where the records prove that some would be skipped, nothing "
                "where they prove that none would.",
        needs=_NEEDS, mend="Reset the group on the target by hand (`sparkmirror translate` says where to).",
        report=_rewound, parts=(Part.CHECKPOINTS, *_SIDES),
    ),
    Rule(
        "C10", "position past the end of the source", "E",
        means="The group has committed an offset that the source topic does not have: it was re-created or truncated, "
              "and auto.offset.reset decides where the group resumes.",
        decides="The commit on the source, read before the ends, is larger than the source's end. Likely, since clients can "
                "commit anything; D6 says what is known of the topic itself.",
        needs="Describe on the groups and topics of the source", mend="Reset the group on the source; see D6.",
        report=_past_source_end, parts=_SIDES, same_as="D6",
    ),
    Rule(
        "C13", "no such partition on the target", "E W",
        means="A group has committed in a topic or partition that the target does not have.",
        decides="Partitions of the target topics; D9 and D12 say why one is not there. Warning, not error, where nothing "
                "says that it was ever copied: the mirror may not have refreshed its topics yet.",
        needs="Describe on the topics of both clusters and on the groups", mend="As D9 and D12 say.",
        report=_no_target, parts=_SIDES, same_as="D9, D12",
    ),
    Rule(
        "C25", "group on one side only", "W I",
        means="A selected group has neither a checkpoint nor a position on the target, or a group has mirrored offsets on "
              "the target and is not on the source.",
        decides="Lists of groups and checkpoints. Warning only if an earlier run (`--baseline`) saw the group longer ago "
                "than `refresh.groups.interval.seconds` and two checkpoint intervals.",
        needs=_NEEDS, mend="Check the checkpoint task.",
        check=_on_target_alone, report=_without_checkpoints, parts=(Part.CHECKPOINTS, *_SIDES),
    ),
    Rule(
        "C26", "commits expire if the flow stops", "I",
        means="Brokers delete offsets of groups without members after `offsets.retention.minutes`. A running mirror renews "
              "them.",
        decides="Groups that are Empty on the target, and that broker setting.",
        needs="DescribeConfigs on the target cluster", mend="Nothing while the flow runs.",
        check=_expiry, parts=(Part.TARGET_GROUPS, Part.RETENTION),
    ),
)  # fmt: skip
