"""`python -m papers [STAGE …]` runs the commands of the console blocks on local clusters and writes what they print.

Without a stage all of them run. The commands stand in the pages; what they need is set up in `papers/staging.py`.
"""

from __future__ import annotations

import sys

from papers.pages import ROOT, console_blocks, filled, pages
from papers.staging import STAGES, run_stages


def main(names: list[str]) -> None:
    """The command line."""
    unknown = sorted(set(names) - set(STAGES))
    if unknown:
        sys.exit(f"no such stage: {', '.join(unknown)}; there are {', '.join(STAGES)}")
    commands = {b.name: b.commands for page in pages() for b in console_blocks(page.read_text("utf-8")) if b.name}
    printed = run_stages(names or list(STAGES), commands)
    for page in pages():
        before = after = page.read_text(encoding="utf-8")
        for name, lines in printed.items():
            after = filled(after, name, lines)
        if after != before:
            page.write_text(after, encoding="utf-8")
            print(f"{page.relative_to(ROOT)} written")


if __name__ == "__main__":
    main(sys.argv[1:])
