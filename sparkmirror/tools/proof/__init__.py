"""Whether the position of a group on the target is that of the same record as on the source."""

from sparkmirror.groups.proof.estimating import by_ledger, by_position
from sparkmirror.groups.proof.mapping import UpstreamMap
from sparkmirror.groups.proof.proving import prove
from sparkmirror.groups.proof.values import Ask, Bounds, Pair, Proof, Seen, Stretch, WalkLimits
from sparkmirror.tools.proof.reading import RecordReader
from sparkmirror.tools.proof.running import run_all

__all__ = [
    "Ask",
    "Bounds",
    "Pair",
    "Proof",
    "RecordReader",
    "Seen",
    "Stretch",
    "UpstreamMap",
    "WalkLimits",
    "by_ledger",
    "by_position",
    "prove",
    "run_all",
]
