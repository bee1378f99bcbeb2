"""Whether the stored position still means what it meant: D5, D6 (C10), D7 (C11).

The position is read before the ends, so that a log that grows meanwhile can never appear truncated.
"""

from __future__ import annotations

from itertools import islice

from sparkmirror.diagnose.findings import (
    ERROR,
    INFO,
    LIKELY,
    POSSIBLE,
    PROVEN,
    Fact,
    Finding,
    Rule,
    Verdicts,
)
from sparkmirror.diagnose.wording import ago, command_for, copy_facts, counted, finding, moment, subject_of
from sparkmirror.errors import SourceOffsetLost, SourceTopicRecreated, SourceTruncated, TargetTopicRecreated
from sparkmirror.state.facts import Copy, Facts
from sparkmirror.state.parts import Part

MIXED = "old and new records are mixed on the target"
TOUCHING_MAX = 1  # offsets between position and log start that a transaction marker explains


# --- D6: created again, or cut ---------------------------------------------------------------------------------


def _recreated(facts: Facts) -> Verdicts:
    for copy in facts.copies.values():
        yield from islice(_recreated_copy(facts, copy), 1)  # the most certain comes first


def _recreated_copy(facts: Facts, copy: Copy) -> Verdicts:
    topic, partition = copy.partition.topic, copy.partition
    now = facts.source.topic_id(topic)
    if copy.stop is not None and copy.stop.code in (SourceTopicRecreated.code, SourceTruncated.code):
        why = copy.stop.reason.removeprefix(f"{copy.partition}: ")
        yield _cut(facts, copy, why, Fact("ledger", copy.stop.code, copy.stop.time_ms))
    if copy.source_topic_id and now and copy.source_topic_id != now:
        fact = Fact("id of the source topic", f"{now}, copied was {copy.source_topic_id}", facts.source.read_ms)
        yield _cut(facts, copy, "the source topic was deleted and created again: its id is another one", fact)
    seen = next((s for s in reversed(facts.past) if s.source_ids.get(topic, now) != now), None)
    if seen is not None and now:
        fact = Fact("id of the source topic", f"{now}, was {seen.source_ids[topic]} at {moment(seen.time_ms)}")
        yield _cut(facts, copy, f"the source topic was deleted and created again since {ago(facts, seen.time_ms)} ago", fact)
    ends = copy.source_ends
    if ends is not None and copy.next_upstream is not None and copy.next_upstream > ends[1]:
        yield _cut(
            facts, copy,
            f"the copy had come to upstream offset {copy.next_upstream}, the source ends at {ends[1]}: it was created "
            "again, or cut by an unclean election",
            Fact("source end", str(ends[1])),
        )  # fmt: skip
    if ends is not None and copy.rewind is not None and copy.rewind[0].upstream >= ends[1] and not facts.is_ours:
        before, after = copy.rewind
        yield _cut(
            facts, copy,
            f"it was copied to upstream offset {before.upstream} and ends at {ends[1]} now: it was created again or cut, "
            f"and MirrorMaker 2 has restarted at {after.upstream} by itself; {MIXED}",
            Fact("offset syncs", f"{before.upstream}, then {after.upstream}", after.time_ms),
        )  # fmt: skip
    pair = facts.reads.pairs.get(partition)
    if pair is not None and pair.outcome == "differs":
        yield _cut(
            facts, copy,
            f"the record at {pair.upstream} on the source is not the one that was copied to {pair.downstream}: the topic "
            "was created again and is longer than what was copied",
            Fact("records compared", f"{pair.upstream} and {pair.downstream} differ"),
        )  # fmt: skip


def _cut(facts: Facts, copy: Copy, why: str, fact: Fact) -> Finding:
    ends, position = copy.source_ends, copy.next_upstream
    if facts.is_ours:
        mend, more = "copy the new topic from its beginning, behind what the target holds", ""
        effect = "the partition waits for the operator" if copy.stop is not None else "sparkmirror stops it"
    elif fact.name == "offset syncs":
        effect = "nothing was lost"
        mend, more = "delete the target topic and reset the position, if the old records are in the way", "--to earliest"
    elif ends is not None and position is not None and position > ends[1]:
        effect = f"MirrorMaker 2 restarts at the earliest record by itself once its position is out of range; {MIXED}"
        mend, more = "stop MirrorMaker 2, delete or keep the target topic, and reset the position", "--to earliest"
    else:
        # No number: the stored position has advanced since.
        effect = "MirrorMaker 2 resumes at its stored offset, and the records before that are silently skipped"
        mend, more = "stop MirrorMaker 2 and reset the position, so that everything is copied", "--to earliest"
    is_certain = fact.name != "source end" or facts.is_ours
    return finding(
        facts, "D6", ERROR, PROVEN if is_certain or copy.basis == "mm2" else LIKELY, subject_of(copy),
        cause="the source topic is another one than the copied one",
        message=f"{copy.partition}: {why}; {effect}",
        evidence=copy_facts(copy, fact), mend=mend, command=command_for(facts, "offsets reset", subject_of(copy), more),
    )  # fmt: skip


def _target_recreated(facts: Facts) -> Verdicts:
    for copy in facts.copies.values():
        now = facts.target.topic_id(copy.remote.topic)
        is_stopped = copy.stop is not None and copy.stop.code == TargetTopicRecreated.code
        if is_stopped or (copy.target_topic_id and now and copy.target_topic_id != now):
            yield finding(
                facts, "D5", ERROR, PROVEN, subject_of(copy),
                cause="the target topic is another one than the copied one",
                message=f"{copy.partition}: {copy.remote.topic} was deleted on the target or created again; what was copied "
                        f"before {copy.next_upstream} is gone there",
                evidence=copy_facts(
                    copy, Fact("id of the target topic", f"{now or 'none'}, copied to {copy.target_topic_id}")
                ),
                mend="copy everything that the source holds to the new topic",
                command=command_for(facts, "offsets reset", subject_of(copy)),
            )  # fmt: skip


# --- D5: resumed at an old position ----------------------------------------------------------------------------


def _resumed(facts: Facts) -> Verdicts:
    yield from _target_recreated(facts)
    for copy in facts.copies.values():
        ends, target, first = copy.source_ends, copy.target_ends, facts.reads.firsts.get(copy.partition)
        if ends is None or target is None or first is None or first <= ends[0]:
            continue
        absent = first - ends[0]
        is_wanted = facts.flow.consumer.get("auto.offset.reset", "earliest") != "earliest"
        # A target whose log start moved may have had these records.
        severity, certainty = (INFO, POSSIBLE) if target[0] > 0 or is_wanted else (ERROR, PROVEN)
        why = (
            "auto.offset.reset is not earliest" if is_wanted
            else "retention of the target may explain it" if target[0] > 0
            else "copying was resumed from a stored position, as after the topic was removed and added again"
        )  # fmt: skip
        yield finding(
            facts, "D5", severity, certainty, subject_of(copy),
            cause="the copy does not begin where the source does",
            message=f"{copy.partition}: the first record of {copy.remote} is the source's {first}; the {absent:,} offsets "
                    f"from {ends[0]} to {first - 1} are on the source and not on the target ({why})",
            evidence=copy_facts(copy, Fact("source offset of the target's first record", str(first))),
            mend="reset the partition to copy them; what is on the target already is copied again "
                 f"({counted(max(target[1] - target[0], 0), 'record')})",
            command=command_for(facts, "offsets reset", subject_of(copy)),
        )  # fmt: skip


# --- D7: retention was faster ----------------------------------------------------------------------------------


def _overtaken(facts: Facts) -> Verdicts:
    for copy in facts.copies.values():
        ends, reached = copy.source_ends, copy.reached
        if copy.stop is not None and copy.stop.code == SourceOffsetLost.code:
            reached = copy.next_upstream or 0
            begins = ends[0] if ends is not None else reached
            yield _lost(facts, copy, reached, begins, f"the source begins at {begins}, the copy had come to {reached}")
        elif ends is not None and reached is not None and reached < ends[0]:
            count = ends[0] - reached
            why = f"the source begins at {ends[0]}, the copy had come to {reached}"
            if count <= TOUCHING_MAX and not facts.is_ours:
                continue  # a transaction marker is not a record and is not copied
            yield _lost(facts, copy, reached, ends[0], why)
        for gap in copy.gaps:
            yield finding(
                facts, "D7", INFO, PROVEN, subject_of(copy),
                cause="a gap that the operator accepted",
                message=f"{copy.partition}: offsets {gap.upstream} to {gap.until - 1} were never copied, as accepted "
                        f"({gap.reason})",
                evidence=(Fact("ledger", f"gap from {gap.upstream} to {gap.until - 1}", gap.time_ms),),
            )  # fmt: skip
        hole = facts.reads.lost.get(copy.partition)
        if hole is not None:
            yield finding(
                facts, "D7", ERROR, LIKELY, subject_of(copy),
                cause="the copy has a hole",
                message=f"{copy.partition}: {counted(hole[1] - hole[0], 'offset')} between {hole[0]} and {hole[1]} are not "
                        "on the target, and neither compaction nor transactions explain that",
                evidence=copy_facts(copy, Fact("offset syncs", f"a gap between {hole[0]} and {hole[1]}")),
                mend="longer retention on the source, more tasks; a reset copies what the source still holds",
                command=command_for(facts, "offsets reset", subject_of(copy)),
            )  # fmt: skip


def _lost(facts: Facts, copy: Copy, reached: int, begins: int, why: str) -> Finding:
    count = max(begins - reached, 0)
    # MirrorMaker 2 flushes its position at intervals; what it copied since then shows only near a sync.
    is_sure = facts.is_ours or copy.sync is not None
    compacts = facts.source.compacts(copy.partition.topic)
    resumes = "longer retention, more tasks; MirrorMaker 2 resumes at the log start by itself"
    mend = "accept the gap" if facts.is_ours else resumes
    return finding(
        facts, "D7", ERROR, PROVEN if is_sure and not compacts else LIKELY, subject_of(copy),
        cause="the source deleted records before they were copied",
        message=f"{copy.partition}: {counted(count, 'offset')} ({reached} to {begins - 1}) expired before they were copied: "
                f"{why}",
        evidence=copy_facts(copy), mend=mend,
        command=command_for(facts, "offsets skip", subject_of(copy)) if facts.is_ours else "",
    )  # fmt: skip


RULES = (
    Rule(
        "D5", "copying was resumed at an old position", "E I",
        means="The source holds records that were never written to the topic that is on the target now: its copy was "
              "deleted, or the topic left the flow and came back, and MirrorMaker 2 resumed at its stored position.",
        decides="The first record of the target is searched for on the source. It is after the source's first record "
                "although the target's log was never truncated: proven. sparkmirror: the ledger's topic ids.",
        needs="Read on both topics (MirrorMaker 2), Read on the ledger (sparkmirror)",
        mend="`offsets reset` copies everything again, behind what the target holds.",
        check=_resumed, parts=(Part.POSITIONS, Part.SOURCE_ENDS, Part.TARGET_ENDS),
    ),
    Rule(
        "D6", "source topic created again or cut", "E",
        means="The name is the same, the records are not. Shorter than the position: MirrorMaker 2 starts at the beginning "
              "by itself and mixes old and new. Longer: it resumes at its position, and what is before that is skipped "
              "silently.",
        decides="Proven by: another topic id than in the ledger or in an earlier run; a position past the source's end; "
                "the record of the newest offset sync differs on the two sides. A group's commit past the end alone is C10.",
        needs="Describe on both topics, Read on positions, offset syncs or the ledger; for a topic that is longer again, "
              "Read on both topics",
        mend="Stop the flow, then `offsets reset`, with the target topic deleted or kept.",
        check=_recreated, parts=(Part.SOURCE_ENDS,),
    ),
    Rule(
        "D7", "retention was faster than the copy", "E I",
        means="Records were deleted on the source before they were copied: they are lost for the target.",
        decides="The position lies before the source's log start; what lies on the target behind the newest sync is "
                "counted as copied, and one offset alone is a transaction's marker. Offset syncs with a gap between them "
                "that neither compaction nor transactions explain: likely. Gaps that the operator accepted are information.",
        needs="Describe on the topics, Read on positions, offset syncs and the ledger",
        mend="`offsets skip` accepts the gap (sparkmirror). Longer retention and more tasks keep it from happening again.",
        check=_overtaken, parts=(Part.POSITIONS, Part.SOURCE_ENDS),
    ),
    Rule("C11", "copy lost records", "E", means="Reported as D7.", decides="", needs="", mend="", same_as="D7"),
)  # fmt: skip
