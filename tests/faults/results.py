"""How the marked tests ended the last time that each of them ran: docs/faults.json, merged run by run."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from xml.etree import ElementTree

from faults.marks import MarkedTest

MESSAGE_CHARACTERS_MAX = 200


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


def save(path: Path, results: Iterable[Result]) -> None:
    """One file, in the order of the tests' names, so that a diff shows what changed."""
    ordered = sorted(results, key=lambda result: (result.whose, result.test))
    entries = ",\n".join(json.dumps(asdict(result), ensure_ascii=False) for result in ordered)
    path.write_text(f'{{"results": [\n{entries}\n]}}\n', encoding="utf-8")


def read_junit(path: Path, marked: Iterable[MarkedTest], run: Run) -> list[Result]:
    """The results in pytest's junit file; what it says of tests without a mark is left out."""
    tests = {_address(test.test): test for test in marked}
    found = []
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        test = tests.get((case.get("classname", ""), case.get("name", "")))
        if test is not None:
            found.append(_result(case, test, run))
    return found


def merge(stored: Iterable[Result], fresh: Iterable[Result], marked: Collection[MarkedTest]) -> list[Result]:
    """The newest result of each test that still exists, under the rows that it stages now."""
    newest = {(result.whose, result.test): result for result in (*stored, *fresh)}
    rows = {(test.whose, test.test): test.rows for test in marked}
    return [replace(result, rows=rows[key]) for key, result in newest.items() if key in rows]


def _address(test: str) -> tuple[str, str]:
    """How pytest's junit file names a test."""
    file, _, name = test.partition("::")
    return file.removesuffix(".py").replace("/", "."), name


def _result(case: ElementTree.Element, test: MarkedTest, run: Run) -> Result:
    said = {item.get("name"): item.get("value", "") for item in case.iter("property")}
    outcome, message = "passed", ""
    for kind, word in (("skipped", "skipped"), ("error", "failed"), ("failure", "failed")):
        if (told := case.find(kind)) is not None:
            outcome, message = word, " ".join(told.get("message", "").split())[:MESSAGE_CHARACTERS_MAX]
    recovered = said.get("recovered")
    return Result(
        test=test.test,
        whose=test.whose,
        rows=test.rows,
        outcome=outcome,
        seen=said.get("seen", ""),
        recovered=float(recovered) if recovered else None,
        seconds=round(float(case.get("time", "0")), 1),
        message=message,
        run=run,
    )
