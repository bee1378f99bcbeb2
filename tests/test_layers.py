"""Imports point one way: a package imports only what stands above it, and only the doors see Kafka and Spark."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "sparkmirror"

# In the order of data flow: pure packages, then those that do I/O. Three stand elsewhere than their folder suggests:
# failpoints are named in any package that does I/O, local clusters are started by the command line's demo, and spark.py
# only names what datasource/ holds.
ORDER = (
    "errors", "model", "caches",
    "config", "wire", "topology", "ledger", "offsets", "comparison", "status",
    "failpoints", "process", "clusters", "state", "client",
    "slot", "session", "datasource", "transforms", "driver", "worker_daemon", "control",
    "diagnose", "examination", "positions", "verification", "failover", "metrics", "rest", "local", "spark", "cli",
    "__init__", "__main__",
)  # fmt: skip
PURE = frozenset({*ORDER[: ORDER.index("status") + 1], "diagnose"})
IMPURE_MODULES = frozenset({"kafka", "logging", "pyspark", "socket", "time"})
DOORS = {
    "kafka": frozenset({"clusters", "local"}),
    "pyspark": frozenset({"slot", "session", "datasource", "transforms", "local"}),
}
# diagnose/ judges values: of the packages that do I/O it sees only those that define them.
VALUES = {"diagnose": tuple(f"sparkmirror.state.{name}" for name in ("facts", "parts", "samples"))}
FILES_MAX = 25  # directly in one folder


def imported_modules(source: str, package: str) -> Iterator[tuple[int, str]]:
    """Line and full dotted name of every import, also those inside functions; `package` resolves the relative ones."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            anchor = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*anchor, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)


def violations(source: str, place: str) -> list[str]:
    """What is wrong with the imports of a file at `place`, a path below the package such as `wire/varint.py`."""
    path = Path(place)
    layer = path.parts[0] if len(path.parts) > 1 else path.stem
    if layer not in ORDER:
        return [f"{place}: {layer} has no place in the order of folders"]
    package = ".".join(["sparkmirror", *path.parent.parts])
    found = []
    for line, module in imported_modules(source, package):
        first, *rest = module.split(".")
        is_impure = first == "sparkmirror" and bool(rest) and rest[0] in ORDER and rest[0] not in PURE
        if layer in VALUES and is_impure and module.rpartition(".")[0] not in VALUES[layer]:
            found.append(f"{place}:{line}: {layer} imports {module.rpartition('.')[0]}, which is not a value that it judges")
        elif first == "sparkmirror" and rest and rest[0] in ORDER and ORDER.index(rest[0]) > ORDER.index(layer):
            found.append(f"{place}:{line}: {layer} imports {rest[0]}, which stands below it")
        if layer in PURE and first in IMPURE_MODULES:
            found.append(f"{place}:{line}: {layer} is pure and imports {first}")
        elif first in DOORS and layer not in DOORS[first]:
            found.append(f"{place}:{line}: {layer} is not a door and imports {first}")
    return found


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_imports_point_upward_and_stay_behind_the_doors(path: Path) -> None:
    assert violations(path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix()) == []


@pytest.mark.parametrize(
    ("source", "place", "words"),
    [
        ("from sparkmirror.clusters import fetch", "wire/varint.py", "wire imports clusters"),
        ("from sparkmirror import driver", "ledger/records.py", "ledger imports driver"),
        ("def late():\n    import sparkmirror.cli.run", "offsets/translate.py", "offsets imports cli"),
        ("from ..control import topics", "topology/plan.py", "topology imports control"),
        ("import time", "offsets/sync.py", "offsets is pure and imports time"),
        ("from logging import getLogger", "model.py", "model is pure and imports logging"),
        ("from kafka.errors import KafkaError", "config/keys.py", "config is pure and imports kafka"),
        ("import kafka", "slot/relay.py", "slot is not a door and imports kafka"),
        ("from pyspark.sql import Row", "clusters/fetch.py", "clusters is not a door and imports pyspark"),
        ("", "helpers/text.py", "helpers has no place"),
        ("from sparkmirror.state.gathering import gather", "diagnose/why.py", "imports sparkmirror.state.gathering"),
        ("import time", "diagnose/why.py", "diagnose is pure and imports time"),
    ],
)
def test_a_wrong_import_is_refused(source: str, place: str, words: str) -> None:
    [found] = violations(source, place)
    assert words in found


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ("from sparkmirror.errors import CorruptBatch\nfrom . import varint", "wire/record_batch.py"),
        ("import socket, time, kafka\nfrom sparkmirror import failpoints", "clusters/client.py"),
        ("from sparkmirror.local import LocalCluster", "cli/demo.py"),
        ("from sparkmirror.state.facts import Facts", "diagnose/why.py"),
    ],
)
def test_a_right_import_is_accepted(source: str, place: str) -> None:
    assert violations(source, place) == []


def test_no_folder_holds_more_files_than_a_reader_takes_in() -> None:
    folders = {path.parent for path in ROOT.rglob("*.py")}
    counts = {folder.relative_to(ROOT).as_posix(): len(list(folder.glob("*.py"))) for folder in folders}
    assert {folder: count for folder, count in counts.items() if count > FILES_MAX} == {}
