"""`python -m faults [pytest's arguments]` runs all rows, nightly ones too, then MirrorMaker 2's, and writes docs/faults.md.

`python -m faults --render` only writes the page anew, from the stored results.
"""

from __future__ import annotations

import datetime
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from faults.marks import MARKS, MarkedTest, marked_tests
from faults.results import Result, Run, load, merge, read_junit, save
from faults.table import render

ROOT = Path(__file__).parents[2]
STORE, PAGE = ROOT / "docs" / "faults.json", ROOT / "docs" / "faults.md"
# MirrorMaker 2 is timed, so nothing runs beside it; ours are only judged.
STAGES = {"fault": ("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder"), "fault_mm2": ()}
PROPERTIES = ("-o", "junit_family=xunit1")  # the newer family has no properties of tests
ALL_WELL, NOTHING_SELECTED = 0, 5


def main(arguments: Sequence[str]) -> int:
    """The command line; 1 if something failed."""
    marked = marked_tests()
    status = 0
    if list(arguments) != ["--render"]:
        run = Run(_commit(), datetime.date.today().isoformat(), os.environ.get("SPARKMIRROR_SEED") or secrets.token_hex(4))
        for mark in STAGES:
            fresh, ended = _run(mark, arguments, marked, run)
            save(STORE, merge(load(STORE), fresh, marked))
            status = status or int(ended not in (ALL_WELL, NOTHING_SELECTED))
    results = load(STORE)
    PAGE.write_text(render(marked, results), encoding="utf-8")
    failed = sum(result.outcome == "failed" for result in results)
    print(f"{PAGE.relative_to(ROOT)}: {len(results)} results, {failed} failed")
    return status


def _run(mark: str, arguments: Sequence[str], marked: Sequence[MarkedTest], run: Run) -> tuple[list[Result], int]:
    """Runs the tests with this mark; what they said, and pytest's exit status."""
    with tempfile.TemporaryDirectory(prefix="fault-results-") as folder:
        junit = Path(folder) / "junit.xml"
        files = sorted({test.test.partition("::")[0] for test in marked if test.whose == MARKS[mark]})
        options = ["-v", "--tb=short", "-m", mark, *STAGES[mark], f"--junitxml={junit}", *PROPERTIES, *arguments]
        options += [] if any(Path(ROOT, word.partition("::")[0]).exists() for word in arguments) else files
        environment = os.environ | {"SPARKMIRROR_SEED": run.seed}
        ended = subprocess.run([sys.executable, "-m", "pytest", *options], cwd=ROOT, env=environment, check=False)
        return (read_junit(junit, marked, run) if junit.exists() else []), ended.returncode


def _commit() -> str:
    """The commit that was run; a plus behind it means that the program was changed since."""
    commit = _git("rev-parse", "--short", "HEAD")
    return commit + ("+" if _git("status", "--porcelain", "--", "sparkmirror") else "")


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
