"""Whether the position of a group on the target is that of the same record as on the source. Pure: reads are yielded."""

from sparkmirror.groups.proof.estimating import by_ledger, by_position
from sparkmirror.groups.proof.mapping import UpstreamMap
from sparkmirror.groups.proof.proving import Asking, prove, same_record
from sparkmirror.groups.proof.values import Ask, Bounds, Budget, Pair, Proof, Seen, Stretch, WalkLimits

__all__ = [
    "Ask",
    "Asking",
    "Bounds",
    "Budget",
    "Pair",
    "Proof",
    "Seen",
    "Stretch",
    "UpstreamMap",
    "WalkLimits",
    "by_ledger",
    "by_position",
    "prove",
    "same_record",
]
