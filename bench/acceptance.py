"""The numbers that the project promised, each beside what was found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.findings import Results, ScenarioResult
from bench.latency import STRAIGHT

__all__ = ["Criterion", "judge", "ratio"]

OURS, TUNED, DEFAULT, LIMIT = "sparkmirror", "mm2-tuned", "mm2-default", "bare"


@dataclass(frozen=True, slots=True)
class Criterion:
    """One promise; `found` is None when the run did not measure it."""

    name: str
    wanted: str
    found: float | None
    passed: bool | None
    note: str = ""


def judge(results: Results) -> list[Criterion]:
    """Every promise, in the order in which they were made."""
    found = [_rate(results, key, times) for key, times in (("plain", 4.0), ("json-lz4", 5.0), ("single", 2.0))]
    for field, words in (("copying_cpu_s_per_gb", "copying"), ("cpu_s_per_gb", "start included")):
        found += [_cpu(results, key, field, words) for key in ("plain", "json-lz4")]
    found += [
        _lane(results, "plain", "records", TUNED),
        _lane(results, "json", "records", TUNED),
        _lane(results, "json", "masked", "mm2-masked", ", both masked"),
        _lane(results, "json", "masked", TUNED, ", masked, MM2 as it is"),
        _lane_latency(results),
    ]
    return [*found, _start(results), _limit(results), _added(results), _p99(results), _all_well(results)]


def ratio(result: ScenarioResult | None, field: str, one: str, other: str) -> float | None:
    """A median of one contender over the same of another."""
    if result is None:
        return None
    first, second = (getattr(result.median(key), field) for key in (one, other))
    return first / second if first is not None and second else None


def _judged(name: str, wanted: str, found: float | None, test: Callable[[float], bool], note: str = "") -> Criterion:
    return Criterion(name, wanted, found, None if found is None else test(found), note)


def _title(results: Results, key: str) -> str:
    found = results.scenario(key)
    return found.scenario.title if found else key


def _rate(results: Results, key: str, times: float) -> Criterion:
    found = ratio(results.scenario(key), "records_per_s", OURS, TUNED)
    name = f"rate over tuned MM2: {_title(results, key)}"
    return _judged(name, f"≥ {times:g}×", found, lambda value: value >= times)


def _cpu(results: Results, key: str, field: str, words: str) -> Criterion:
    found = ratio(results.scenario(key), field, OURS, TUNED)
    name = f"CPU per GB over tuned MM2, {words}: {_title(results, key)}"
    return _judged(name, "≤ 0.125×", found, lambda value: value <= 0.125)


def _worst(results: Results, field: str, other: str, choose: Callable[..., str]) -> tuple[float | None, str]:
    ratios = {found.scenario.title: ratio(found, field, OURS, other) for found in results.scenarios}
    known = {title: value for title, value in ratios.items() if value is not None}
    if not known:
        return None, ""
    title = choose(known, key=lambda name: known[name])
    return known[title], f"worst: {title}"


def _lane(results: Results, key: str, contender: str, other: str, words: str = "") -> Criterion:
    found = ratio(results.scenario(key), "records_per_s", contender, other)
    name = f"transform query over tuned MM2: {_title(results, key)}{words}"
    return _judged(name, "≥ 1×", found, lambda value: value >= 1.0)


def _lane_latency(results: Results) -> Criterion:
    found = results.latency.median("records").p50_ms
    return _judged("latency of the transform query p50, ms", "< 1000", found, lambda value: value < 1000)


def _start(results: Results) -> Criterion:
    found, note = _worst(results, "first_record_s", TUNED, max)
    return _judged("start to first record over tuned MM2", "≤ 1×", found, lambda value: value <= 1.0, note)


def _limit(results: Results) -> Criterion:
    found, note = _worst(results, "records_per_s", LIMIT, min)
    return _judged("rate over bare sockets", "≥ 0.8×", found, lambda value: value >= 0.8, note)


def _added(results: Results) -> Criterion:
    ours, straight = (results.latency.median(key).p50_ms for key in (OURS, STRAIGHT))
    found = ours - straight if ours is not None and straight is not None else None
    return _judged("added latency p50, ms", "≤ 1.5", found, lambda value: value <= 1.5)


def _all_well(results: Results) -> Criterion:
    """Medians leave failed rounds out, so a failure must show by itself."""
    reasons = [found.failure for result in results.scenarios for found in result.rounds.get(OURS, [])]
    reasons += [found.failure for found in results.latency.rounds.get(OURS, [])]
    failures = [reason for reason in reasons if reason]
    count, note = (float(len(failures)) if reasons else None), (failures[-1] if failures else "")
    return _judged("failed rounds of sparkmirror", "0", count, lambda value: value == 0, note)


def _p99(results: Results) -> Criterion:
    theirs = {key: results.latency.median(key).p99_ms for key in (DEFAULT, TUNED)}
    known = {key: value for key, value in theirs.items() if value is not None}
    ours = results.latency.median(OURS).p99_ms
    if ours is None or not known:
        return Criterion("latency p99 over the better MM2", "< 1×", None, None)
    best = min(known, key=lambda key: known[key])
    found = ours / known[best]
    return _judged("latency p99 over the better MM2", "< 1×", found, lambda value: value < 1.0, f"better: {best}")
