"""`python -m faults [pytest's arguments]` runs all rows, nightly ones too, then MirrorMaker 2's, and writes docs/faults.md.

`python -m faults --render` only writes the page, from the stored results.
"""

from __future__ import annotations

import datetime
import os
import secrets
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from faults import recording
from faults.marks import MARKS, MarkedTest, marked_tests
from faults.results import Run, prune
from faults.table import render

ROOT = Path(__file__).parents[2]
STORE, PAGE = ROOT / "docs" / "faults.json", ROOT / "docs" / "faults.md"
# MirrorMaker 2 is timed, so nothing runs beside it; ours are only judged.
STAGES = {"fault": ("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder"), "fault_mm2": ()}
ALL_WELL, NOTHING_SELECTED = 0, 5


def main(arguments: Sequence[str]) -> int:
    """The command line; 1 if something failed."""
    marked, status = marked_tests(), 0
    if list(arguments) != ["--render"]:
        run = Run(_commit(), datetime.date.today().isoformat(), os.environ.get("SPARKMIRROR_SEED") or secrets.token_hex(4))
        statuses = [_run(mark, arguments, marked, run) for mark in STAGES]
        status = int(not set(statuses) <= {ALL_WELL, NOTHING_SELECTED})
        print(f"pytest ended with {statuses}")
    results = prune(STORE, marked)
    PAGE.write_text(render(marked, results), encoding="utf-8")
    failed = sum(result.outcome == "failed" for result in results)
    print(f"{PAGE.relative_to(ROOT)}: {len(results)} results, {failed} failed")
    return status


def _run(mark: str, arguments: Sequence[str], marked: Sequence[MarkedTest], run: Run) -> int:
    """Runs and records the tests with this mark; pytest's exit status."""
    files = sorted({test.test.partition("::")[0] for test in marked if test.whose == MARKS[mark]})
    options = ["-v", "--tb=short", "-p", recording.__name__, "-m", mark, *STAGES[mark], *arguments]
    options += [] if any(Path(ROOT, word.partition("::")[0]).exists() for word in arguments) else files
    environment = os.environ | recording.settings_of(STORE, run)
    return subprocess.run([sys.executable, "-m", "pytest", *options], cwd=ROOT, env=environment, check=False).returncode


def _commit() -> str:
    """The commit that was run; a plus behind it means that the program was changed since."""
    commit = _git("rev-parse", "--short", "HEAD")
    return commit + ("+" if _git("status", "--porcelain", "--", "sparkmirror") else "")


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
