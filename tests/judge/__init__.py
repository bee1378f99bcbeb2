"""The judge: what Java's own tools read, compared. Nothing here uses this project's own reading of records."""

from judge.batches import JudgeBatch, batches
from judge.comparison import compare
from judge.records import JudgeRecord, java_records

__all__ = ["JudgeBatch", "JudgeRecord", "batches", "compare", "java_records"]
