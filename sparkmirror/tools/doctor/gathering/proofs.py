"""The record proof for every group of the flow, as values that checks look at."""

from __future__ import annotations

from collections.abc import Iterator

from sparkmirror.offsets import OffsetMap
from sparkmirror.tools.doctor.facts import Copy, Facts, GroupFacts, Proof
from sparkmirror.tools.doctor.gathering.asking import Asker
from sparkmirror.tools.evidence import now_ms
from sparkmirror.tools.proof import Pair, RecordReader, UpstreamMap, WalkLimits, prove, run_all
from sparkmirror.tools.proof import Proof as RecordProof

__all__ = ["prove_groups"]

PROOFS_MAX = 5_000
WALK_RECORDS = 10_000


def prove_groups(asker: Asker, facts: Facts) -> tuple[Proof, ...]:
    """What each group's position on the target is worth."""
    wanted = list(_pairs(asker, facts))[:PROOFS_MAX]
    if not wanted:
        return ()
    committed = facts.flow.consumer.get("isolation.level") == "read_committed"
    source = RecordReader(asker.client("source"), WalkLimits(WALK_RECORDS), read_committed=committed)
    target = RecordReader(asker.client("target"), WalkLimits(WALK_RECORDS))
    try:
        askings = [((pair.source, pair.target), prove(pair)) for _, pair in wanted]
        proofs = run_all(askings, {"source": source, "target": target})
    finally:
        source.close()
        target.close()
    return tuple(_told(group, pair, proof) for (group, pair), proof in zip(wanted, proofs, strict=True))


def _pairs(asker: Asker, facts: Facts) -> Iterator[tuple[GroupFacts, Pair]]:
    maps: dict[object, UpstreamMap] = {}
    for group in facts.groups.values():
        for partition, upstream in group.source.items():
            copy = facts.copies.get(partition)
            downstream = None if copy is None else group.target.get(copy.remote)
            if copy is None or downstream is None or copy.source_ends is None or copy.target_ends is None:
                continue
            if partition not in maps:
                maps[partition] = _map(asker, copy)
            yield group, Pair(
                source=partition,
                target=copy.remote,
                upstream=upstream,
                downstream=downstream,
                source_first=copy.source_ends[0],
                source_end=copy.source_ends[1],
                target_first=copy.target_ends[0],
                target_end=copy.target_ends[1],
                bounds=maps[partition].bounds,
                is_compacted=facts.source.compacts(partition.topic) or facts.target.compacts(copy.remote.topic),
            )


def _map(asker: Asker, copy: Copy) -> UpstreamMap:
    ledger = asker.evidence.ledger()
    history = ledger.view.partitions.get(copy.partition) if ledger is not None else None
    syncs = asker.evidence.syncs().histories.of(copy.partition)
    return UpstreamMap(OffsetMap.of_blocks(history.run_blocks()) if history is not None else None, syncs)


def _told(group: GroupFacts, pair: Pair, proof: RecordProof) -> Proof:
    # Past the end is told by C07, with the ends; a position that moves is a group at work.
    verdict = {"exact": "exact", "behind": "behind", "ahead": "ahead", "unproven": "unproven"}.get(proof.result, "moving")
    words = f"source position {pair.upstream}, target position {pair.downstream}: {proof.result}"
    words += f" by {proof.records}" if proof.records is not None else ""
    words += f" ({proof.reason})" if proof.reason else ""
    if proof.result == "ahead" and not proof.is_certain:
        verdict, words = "unproven", f"{words}, but so many records are alike that it is not certain"
    return Proof(group.name, pair.source, verdict, proof.records, words, now_ms())
