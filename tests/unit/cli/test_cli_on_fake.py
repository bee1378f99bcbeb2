"""Commands on two fake clusters: a plan changes nothing, and a cluster that is away is named."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake.pair import FACTORS, FakePair, fake_pair
from typer.testing import CliRunner, Result

from sparkmirror.cli.app import app

PROGRAM = str(Path(sys.executable).with_name("sparkmirror"))
NOBODY = "127.0.0.1:1"  # a port that nobody may listen on without being root


@pytest.fixture
def pair() -> Iterator[FakePair]:
    with fake_pair({}) as made:
        yield made


def write_file(path: Path, source: str, target: str, *, topics: str) -> str:
    path.write_text(
        f"clusters = A, B\nA.bootstrap.servers = {source}\nB.bootstrap.servers = {target}\nA->B.enabled = true\n"
        f"A->B.topics = {topics}\n" + "".join(f"{key} = 1\n" for key in FACTORS)
    )
    return str(path)


def call(*words: str) -> Result:
    return CliRunner().invoke(app, words, env={"NO_COLOR": "1"})


def test_a_plan_says_reasons_and_starts_and_changes_nothing(pair: FakePair, tmp_path: Path) -> None:
    pair.source.create_topic("wanted", 2, {"cleanup.policy": "compact"})
    pair.source.create_topic("other")
    file = write_file(tmp_path / "mm2.properties", pair.source.bootstrap, pair.target.bootstrap, topics="wanted")
    ended = call("plan", file)
    told = call("plan", file, "--json")
    assert pair.writes() == []
    assert (ended.exit_code, ended.stderr, told.exit_code) == (0, "", 0)
    assert "not copied: other: matched by no include pattern" in ended.stdout
    assert "copied: wanted -> A.wanted: matched by an include pattern" in ended.stdout
    assert "create with 2 partitions, replication factor 1, cleanup.policy=compact" in ended.stdout
    assert "ledger: none yet; no owner yet" in ended.stdout
    [flow] = json.loads(told.stdout)["flows"]
    [topic] = [found for found in flow["topics"] if found["topic"] == "wanted"]
    assert [start["basis"] for start in topic["starts"]] == ["earliest", "earliest"]


@pytest.mark.parametrize("verb", ["plan", "run"])
def test_an_unreachable_target_ends_with_2_within_30_s_and_is_named_with_its_address(
    verb: str, pair: FakePair, tmp_path: Path
) -> None:
    pair.source.create_topic("known")
    file = write_file(tmp_path / "mm2.properties", pair.source.bootstrap, NOBODY, topics="known")
    began = time.monotonic()
    ended = subprocess.run([PROGRAM, verb, file], capture_output=True, text=True, check=False, timeout=120)
    assert time.monotonic() - began < 30
    assert ended.returncode == 2
    assert "Traceback" not in ended.stderr
    assert "cluster B is unreachable" in ended.stderr
    assert NOBODY in ended.stderr
    assert verb == "run" or "copied: known -> A.known" in ended.stdout


def test_output_to_a_closed_pipe_leaves_no_trace(pair: FakePair, tmp_path: Path) -> None:
    file = write_file(tmp_path / "mm2.properties", pair.source.bootstrap, pair.target.bootstrap, topics="none")
    with subprocess.Popen([PROGRAM, "plan", file], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 1
