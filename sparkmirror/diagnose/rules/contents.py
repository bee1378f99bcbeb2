"""Records on the target that should not be there: duplicates (C22) and records of other producers (C24)."""

from __future__ import annotations

from sparkmirror.diagnose.findings import LIKELY, PROVEN, WARNING, Fact, Rule, Verdicts
from sparkmirror.diagnose.wording import command_for, copy_facts, counted, finding, subject_of
from sparkmirror.errors import TargetHasStranger
from sparkmirror.state.facts import Facts
from sparkmirror.state.parts import Part


def _twice(facts: Facts) -> Verdicts:
    for copy in facts.copies.values():
        tail = facts.reads.tails.get(copy.partition)
        if tail is not None and tail.repeated:
            yield finding(
                facts, "C22", WARNING, PROVEN, subject_of(copy),
                cause="records that are on the target twice",
                message=f"{copy.remote}: {counted(tail.repeated, 'record')} from offset {tail.first} on are there twice, as "
                        "after a mirror was killed or a position was reset",
                evidence=copy_facts(copy, Fact("records read", f"{tail.repeated} that the source holds once")),
                mend="none on the target; sparkmirror and MirrorMaker 2 with exactly-once support write no duplicates",
            )  # fmt: skip
        elif copy.rewind is not None and not facts.is_ours:
            before, after = copy.rewind
            ends = copy.source_ends
            if ends is None or before.upstream >= ends[1]:
                continue  # D6
            yield finding(
                facts, "C22", WARNING, LIKELY, subject_of(copy),
                cause="the copy went back",
                message=f"{copy.remote}: the copy went back from upstream offset {before.upstream} to {after.upstream}: "
                        f"about {counted(before.upstream - after.upstream + 1, 'record')} from downstream offset "
                        f"{after.downstream} on are there twice",
                evidence=copy_facts(copy, Fact("offset syncs", f"{before.upstream}, then {after.upstream}", after.time_ms)),
                mend="none on the target; shut MirrorMaker 2 down instead of killing it",
            )  # fmt: skip


def _foreign(facts: Facts) -> Verdicts:
    for copy in facts.copies.values():
        tail, stop = facts.reads.tails.get(copy.partition), copy.stop
        is_stopped = stop is not None and stop.code == TargetHasStranger.code
        if not is_stopped and (tail is None or not tail.foreign):
            continue
        what = stop.reason.removeprefix(f"{copy.partition}: ") if is_stopped and stop is not None else (
            f"{counted(tail.foreign, 'record')} from offset {tail.first} on are not on the "
            "source" if tail is not None else ""
        )  # fmt: skip
        yield finding(
            facts, "C24", WARNING, PROVEN, subject_of(copy),
            cause="another producer writes to the mirrored topic",
            message=f"{copy.remote}: {what}",
            evidence=copy_facts(copy),
            mend="find and stop the other producer (revoke its WRITE right)"
                 + (", then resume after its records" if facts.is_ours else ""),
            command=command_for(facts, "offsets skip", subject_of(copy)) if facts.is_ours else "",
        )  # fmt: skip


RULES = (
    Rule(
        "C22", "duplicates on the target", "W",
        means="Records are on the target twice: MirrorMaker 2 was killed and resumed at an older position, or a position "
              "was reset.",
        decides="Offset syncs that went back (likely); or, while the flow is idle, more records behind the newest sync than "
                "the source has, which are read and found on the source (proven).",
        needs="Read on offset syncs; Read on both topics",
        mend="Nothing on the target. Shut down cleanly, or use exactly-once support.",
        check=_twice, parts=(Part.SYNCS, Part.SOURCE_ENDS, Part.TARGET_ENDS),
    ),
    Rule(
        "C24", "foreign writes on the target", "W",
        means="Another producer writes to the mirrored topic: offsets shift, and translated positions become wrong.",
        decides="sparkmirror sees it in the target's log and stops the partition. For MirrorMaker 2: while it is idle, "
                "records at the target's end are read that the source does not hold.",
        needs="Read on both topics, or on the ledger",
        mend="Stop the other producer; `offsets skip` resumes after its records (sparkmirror).",
        check=_foreign, parts=(Part.SOURCE_ENDS, Part.TARGET_ENDS),
    ),
)  # fmt: skip
