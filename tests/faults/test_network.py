"""What a network does between the mirror and its clusters: cuts, delays, silence, bytes that come late. Judged by Java."""

from __future__ import annotations

import random
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from integration.mirroring import set_broker_config, set_topic_config
from judge import java_records

from faults.doors import Copying, Doors, open_doors
from faults.proxy import Api, Do, Fault, Proxy, is_data
from faults.staging import late_writes
from faults.workload import SPARKMIRROR, wait_until
from sparkmirror.local.processes import Child

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]

UNREACHABLE_SECONDS = 60.0
DEGRADED_SECONDS_MAX = 30.0  # I7
ANY_CUTS = 10
FILES_LEFT = 3
DISK_MB = 96


@pytest.fixture(scope="module")
def both() -> Iterator[Doors]:
    with open_doors() as opened:
        yield opened


@pytest.fixture
def doors(both: Doors, rng: random.Random) -> Iterator[Doors]:
    """The two clusters behind sound proxies."""
    both.heal(rng)
    yield both
    both.heal(rng)


@pytest.mark.fault("F18")
def test_F18_answers_that_are_cut_inside_are_asked_for_again(
    doors: Doors, topic_name, tmp_path: Path, rng: random.Random, row
) -> None:
    source, target = doors.at_source, doors.at_target
    places = ((source, Api.FETCH), (target, Api.PRODUCE), (source, Api.METADATA), (target, Api.METADATA))
    cuts = 0
    with Copying(doors, tmp_path, topic_name("inside")) as copying:
        for proxy, api in places:
            for how in (Do.FIN, Do.RST):
                for at in (2, 9, None):  # in the length, behind the correlation id, anywhere
                    proxy.arm(Fault(api, how, at=at, of=is_data)).await_hits()
                    cuts += 1
        for _ in range(ANY_CUTS):
            how, proxy = rng.choice([Do.FIN, Do.RST]), rng.choice([source, target])
            proxy.arm(Fault(None, how, at=None, skip=rng.randrange(20))).await_hits()
            cuts += 1
        row.recovered = copying.converge(time.monotonic())
        copying.end_well()
    row.seen = f"{cuts} answers cut with FIN or RST, none reported as corrupt; {copying.flow.judge()} records, none twice"


@pytest.mark.fault("F20")
def test_F20_a_batch_of_the_dead_owner_that_arrives_in_the_takeover_doubles_nothing(
    doors: Doors, topic_name, tmp_path: Path, rng: random.Random, row
) -> None:
    proxy = doors.at_target
    with Copying(doors, tmp_path, topic_name("zombie")) as copying:
        for moment in ("before", "within", "after"):
            held = proxy.arm(Fault(Api.PRODUCE, Do.HOLD, before=True, skip=rng.randrange(3, 20), of=is_data))
            held.await_hits()
            copying.mirror.kill()
            if moment == "before":
                release(proxy, held)
            copying.restart()
            if moment == "within":
                time.sleep(rng.uniform(0.0, 6.0))  # a random moment of the takeover, not a wait for something
                release(proxy, held)
            copying.await_copying()
            if moment == "after":
                release(proxy, held)
                copying.await_copying()
        row.recovered = copying.converge(time.monotonic())
        copying.end_well()
    count = copying.flow.judge()
    assert [late for found in copying.flow.target_batches().values() for late in late_writes(found)] == []
    row.seen = f"held batches of 3 dead owners let go before, within and after the takeover; {count} records, none twice"


def release(proxy: Proxy, held) -> None:
    """Lets the dead one's bytes go, and waits until the broker has answered them."""
    held.release()
    wait_until(lambda: not set(held.links) & set(proxy.links), "the late bytes have arrived")


@pytest.mark.fault("F53")
@pytest.mark.parametrize("kind", ["receipt", "closed"])
def test_F53_a_late_word_of_a_dead_slot_in_a_compacted_ledger_changes_nothing(
    kind: str, doors: Doors, topic_name, tmp_path: Path, row
) -> None:
    proxy = doors.at_target
    set_broker_config(doors.target, {"log.cleaner.backoff.ms": "200"})
    with Copying(doors, tmp_path, topic_name(f"late{kind}")) as copying:
        flow, ledger = copying.flow, f"mm2-ledger.{copying.alias}.internal"
        set_topic_config(doors.target, ledger, {"segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"})
        word = f'["{kind}"'.encode()
        held = proxy.arm(Fault(Api.PRODUCE, Do.HOLD, before=True, of=lambda frame: not is_data(frame) and word in frame))
        if kind == "closed":
            assert copying.mirror.interrupt() == 0, copying.mirror.output
        held.await_hits()
        copying.restart()
        copying.await_copying()

        def is_compacted() -> bool:
            found = java_records(doors.target.bootstrap, ledger)[0]
            return len(found) < found[-1].offset * 2 // 3

        wait_until(is_compacted, "the ledger is compacted", 90)
        release(proxy, held)
        copying.await_copying()
        copying.mirror.kill()  # whoever comes next finds the late word last in the log
        copying.restart()
        row.recovered = copying.converge(time.monotonic())
        copying.end_well()
    row.seen = f"a `{kind}` that came after two takeovers was ignored; {flow.judge()} records, none twice; the map is true"


@pytest.mark.fault("F21")
@pytest.mark.parametrize("side", ["source", "target"])
def test_F21_a_cluster_that_falls_silent_is_told_and_copied_on_when_it_is_back(
    side: str, doors: Doors, topic_name, tmp_path: Path, row
) -> None:
    with Copying(doors, tmp_path, topic_name(f"silent{side}")) as copying:
        said, began = len(copying.mirror.output), time.monotonic()
        doors.proxies[side].clog()
        reported = copying.await_said("waiting", after=said)
        assert reported <= DEGRADED_SECONDS_MAX, copying.mirror.output[said:]
        name = copying.alias if side == "source" else "target"
        assert any(f"{name} at " in line for line in copying.mirror.output[said:].splitlines() if "waiting" in line)
        time.sleep(max(UNREACHABLE_SECONDS - (time.monotonic() - began), 0.0))
        doors.proxies[side].unclog()
        row.recovered = copying.converge(time.monotonic())
        copying.end_well()
    count = copying.flow.judge()
    row.seen = f"{side} silent for {UNREACHABLE_SECONDS:g} s, reported after {reported:.1f} s; {count} records, none twice"


@pytest.mark.fault("F19")
def test_F19_a_slow_network_makes_lag_that_goes_away_and_no_storm(
    doors: Doors, topic_name, tmp_path: Path, rng: random.Random, row
) -> None:
    source, target = doors.at_source, doors.at_target
    with Copying(doors, tmp_path, topic_name("slow")) as copying:
        memory = sum(worker.memory_info().rss for worker in copying.mirror.workers())
        said = len(copying.mirror.output)
        for proxy in (source, target):
            proxy.latency_s = 0.1  # each way
        copying.await_copying()
        for proxy in (source, target):
            proxy.latency_s, proxy.bytes_per_s = 0.0, 125_000  # 1 Mbit/s; the load is four times that
        time.sleep(20)
        for proxy in (source, target):
            proxy.bytes_per_s = 0.0
        copying.await_copying()
        swizzle(source, rng)
        swizzle(target, rng)
        row.recovered = copying.converge(time.monotonic())
        grown = sum(worker.memory_info().rss for worker in copying.mirror.workers()) - memory
        assert grown < 64 << 20, f"{grown >> 20} MiB more"
        waits = copying.mirror.output[said:].count("waiting")
        assert waits < 20, copying.mirror.output[said:]
        copying.end_well()
    row.seen = (
        f"+200 ms, 1 Mbit/s, swizzle-clog: {grown / (1 << 20):+.0f} MiB of memory, {waits} lines of waiting; "
        f"{copying.flow.judge()} records, none twice"
    )


@pytest.mark.fault("F47")
def test_F47_descriptors_that_run_out_are_told_and_copying_goes_on_when_there_are_some(
    doors: Doors, topic_name, tmp_path: Path, row
) -> None:
    with Copying(doors, tmp_path, topic_name("descriptors")) as copying:
        said = len(copying.mirror.output)
        processes = [psutil.Process(copying.mirror.process.pid), *copying.mirror.workers()]
        limits = {process: process.rlimit(psutil.RLIMIT_NOFILE) for process in processes}
        for process, (_, hard) in limits.items():
            process.rlimit(psutil.RLIMIT_NOFILE, (FILES_LEFT, hard))
        for proxy in doors.proxies.values():
            proxy.cut()
        reported = copying.await_said("Too many open files", after=said)
        driver = processes[0]
        driver.rlimit(psutil.RLIMIT_NOFILE, limits[driver])  # workers that cannot talk are replaced
        row.recovered = copying.converge(time.monotonic())
        assert copying.mirror.interrupt() == 0, copying.mirror.output
        assert "Traceback" not in copying.mirror.output, copying.mirror.output
    row.seen = f"no descriptor left, reported after {reported:.1f} s; {copying.flow.judge()} records, none twice"


@pytest.mark.fault("F47")
def test_F47_a_log_that_cannot_be_written_does_not_stop_the_copying(
    doors: Doors, topic_name, tmp_path: Path, row
) -> None:
    with Copying(doors, tmp_path, topic_name("full")) as copying:
        assert copying.mirror.interrupt() == 0, copying.mirror.output
        mirror = Child("sparkmirror run", [SPARKMIRROR, "run", str(copying.path)], log_file=Path("/dev/full"))
        try:
            copying.await_copying()
            row.recovered = copying.converge(time.monotonic())
            mirror.send(signal.SIGTERM)
            assert mirror.wait(60) == 0
        finally:
            mirror.kill()
    row.seen = f"a full disk took no line of the log: {copying.flow.judge()} records, none twice, status 0 at the end"


@pytest.mark.fault("F23")
def test_F23_a_target_whose_disk_is_full_is_told_and_copied_on_when_there_is_room(
    doors: Doors, own_cluster, topic_name, tmp_path: Path, row
) -> None:
    with SmallDisk(tmp_path / "small") as disk:
        target = own_cluster("small", overrides={"log.dirs": str(disk.folder)}, launcher=disk.launcher)
        with Copying(doors, tmp_path, topic_name("room"), target=target) as copying:
            said = len(copying.mirror.output)
            disk.fill()
            reported = copying.await_said("waiting", after=said)
            # No answer, or one that names the storage: whichever comes first.
            assert re.search(rf"waiting: (cluster target: |target at {target.bootstrap})", copying.mirror.output[said:])
            wait_until(lambda: not target.pids, "the broker gives up")  # Kafka does when its only disk fails
            disk.empty()
            target.start(1)
            row.recovered = copying.converge(time.monotonic())
            copying.end_well()
        row.seen = f"reported after {reported:.1f} s; the broker ended; {copying.flow.judge()} records later, none twice"


class SmallDisk:
    """A tmpfs in a namespace of its own, which needs no rights where the kernel lets users make namespaces."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        script = f"mount -t tmpfs -o size={DISK_MB}m none {shlex.quote(str(folder))} && echo ready && exec cat"
        self._holder = subprocess.Popen(
            ["unshare", "-rm", "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._holder.stdin is not None and self._holder.stdout is not None
        if self._holder.stdout.readline() != "ready\n":
            self.close()
            pytest.skip("no tmpfs without rights on this machine")
        inside = ["-t", str(self._holder.pid), "-U", "-m", "--preserve-credentials", "--"]
        self.launcher = [shutil.which("nsenter") or "nsenter", *inside]

    def __enter__(self) -> SmallDisk:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fill(self) -> None:
        """Not a byte is left."""
        subprocess.run([*self.launcher, "sh", "-c", f"cat /dev/zero > {self.folder}/ballast"], check=False)

    def empty(self) -> None:
        """As before."""
        subprocess.run([*self.launcher, "rm", str(self.folder / "ballast")], check=True)

    def close(self) -> None:
        """The namespace is gone with its last process."""
        self._holder.kill()
        self._holder.communicate()


def swizzle(proxy: Proxy, rng: random.Random) -> None:
    """Clogs one link after the other, and lets them go in another order."""
    links = list(proxy.links)
    for link in rng.sample(links, len(links)):
        proxy.clog(link)
        time.sleep(rng.uniform(0.0, 1.0))
    for link in rng.sample(links, len(links)):
        proxy.unclog(link)
        time.sleep(rng.uniform(0.0, 1.0))
