"""The surface of the package, and what it must not import."""

from __future__ import annotations

import ast
from pathlib import Path

import sparkmirror.wire as wire

FORBIDDEN = {"socket", "time", "logging", "pyspark", "kafka", "asyncio", "threading", "os"}


def test_exports_are_sorted_and_complete() -> None:
    def order(name: str) -> tuple[int, str]:
        return (0 if name.isupper() else 1 if name[0].isupper() else 2), name

    public = {name for name in vars(wire) if not name.startswith("_")}
    modules = {path.stem for path in Path(wire.__file__).parent.glob("*.py")}
    assert list(wire.__all__) == sorted(wire.__all__, key=order)
    assert set(wire.__all__) == public - modules


def test_package_imports_nothing_that_does_io() -> None:
    for path in Path(wire.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {name.split(".")[0] for name in names} & FORBIDDEN, path
            assert all(
                not name.startswith("sparkmirror")
                or name.startswith(("sparkmirror.wire", "sparkmirror.errors", "sparkmirror.model"))
                for name in names
            ), path
