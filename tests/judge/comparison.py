"""Whether two topics hold the same records in the same order; the demo asks the same question."""

from __future__ import annotations

from sparkmirror.local.reading import compare

__all__ = ["compare"]
