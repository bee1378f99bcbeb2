"""python -m sparkmirror.config: prints the page of all keys."""

from __future__ import annotations

import sys

from sparkmirror.config.reference import render

if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]  # a terminal's stream is a TextIOWrapper
    sys.stdout.write(render())
