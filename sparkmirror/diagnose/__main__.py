"""python -m sparkmirror.diagnose: prints docs/doctor.md."""

from __future__ import annotations

import sys

from sparkmirror.diagnose.reference import render

if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]  # a terminal's stream is a TextIOWrapper
    sys.stdout.write(render())
