"""The limits of size and shape that are refused, not discussed."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

FUNCTION_LINES_MAX = 70
MODULE_LINES_MAX = 600
PUBLIC_METHODS_MAX = 10
NAMELESS_NAMES = frozenset({"base", "common", "handler", "handlers", "helper", "helpers", "manager", "util", "utils"})

Function = ast.FunctionDef | ast.AsyncFunctionDef


def violations(source: str, place: str) -> list[str]:
    """What is untidy in a file of the product or of the bench."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, Function):
            found += _long_function(node, place)
        elif isinstance(node, ast.ClassDef):
            found += _wide_class(node, place)
    return found + violations_anywhere(source, place)


def violations_anywhere(source: str, place: str) -> list[str]:
    """What is untidy in any Python file, tests too."""
    lines = len(source.splitlines())
    found = [f"{place}: {lines} lines, more than {MODULE_LINES_MAX}"] if lines > MODULE_LINES_MAX else []
    found += [f"{place}: the name says nothing"] if Path(place).stem in NAMELESS_NAMES else []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ExceptHandler) and _catches_all(node.type) and _does_nothing(node.body):
            found.append(f"{place}:{node.lineno}: swallows every exception")
        elif isinstance(node, ast.Call) and _is_suppress(node.func) and any(_catches_all(kind) for kind in node.args):
            found.append(f"{place}:{node.lineno}: suppresses every exception")
    return found + list(_open_promises(source, place))


def _long_function(node: Function, place: str) -> list[str]:
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    if lines <= FUNCTION_LINES_MAX:
        return []
    return [f"{place}:{node.lineno}: {node.name} has {lines} lines, more than {FUNCTION_LINES_MAX}"]


def _wide_class(node: ast.ClassDef, place: str) -> list[str]:
    """Counts methods that do something; a property is a fact and does not count."""
    methods = [item for item in node.body if isinstance(item, Function) and not item.name.startswith("_")]
    count = sum(not any("property" in ast.dump(mark) for mark in method.decorator_list) for method in methods)
    if count <= PUBLIC_METHODS_MAX:
        return []
    return [f"{place}:{node.lineno}: {node.name} has {count} public methods, more than {PUBLIC_METHODS_MAX}"]


def _catches_all(kind: ast.expr | None) -> bool:
    if isinstance(kind, ast.Tuple):
        return any(_catches_all(item) for item in kind.elts)
    return kind is None or (isinstance(kind, ast.Name) and kind.id in {"Exception", "BaseException"})


def _does_nothing(body: list[ast.stmt]) -> bool:
    return all(isinstance(item, ast.Pass | ast.Continue) or _is_bare_constant(item) for item in body)


def _is_bare_constant(item: ast.stmt) -> bool:
    return isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant)


def _is_suppress(function: ast.expr) -> bool:
    return getattr(function, "attr", getattr(function, "id", "")) == "suppress"


def _open_promises(source: str, place: str) -> Iterator[str]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        is_promise = token.type == tokenize.COMMENT and re.search(r"\b(TODO|FIXME|XXX)\b", token.string)
        if is_promise and not re.search(r"#\d+", token.string):
            yield f"{place}:{token.start[0]}: a promise without an issue number"


def _files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", _files("sparkmirror", "bench"), ids=_name)
def test_module_is_tidy(path: Path) -> None:
    assert violations(path.read_text(encoding="utf-8"), _name(path)) == []


@pytest.mark.parametrize("path", _files("tests"), ids=_name)
def test_test_module_is_tidy(path: Path) -> None:
    assert violations_anywhere(path.read_text(encoding="utf-8"), _name(path)) == []


_METHODS = "".join(f"    def verb_{number}(self): ...\n" for number in range(11))


@pytest.mark.parametrize(
    ("source", "place", "words"),
    [
        ("def long():\n" + "    x = 1\n" * 70, "wire/varint.py", "long has 71 lines"),
        ("x = 1\n" * 601, "wire/varint.py", "601 lines"),
        ("class Wide:\n" + _METHODS, "wire/varint.py", "Wide has 11 public methods"),
        ("try:\n    x = 1\nexcept Exception:\n    pass\n", "wire/varint.py", ":3: swallows"),
        ("try:\n    x = 1\nexcept:\n    ...\n", "wire/varint.py", ":3: swallows"),
        ("try:\n    x = 1\nexcept (OSError, Exception):\n    pass\n", "wire/varint.py", ":3: swallows"),
        ("for _ in x:\n    try:\n        y()\n    except Exception:\n        continue\n", "a.py", ":4: swallows"),
        ("with contextlib.suppress(Exception):\n    x()\n", "wire/varint.py", ":1: suppresses"),
        ("", "wire/utils.py", "says nothing"),
        ("", "clusters/manager.py", "says nothing"),
        ("x = 1  # TODO make it 2\n", "wire/varint.py", ":1: a promise"),
    ],
)
def test_an_untidy_sample_is_refused(source: str, place: str, words: str) -> None:
    [found] = violations(source, place)
    assert words in found


@pytest.mark.parametrize(
    "source",
    [
        "def long():\n" + "    x = 1\n" * 69,
        "x = 1\n" * 600,
        "class Wide:\n" + _METHODS.replace("    def verb_0", "    @property\n    def verb_0"),
        "try:\n    x = 1\nexcept OSError:\n    pass\n",
        "try:\n    x = 1\nexcept Exception as error:\n    state = error\n",
        "x = 1  # TODO(#12) make it 2\n",
        "x = 'TODO'\n",
    ],
)
def test_a_tidy_sample_is_accepted(source: str) -> None:
    assert violations(source, "wire/varint.py") == []
