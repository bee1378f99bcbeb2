"""The record proof for every group of the flow, as values that rules read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import islice

from sparkmirror.offsets.proof import Pair, WalkLimits, prove
from sparkmirror.state import FlowState, now_ms
from sparkmirror.state.facts import Facts, GroupFacts, GroupProof
from sparkmirror.state.flow_logs import FlowLogs
from sparkmirror.state.proof_runner import run_all

PROOFS_MAX = 5_000
WALK_RECORDS = 10_000


def prove_groups(state: FlowState, facts: Facts) -> tuple[GroupProof, ...]:
    """What each group's position on the target is worth."""
    with closing(FlowLogs(state)) as logs:
        wanted = list(islice(_pairs(logs, facts), PROOFS_MAX))
        if not wanted:
            return ()
        askings = [((pair.source, pair.target), prove(pair)) for _, pair in wanted]
        proofs = run_all(askings, logs.open(WalkLimits(WALK_RECORDS)))
    return tuple(
        GroupProof(group.name, pair.source, proof, now_ms()) for (group, pair), proof in zip(wanted, proofs, strict=True)
    )


def _pairs(logs: FlowLogs, facts: Facts) -> Iterator[tuple[GroupFacts, Pair]]:
    for group in facts.groups.values():
        for partition, upstream in group.source.items():
            copy = facts.copies.get(partition)
            downstream = None if copy is None else group.target.get(copy.remote)
            if copy is None or downstream is None or copy.source_ends is None or copy.target_ends is None:
                continue
            yield group, Pair(
                source=partition,
                target=copy.remote,
                upstream=upstream,
                downstream=downstream,
                source_first=copy.source_ends[0],
                source_end=copy.source_ends[1],
                target_first=copy.target_ends[0],
                target_end=copy.target_ends[1],
                bounds=logs.upstream_map(partition, copy.remote).bounds,
                is_compacted=facts.source.compacts(partition.topic) or facts.target.compacts(copy.remote.topic),
            )
