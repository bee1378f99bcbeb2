"""What a package exports is what its `__all__` says, and `__all__` is sorted."""

from __future__ import annotations

import importlib
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def violations(module: types.ModuleType) -> list[str]:
    """What is wrong with a package's `__all__`; a package that exports nothing needs none."""
    listed = getattr(module, "__all__", None)
    public = {name for name, value in vars(module).items() if _is_export(name, value)}
    if listed is None:
        return [f"{module.__name__} exports {sorted(public)} and has no __all__"] if public else []
    missing = [name for name in listed if not hasattr(module, name)]
    found = [f"{module.__name__}.__all__ names {name}, which does not exist" for name in missing]
    if sorted(listed, key=_rank) != list(listed):
        found.append(f"{module.__name__}.__all__ is not sorted: {sorted(listed, key=_rank)}")
    if len(set(listed)) != len(listed):
        found.append(f"{module.__name__}.__all__ names something twice")
    return found + [f"{module.__name__} exports {name} but does not list it" for name in sorted(public - set(listed))]


def _is_export(name: str, value: object) -> bool:
    is_future = getattr(value, "__class__", None).__name__ == "_Feature"
    return not name.startswith("_") and not isinstance(value, types.ModuleType) and not is_future


def _rank(name: str) -> tuple[int, str]:
    """Constants, then classes, then the rest: the order that the linter (RUF022) wants too."""
    if name.isupper() and len(name) > 1:
        return 0, name
    return (1 if name.lstrip("_")[:1].isupper() else 2), name


def _packages() -> list[str]:
    return sorted(
        ".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "sparkmirror").rglob("__init__.py")
    )


@pytest.mark.parametrize("package", _packages())
def test_package_exports_what_it_lists(package: str) -> None:
    assert violations(importlib.import_module(package)) == []


def _sample(source: str) -> types.ModuleType:
    module = types.ModuleType("sample")
    exec(source, vars(module))
    return module


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("from math import pi", "has no __all__"),
        ("__all__ = ['tau']", "tau, which does not exist"),
        ("from math import pi, tau\n__all__ = ['tau', 'pi']", "is not sorted"),
        ("from math import pi\n__all__ = ['pi', 'pi']", "twice"),
        ("from math import pi, tau\n__all__ = ['pi']", "exports tau but does not list it"),
    ],
)
def test_a_wrong_export_is_refused(source: str, words: str) -> None:
    [found] = violations(_sample(source))
    assert words in found


@pytest.mark.parametrize(
    "source",
    [
        "",
        "__version__ = '1'",
        "from __future__ import annotations\nimport math\nfrom math import pi, tau\n__all__ = ['pi', 'tau']",
        "LIMIT = 1\nclass Alpha: ...\ndef act(): ...\n__all__ = ['LIMIT', 'Alpha', 'act']",
    ],
)
def test_a_right_export_is_accepted(source: str) -> None:
    assert violations(_sample(source)) == []


def test_only_packages_list_what_they_export() -> None:
    """A module's public names have no underscore; `spark.py` is what users import."""
    modules = (path for path in (ROOT / "sparkmirror").rglob("*.py") if path.name not in ("__init__.py", "spark.py"))
    assert [path.name for path in modules if "__all__" in path.read_text(encoding="utf-8")] == []
