"""What a failover would cost each group now, by the records themselves: C01, C02."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from sparkmirror.tools.doctor.facts import ERROR, INFORMATION, LIKELY, PROVEN, WARNING, Copy, Facts, GroupFacts, Part
from sparkmirror.tools.doctor.findings import Fact, Rule, Subject, Verdicts
from sparkmirror.tools.doctor.telling import counted, finding

__all__ = ["RULES", "redelivery"]


def _same_record(facts: Facts) -> Verdicts:
    for proof in facts.proofs:
        subject = Subject(proof.partition.topic, proof.partition.partition, proof.group)
        where = f"group {proof.group} at {proof.partition}"
        if proof.verdict == "ahead":
            lost = "some records" if proof.records is None else counted(proof.records, "record")
            yield finding(
                facts, "C01", ERROR, PROVEN, subject,
                cause="a failover would skip records",
                message=f"{where}: a failover now would skip {lost}: {proof.words}",
                evidence=(Fact("record proof", proof.words, proof.time_ms),),
                mend="set the group back on the target to the position that translate gives",
                command=f"sparkmirror translate {facts.file_words} --group {shlex.quote(proof.group)}",
            )  # fmt: skip
        elif proof.verdict == "unproven":
            yield finding(
                facts, "C01", INFORMATION, PROVEN, subject,
                cause="not proven to be the same record",
                message=f"{where}: {proof.words}",
                evidence=(Fact("record proof", proof.words, proof.time_ms),),
            )  # fmt: skip


def redelivery(facts: Facts, group: GroupFacts) -> Iterator[tuple[Copy, int, bool]]:
    """Records that a group would read again on the target, per partition; True where the records themselves say so."""
    proven = {p.partition: p for p in facts.proofs if p.group == group.name}
    for partition, offset in group.source.items():
        copy, proof = facts.copies.get(partition), proven.get(partition)
        if copy is None or group.target.get(copy.remote) is None:
            continue
        if proof is not None and proof.verdict in ("exact", "behind"):
            yield copy, proof.records or 0, True
        elif proof is None and copy.target_ends is not None and copy.reached is not None and offset <= copy.reached:
            # Without holes and duplicates the record at `offset` lies as far before the target's end as before the copy's.
            ideal = copy.target_ends[1] - (copy.reached - offset)
            yield copy, max(ideal - group.target[copy.remote], 0), False


def _cost(facts: Facts) -> Verdicts:
    for group in facts.groups.values():
        found = list(redelivery(facts, group))
        total = sum(count for _, count, _ in found)
        if not total:
            continue
        is_proven = all(is_read for _, _, is_read in found)
        worst = max(found, key=lambda one: one[1])
        yield finding(
            facts, "C02", WARNING if total > facts.redelivery_max else INFORMATION, PROVEN if is_proven else LIKELY,
            Subject(group=group.name),
            cause="records that come again after a failover",
            message=f"failover now re-reads {'' if is_proven else 'about '}{counted(total, 'record')} in group "
                    f"{group.name}, most in {worst[0].partition} ({worst[1]:,})",
            evidence=(Fact("by", "reading records" if is_proven else "offsets alone"),),
            mend="finer offset syncs (D3), or sparkmirror, which translates exactly",
        )  # fmt: skip


RULES = (
    Rule(
        "C01", "same record on both sides", "E I",
        means="Whether the group's position on the target is the same record as on the source. *Ahead* means that a "
              "failover would skip records.",
        decides="The record proof reads the records at both positions and compares key, value, headers and timestamp.",
        needs="Read on the topics of both clusters, Describe on the groups",
        mend="Set the group back on the target (`sparkmirror translate`).",
        check=_same_record, parts=(Part.SOURCE_GROUPS, Part.TARGET_GROUPS),
    ),
    Rule(
        "C02", "redelivery at a failover", "W I",
        means="How many records a group would read again if it failed over now.",
        decides="Sum of what C01 proves; where no record was read, an estimate from offsets. Warning from 10,000 records "
                "on.",
        needs="as C01",
        mend="Finer offset syncs, or sparkmirror.",
        check=_cost, parts=(Part.SOURCE_GROUPS, Part.TARGET_GROUPS, Part.SOURCE_ENDS, Part.TARGET_ENDS),
    ),
)  # fmt: skip
