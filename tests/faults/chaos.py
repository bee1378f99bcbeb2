"""Two clusters, two flows between them, the mixed workload, and random faults by seed; Java judges what is left.

`python -m faults.chaos 1 2 3` runs these seeds, `--count 40` that many from the first one on. The same seed gives the same
workload and the same faults in the same order; the moments differ as processes do.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import logging
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil
from integration.mirroring import log_ends
from integration.scenario import client_of

from faults.judging import FLOWS, GROUPS, RUN, GroupWatch, judge
from faults.mixed import MixedWorkload
from faults.proxy import Api, Do, Fault, Proxy, is_data
from faults.workload import MirrorProcess, run_once, wait_until
from sparkmirror.driver import FlowLedger
from sparkmirror.local import LocalCluster, open_clusters
from sparkmirror.model import TopicPartition

__all__ = ["FAULTS", "Stage", "Verdict", "keep", "run_seed", "settle"]

DOCS = Path(__file__).parents[2] / "docs"
STORE, PAGE = DOCS / "seeds.json", DOCS / "seeds.md"
FAULTS_MIN, FAULTS_MAX = 4, 6
MEGABYTES_PER_S = 3.0
START_SECONDS_MAX = 300.0  # 15 s on two idle cores; 80 s were seen with forty processes waiting for them
COPIED_SECONDS_MAX = 600.0  # 60 s are promised on a machine of its own
STRIKE_SECONDS_MAX = 20.0  # for the request that a fault waits for
NO_CLUSTER = 2  # the status of a run that could not begin
# Compacts at once; 384 MB are enough for one broker, but not with the page cache of a loaded machine beside it.
BROKER = {"log.cleaner.backoff.ms": "1000"}
BROKER_HEAP_MB = 512

SETTINGS = """\
clusters = plain, committed, target
plain.bootstrap.servers = {source}
committed.bootstrap.servers = {source}
target.bootstrap.servers = {target}
plain->target.enabled = true
plain->target.topics = mixed, transacted, compacted
committed->target.enabled = true
committed->target.topics = transacted
committed.consumer.isolation.level = read_committed
committed->target.lag.group.enabled = false
groups = group-.*
sync.group.offsets.enabled = true
sync.group.offsets.interval.seconds = 2
emit.checkpoints.interval.seconds = 2
emit.heartbeats.enabled = false
heartbeats.replication.enabled = false
replication.factor = 1
offset-syncs.topic.replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset.storage.replication.factor = 1
status.storage.replication.factor = 1
config.storage.replication.factor = 1
"""


@dataclass
class Verdict:
    """What one run came to."""

    seed: int
    faults: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    sends: str = ""
    records: int = 0
    recovered: float = 0.0
    seconds: float = 0.0

    def line(self) -> str:
        """All of it in one line."""
        reported = "; ".join(self.violations) or "0 violations"
        notes = f" ({'; '.join(self.notes)})" if self.notes else ""
        return (
            f"seed {self.seed}: {reported}; {self.records} records ({self.sends}), caught up in {self.recovered:.1f} s, "
            f"{self.seconds:.0f} s in all; {', '.join(self.faults)}{notes}"
        )


class Stage:
    """Everything that runs, and the hands that harm it."""

    def __init__(self, folder: Path, seed: object) -> None:
        logging.getLogger("asyncio").setLevel(logging.ERROR)  # the proxies write to clients that were killed
        self.folder, self.rng = folder, random.Random(f"chaos/{seed}")
        self.doors: dict[str, Proxy] = {}
        self.source = self._cluster("source", seed)
        self.target = self._cluster("target", seed)
        self.properties = folder / "mm2.properties"
        self.mirror: MirrorProcess
        self.violations: list[str] = []
        self.notes: list[str] = []
        self._has_worked = False

    def _cluster(self, name: str, seed: object) -> LocalCluster:
        def door(_broker: int, port: int) -> int:
            self.doors[name] = Proxy(port, seed=f"{seed}/{name}")
            return self.doors[name].port

        return LocalCluster(name, door=door, overrides=BROKER, heap_mb=BROKER_HEAP_MB)

    @contextlib.contextmanager
    def open(self) -> Iterator[Stage]:
        """Both clusters run, nothing else yet."""
        with open_clusters(self.source, self.target):
            try:
                settings = SETTINGS.format(source=self.source.door_bootstrap, target=self.target.door_bootstrap)
                self.properties.write_text(settings, encoding="utf-8")
                yield self
            finally:
                if hasattr(self, "mirror"):
                    self.mirror.end()
                for door in self.doors.values():
                    door.close()

    def start_mirror(self, *arguments: str) -> None:
        """A new driver."""
        self.mirror = MirrorProcess(self.properties, *arguments)
        self._has_worked = False

    def await_workers(self) -> list[psutil.Process]:
        """The workers, once there are some."""
        found: list[psutil.Process] = []

        def is_working() -> bool:
            self.tend()
            found[:] = self.mirror.workers()
            return bool(found)

        wait_until(is_working, "a worker runs", START_SECONDS_MAX)
        self._has_worked = True
        return found

    def tend(self) -> None:
        """Starts the mirror again if it has ended, as a service manager would. That it had to is reported."""
        if self.mirror.process.poll() is None:
            return
        status, tail = self.mirror.process.returncode, self.mirror.output[-1500:]
        if status == NO_CLUSTER and not self._has_worked:
            self.notes.append("started again: no cluster at its start")
        else:
            self.violations.append(f"the mirror ended by itself with status {status}: {tail}")
        self.mirror.end()
        self.start_mirror()

    def strike(self, name: str) -> str:
        """Does one fault and undoes it; says what it was."""
        began = time.monotonic()
        detail = FAULTS[name](self)
        return f"{name}{' ' + detail if detail else ''} ({time.monotonic() - began:.1f} s)"

    # --- faults --------------------------------------------------------------------------------------------------

    def kill_driver(self) -> str:
        """kill −9, and a new one."""
        self.mirror.end()
        self.start_mirror()
        return ""

    def kill_worker(self) -> str:
        """kill −9 of one Python worker."""
        victim = self.rng.choice(self.await_workers())
        with contextlib.suppress(psutil.NoSuchProcess):
            victim.kill()
        psutil.wait_procs([victim], timeout=20)
        return ""

    def stop_driver(self) -> str:
        """SIGSTOP, seconds, SIGCONT."""
        self.await_workers()
        return self._stop(psutil.Process(self.mirror.process.pid))

    def stop_worker(self) -> str:
        """The same for one Python worker."""
        return self._stop(self.rng.choice(self.await_workers()))

    def _stop(self, process: psutil.Process) -> str:
        seconds = self.rng.uniform(3, 8)
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGSTOP)
            time.sleep(seconds)
            process.send_signal(signal.SIGCONT)
        return ""

    def restart(self, cluster: LocalCluster) -> str:
        """An orderly restart of the broker."""
        cluster.stop(1)
        cluster.start(1)
        return ""

    def crash(self, cluster: LocalCluster) -> str:
        """kill −9 of the broker, and a new start."""
        cluster.kill(1)
        cluster.start(1)
        return ""

    def cut(self, door: str, api: Api) -> str:
        """Connections are cut: before the broker hears of it, or within the answer, or before it."""
        how, at = self.rng.choice([Do.FIN, Do.RST]), self.rng.choice([0, None])
        skip, times, before = self.rng.randrange(7), self.rng.randint(1, 3), self.rng.random() < 0.3
        armed = self.doors[door].arm(Fault(api, how, at, before=before, skip=skip, times=times, of=is_data))
        self._await_hits(lambda: armed.hits >= times)
        armed.disarm()
        return f"×{armed.hits}"

    def hold(self, door: str, api: Api) -> str:
        """One frame is held for seconds: what is behind it on the connection waits too."""
        armed = self.doors[door].arm(Fault(api, Do.HOLD, before=self.rng.random() < 0.5, of=is_data))
        self._await_hits(lambda: armed.hits > 0)
        time.sleep(self.rng.uniform(2, 6))
        armed.release()
        return f"×{armed.hits}"

    def delay(self, door: str) -> str:
        """Every frame comes later, for seconds."""
        self.doors[door].latency_s = self.rng.uniform(0.05, 0.5)
        time.sleep(self.rng.uniform(3, 6))
        self.doors[door].latency_s = 0.0
        return ""

    def clog(self, door: str) -> str:
        """Nothing passes, for seconds, without notice."""
        self.doors[door].clog()
        time.sleep(self.rng.uniform(3, 8))
        self.doors[door].unclog()
        return ""

    def _await_hits(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + STRIKE_SECONDS_MAX
        while not condition() and time.monotonic() < deadline:
            time.sleep(0.02)

    def take_over(self) -> str:
        """A second owner takes the flows from the first, which is alive."""
        self.await_workers()
        first = self.mirror
        self.start_mirror("--take-over")
        self.await_workers()
        deadline = time.monotonic() + START_SECONDS_MAX
        while first.process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        if first.process.returncode is None:
            self.violations.append("the owner that was taken over from runs on")
        first.end()
        return f"the first ended with {first.process.returncode}"


FAULTS: dict[str, Callable[[Stage], str]] = {
    "kill driver": Stage.kill_driver,
    "kill worker": Stage.kill_worker,
    "stop driver": Stage.stop_driver,
    "stop worker": Stage.stop_worker,
    "restart source": lambda stage: stage.restart(stage.source),
    "restart target": lambda stage: stage.restart(stage.target),
    "crash source": lambda stage: stage.crash(stage.source),
    "crash target": lambda stage: stage.crash(stage.target),
    "cut produce": lambda stage: stage.cut("target", Api.PRODUCE),
    "cut fetch": lambda stage: stage.cut("source", Api.FETCH),
    "hold produce": lambda stage: stage.hold("target", Api.PRODUCE),
    "hold fetch": lambda stage: stage.hold("source", Api.FETCH),
    "delay target": lambda stage: stage.delay("target"),
    "delay source": lambda stage: stage.delay("source"),
    "clog target": lambda stage: stage.clog("target"),
    "clog source": lambda stage: stage.clog("source"),
    "take over": Stage.take_over,
}


def await_copied(stage: Stage, alias: str, topics: Sequence[str]) -> None:
    """Waits until a flow's ledger proves all that the source holds. Java judges; this only knows when."""
    ends = {TopicPartition(topic, at): end for topic in topics for at, end in log_ends(stage.source, topic).items()}
    with client_of(stage.target) as client:
        ledger = FlowLedger(client, f"mm2-ledger.{alias}.internal")

        def is_there() -> bool:
            ledger.read_new()
            positions = {place: ledger.view.of(place).position() for place in ends}
            return all(at is not None and at.upstream >= ends[place] for place, at in positions.items())

        wait_until(is_there, f"{alias} has copied up to {ends}: {stage.mirror.output[-3000:]}", COPIED_SECONDS_MAX)


def settle(stage: Stage) -> tuple[float, list[str]]:
    """The workload is over: waits until the mirror has copied all, ends it, runs it once more; seconds it took."""
    stage.await_workers()
    began = time.monotonic()
    for alias, (_, topics) in FLOWS.items():
        await_copied(stage, alias, topics)
    caught_up = time.monotonic() - began
    found = []
    stage.mirror.process.send_signal(signal.SIGINT)
    status = stage.mirror.wait(START_SECONDS_MAX)
    if status != 0:
        found.append(f"the mirror drained with status {status}: {stage.mirror.output[-1500:]}")
    status, output = run_once(stage.properties, seconds=COPIED_SECONDS_MAX)
    if status != 0:
        found.append(f"run --once ended with status {status}: {output[-1500:]}")
    return caught_up, found


def run_seed(seed: int, folder: Path, megabytes_per_s: float = MEGABYTES_PER_S) -> Verdict:
    """One whole run."""
    began, verdict = time.monotonic(), Verdict(seed)
    stage = Stage(folder, seed)
    with stage.open(), GroupWatch(stage.target.bootstrap) as watch:
        with MixedWorkload(
            stage.source, folder, run=RUN, seed=seed, megabytes_per_s=megabytes_per_s, groups=GROUPS
        ) as workload:
            stage.start_mirror()
            stage.await_workers()
            for _ in range(stage.rng.randint(FAULTS_MIN, FAULTS_MAX)):
                time.sleep(stage.rng.uniform(0, 4))
                verdict.faults.append(stage.strike(stage.rng.choice(list(FAULTS))))
                stage.tend()
                assert workload.is_running, workload.output
            sent = workload.finish()
        verdict.recovered, verdict.violations = settle(stage)
        found = judge(stage.source, stage.target, sent)
        verdict.records = found.records
        verdict.violations += found.violations
        verdict.violations += watch.violations if watch.looks else ["nobody could look at the groups on the target"]
    verdict.violations += stage.violations
    verdict.notes += [*stage.notes, *found.notes]
    verdict.sends = sent.counted()
    verdict.seconds = time.monotonic() - began
    return verdict


def keep(verdict: Verdict, store: Path = STORE, page: Path = PAGE) -> None:
    """Puts a verdict among those of other seeds, and writes the page anew; several processes may do so at once."""
    folder = os.open(store.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        known = json.loads(store.read_text(encoding="utf-8")) if store.exists() else {}
        known[str(verdict.seed)] = asdict(verdict)
        ordered = dict(sorted(known.items(), key=lambda item: int(item[0])))
        store.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        page.write_text(render([Verdict(**fields) for fields in ordered.values()]), encoding="utf-8")
    finally:
        os.close(folder)


def render(verdicts: list[Verdict]) -> str:
    """The page of seeds."""
    failed = sum(bool(verdict.violations) for verdict in verdicts)
    records = sum(verdict.records for verdict in verdicts)
    lines = [
        "# Random faults by seed",
        "",
        "Made by `make seeds`; what a run is, see [soak.md](soak.md#seeds). `make seeds SEEDS=7` runs one again: the same",
        "faults in the same order, though not at the same instructions.",
        "",
        f"{len(verdicts)} seeds, {sum(len(verdict.faults) for verdict in verdicts)} faults, {records:,} records judged; "
        f"{failed} seeds with violations.",
        "",
        "| seed | violations | records | caught up, s | seconds | faults (seconds each) |",
        "|---|---|---|---|---|---|",
    ]
    for verdict in verdicts:
        reported = "<br>".join(line.replace("|", "/")[:300] for line in verdict.violations) or "0"
        faults = ", ".join(fault.replace(" s)", ")") for fault in verdict.faults)
        numbers = f"{verdict.records:,} | {verdict.recovered:.1f} | {verdict.seconds:.0f}"
        lines.append(f"| {verdict.seed} | {reported} | {numbers} | {faults} |")
    return "\n".join([*lines, ""])


def main(words: list[str]) -> int:
    """The command line; 1 if a seed failed."""
    parser = argparse.ArgumentParser(prog="python -m faults.chaos", description=__doc__.splitlines()[0])
    parser.add_argument("seeds", nargs="*", type=int, default=[1], help="the seeds; the first of them with --count")
    parser.add_argument("--count", type=int, help="so many seeds, from the first one on")
    parser.add_argument("--rate", type=float, default=MEGABYTES_PER_S, help="MB/s")
    parser.add_argument("--page", action="store_true", help="keep the results in docs/seeds.json and docs/seeds.md")
    options = parser.parse_args(words)
    seeds = list(range(options.seeds[0], options.seeds[0] + options.count)) if options.count else options.seeds
    failed = 0
    for seed in seeds:
        print(f"seed {seed} begins", file=sys.stderr, flush=True)
        folder = Path(tempfile.mkdtemp(prefix=f"chaos-seed-{seed}-"))
        os.environ["TMPDIR"] = str(folder)  # where Spark's JVMs that are killed leave theirs
        try:
            verdict = run_seed(seed, folder, options.rate)
        except AssertionError as error:
            verdict = Verdict(seed, violations=[f"not brought to its end: {error}"])
        print(verdict.line(), flush=True)
        if options.page:
            keep(verdict)
        if verdict.violations:
            failed += 1
            print(f"seed {seed}: logs in {folder}", flush=True)
        else:
            shutil.rmtree(folder)
    print(f"{len(seeds)} seeds, {failed} with violations")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
