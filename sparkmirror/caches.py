"""Where things are kept that can be made again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_root() -> Path:
    """The folder that holds everything fetched, made if missing: SPARKMIRROR_CACHE, XDG_CACHE_HOME or ~/.cache."""
    chosen = os.environ.get("SPARKMIRROR_CACHE") or os.environ.get("XDG_CACHE_HOME")
    root = (Path(chosen) if chosen else Path.home() / ".cache") / "sparkmirror"
    root.mkdir(parents=True, exist_ok=True)
    return root.resolve()
