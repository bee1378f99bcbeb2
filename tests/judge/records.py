"""Records as Java's console consumer reads them; the demo uses the same reader, so it lives in the package."""

from __future__ import annotations

from sparkmirror.local.reading import Headers, Separators, java_records, parse_records
from sparkmirror.local.reading import JavaRecord as JudgeRecord

__all__ = ["Headers", "JudgeRecord", "Separators", "java_records", "parse_records"]
