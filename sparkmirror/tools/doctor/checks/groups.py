"""Groups on both sides: C03, C04, C06, C07, C09, C25, C26."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from sparkmirror.tools.doctor.facts import (
    ERROR,
    INFORMATION,
    LIKELY,
    POSSIBLE,
    PROVEN,
    WARNING,
    Checkpointed,
    Copy,
    Facts,
    GroupFacts,
    Part,
)
from sparkmirror.tools.doctor.findings import Fact, Finding, Rule, Subject, Verdicts
from sparkmirror.tools.doctor.telling import ago, counted, finding, lasting

__all__ = ["RULES"]

SLACK_S = 10.0


def _places(facts: Facts) -> Iterator[tuple[GroupFacts, Copy, int]]:
    """Every commit of a selected group in a copied partition."""
    for group in facts.groups.values():
        for partition, offset in group.source.items():
            copy = facts.copies.get(partition)
            if copy is not None:
                yield group, copy, offset


def _subject(group: GroupFacts, copy: Copy) -> Subject:
    return Subject(copy.partition.topic, copy.partition.partition, group.name)


def _is_synced(facts: Facts) -> bool:
    return facts.flow.emit_checkpoints_enabled and facts.flow.sync_group_offsets_enabled


def _switched_off(facts: Facts) -> Verdicts:
    flow = facts.flow
    if flow.emit_checkpoints_enabled and flow.sync_group_offsets_enabled:
        return
    off = "sync.group.offsets.enabled" if flow.emit_checkpoints_enabled else "emit.checkpoints.enabled"
    what = (
        "offsets of groups are only in checkpoints; translate them at a failover" if flow.emit_checkpoints_enabled
        else "positions of groups are not mirrored at all"
    )  # fmt: skip
    yield finding(
        facts, "C04", INFORMATION, PROVEN, Subject(),
        cause=f"{off} is false", message=f"{off} is false: {what}",
        evidence=(Fact(off, facts.places.get(off, "default")),),
        mend=f"write {facts.name}.{off} = true if groups should find their position on the target",
    )  # fmt: skip


def _in_use(facts: Facts) -> Verdicts:
    if not _is_synced(facts):
        return
    for group in facts.groups.values():
        if group.is_used_on_target and any(p in facts.copies for p in group.source):
            yield finding(
                facts, "C03", INFORMATION, PROVEN, Subject(group=group.name),
                cause="in use on the target",
                message=f"group {group.name} is {group.target_state} on the target: it is not synced while somebody reads "
                        "with it there",
                evidence=(Fact("state on the target", group.target_state, facts.target.read_ms),),
            )  # fmt: skip


# --- C06: not brought forward ----------------------------------------------------------------------------------


def _not_brought_forward(facts: Facts) -> Verdicts:
    if not facts.runner.is_running:
        return  # D11 tells that
    for group, copy, offset in _places(facts):
        point = group.checkpoints.get(copy.remote)
        if point is None or not group.is_target_known:
            continue
        if _is_uncommitted(facts, group, copy, point):
            committed = group.target.get(copy.remote)
            yield _stale(
                facts, group, copy, point, "the checkpoint is not committed on the target",
                f"its checkpoint of {ago(facts, point.time_ms)} ago says {point.downstream}, committed is "
                f"{'nothing' if committed is None else committed}",
            )  # fmt: skip
        elif _is_checkpoint_old(facts, group, copy, point, offset):
            yield _stale(
                facts, group, copy, point, "the checkpoint is not renewed",
                f"it has committed {offset} on the source, its checkpoint of {ago(facts, point.time_ms)} ago stands at "
                f"{point.upstream}",
            )  # fmt: skip


def _is_uncommitted(facts: Facts, group: GroupFacts, copy: Copy, point: Checkpointed) -> bool:
    patience_s = 2 * facts.flow.sync_group_offsets_interval_seconds + SLACK_S
    if not _is_synced(facts) or group.is_used_on_target or facts.age_s(point.time_ms) < patience_s:
        return False
    committed = group.target.get(copy.remote)
    ends = copy.target_ends
    return (committed is None or committed < point.downstream) and ends is not None and point.downstream <= ends[1]


def _is_checkpoint_old(facts: Facts, group: GroupFacts, copy: Copy, point: Checkpointed, offset: int) -> bool:
    patience_s = 2 * facts.flow.emit_checkpoints_interval_seconds + SLACK_S
    old = facts.past_before(patience_s)
    wanted = group.translated.get(copy.partition)
    if old is None or wanted is None or facts.age_s(point.time_ms) < patience_s:
        return False
    has_waited = old.commits.get((group.name, copy.partition), -1) > point.upstream
    return has_waited and offset > point.upstream and wanted > point.downstream


def _stale(facts: Facts, group: GroupFacts, copy: Copy, point: Checkpointed, cause: str, words: str) -> Finding:
    return finding(
        facts, "C06", WARNING, LIKELY, _subject(group, copy),
        cause=cause, message=f"group {group.name} at {copy.partition}: {words}",
        evidence=copy.facts(Fact("checkpoint", f"{point.upstream} -> {point.downstream}", point.time_ms)),
        mend="look at the checkpoint task (D11) and at rights on the group (V3)",
    )  # fmt: skip


# --- C07, C09: too far -----------------------------------------------------------------------------------------


def _past_end(facts: Facts) -> Verdicts:
    for group, copy, _ in _places(facts):
        committed, ends = group.target.get(copy.remote), copy.target_ends
        if committed is None or ends is None or committed <= ends[1]:
            continue
        yield finding(
            facts, "C07", ERROR, PROVEN, _subject(group, copy),
            cause="a position past the end of the target",
            message=f"group {group.name} stands at {committed} of {copy.remote}, which ends at {ends[1]}: its lag is "
                    "negative, and a consumer there will be reset by its own policy",
            evidence=copy.facts(Fact(f"commit of {group.name} on the target", str(committed))),
            mend="delete or reset the group's offsets on the target; C08 and D6 tell where they came from",
            command=f"kafka-consumer-groups.sh --bootstrap-server {facts.target.bootstrap} --delete-offsets --group "
                    f"{shlex.quote(group.name)} --topic {shlex.quote(copy.remote.topic)}",
        )  # fmt: skip


def _rewound(facts: Facts) -> Verdicts:
    if not facts.flow.emit_checkpoints_enabled:
        return
    for group, copy, offset in _places(facts):
        point, committed = group.checkpoints.get(copy.remote), group.target.get(copy.remote)
        if point is None or group.is_used_on_target or copy.target_ends is None:
            continue
        is_ahead = committed is not None and point.downstream < committed <= copy.target_ends[1]
        if offset >= point.upstream and not (is_ahead and _is_synced(facts)):
            continue
        skipped = (committed or 0) - point.downstream if is_ahead else point.upstream - offset
        moves_back = facts.is_ours and facts.flow.sync_group_offsets_rewind
        where = (
            f"stands at {committed} on the target, its checkpoint says {point.downstream}" if is_ahead
            else f"was set back on the source to {offset}, its checkpoint stands at {point.upstream}"
        )  # fmt: skip
        yield finding(
            facts, "C09", WARNING, LIKELY, _subject(group, copy),
            cause="the target is ahead of the source",
            message=f"group {group.name} at {copy.partition} {where}: "
                    + ("it is set back at the next round" if moves_back else
                       f"a target offset is never moved back, and a failover would skip {counted(skipped, 'record')}"),
            evidence=copy.facts(
                Fact(f"commit of {group.name}", str(offset)),
                Fact("checkpoint", f"{point.upstream} -> {point.downstream}", point.time_ms),
            ),
            mend="set the group back on the target by hand, or with sparkmirror: sync.group.offsets.rewind = true",
            command=f"sparkmirror translate {facts.file_words} --group {shlex.quote(group.name)}",
        )  # fmt: skip


# --- C25, C26 --------------------------------------------------------------------------------------------------


def _one_sided(facts: Facts) -> Verdicts:
    if not facts.flow.emit_checkpoints_enabled:
        return
    patience_s = facts.refresh_groups_s + 2 * facts.flow.emit_checkpoints_interval_seconds + SLACK_S
    old = facts.past_before(patience_s)
    for group in facts.groups.values():
        places = [p for p in group.source if p in facts.copies and group.translated.get(p) is not None]
        if group.source_state and places and not group.checkpoints:
            is_old = old is not None and any((group.name, place) in old.commits for place in places)
            is_bad = is_old and facts.runner.is_running
            yield finding(
                facts, "C25", WARNING if is_bad else INFORMATION, LIKELY if is_bad else POSSIBLE, Subject(group=group.name),
                cause="a group without checkpoints" if is_bad else "a group without checkpoints yet",
                message=f"group {group.name} is selected and has committed in {counted(len(places), 'copied partition')}, "
                        "but has no checkpoint; new groups are looked for every "
                        f"{lasting(facts.refresh_groups_s)}",
                evidence=(Fact("checkpoints", "none"),),
                mend="look at the checkpoint task (D11)" if is_bad else "look again later, with --baseline FILE",
            )  # fmt: skip
        elif not group.source_state and group.target:
            yield finding(
                facts, "C25", INFORMATION, PROVEN, Subject(group=group.name),
                cause="a group on the target alone",
                message=f"group {group.name} has offsets in {counted(len(group.target), 'mirrored partition')} on the "
                        "target and is not on the source",
                evidence=(Fact("groups of the source", f"no {group.name}", facts.source.read_ms),),
            )  # fmt: skip


def _expiry(facts: Facts) -> Verdicts:
    minutes = facts.target.offsets_retention_minutes
    resting = [g.name for g in facts.groups.values() if g.target and g.target_state == "Empty"]
    if minutes is not None and resting and _is_synced(facts):
        yield finding(
            facts, "C26", INFORMATION, PROVEN, Subject(),
            cause="commits on the target expire if the flow stops",
            message=f"{counted(len(resting), 'group')} without members on the target: their offsets expire "
                    f"{lasting(minutes * 60)} after the flow stops renewing them",
            evidence=(Fact("offsets.retention.minutes of the target", str(minutes)),),
        )  # fmt: skip


_NEEDS = "Describe on the groups of both clusters, Read on checkpoints"
RULES = (
    Rule(
        "C03", "group in use on the target", "I",
        means="Somebody reads with this group on the target, so that its offsets are not synced.",
        decides="The state of the group on the target is neither Empty nor Dead.",
        needs=_NEEDS, mend="Nothing.", check=_in_use, parts=(Part.TARGET_GROUPS,),
    ),
    Rule(
        "C04", "syncing of group offsets is off", "I",
        means="`sync.group.offsets.enabled` is false, which is MirrorMaker 2's default: offsets are only in checkpoints.",
        decides="The file.", needs="nothing", mend="Switch it on, or translate at a failover.", check=_switched_off,
    ),
    Rule(
        "C06", "target offset is stale", "W",
        means="The mirror runs, but does not bring the group forward.",
        decides="A checkpoint older than two intervals is not committed on the target although the group is not in use "
                "there; or an earlier look (`--baseline`) saw a commit on the source that has no newer checkpoint after "
                "two intervals.",
        needs=_NEEDS, mend="Look at the checkpoint task and at rights on the group.",
        check=_not_brought_forward, parts=(Part.CHECKPOINTS, Part.SOURCE_GROUPS, Part.TARGET_GROUPS, Part.TARGET_ENDS),
    ),
    Rule(
        "C07", "target offset past the end", "E",
        means="A consumer on the target finds its position out of range and is reset by its own policy: everything again, "
              "or everything skipped.",
        decides="The commit on the target, read before the ends, is larger than the target's end.",
        needs=_NEEDS + "; Describe on the target topics",
        mend="Delete or reset the group's offsets on the target.",
        check=_past_end, parts=(Part.SOURCE_GROUPS, Part.TARGET_GROUPS, Part.TARGET_ENDS),
    ),
    Rule(
        "C09", "source was set back, target was not", "W",
        means="The group reads again on the source from an earlier record. The target never moves back, so that a failover "
              "would skip what it has not read again.",
        decides="The commit on the source is before the checkpoint's, or the commit on the target is behind the checkpoint "
                "although nobody reads there.",
        needs=_NEEDS, mend="Set the group back on the target by hand (`sparkmirror translate` says where to).",
        check=_rewound, parts=(Part.CHECKPOINTS, Part.SOURCE_GROUPS, Part.TARGET_GROUPS, Part.TARGET_ENDS),
    ),
    Rule(
        "C25", "group on one side only", "W I",
        means="A selected group has no checkpoint, or a group has mirrored offsets on the target and is not on the source.",
        decides="Lists of groups and checkpoints. Warning only if an earlier look (`--baseline`) saw the group longer ago "
                "than `refresh.groups.interval.seconds` and two checkpoint intervals.",
        needs=_NEEDS, mend="Look at the checkpoint task.",
        check=_one_sided, parts=(Part.CHECKPOINTS, Part.SOURCE_GROUPS, Part.TARGET_GROUPS),
    ),
    Rule(
        "C26", "commits expire if the flow stops", "I",
        means="Brokers forget offsets of groups without members after `offsets.retention.minutes`. A running mirror renews "
              "them.",
        decides="Groups that are Empty on the target, and that broker setting.",
        needs="DescribeConfigs on the target cluster", mend="Nothing while the flow runs.",
        check=_expiry, parts=(Part.TARGET_GROUPS, Part.RETENTION),
    ),
)  # fmt: skip
