"""`python tests/pinned.py NAME` prints the requirement of pyproject.toml with this name, `--but NAME` all others."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path


def main(words: list[str]) -> None:
    """The command line."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    name = words[-1]
    found = [line for line in wanted if (re.match(r"[\w-]+", line)[0] == name) is (words[0] != "--but")]
    if not found:
        sys.exit(f"pyproject.toml: expected a requirement named {name}, found none")
    print("\n".join(found))


if __name__ == "__main__":
    main(sys.argv[1:])
