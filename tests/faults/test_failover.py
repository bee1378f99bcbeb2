"""Failover and failback by the README's own steps, with the mirror killed at each of them. Consumers are Java's."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from integration.scenario import CONSOLE_CONSUMER, java_offsets
from judge import java_records

from faults.staging import Flow
from faults.workload import SPARKMIRROR, MirrorProcess, Workload, run_once, wait_until, write_properties
from sparkmirror.local import LocalCluster, consumer_groups, create_topic
from sparkmirror.local.processes import Child
from sparkmirror.local.tools import java_tool

PARTITIONS = 2
QUIET_MS = "6000"  # a consumer that reads to the end leaves after so long without a record
NO_ANSWER, NOT_COPIED = 2, "no flow of the file copies this topic"
ROUNDS = 2  # over and back, and all of it again

SETTINGS = """
{{flow}}.groups = {group}
{{flow}}.sync.group.offsets.enabled = true
{{flow}}.tasks.max = 1
emit.checkpoints.interval.seconds = 1
sync.group.offsets.interval.seconds = 1
refresh.groups.interval.seconds = 1
"""


class Group:
    """A consumer group of Java's own consumer, and everything that it has read, by the topic in which it was written."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.read: dict[str, list[bytes]] = {}

    def consume(self, cluster: LocalCluster, topic: str, *, of: str, records: int | None = None) -> int:
        """Reads so many records, or all there are, and commits; how many it read."""
        arguments = ["--bootstrap-server", cluster.bootstrap, "--topic", topic, "--group", self.name, "--from-beginning"]
        arguments += ["--timeout-ms", QUIET_MS] if records is None else ["--max-messages", str(records)]
        values = java_tool(CONSOLE_CONSUMER, arguments).splitlines()
        self.read.setdefault(of, []).extend(values)
        return len(values)

    def violations(self, cluster: LocalCluster, topic: str, of: str) -> list[str]:
        """Where what was read is not what was written there, each record once and in order."""
        found = []
        for partition, records in java_records(cluster.bootstrap, topic).items():
            wanted = [record.value for record in records]
            read = [value for value in self.read[of] if value.startswith(b"%d:" % partition)]
            if read != wanted:
                at = next((i for i, pair in enumerate(zip(read, wanted, strict=False)) if pair[0] != pair[1]), "the end")
                found.append(f"{of}-{partition}: read {len(read)} of {len(wanted)} records, another one at {at}")
        return found


class Way:
    """One direction: a flow with a file of its own. What comes the other way is called `returned` at its source."""

    def __init__(self, flow: Flow, path: Path, group: Group, name: str, returned: str) -> None:
        self.flow, self.path, self.name, self._group, self._returned = flow, path, name, group, returned

    def stop_while_killing(self, folder: Path, load: Workload) -> None:
        """Ends the load and copies the rest, dying at each step; then the mirror's last act places the group."""
        with MirrorProcess(self.path) as mirror:
            self.flow.await_copying(500, why=lambda: mirror.output)
            mirror.kill()  # while everything runs
        with MirrorProcess(self.path) as mirror:
            self.flow.await_copying(500, why=lambda: mirror.output)
            self._group.consume(self.flow.source, self.flow.topic, of=self.name, records=700)
            load.finish()
            mirror.kill()  # when the producers have stopped, while the rest is copied
        self._group.consume(self.flow.source, self.flow.topic, of=self.name, records=333)
        died = folder / f"died {self.name} {len(self._group.read[self.name])}"
        with MirrorProcess(self.path, faults=f"groups.checkpoint_no_commit=kill@1:{died}") as mirror:
            wait_until(lambda: mirror.process.poll() is not None, "it dies before it places the group")
            assert died.exists(), mirror.output
        for _ in range(2):  # the second time there is nothing left to do
            status, output = run_once(self.path)
            assert status == 0, output
            assert self.plan() == self.placed()
        self.flow.judge()

    def carry_back(self) -> None:
        """Brings what the group read of the copy to the source: positions of the topic itself, by Kafka's own tool."""
        file = self.path.with_suffix(".back.csv")
        file.write_text("\n".join(self.plan("--back")))
        words = ("--reset-offsets", "--group", self._group.name, "--from-file", str(file), "--execute")
        consumer_groups(self.flow.source.bootstrap, *words)

    def plan(self, *more: str) -> list[str]:
        """What `translate` says, as Kafka's own tool takes it."""
        words = [SPARKMIRROR, "translate", str(self.path), "--group", self._group.name, "--format", "csv", *more]
        other = self.flow.topic if "--back" in more else self._returned
        return sorted(_output(words, self.path.with_suffix(f".{time.monotonic_ns()}.csv"), other=other))

    def placed(self) -> list[str]:
        """Where Kafka's own tool sees the group on the target, in the same words."""
        offsets = java_offsets(self.flow.target, self._group.name, self.flow.remote)
        return sorted(f"{self.flow.remote},{partition},{offset}" for partition, offset in offsets.items())


def _output(words: Sequence[str], log: Path, *, other: str) -> list[str]:
    """Its lines of positions. Where the group reads the other way's topic too, this file has no flow for that one."""
    child = Child("translate", list(words), log_file=log)
    status, lines = child.wait(120), log.read_text().splitlines()
    positions = [line for line in lines if line.count(",") == 2]
    elsewhere = [line for line in lines if NOT_COPIED in line and f" {other}-" in line]
    assert (status, len(positions) + len(elsewhere)) == (NO_ANSWER if elsewhere else 0, len(lines)), lines
    return positions


@pytest.mark.fault("F45")
@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_F45_over_and_back_with_kills_at_each_step_reads_every_record_once(
    source_cluster, target_cluster, topic_name, tmp_path: Path, row
) -> None:
    topic, group = topic_name("apps"), Group(topic_name("app"))
    home, away = (topic_name(stem).replace("-", "") for stem in ("home", "away"))
    at_home, at_away, ways = (home, source_cluster), (away, target_cluster), []
    for (alias, source), (to, target) in ((at_home, at_away), (at_away, at_home)):
        create_topic(source.bootstrap, topic, partitions=PARTITIONS)
        more = SETTINGS.format(group=group.name)
        path = write_properties(tmp_path, source.bootstrap, target.bootstrap, alias=alias, to=to, topics=topic, more=more)
        flow = Flow(source, target, alias=alias, topic=topic, partitions=PARTITIONS)
        ways.append(Way(flow, path, group, alias, f"{to}.{topic}"))
    over, back = ways
    for number in range(ROUNDS):
        with over.flow.load(600) as load:
            group.consume(source_cluster, topic, of=home, records=400)
            over.stop_while_killing(tmp_path, load)
        if number:  # the first time nothing of away was read at home
            back.carry_back()
        group.consume(target_cluster, over.flow.remote, of=home, records=150)
        with back.flow.load(600) as load:  # the applications write here now
            group.consume(target_cluster, topic, of=away, records=400)
            group.consume(target_cluster, over.flow.remote, of=home)
            assert group.violations(source_cluster, topic, home) == [], f"after failover {number + 1}"
            back.stop_while_killing(tmp_path, load)
        over.carry_back()
        group.consume(source_cluster, back.flow.remote, of=away)
        assert group.violations(target_cluster, topic, away) == [], f"after failback {number + 1}"
    assert group.consume(source_cluster, topic, of=home) == 0, "all of home's records were read while away"
    count = sum(len(values) for values in group.read.values())
    row.seen = f"over and back {ROUNDS} times, {6 * ROUNDS} kills; Java's consumer read {count} records, each once"
