"""Positions of topics with a transform: moved while the flow is stopped or paused. Java's consumer judges."""

from __future__ import annotations

import json
from pathlib import Path

from host import hosted_command
from integration.mirroring import await_true, create_topics, live_mirror, log_ends, produce
from integration.test_transform_query import transform_file, transforms
from judge import java_records

from sparkmirror.local import LocalCluster

TOPIC, FLOW = "shaped-orders", "shaped->shaped-to"
LOUDER = "cast(if(string(value) = 'bad', raise_error('no'), upper(string(value))) as binary) as value"
FIRST, MORE = [b"a%d" % at for at in range(20)], [b"b%d" % at for at in range(5)]


def test_a_transformed_partition_is_moved_while_the_flow_is_stopped_or_paused_and_refused_while_it_runs(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    source, target, remote = source_cluster, target_cluster, f"shaped.{TOPIC}"
    create_topics(source, {TOPIC: (2, {})})
    for partition in (0, 1):
        produce(source, TOPIC, partition, FIRST)
    keys = transforms(FLOW, loud=(TOPIC, f"select * except (value), {LOUDER} from records"))
    path = transform_file(source, target, tmp_path, "shaped", TOPIC, keys)
    reset = ("offsets", "reset", str(path), "--topic", TOPIC, "--partition", "0", "--yes")
    with live_mirror(path) as mirror:
        await_true(lambda: _count(target, remote) == [20, 20], 180.0, "the first are copied")
        refused = hosted_command(*reset, seconds=200)
        assert refused.returncode != 0 and "cannot move a partition while it runs" in refused.stderr, refused.stderr
        produce(source, TOPIC, 0, MORE)
        await_true(lambda: _count(target, remote) == [25, 20], 180.0, "the query goes on")
        assert mirror.stop().status == 0, mirror.output
    done = hosted_command(*reset, seconds=200)
    assert done.returncode == 0, done.stdout + done.stderr
    with live_mirror(path) as mirror:
        await_true(lambda: _count(target, remote) == [50, 20], 180.0, "partition 0 is copied again")
        paused = hosted_command("pause", str(path), "--topic", TOPIC, "--json", seconds=200)
        assert paused.returncode == 0 and json.loads(paused.stdout)["open_partitions"] == 0, paused.stdout + paused.stderr
        produce(source, TOPIC, 1, MORE)
        moved = hosted_command(*reset[:-2], "1", "--yes", seconds=200)
        assert moved.returncode == 0, moved.stdout + moved.stderr
        assert _count(target, remote) == [50, 20]
        assert hosted_command("resume", str(path), seconds=200).returncode == 0
        await_true(lambda: _count(target, remote) == [50, 45], 180.0, "partition 1 is copied again")
        assert mirror.stop().status == 0, mirror.output
    found = java_records(target.bootstrap, remote)
    wanted = {0: [*FIRST, *MORE, *FIRST, *MORE], 1: [*FIRST, *FIRST, *MORE]}
    assert {at: [record.value for record in found[at]] for at in found} == {
        at: [value.upper() for value in values] for at, values in wanted.items()
    }


def _count(target: LocalCluster, topic: str) -> list[int]:
    found = java_records(target.bootstrap, topic) if log_ends(target, topic) else {}
    return [len(found.get(at, [])) for at in (0, 1)]
