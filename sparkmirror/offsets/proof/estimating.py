"""Judges a target position without reading records: by sparkmirror's ledger, else by the mirror's own position. Pure.

If the source has no holes and the target no duplicates since position P (the last copied), the target offset of source
offset x is Tl − (P + 1 − x). MirrorMaker 2 stores P each minute, so the truth lies between what P says and what the
source's end would say.
"""

from __future__ import annotations

from typing import Literal

from sparkmirror.offsets import Basis, Translation
from sparkmirror.offsets.proof.values import Proof, Result


def by_ledger(upstream: int, downstream: int, expected: Translation) -> Proof | None:
    """By the exact map; None where the ledger itself only knows it roughly."""
    if expected.basis not in (Basis.EXACT, Basis.BEYOND):
        return None
    return _proof(upstream, downstream, "ledger", expected.downstream - downstream, expected.downstream - downstream)


def by_position(
    upstream: int, downstream: int, *, next_upstream: int, source_end: int, target_end: int
) -> Proof:
    """By the stored position: `next_upstream` is P + 1."""
    if upstream > next_upstream:
        reason = f"the group is {upstream - next_upstream} offsets ahead of what the mirror says it copied"
        return Proof(result="unproven", upstream=upstream, downstream=downstream, basis="estimate", reason=reason)
    most = target_end - (next_upstream - upstream) - downstream
    least = target_end - (max(source_end, next_upstream) - upstream) - downstream
    return _proof(upstream, downstream, "estimate", least, most)


def _proof(upstream: int, downstream: int, basis: Literal["ledger", "estimate"], least: int, most: int) -> Proof:
    """From how many records are read again, at least and at most; negative where some are skipped."""
    result: Result
    if most < 0:
        result, low, high = "ahead", -most, -least
    elif most == 0 and least == 0:
        result, low, high = "exact", 0, 0
    else:
        result, low, high = "behind", max(least, 0), most
    is_exact = result == "exact"
    return Proof(
        result=result,
        upstream=upstream,
        downstream=downstream,
        records=None if is_exact else high,
        records_min=None if is_exact else low,
        is_counted=basis == "ledger",
        is_certain=basis == "ledger",
        basis=basis,
    )
