"""How the marked tests ended the last time that each of them ran: docs/faults.json, merged test by test."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from faults.marks import MarkedTest


@dataclass(frozen=True, slots=True)
class Run:
    """When and on what a run was made."""

    commit: str
    date: str
    seed: str


@dataclass(frozen=True, slots=True)
class Result:
    """How one test ended; `recovered` is in seconds, `message` says why it failed or was skipped."""

    test: str
    whose: str
    rows: tuple[str, ...]
    outcome: str
    seen: str
    recovered: float | None
    seconds: float
    message: str
    run: Run


def load(path: Path) -> list[Result]:
    """What is stored; nothing if there is no file yet."""
    if not path.exists():
        return []
    stored = json.loads(path.read_text(encoding="utf-8"))
    return [Result(**entry | {"rows": tuple(entry["rows"]), "run": Run(**entry["run"])}) for entry in stored["results"]]


def store(path: Path, fresh: Iterable[Result]) -> None:
    """Puts results among those of other tests, in the place of older ones; several processes may do so at once."""
    with _locked(path):
        _save(path, _newest((*load(path), *fresh)))


def prune(path: Path, marked: Collection[MarkedTest]) -> list[Result]:
    """Drops the results of tests that are gone, and puts the others under the rows that their tests stage now."""
    rows = {(test.whose, test.test): test.rows for test in marked}
    with _locked(path):
        found = [result for result in load(path) if (result.whose, result.test) in rows]
        found = [replace(result, rows=rows[result.whose, result.test]) for result in found]
        _save(path, found)
    return found


def _newest(results: Iterable[Result]) -> Collection[Result]:
    return {(result.whose, result.test): result for result in results}.values()


def _save(path: Path, results: Iterable[Result]) -> None:
    """In the order of the tests' names, a line each, so that a diff shows what changed."""
    ordered = sorted(results, key=lambda result: (result.whose, result.test))
    entries = ",\n".join(json.dumps(asdict(result), ensure_ascii=False) for result in ordered)
    part = path.with_suffix(".part")
    part.write_text(f'{{"results": [\n{entries}\n]}}\n', encoding="utf-8")
    part.replace(path)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)
