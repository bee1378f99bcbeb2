"""What a failover now would cost, from what the target knows of a source that cannot be read: C27."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace

from sparkmirror.diagnose.findings import ERROR, INFO, LIKELY, PROVEN, WARNING, Fact, Finding, Rule, Verdicts
from sparkmirror.diagnose.wording import ago, counted, finding, moment
from sparkmirror.state.facts import Copy, Facts, GroupFacts, Subject
from sparkmirror.state.parts import Part

NAMED_MAX = 3


def _failover(facts: Facts) -> Verdicts:
    if "source" not in facts.outages or not facts.copies:
        return
    yield _lost(facts)
    for group in facts.groups.values():
        yield _of_group(facts, group)


# --- what is lost ------------------------------------------------------------------------------------------------


def _lost(facts: Facts) -> Finding:
    """Records that the source had when it was last seen, and that are not copied. What came later nobody here has seen."""
    known = [copy for copy in facts.copies.values() if copy.last_lag is not None]
    unknown = [copy for copy in facts.copies.values() if copy.last_lag is None]
    behind = sorted((copy for copy in known if copy.last_lag), key=lambda copy: -(copy.last_lag or 0))
    total, alias = sum(copy.last_lag or 0 for copy in behind), facts.source.alias
    seen_ms = facts.source_seen_ms
    words = []
    if behind:
        named = ", ".join(_behind(copy) for copy in behind[:NAMED_MAX])
        more = f" and {len(behind) - NAMED_MAX:,} more" if len(behind) > NAMED_MAX else ""
        words.append(f"{counted(total, 'record')} in {counted(len(behind), 'partition')} of {alias} were not copied at the "
                     f"last look{_at(facts, seen_ms)}: {named}{more}")  # fmt: skip
    elif known:
        words.append(f"what {alias} held in {counted(len(known), 'partition')} at the last look{_at(facts, seen_ms)} is "
                     "copied")  # fmt: skip
    if unknown:
        words.append(f"nothing says where {counted(len(unknown), 'partition')} of {alias} ended")
    words.append("records that were written later were never seen by the mirror")
    return finding(
        facts, "C27", ERROR if behind else WARNING, PROVEN if not unknown else LIKELY, Subject(cluster=alias),
        cause="records that a failover now would lose", message="; ".join(words),
        evidence=tuple(_evidence(facts, [*behind, *unknown, *(copy for copy in known if not copy.last_lag)])),
        mend=f"if {alias} comes back, let the flow catch up before you fail over; else accept the loss (docs/failover.md)",
    )  # fmt: skip


def _at(facts: Facts, time_ms: int | None) -> str:
    return "" if time_ms is None else f" ({moment(time_ms)}, {ago(facts, time_ms)} ago)"


def _behind(copy: Copy) -> str:
    return f"{copy.partition} {copy.last_lag or 0:,} after offset {_next(copy):,}"


def _next(copy: Copy) -> int:
    return copy.reached or 0


def _evidence(facts: Facts, copies: list[Copy]) -> Iterator[Fact]:
    for copy in copies:
        ended = "" if copy.last_source is None else f", the source ended at {copy.last_source.end:,}"
        time_ms = copy.position_ms if copy.last_source is None else copy.last_source.time_ms
        yield Fact(str(copy.partition), f"copied up to offset {_next(copy):,}{ended}", time_ms)


# --- what groups read again ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Cost:
    """What one group meets on the target, in records, and in how many partitions it has no position there."""

    again: int = 0
    skipped: int = 0
    lost: int = 0
    unplaced: int = 0
    newest_ms: int = -1
    worst: str = ""


def _cost(facts: Facts, group: GroupFacts) -> _Cost:
    found, most = _Cost(), 0
    for copy in facts.copies.values():
        point, at = group.checkpoints.get(copy.remote), group.target.get(copy.remote)
        if point is None and at is None:
            continue
        unread = (copy.last_lag or 0) - max(0 if point is None else point.upstream - _next(copy), 0)
        found = replace(found, lost=found.lost + max(unread, 0))
        if point is None:
            continue
        translated = group.translated.get(copy.partition)
        wanted = point.downstream if translated is None else translated
        again = 0 if at is None else wanted - at
        if again > most:
            most, found = again, replace(found, worst=str(copy.remote))
        found = replace(
            found, again=found.again + max(again, 0), skipped=found.skipped + max(-again, 0),
            unplaced=found.unplaced + (at is None), newest_ms=max(found.newest_ms, point.time_ms),
        )  # fmt: skip
    return found


def _of_group(facts: Facts, group: GroupFacts) -> Finding:
    cost, target = _cost(facts, group), facts.target.alias
    is_unsafe = bool(cost.skipped or cost.unplaced) and not group.is_used_on_target
    severity = WARNING if is_unsafe or cost.again > facts.redelivery_max else INFO
    file, name = facts.file_words, shlex.quote(group.name)
    return finding(
        facts, "C27", severity, LIKELY, Subject(group=group.name),
        cause=f"positions on {target} that a failover now would use"
              if not is_unsafe else f"groups to be placed on {target} before a failover",
        message=f"group {group.name}: " + "; ".join(_group_words(facts, group, cost)),
        evidence=tuple(
            Fact(str(p), f"position {group.target.get(p, '?')}, checkpoint of {point.upstream} at {point.downstream}",
                 point.time_ms)
            for p, point in sorted(group.checkpoints.items())
        ),
        mend="reset these groups on the target to the positions that translate prints, before their consumers start"
             if is_unsafe else "",
        command=f"sparkmirror translate {file} --group {name}" if is_unsafe else "",
    )  # fmt: skip


def _group_words(facts: Facts, group: GroupFacts, cost: _Cost) -> Iterator[str]:
    if not group.is_target_known:
        yield f"its positions on {facts.target.alias} are unknown"
        return
    if group.is_used_on_target:
        yield f"is {group.target_state} on {facts.target.alias}, so it has failed over or reads there too"
    elif not group.checkpoints:
        yield f"has no checkpoint: where it was on {facts.source.alias} is unknown"
    else:
        if cost.unplaced:
            yield f"has no position on {facts.target.alias} in {counted(cost.unplaced, 'partition')}, only checkpoints"
        if cost.skipped:
            yield f"skips {counted(cost.skipped, 'record')}"
        most = f", most in {cost.worst}," if cost.again else ""
        yield (
            f"reads {counted(cost.again, 'record')} again{most} and what it read on {facts.source.alias} since its newest "
            f"checkpoint{_at(facts, cost.newest_ms)}"
        )
    if cost.lost:
        yield f"{counted(cost.lost, 'record')} that it had not read are lost to it"


RULES = (
    Rule(
        "C27", "failover without the source", "E W I",
        means="The source cannot be read. What a failover now would lose, and for each group what it would read again or "
              "skip, as of the time when the mirror last saw the source and of the group's checkpoints.",
        decides="Lost: the source's ends that the ledger remembers, minus the position of the copy; records that were "
                "written after the last look were never seen. Read again: for each group and partition its position on the "
                "target, against the translation of the source position in its newest checkpoint. MirrorMaker 2 keeps no "
                "ends of the source, so for its flows the loss is unknown.",
        needs="Read on the ledger or the positions, and on checkpoints; Describe on the groups and topics of the target",
        mend="Translate the groups that are named, then start their consumers (docs/failover.md).",
        check=_failover, parts=(Part.LEDGER, Part.POSITIONS, Part.CHECKPOINTS, Part.TARGET_COMMITS),
    ),
)  # fmt: skip
