"""Records as Java's consumer reads them. The demo reads with the console consumer, which is compared with it in a test."""

from __future__ import annotations

from judge.resident import java_records
from sparkmirror.local.reading import Headers, Separators, parse_records
from sparkmirror.local.reading import JavaRecord as JudgeRecord

__all__ = ["Headers", "JudgeRecord", "Separators", "java_records", "parse_records"]
