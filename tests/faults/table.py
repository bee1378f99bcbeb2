"""docs/faults.md: the rows, and what the last results say of each."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from faults.marks import MarkedTest
from faults.results import Result
from faults.rows import MM2_ROWS, ROWS, FaultRow

HEAD = """\
# Faults

Each row is one fault: what is expected, what sparkmirror did, and what Kafka's own MirrorMaker 2 did. The faults are
injected on real brokers, and Kafka's own consumer and tools check the result: nothing lost, nothing twice, nothing out of
order. Tests name their rows with `@pytest.mark.fault`. This page is written by

    make faults-all                         # everything, hours
    make faults-all PYTEST_ARGS="-k F12"    # one row; the other results stay

`make faults`, a part of `make test`, runs the quick rows (class P) after each change. N runs nightly, W weekly. The last
results of each test are in `faults.json`. Faults at random moments are in [seeds](seeds.md) and [soak](soak.md).
"""

MM2_NOTE = """\
**How MirrorMaker 2 was measured** (`tests/faults/mm2`). Version 4.3.1 from Kafka's own jars, one process, the same brokers,
the same load and the same checks, and 120 s to converge after the fault is gone. Its settings are its defaults, which
copy at least once, except for these: topics, groups and checkpoints are refreshed each second, positions are stored each
second (`offset.flush.interval.ms`; 60 s, the default, where the row says so), `tasks.max` is 2, internal topics have one
replica. *Reported* means that the state of one of its tasks, as its REST interface shows it, is FAILED; else the worst level
of the lines about it in its log is given; *silent* means that there is no WARN and no ERROR. Seconds are those until
everything was copied. For MirrorMaker 2, F01, F02 and F03 are one fault: its process is killed.
"""

COLUMNS = """\
| row | run | fault | expected | seen by us | seed | seconds to recover | seen on MirrorMaker 2 4.3.1 |
|---|---|---|---|---|---|---|---|"""


def render(marked: Collection[MarkedTest], results: Sequence[Result]) -> str:
    """The whole page."""
    lines = [_line(row, marked, results) for row in ROWS]
    return "\n".join([HEAD, _made(results), "", MM2_NOTE, COLUMNS, *lines, ""])


def _made(results: Iterable[Result]) -> str:
    runs = sorted({(result.run.date, result.run.commit) for result in results})
    if not runs:
        return "Nothing was run yet."
    dates = sorted({date for date, _ in runs})
    days = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    commits = ", ".join(f"`{commit}`" for commit in dict.fromkeys(commit for _, commit in runs))
    return f"Results of {days}, at {commits}."


def _line(row: FaultRow, marked: Collection[MarkedTest], results: Iterable[Result]) -> str:
    found = [result for result in results if row.id in result.rows]
    ours = [result for result in found if result.whose == "ours"]
    tests = [test for test in marked if row.id in test.rows and test.whose == "ours"]
    seeds = ", ".join(f"`{seed}`" for seed in sorted({result.run.seed for result in ours}))
    cells = [row.id, row.run, row.fault, row.expected, _ours(row, tests, ours), seeds or "–", _seconds(ours)]
    cells.append(_mm2(row, [result for result in found if result.whose == "mm2"]))
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def _ours(row: FaultRow, tests: Collection[MarkedTest], results: Sequence[Result]) -> str:
    if not tests:
        return "not run: no test stages it yet"
    missing = len(tests) - len(results)
    parts = _bad(results)
    passed = [result for result in results if result.outcome == "passed"]
    if passed:
        seen = list(dict.fromkeys(result.seen for result in passed if result.seen))
        count = f" ({len(passed)} tests)" if len(passed) > 1 else ""
        parts.append("as expected" + count + "".join(f"; {text}" for text in seen))
    if missing:
        parts.append(f"{missing} of {len(tests)} tests not run yet")
    if row.left_out:
        parts.append(f"left out: {row.left_out}")
    return "<br>".join(parts)


def _bad(results: Iterable[Result]) -> list[str]:
    """What failed, first, and what could not be run here."""
    words = {"failed": "**failed**", "skipped": "not run here"}
    reported = []
    for outcome, word in words.items():
        for result in results:
            if result.outcome == outcome:
                reported.append(f"{word}: `{result.test.partition('::')[2]}`: {result.message}")
    return reported


def _seconds(results: Iterable[Result]) -> str:
    found = sorted(result.recovered for result in results if result.recovered is not None)
    if not found:
        return "–"
    return f"{found[0]:.1f}" if found[0] == found[-1] else f"{found[0]:.1f} to {found[-1]:.1f}"


def _mm2(row: FaultRow, results: Sequence[Result]) -> str:
    if row.id not in MM2_ROWS:
        return "–"
    if not results:
        return "not run yet"
    parts = _bad(results)
    for result in results:
        if result.outcome == "passed":
            after = "" if result.recovered is None else f" ({result.recovered:.1f} s)"
            parts.append(result.seen + after)
    return "<br>".join(parts)
