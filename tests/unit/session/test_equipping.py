"""What executors are given: an archive of the program; and what is said when it does not fit."""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from sparkmirror.config import SentSettings
from sparkmirror.errors import EnvironmentUnfit
from sparkmirror.session import write_packages
from sparkmirror.session.mending import mend_of
from sparkmirror.session.spark_settings import Need, expected_cores, require_classic, settings_for, shares_cores, slot_cpus
from sparkmirror.slot.program import program
from sparkmirror.slot.slot import SlotOrder
from sparkmirror.slot.task import UNFIT, run_slot, task_of

SENT = SentSettings("/nowhere/mm2.properties", (("clusters", "A, B"),), ("A.ssl.key.password",))
SERVERS = (("A.bootstrap.servers", "a:1"), ("B.bootstrap.servers", "b:1"))
ORDER = SlotOrder(SENT, "A", "B", 0, 1, "owner", 1, 1, "id", "ledger", 0)


def test_the_archive_is_all_that_a_bare_python_needs_to_import_a_slot(tmp_path: Path) -> None:
    archive, folder = tmp_path / "packages.zip", tmp_path / "packages"
    write_packages(archive, has_queries=False)
    with zipfile.ZipFile(archive) as opened:
        opened.extractall(folder)
    venv.create(tmp_path / "bare", symlinks=True)
    program_of_task = "import sparkmirror.slot.task, sparkmirror.slot.program as p; print(p.program())"
    found = subprocess.run(
        [tmp_path / "bare" / "bin" / "python", "-c", program_of_task],
        env={"PYTHONPATH": str(folder)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (found.stdout.strip(), found.returncode) == (program(), 0), found.stderr


def test_another_program_and_a_missing_file_are_named_with_the_place() -> None:
    [other] = run_slot([task_of(ORDER, "sparkmirror 9.9 (abc)")])
    assert other.startswith(f"{UNFIT}expected sparkmirror 9.9 (abc) as on the driver, found {program()} on ")
    [missing] = run_slot([task_of(ORDER, program())])
    assert missing.startswith(f"{UNFIT}the settings cannot be used on ")
    assert "/nowhere/mm2.properties cannot be read: No such file or directory" in missing
    assert "put the file at this path on every machine" in mend_of(missing)
    assert SentSettings(SENT.path, (*SENT.texts, ("A->B.enabled", "true"), *SERVERS)).load().enabled_flows(None)
    [local] = run_slot([task_of(ORDER, "")])
    assert local.startswith("failed: /nowhere/mm2.properties cannot be read")
    assert "spark.sparkmirror.ship=false" in mend_of(other)


@pytest.mark.parametrize("key", ["spark.speculation", "spark.python.worker.killOnIdleTimeout"])
def test_what_no_slot_survives_is_refused_with_the_reason(key: str) -> None:
    with pytest.raises(EnvironmentUnfit, match=f"{key}: expected false, found true: Spark would"):
        settings_for("spark://host:7077", Need(2), {key: "true"}, "")


def test_containers_have_room_for_the_slots_that_may_meet_in_one() -> None:
    def overhead(slots: int, **conf: str) -> str:
        wanted = {f"spark.executor.{key}": value for key, value in conf.items()}
        return settings_for("k8s://https://host", Need(slots), wanted, "")["spark.executor.memoryOverhead"]

    assert overhead(1) == "640m"
    assert overhead(64, cores="1") == "1408m"
    assert overhead(64, cores="4", memoryOverhead="2g") == "2g"


def test_the_cores_that_an_application_waits_for_are_those_that_it_asks_for() -> None:
    cores, instances, each = "spark.cores.max", "spark.executor.instances", "spark.executor.cores"
    assert [expected_cores(found) for found in (
        {}, {cores: "4", each: "2"}, {instances: "3", each: "2"}, {instances: "3"}, {cores: "many"},
    )] == [0, 4, 6, 3, 0]  # fmt: skip


def test_slots_share_cores_no_more_than_needed() -> None:
    assert [slot_cpus(4, Need(slots)) for slots in (1, 4, 5, 8, 9, 16, 100)] == [1.0, 1.0, 0.5, 0.5, 0.25, 0.25, 0.25]
    assert [slot_cpus(4, Need(slots, queries=1)) for slots in (3, 4, 6, 7)] == [1.0, 0.5, 0.5, 0.25]
    assert [shares_cores(master, {}) for master in ("spark://a:1", "yarn", "k8s://a", "local[4]")] == [True] * 3 + [False]
    assert not shares_cores("yarn", {"spark.dynamicAllocation.enabled": "true"})


def test_a_session_of_spark_connect_is_refused() -> None:
    session = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(EnvironmentUnfit, match="Spark Connect has no RDDs"):
        require_classic(session)
    require_classic(None)


def test_each_cause_has_its_mend() -> None:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert f"need Python {version}" in mend_of('Cannot run program "python3.11"')
    assert "spark.sparkmirror.ship=false" in mend_of("ModuleNotFoundError: No module named 'sparkmirror'")
    assert mend_of("something else") == "the Python of the tasks is PYSPARK_PYTHON"
