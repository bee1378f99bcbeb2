"""`python -m bench`: all contenders over all scenarios, in turn, on the same brokers and data; results in a folder."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import TypeVar

from bench.acceptance import judge
from bench.contenders import CONTENDERS, LATENCY_CONTENDERS, Contender, Copy, shown_settings
from bench.data import make_topic, remove_other_topics
from bench.findings import Results, ScenarioResult, as_json, environment
from bench.latency import STRAIGHT, Latency, Span, latency_of_copy, latency_straight, latency_topic
from bench.measure import Measured, measure
from bench.plot import svg
from bench.report import markdown, shown_number, text
from bench.scenarios import SCENARIOS, Scenario
from sparkmirror.errors import SparkmirrorError
from sparkmirror.local import LocalCluster, open_clusters

__all__: list[str] = []

T = TypeVar("T")

LATENCY = "latency"
BROKER_HEAP_MB = 1024
# Deleted topics leave the disk soon, not a minute into somebody else's copy.
BROKER_SETTINGS = {"log.segment.delete.delay.ms": "500"}
SETTLE_S = 2.0
WHOLE, QUICK = Span(warm_up_s=10.0, seconds=30.0), Span(warm_up_s=3.0, seconds=8.0)
QUICK_SCALE = 0.1
LOAD_MAX = 0.5  # one other busy process on two cores halves what is left for a contender


class Bench:
    """One run: two clusters, a number for every copy, and what was found so far."""

    def __init__(self, options: argparse.Namespace, source: LocalCluster, target: LocalCluster) -> None:
        self._options, self._source, self._target = options, source, target
        self._numbers = itertools.count(1)
        self._topics: list[str] = []
        shown = ("scale", "rounds", "timeout", "scenarios", "contenders")
        self.results = Results(environment(), {name: getattr(options, name) for name in shown})

    def run(self) -> None:
        """Everything that was asked for."""
        for key in self._options.scenarios:
            if key == LATENCY:
                self._run_latency()
            else:
                self._run_scenario(SCENARIOS[key])

    def _run_scenario(self, scenario: Scenario) -> None:
        _say(f"{scenario.title}: producing {scenario.scaled_records(self._options.scale)} records")
        is_first = not self._topics
        self._topics.append(scenario.key)
        found = ScenarioResult(scenario, make_topic(self._source, scenario, self._options.scale))
        if is_first:
            # Cold brokers compile while they serve: whoever came first would pay for all.
            self._copy(found, CONTENDERS["bare"])
        self.results.scenarios.append(found)
        wanted = [CONTENDERS[key] for key in self._options.contenders if _is_possible(CONTENDERS[key])]
        for contender in self._in_turn([c for c in wanted if not c.only or scenario.key in c.only]):
            measured = self._copy(found, contender)
            found.rounds.setdefault(contender.key, []).append(measured)
            _say(f"{scenario.title}: {contender.title}: {_in_short(measured)}")
        found.rounds = {key: found.rounds[key] for key in CONTENDERS if key in found.rounds}
        self._clean_up()
        remove_other_topics(self._source.bootstrap, ())
        self._topics.remove(scenario.key)

    def _copy(self, found: ScenarioResult, contender: Contender) -> Measured:
        self._clean_up()
        copy = Copy(
            next(self._numbers), self._source.bootstrap, self._target.bootstrap, found.topic, found.scenario.codec
        )
        found.settings[contender.key] = shown_settings(contender, copy)
        return measure(contender, copy, timeout_s=self._options.timeout)

    def _run_latency(self) -> None:
        span = self._options.span
        wanted = [LATENCY_CONTENDERS[key] for key in self._options.contenders if key in LATENCY_CONTENDERS]
        for contender in self._in_turn([None, *wanted]):
            self._clean_up()
            number = next(self._numbers)
            topic = latency_topic(f"latency{number}")
            if contender is None:
                key, found = STRAIGHT, latency_straight(self._source.bootstrap, topic.name, span)
            else:
                copy = Copy(number, self._source.bootstrap, self._target.bootstrap, topic, "none", once=False)
                key, found = contender.key, latency_of_copy(contender, copy, span)
                self.results.latency.settings[key] = shown_settings(contender, copy)
            self.results.latency.rounds.setdefault(key, []).append(found)
            _say(f"latency: {key}: {_latency_in_short(found)}")
        rounds = self.results.latency.rounds
        self.results.latency.rounds = {key: rounds[key] for key in (STRAIGHT, *CONTENDERS) if key in rounds}
        self._clean_up()

    def _in_turn(self, contenders: list[T]) -> Iterator[T]:
        """All of them in every round, each round beginning with another one."""
        for number in range(self._options.rounds):
            first = number % max(len(contenders), 1)
            yield from contenders[first:] + contenders[:first]

    def _clean_up(self) -> None:
        """Brings both clusters back to the source topics alone, and lets the disk come to rest."""
        remove_other_topics(self._source.bootstrap, self._topics)
        remove_other_topics(self._target.bootstrap, ())
        os.sync()
        time.sleep(SETTLE_S)


def main() -> None:
    """Runs, prints and writes; whatever was found before an interruption is kept apart."""
    options = _options()
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell starts background jobs with SIGINT ignored
        signal.signal(number, _interrupt)
    started, load = time.monotonic(), os.getloadavg()[0]
    if load > LOAD_MAX:
        _say(f"warning: the load is {load:.1f} before anything has started: these numbers compare with no others")
    clusters = [
        LocalCluster(n, heap_mb=BROKER_HEAP_MB, overrides=BROKER_SETTINGS, lasting=True)
        for n in ("source", "target")
    ]
    with open_clusters(*clusters) as (source, target):
        bench = Bench(options, source, target)
        try:
            bench.run()
        except BaseException:
            if bench.results.scenarios:
                _write(bench.results, options.out, "interrupted")
            raise
    print(f"\n{_write(bench.results, options.out, options.name)}\n")
    _say(f"done in {(time.monotonic() - started) / 60:.1f} min; results in {options.out}/{options.name}.*")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    everything = [*SCENARIOS, LATENCY]
    parser.add_argument("--quick", action="store_true", help="a tenth of the data and short latency runs")
    parser.add_argument("--scale", type=float, help="share of the data to copy (1, or 0.1 with --quick)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each contender runs; medians are shown")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds after which a copy counts as failed")
    parser.add_argument("--scenarios", nargs="+", choices=everything, default=everything, metavar="NAME")
    parser.add_argument("--contenders", nargs="+", choices=list(CONTENDERS), default=list(CONTENDERS), metavar="NAME")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results"), help="folder of the results")
    options = parser.parse_args()
    is_whole = not options.quick and options.scale is None
    options.name = "latest" if is_whole else "quick"
    options.span = QUICK if options.quick else WHOLE
    options.scale = options.scale or (QUICK_SCALE if options.quick else 1.0)
    return options


def _write(results: Results, folder: Path, name: str) -> str:
    """Writes JSON, Markdown and picture; returns the text for the terminal."""
    folder.mkdir(parents=True, exist_ok=True)
    criteria = judge(results)
    document = as_json(results, [asdict(criterion) for criterion in criteria])
    contents = {
        "json": json.dumps(document, indent=1, ensure_ascii=False) + "\n",
        "md": markdown(results, criteria),
        "svg": svg(results),
    }
    for suffix, content in contents.items():
        part = folder / f"{name}.{suffix}.tmp"
        part.write_text(content, encoding="utf-8")
        part.replace(folder / f"{name}.{suffix}")
    return text(results, criteria)


def _is_possible(contender: Contender) -> bool:
    is_there = not contender.needs or shutil.which(contender.needs) is not None
    if not is_there:
        _say(f"{contender.title}: left out, {contender.needs} is not there")
    return is_there


def _in_short(found: Measured) -> str:
    if found.failure:
        return f"{found.failure} ({found.records_seen} records seen)"
    return (
        f"{shown_number(found.records_per_s)} records/s, {shown_number(found.mb_per_s)} MB/s, "
        f"CPU {shown_number(found.copying_cpu_s)} s copying and {shown_number(found.cpu_s)} s in all, "
        f"{shown_number(found.rss_peak_mb)} MB, first record after {shown_number(found.first_record_s)} s"
    )


def _latency_in_short(found: Latency) -> str:
    numbers = (found.p50_ms, found.p99_ms, found.p999_ms)
    return found.failure or f"p50 / p99 / p99.9: {' / '.join(map(shown_number, numbers))} ms"


def _say(line: str) -> None:
    print(line, flush=True)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    try:
        main()
    except SparkmirrorError as error:
        sys.exit(f"bench: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
