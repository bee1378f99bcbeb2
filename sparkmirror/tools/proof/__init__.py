"""Whether the position of a group on the target is that of the same record as on the source."""

from sparkmirror.tools.proof.estimating import by_ledger, by_position
from sparkmirror.tools.proof.mapping import UpstreamMap
from sparkmirror.tools.proof.proving import prove
from sparkmirror.tools.proof.reading import RecordReader
from sparkmirror.tools.proof.running import run_all
from sparkmirror.tools.proof.values import Ask, Bounds, Pair, Proof, Seen, Stretch, WalkLimits

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
