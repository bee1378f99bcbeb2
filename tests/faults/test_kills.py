"""kill −9 of the driver and of Python workers, under load. Judged by Java's own consumer."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import psutil
import pytest
from judge import compare, java_records

from faults.workload import MirrorProcess, Workload, run_once, wait_until, write_properties
from sparkmirror.local import create_topic

KILLS = int(os.environ.get("SPARKMIRROR_KILLS", "5"))


@pytest.mark.fault("F01", "F03")
@pytest.mark.timeout(300 + KILLS * 60)
def test_kills_at_random_moments_under_load_lose_nothing_and_double_nothing(
    source_cluster, target_cluster, topic_name, tmp_path: Path, rng: random.Random
):
    topic = topic_name("kills")
    create_topic(source_cluster.bootstrap, topic, partitions=4)
    path = write_properties(
        tmp_path, source_cluster.bootstrap, target_cluster.bootstrap, alias="kills", topics=topic
    )
    mirror = MirrorProcess(path)
    try:
        with Workload(source_cluster.bootstrap, topic, partitions=4, per_second=4000):
            for number in range(KILLS):
                wait_until(lambda mirror=mirror: len(mirror.workers()) >= 2, "two slots run", 60)
                time.sleep(rng.uniform(0.0, 4.0))
                if number % 2:
                    victim = rng.choice(mirror.workers() or [None])
                    if victim is not None:
                        print(f"kill {number}: worker {victim.pid}")
                        victim.kill()
                        psutil.wait_procs([victim], timeout=10)
                else:
                    print(f"kill {number}: driver {mirror.process.pid}")
                    mirror.end()
                    mirror = MirrorProcess(path)
    finally:
        mirror.end()
    status, output = run_once(path)
    assert status == 0, output
    copied = java_records(target_cluster.bootstrap, f"kills.{topic}")
    assert compare(java_records(source_cluster.bootstrap, topic), copied) == []
