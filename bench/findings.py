"""What a run found: every round as it was, and the medians."""

from __future__ import annotations

import os
import platform
import re
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

import pyspark

from bench.data import SourceTopic
from bench.latency import Latency
from bench.measure import Measured
from bench.scenarios import Scenario
from sparkmirror.local import KAFKA_VERSION
from sparkmirror.local.java import find_java

__all__ = ["LatencyResult", "Results", "ScenarioResult", "as_json", "environment"]

Found = TypeVar("Found", Measured, Latency)


@dataclass(slots=True)
class ScenarioResult:
    """All rounds over one topic, by contender."""

    scenario: Scenario
    topic: SourceTopic
    settings: dict[str, dict[str, str]] = field(default_factory=dict)
    rounds: dict[str, list[Measured]] = field(default_factory=dict)

    def median(self, contender: str) -> Measured:
        """Field by field over the rounds that ended well; with `failure` if none did."""
        return _median(self.rounds.get(contender, []), Measured("not run"))


@dataclass(slots=True)
class LatencyResult:
    """All rounds of the latency measurement, by contender; `straight` is a consumer of the source itself."""

    settings: dict[str, dict[str, str]] = field(default_factory=dict)
    rounds: dict[str, list[Latency]] = field(default_factory=dict)

    def median(self, contender: str) -> Latency:
        """Field by field over the rounds that ended well; with `failure` if none did."""
        return _median(self.rounds.get(contender, []), Latency("not run"))


@dataclass(slots=True)
class Results:
    """One run of the bench."""

    environment: dict[str, str | int | float]
    options: dict[str, Any]
    scenarios: list[ScenarioResult] = field(default_factory=list)
    latency: LatencyResult = field(default_factory=LatencyResult)

    def scenario(self, key: str) -> ScenarioResult | None:
        """The result of one scenario, if it ran."""
        return next((found for found in self.scenarios if found.scenario.key == key), None)


def _median(rounds: Sequence[Found], nothing: Found) -> Found:
    good = [found for found in rounds if not found.failure]
    if not good:
        return rounds[-1] if rounds else nothing
    values: dict[str, Any] = {}
    for name in (item.name for item in fields(nothing) if item.name != "failure"):
        numbers = [value for found in good if (value := getattr(found, name)) is not None]
        values[name] = statistics.median(numbers) if numbers else None
    return type(nothing)(**values)


def environment() -> dict[str, str | int | float]:
    """Versions and the size of the machine; nothing that names it."""
    answer = subprocess.run([find_java(), "-version"], capture_output=True, text=True, check=False, timeout=60)
    java = re.search(r'version "([^"]+)"', answer.stderr + answer.stdout)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "kafka": KAFKA_VERSION,
        "spark": pyspark.__version__,
        "python": platform.python_version(),
        "java": java[1] if java else "unknown",
        "cores": os.cpu_count() or 1,
        "memory_gb": round(memory / 1e9),
        "processor": _processor(),
        "load_at_start": round(os.getloadavg()[0], 2),
    }


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    text = cpuinfo.read_text(encoding="utf-8") if cpuinfo.is_file() else ""
    model = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return model[1] if model else platform.machine()


def as_json(results: Results, criteria: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The whole run as plain values."""
    return {
        "environment": results.environment,
        "options": results.options,
        "acceptance": list(criteria),
        "scenarios": {found.scenario.key: _scenario_json(found) for found in results.scenarios},
        "latency": {
            "settings": results.latency.settings,
            "median": {key: _rounded(asdict(results.latency.median(key))) for key in results.latency.rounds},
            "rounds": {key: [_rounded(asdict(r)) for r in rs] for key, rs in results.latency.rounds.items()},
        },
    }


def _scenario_json(found: ScenarioResult) -> dict[str, Any]:
    return {
        "title": found.scenario.title,
        "partitions": found.scenario.partitions,
        "records": found.topic.records,
        "log_bytes": found.topic.log_bytes,
        "source_producer": dict(found.scenario.producer),
        "settings": found.settings,
        "median": {key: _rounded(asdict(found.median(key))) for key in found.rounds},
        "rounds": {key: [_rounded(asdict(r)) for r in rs] for key, rs in found.rounds.items()},
    }


def _rounded(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: round(value, 3) if isinstance(value, float) else value for key, value in values.items()}
