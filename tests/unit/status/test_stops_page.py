"""docs/stops.md has every code that a partition can show, and none that it cannot."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkmirror.errors import ClusterUnreachable, LoginRefused, ReplicationError
from sparkmirror.status.resuming import Resumption, resumption
from sparkmirror.status.state_code import RECOVERED, StateCode

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "stops.md").read_text(encoding="utf-8")
CODE = re.compile(r"`([A-Z][A-Z_]+)`")
LITERAL = re.compile(r"""(?:show|forfeit|State|Trouble)\([^()]*"([A-Z][A-Z_]{3,})\"""")


def codes_of_errors(kind: type[ReplicationError] = ReplicationError) -> Iterator[str]:
    """Of the tree in errors.py; the others below ReplicationError are about records of internal topics."""
    if kind.__module__ == ReplicationError.__module__:
        yield kind.code
        for below in kind.__subclasses__():
            yield from codes_of_errors(below)


def codes_of_page(heading: str) -> set[str]:
    """The first cells of the table under a heading."""
    section = PAGE.split(f"{heading}\n")[1].split("\n## ")[0].split("\n### ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {code for cell in rows for code in CODE.findall(cell)}


NEEDS_DECISION = "### Stops that need a decision"
ENDS_BY_ITSELF = "### Stops that end by themselves"
WAITS, RECOVERS = "## When a partition waits", "## When a partition recovers"
PAUSES = "## When a partition is paused"


@pytest.mark.parametrize(
    ("heading", "kinds"),
    [
        (NEEDS_DECISION, (Resumption.MOVE, Resumption.FILE)),
        (ENDS_BY_ITSELF, (Resumption.SETTINGS, Resumption.RETRY)),
    ],
)
def test_the_page_says_of_every_stop_whether_it_ends_by_itself(heading: str, kinds: tuple[Resumption, ...]) -> None:
    found = {code for code in codes_of_errors() if resumption(code) in kinds}
    assert codes_of_page(heading) - {StateCode.TOPIC} == found


def test_the_page_has_every_code_that_no_error_has() -> None:
    recovering = {*RECOVERED, StateCode.SLOT_LOST, StateCode.QUERY_LOST}
    assert codes_of_page(RECOVERS) == recovering
    assert codes_of_page(PAUSES) == {StateCode.PAUSED, StateCode.STOPPED_ON_REQUEST}
    elsewhere = recovering | {StateCode.TOPIC} | codes_of_page(PAUSES)
    assert codes_of_page(WAITS) == {*StateCode, ClusterUnreachable.code, LoginRefused.code} - elsewhere
    assert StateCode.TOPIC in codes_of_page(ENDS_BY_ITSELF)


def test_no_code_stands_in_the_program_outside_the_two_places() -> None:
    places = [path for path in (ROOT / "sparkmirror").rglob("*.py") if "local" not in path.parts]
    found = {(path.name, code) for path in places for code in LITERAL.findall(path.read_text(encoding="utf-8"))}
    assert found == set()


def test_a_literal_would_be_found() -> None:
    assert LITERAL.findall('context.show(partition, "waiting", "TARGET", reason)') == ["TARGET"]
