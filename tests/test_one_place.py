"""What is done in one place: a second decoder, reader or comparison of the same thing is refused."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "sparkmirror"
TREES = {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in ROOT.rglob("*.py")}
TABLES = {"state/internal_topics.py"}
# read_raw: the one reader of logs, the two drivers of recovery, and one look at how large an offset is.
READERS = {"clusters/log.py", "driver/takeover.py", "datasource/planning.py"}


def callers(name: str) -> set[str]:
    """Modules outside wire/ and ledger/ that call a function or a class."""
    found = set()
    for place, tree in TREES.items():
        calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
        names = {call.attr if isinstance(call, ast.Attribute) else getattr(call, "id", "") for call in calls}
        if name in names and not place.startswith(("wire/", "ledger/")):
            found.add(place)
    return found


@pytest.mark.parametrize(
    ("name", "places"),
    [
        ("decode_offset_sync", TABLES),
        ("decode_checkpoint", TABLES),
        ("decode_connect_offset", TABLES),
        ("LedgerView", TABLES),
        ("of_blocks", TABLES),
        ("read_raw", READERS),
    ],
)
def test_it_is_called_in_one_place(name: str, places: set[str]) -> None:
    assert callers(name) == places


@pytest.mark.parametrize("literal", ["isolation.level", "offset_syncs_topic_location"])
def test_a_setting_is_compared_in_config_alone(literal: str) -> None:
    found = set()
    for place, tree in TREES.items():
        for node in ast.walk(tree):
            names = {getattr(n, "attr", None) or getattr(n, "value", None) for n in ast.walk(node)} if isinstance(
                node, ast.Compare
            ) else set()
            if literal in names:
                found.add(place)
    assert {place for place in found if not place.startswith("config/")} == set()


def test_a_class_name_stands_once() -> None:
    names = Counter(node.name for tree in TREES.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert {name: count for name, count in names.items() if count > 1} == {}
