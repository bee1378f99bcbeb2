"""The judge: what Java's own tools read, compared. Nothing here uses this project's own reading of records."""

from judge.batches import JudgeBatch, batches
from judge.comparison import compare
from judge.positions import group_violations, map_violations
from judge.records import JudgeRecord, java_records

__all__ = ["JudgeBatch", "JudgeRecord", "batches", "compare", "group_violations", "java_records", "map_violations"]
