"""The results as text: for the terminal and as Markdown for the README. Decides nothing."""

from __future__ import annotations

from collections.abc import Sequence

from bench.acceptance import LIMIT, TUNED, Criterion, ratio
from bench.contenders import CONTENDERS
from bench.findings import Results, ScenarioResult
from bench.latency import RECORDS_PER_S, STRAIGHT
from bench.measure import Measured

__all__ = ["LATENCY_TITLES", "markdown", "shown_number", "text"]

LATENCY_TITLES = {STRAIGHT: "straight from the source", **{key: c.title for key, c in CONTENDERS.items()}}

COPY_HEAD = (
    "scenario",
    "who",
    "records/s",
    "MB/s",
    "× tuned MM2",
    "× bare",
    "CPU s/GB copying",
    "CPU s/GB with start",
    "peak RSS MB",
    "peak PSS MB",
    "first record s",
)
LATENCY_HEAD = ("who", "p50 ms", "p99 ms", "p99.9 ms", "added p50", "added p99", "added p99.9")
CRITERIA_HEAD = ("promise", "wanted", "found", "verdict", "note")

Rows = list[Sequence[str]]


def text(results: Results, criteria: Sequence[Criterion]) -> str:
    """Three tables for a terminal."""
    tables = [(COPY_HEAD, _copy_rows(results)), (LATENCY_HEAD, _latency_rows(results))]
    tables.append((CRITERIA_HEAD, _criteria_rows(criteria)))
    return "\n\n".join(_aligned([head, *rows]) for head, rows in tables if rows)


def markdown(results: Results, criteria: Sequence[Criterion]) -> str:
    """The same tables as Markdown, and what they were measured on."""
    about, options = results.environment, results.options
    parts = [
        f"Median of {options['rounds']} rounds on {about['cores']} cores shared by both brokers and the replicator: "
        f"Kafka {about['kafka']}, Spark {about['spark']}, Python {about['python']}, Java {about['java']}.",
        _piped(COPY_HEAD, _copy_rows(results), numbers_from=2),
    ]
    latency = _latency_rows(results)
    if latency:
        parts += [
            f"Latency at {RECORDS_PER_S} records/s over 4 partitions, from sending to receiving. "
            "*Added* is the difference from a consumer of the source itself at the same percentile.",
            _piped(LATENCY_HEAD, latency, numbers_from=1),
        ]
    parts.append(_piped(CRITERIA_HEAD, _criteria_rows(criteria), numbers_from=9))
    return "\n\n".join(parts) + "\n"


def shown_number(value: float | None) -> str:
    """Three digits or so, thousands apart; a dash for nothing."""
    if value is None:
        return "–"
    if abs(value) >= 100:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _copy_rows(results: Results) -> Rows:
    return [_copy_row(found, key) for found in results.scenarios for key in found.rounds]


def _copy_row(found: ScenarioResult, key: str) -> Sequence[str]:
    median = found.median(key)
    over_tuned, over_limit = (ratio(found, "records_per_s", key, other) for other in (TUNED, LIMIT))
    numbers = (
        median.records_per_s,
        median.mb_per_s,
        over_tuned,
        over_limit,
        median.copying_cpu_s_per_gb,
        median.cpu_s_per_gb,
        median.rss_peak_mb,
        median.pss_peak_mb,
        median.first_record_s,
    )
    who = CONTENDERS[key].title + _failures(found.rounds[key])
    return (found.scenario.title, who, *map(shown_number, numbers))


def _failures(rounds: Sequence[Measured]) -> str:
    reasons = [found.failure for found in rounds if found.failure]
    return f" ({len(reasons)} of {len(rounds)} failed: {reasons[-1]})" if reasons else ""


def _latency_rows(results: Results) -> Rows:
    straight = results.latency.median(STRAIGHT)
    rows: Rows = []
    for key in results.latency.rounds:
        median = results.latency.median(key)
        names = ("p50_ms", "p99_ms", "p999_ms")
        numbers = [getattr(median, name) for name in names]
        added = [_difference(value, getattr(straight, name)) for value, name in zip(numbers, names, strict=True)]
        title = LATENCY_TITLES[key] + (f" ({median.failure})" if median.failure else "")
        rows.append((title, *map(shown_number, [*numbers, *(added if key != STRAIGHT else [None] * 3)])))
    return rows


def _difference(one: float | None, other: float | None) -> float | None:
    return one - other if one is not None and other is not None else None


def _criteria_rows(criteria: Sequence[Criterion]) -> Rows:
    verdicts = {None: "not measured", True: "pass", False: "MISS"}
    return [(c.name, c.wanted, shown_number(c.found), verdicts[c.passed], c.note) for c in criteria]


def _aligned(rows: Rows) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    padded = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in rows]
    return "\n".join("  ".join(row).rstrip() for row in padded)


def _piped(head: Sequence[str], rows: Rows, *, numbers_from: int) -> str:
    marks = ["---:" if column >= numbers_from else "---" for column in range(len(head))]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, marks, *rows])
