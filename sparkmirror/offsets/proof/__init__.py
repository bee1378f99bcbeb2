"""Whether the position of a group on the target is that of the same record as on the source. Pure: reads are yielded."""

from sparkmirror.offsets.proof.estimating import by_ledger, by_position
from sparkmirror.offsets.proof.mapping import UpstreamMap
from sparkmirror.offsets.proof.proving import Asking, prove, same_record
from sparkmirror.offsets.proof.values import Budget, OffsetBounds, Pair, Proof, RecordAsk, RecordRange, Seen, WalkLimits

__all__ = [
    "Asking",
    "Budget",
    "OffsetBounds",
    "Pair",
    "Proof",
    "RecordAsk",
    "RecordRange",
    "Seen",
    "UpstreamMap",
    "WalkLimits",
    "by_ledger",
    "by_position",
    "prove",
    "same_record",
]
