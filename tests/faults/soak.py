"""Minutes of the mixed workload with a random fault every minute: is all copied once, and does anything grow?

`python -m faults.soak --minutes 40` prints a line every minute, draws docs/pictures/soak.svg and writes the figures into
docs/soak.md. In the first quarter every fault may strike; later only those that leave the driver alive, so that its
memory is that of one life. Everything stays on disk until the judge has read it at the end, as digests.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from pathlib import Path

import psutil
from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import OffsetSpec
from kafka.errors import KafkaError

from faults.chaos import FAULTS, Stage, settle
from faults.judging import GROUPS, RUN, GroupWatch, judge
from faults.mixed import PARTITIONS, MixedWorkload

__all__ = ["Sample", "Sampler", "Soak", "draw", "report", "slope_per_hour"]

ROOT = Path(__file__).parents[2]
PAGE, PICTURE = ROOT / "docs" / "soak.md", ROOT / "docs" / "pictures" / "soak.svg"
BEGIN, END = "<!-- soak: made by make soak -->", "<!-- soak: end -->"
SAMPLE_S = 5.0
FAULT_EVERY_S = 60.0
WILD_PART = 0.25  # of the time in which drivers die too
WARM_UP_S = 120.0  # of a driver's life, before its memory counts
LAG_GROUP = "connect-MirrorSourceConnector-target"
# The source, its copy, and a second copy of a third of it; uncompressed, and with room for others.
DISK_TIMES = 4
ENDS_DRIVER = frozenset({"kill driver", "take over"})
ROLES = ("driver", "jvm", "workers")


@dataclass(frozen=True)
class Use:
    """What processes of one kind hold: megabytes resident, descriptors, threads, and how many they are."""

    memory: float = 0.0
    descriptors: int = 0
    threads: int = 0
    processes: int = 0

    def __add__(self, other: Use) -> Use:
        return Use(
            self.memory + other.memory,
            self.descriptors + other.descriptors,
            self.threads + other.threads,
            self.processes + other.processes,
        )


@dataclass(frozen=True)
class Sample:
    """One look; `life` tells drivers apart, `lag` is None while the source does not answer."""

    at: float
    life: int
    driver: Use
    jvm: Use
    workers: Use
    lag: int | None


@dataclass
class Soak:
    """What a run came to."""

    seed: int
    minutes: float
    megabytes_per_s: float
    samples: list[Sample] = field(default_factory=list)
    faults: list[tuple[float, str]] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    records: int = 0
    sends: str = ""
    size: int = 0
    caught_up: float = 0.0
    judged: float = 0.0
    only: tuple[str, ...] = ()  # the faults that strike; all of them if it is empty
    every: float = FAULT_EVERY_S


class Sampler:
    """Looks every few seconds at what the mirror's processes hold, and at its lag."""

    def __init__(self, stage: Stage) -> None:
        self._stage, self._stop = stage, threading.Event()
        self._began = time.monotonic()
        self.samples: list[Sample] = []
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            with (
                contextlib.suppress(KafkaError),  # the source is down now and then
                contextlib.closing(KafkaAdminClient(bootstrap_servers=self._stage.source.bootstrap)) as admin,
            ):
                while not self._stop.wait(SAMPLE_S):
                    try:
                        lag = copy_lag(admin)
                    except KafkaError:
                        self._look(None)
                        raise
                    self._look(lag)
            if not self._stop.wait(SAMPLE_S):
                self._look(None)

    def _look(self, lag: int | None) -> None:
        mirror = self._stage.mirror
        driver, jvm, workers = Use(), Use(), Use()
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(mirror.process.pid)
            driver = _use(process)
            jvm = sum((_use(child) for child in process.children(recursive=True) if _is_java(child)), Use())
        workers = sum(map(_use, mirror.workers()), Use())
        at = time.monotonic() - self._began
        self.samples.append(Sample(at, mirror.process.pid, driver, jvm, workers, lag))


def _use(process: psutil.Process) -> Use:
    with contextlib.suppress(psutil.Error):
        return Use(process.memory_info().rss / 1e6, process.num_fds(), process.num_threads(), 1)
    return Use()


def _is_java(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.name() == "java"
    return False


def copy_lag(admin: KafkaAdminClient) -> int:
    """Offsets that the flow `plain` is behind, by its group on the source."""
    places = [TopicPartition(topic, number) for topic, count in PARTITIONS.items() for number in range(count)]
    ends = admin.list_partition_offsets(dict.fromkeys(places, OffsetSpec.LATEST))
    at = admin.list_group_offsets(LAG_GROUP)[LAG_GROUP]
    return sum(max(ends[place].offset - (at[place].offset if place in at else 0), 0) for place in places)


# --- running ---------------------------------------------------------------------------------------------------


def run(soak: Soak, folder: Path, say: Callable[[str], None]) -> None:
    """The whole of it; fills in what it came to."""
    stage = Stage(folder, f"soak/{soak.seed}")
    with stage.open(), GroupWatch(stage.target.bootstrap) as watch:
        with MixedWorkload(
            stage.source, folder, run=RUN, seed=soak.seed, megabytes_per_s=soak.megabytes_per_s, groups=GROUPS
        ) as workload:
            stage.start_mirror()
            stage.await_workers()
            with Sampler(stage) as sampler:
                soak.samples = sampler.samples
                _harm(soak, stage, workload, say)
            sent = workload.finish()
        soak.sends, soak.size = sent.counted(), sent.size
        say(f"sent {sent.records} records, {sent.size / 1e9:.2f} GB: {soak.sends}")
        soak.caught_up, soak.violations = settle(stage)
        say(f"caught up in {soak.caught_up:.1f} s; judging")
        began = time.monotonic()
        found = judge(stage.source, stage.target, sent)
        soak.judged = time.monotonic() - began
        soak.records = found.records
        soak.violations += [*found.violations, *watch.violations, *stage.violations]
        soak.notes += [*stage.notes, *found.notes, f"{watch.looks} looks at the groups on the target", *sent.troubles[:5]]


def _harm(soak: Soak, stage: Stage, workload: MixedWorkload, say: Callable[[str], None]) -> None:
    """A fault at a random moment of every minute."""
    rng, began, whole = random.Random(f"soak/{soak.seed}"), time.monotonic(), soak.minutes * 60
    minute = 0
    while (left := whole - (time.monotonic() - began)) > 0:
        minute += 1
        moment = min(began + minute * soak.every - rng.uniform(0, 0.5) * soak.every, time.monotonic() + left)
        while time.monotonic() < moment:
            time.sleep(0.5)
            stage.tend()
            assert workload.is_running, workload.output
        passed = time.monotonic() - began
        if passed > whole - soak.every / 4:
            break
        wanted = soak.only or FAULTS
        names = [name for name in wanted if soak.only or passed < WILD_PART * whole or name not in ENDS_DRIVER]
        reported = stage.strike(rng.choice(names))
        soak.faults.append((passed, reported))
        say(f"{passed / 60:5.1f} min: {reported}; {_now(soak.samples)}")


def _now(samples: Sequence[Sample]) -> str:
    if not samples:
        return "no sample yet"
    last = samples[-1]
    held = ", ".join(f"{role} {getattr(last, role).memory:.0f} MB" for role in ROLES)
    return f"{held}, lag {last.lag}"


# --- figures ---------------------------------------------------------------------------------------------------


def last_life(samples: Sequence[Sample]) -> list[Sample]:
    """The samples of the last driver, warmed up."""
    if not samples:
        return []
    own = [sample for sample in samples if sample.life == samples[-1].life]
    warm = [sample for sample in own if sample.at - own[0].at >= min(WARM_UP_S, (own[-1].at - own[0].at) / 2)]
    return [sample for sample in warm if sample.workers.processes]


def slope_per_hour(points: Sequence[tuple[float, float]]) -> float:
    """Least squares, of (seconds, value)."""
    if len(points) < 2:
        return 0.0
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return 3600 * sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0


def report(soak: Soak, commit: str, day: str) -> str:
    """The figures as Markdown."""
    warm = last_life(soak.samples)
    minutes = (warm[-1].at - warm[0].at) / 60 if warm else 0.0
    lags = [sample.lag for sample in soak.samples if sample.lag is not None]
    nothing = "**0 violations.**" if soak.records else "**Not judged.**"
    reported = "\n".join(f"- {line}" for line in soak.violations) or nothing
    head = [
        f"`make soak MINUTES={soak.minutes:g} SEED={soak.seed}` at commit {commit}, {day}, on {os.cpu_count()} cores.",
        "",
        reported,
        "",
        f"{soak.size / 1e9:.1f} GB of records in {soak.minutes:g} minutes ({soak.size / 1e6 / 60 / soak.minutes:.1f} MB/s): "
        f"{soak.sends}. Java's consumer read {soak.records:,} records on the source and compared them with their copies "
        f"in {soak.judged:.0f} s. {len(soak.faults)} faults; everything was copied {soak.caught_up:.1f} s after the "
        f"workload's end. The lag was {max(lags, default=0):,} offsets at most and "
        f"{sorted(lags)[len(lags) // 2] if lags else 0:,} in the median.",
        "",
        f"Over the last driver's life after its warm-up, {minutes:.0f} minutes:",
        "",
        "| | MB: first | last | most | slope, MB/h | descriptors: first | last | most | threads: first | last | most |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    return "\n".join([*head, *(_row(role, warm) for role in ROLES), "", "Faults:", "", *_fault_lines(soak), ""])


def _row(role: str, warm: Sequence[Sample]) -> str:
    uses = [(sample.at, getattr(sample, role)) for sample in warm]
    if not uses:
        return f"| {role} |" + " – |" * 10
    cells = []
    for name, shown in (("memory", "{:.0f}"), ("descriptors", "{}"), ("threads", "{}")):
        values = [getattr(use, name) for _, use in uses]
        cells += [shown.format(value) for value in (values[0], values[-1], max(values))]
        if name == "memory":
            cells.append(f"{slope_per_hour([(at, use.memory) for at, use in uses]):+.0f}")
    return f"| {role} | " + " | ".join(cells) + " |"


def _fault_lines(soak: Soak) -> Iterator[str]:
    for at, reported in soak.faults:
        yield f"- {at / 60:.1f} min: {reported}"
    for note in soak.notes:
        yield f"- note: {note}"


# --- picture ---------------------------------------------------------------------------------------------------

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 900, 170, 70, 110, 28, 26
COLOURS = {"driver": "#2f81f7", "jvm": "#e08a1e", "workers": "#3fb950", "lag": "#a371f7"}
TEXT, RULE = "#7d8590", "#7d8590"
Line = tuple[str, list[tuple[float, float]]]


def draw(soak: Soak) -> str:
    """One panel each for memory, lag, descriptors and threads; a dotted line for every fault."""
    panels: list[tuple[str, list[Line]]] = [
        ("memory resident, MB", [(role, _points(soak, role, "memory")) for role in ROLES]),
        ("copy lag, offsets", [("lag", [(s.at, float(s.lag)) for s in soak.samples if s.lag is not None])]),
        ("descriptors", [(role, _points(soak, role, "descriptors")) for role in ROLES]),
        ("threads", [(role, _points(soak, role, "threads")) for role in ROLES]),
    ]
    whole = HEIGHT * len(panels)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{whole}" viewBox="0 0 {WIDTH} {whole}" '
        'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif" font-size="12">',
        f"<title>{soak.minutes:g} minutes at {soak.megabytes_per_s:g} MB/s, a fault every minute, seed {soak.seed}</title>",
    ]
    longest = max((sample.at for sample in soak.samples), default=1.0)
    for number, (title, lines) in enumerate(panels):
        out += [f'<g transform="translate(0 {number * HEIGHT})">', *_panel(title, lines, longest, soak.faults), "</g>"]
    return "\n".join([*out, "</svg>\n"])


def _points(soak: Soak, role: str, name: str) -> list[tuple[float, float]]:
    return [(sample.at, float(getattr(getattr(sample, role), name))) for sample in soak.samples]


def _panel(title: str, lines: Sequence[Line], longest: float, faults: Sequence[tuple[float, str]]) -> Iterator[str]:
    highest = max((value for _, points in lines for _, value in points), default=0.0) or 1.0
    room_x, room_y = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    floor = HEIGHT - BOTTOM

    def x(at: float) -> float:
        return LEFT + at / longest * room_x

    yield f'<text x="0" y="14" fill="{TEXT}" font-weight="600">{escape(title)}</text>'
    for part in (0, 0.5, 1):
        y = floor - part * room_y
        yield f'<line x1="{LEFT}" x2="{LEFT + room_x}" y1="{y:.1f}" y2="{y:.1f}" stroke="{RULE}" stroke-opacity="0.25"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" fill="{TEXT}">{highest * part:,.0f}</text>'
    for at, reported in faults:
        place = f'x1="{x(at):.1f}" x2="{x(at):.1f}" y1="{TOP}" y2="{floor}"'
        style = f'stroke="{RULE}" stroke-opacity="0.5" stroke-dasharray="1 3"'
        yield f"<line {place} {style}><title>{escape(reported)}</title></line>"
    for part in range(5):
        at = longest * part / 4
        yield f'<text x="{x(at):.1f}" y="{floor + 16}" text-anchor="middle" fill="{TEXT}">{at / 60:.3g} min</text>'
    for number, (name, points) in enumerate(lines):
        path = " ".join(f"{x(at):.1f},{floor - value / highest * room_y:.1f}" for at, value in points)
        yield f'<polyline points="{path}" fill="none" stroke="{COLOURS[name]}" stroke-width="1.5"/>'
        yield f'<text x="{LEFT + room_x + 8}" y="{TOP + 12 + 16 * number}" fill="{COLOURS[name]}">{name}</text>'


# --- command line ----------------------------------------------------------------------------------------------


def main(words: list[str]) -> int:
    """1 if there are violations."""
    parser = argparse.ArgumentParser(prog="python -m faults.soak", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=40.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, default=5.0, help="MB/s")
    parser.add_argument("--keep", type=Path, default=ROOT / "build" / "soak", help="where samples and logs are kept")
    parser.add_argument("--page", action="store_true", help="write docs/soak.md and its picture")
    parser.add_argument("--only", nargs="+", choices=list(FAULTS), default=(), metavar="FAULT", help="these faults alone")
    parser.add_argument("--every", type=float, default=FAULT_EVERY_S, help="seconds from one fault to the next")
    options = parser.parse_args(words)
    _check_disk(options.minutes, options.rate)
    soak = Soak(options.seed, options.minutes, options.rate, only=tuple(options.only), every=options.every)
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    os.environ["TMPDIR"] = str(folder)  # where Spark's JVMs that are killed leave theirs
    try:
        run(soak, folder, lambda text: print(text, flush=True))
    finally:
        options.keep.mkdir(parents=True, exist_ok=True)
        (options.keep / "soak.json").write_text(json.dumps(asdict(soak)), encoding="utf-8")
        for log in folder.glob("*.log"):
            shutil.copy(log, options.keep)
        shutil.rmtree(folder)
    text = report(soak, _commit(), datetime.date.today().isoformat())
    print(text)
    if options.page:
        PICTURE.parent.mkdir(exist_ok=True)
        PICTURE.write_text(draw(soak), encoding="utf-8")
        put_between(PAGE, BEGIN, END, text)
    return int(bool(soak.violations))


def put_between(page: Path, begin: str, end: str, text: str) -> None:
    """Replaces what a page says between two marks."""
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    _, found, after = rest.partition(end)
    assert found, f"{page} has no {begin} … {end}"
    page.write_text(f"{before}{begin}\n\n{text.strip()}\n\n{end}{after}", encoding="utf-8")


def _check_disk(minutes: float, megabytes_per_s: float) -> None:
    needed, free = minutes * 60 * megabytes_per_s * 1e6 * DISK_TIMES, shutil.disk_usage(tempfile.gettempdir()).free
    if free < needed:
        sys.exit(f"soak: {needed / 1e9:.0f} GB are needed in {tempfile.gettempdir()}, {free / 1e9:.0f} GB are free")


def _commit() -> str:
    answer = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return answer.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
