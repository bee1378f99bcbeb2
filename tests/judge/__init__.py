"""The judge: what Java's own tools read, compared. Nothing here uses this project's own reading of records."""

from judge.batches import JudgeBatch, batches
from judge.comparison import compare
from judge.digests import Digests, java_digests, named_send
from judge.positions import group_violations, map_violations
from judge.records import JudgeRecord, java_records
from judge.sends import compacted_violations, newest_violations, refuted_sends, send_violations

__all__ = [
    "Digests",
    "JudgeBatch",
    "JudgeRecord",
    "batches",
    "compacted_violations",
    "compare",
    "group_violations",
    "java_digests",
    "java_records",
    "map_violations",
    "named_send",
    "newest_violations",
    "refuted_sends",
    "send_violations",
]
