"""The commands that MirrorMaker 2's own documents name are installed, and take the words that those documents give them."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from sparkmirror.cli.app import inspector_app, mirror_maker_app
from sparkmirror.diagnose.inspector_rows import HEADER

ROOT = Path(__file__).parents[3]
INSPECTOR, MIRROR_MAKER = "kafka-mirrormaker-offset-sync-inspector", "connect-mirror-maker"
NO_SPARK = "import sys; sys.modules['pyspark'] = None; from sparkmirror.cli import {name}; {name}()"
# No broker listens at the address, and no flow is to be inspected: the report is whole, and has no rows.
EMPTY = "clusters = A, B\nA.bootstrap.servers = 127.0.0.1:1\nB.bootstrap.servers = 127.0.0.1:1\nA->B.enabled = true\n"
NO_CHECKPOINTS = EMPTY + "emit.checkpoints.enabled = false\n"


def test_the_package_installs_the_documented_commands() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    installed = {e.name: e for e in distribution("sparkmirror").entry_points if e.group == "console_scripts"}
    assert {name: entry.value for name, entry in installed.items()} == declared, "run `make install`"
    for name in (INSPECTOR, MIRROR_MAKER):
        assert installed[name].load() is installed[f"{name}.sh"].load()
        assert all((Path(sys.executable).parent / command).exists() for command in (name, f"{name}.sh"))


@pytest.mark.parametrize(
    ("name", "words"), [("offset_sync_inspector", "--mm2-config"), ("connect_mirror_maker", "--clusters")]
)
def test_the_help_of_a_documented_command_needs_no_spark(name: str, words: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", NO_SPARK.format(name=name), "--help"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (ended.returncode, words in ended.stdout, ended.stderr) == (0, True, "")


def inspector(*words: str) -> tuple[int, str, str]:
    ended = CliRunner().invoke(inspector_app, words)
    return ended.exit_code, ended.stdout, ended.stderr


def test_the_inspector_prints_csv_unless_another_form_is_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(NO_CHECKPOINTS)
    assert inspector("--mm2-config", str(file)) == (0, f"{HEADER}\n", "")
    assert inspector("--mm2-conf", str(file), "--compat", "strict") == (0, f"{HEADER}\n", "")
    assert inspector("--mm2-config", str(file), "--json")[1].startswith("{")
    assert "not inspected" in inspector("--mm2-config", str(file), "--format", "table")[1]


def test_the_inspector_writes_its_csv_to_a_file(tmp_path: Path) -> None:
    file, out = tmp_path / "mm2.properties", tmp_path / "out.csv"
    file.write_text(NO_CHECKPOINTS)
    assert inspector("--mm2-config", str(file), "--output-path", str(out), "--include-ok-groups") == (0, "", "")
    assert out.read_text() == f"{HEADER}\n"


def test_the_inspector_ends_with_2_where_a_cluster_does_not_answer(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(EMPTY)
    status, out, said = inspector("--mm2-config", str(file), "--admin-timeout", "PT0.2S", "--request-timeout", "PT0.1S")
    assert (status, out) == (2, f"{HEADER}\n")
    assert "cluster A is unreachable" in said


@pytest.mark.parametrize("words", ["", "--mm2-config", "--no-such-option", "--mm2-config f --admin-timeout 1"])
def test_wrong_words_end_the_inspector_with_255_as_the_original(words: str) -> None:
    assert inspector(*words.split())[0] == 255


@pytest.mark.parametrize("words", ["f", "f --clusters A B", "--clusters A B f"])
def test_mirror_maker_takes_the_properties_file_and_clusters(words: str) -> None:
    found = typer.main.get_command(mirror_maker_app).make_context(MIRROR_MAKER, words.split()).params
    assert (found["file"], [*found["clusters"]]) == ("f", ["A", "B"] if "A" in words else [])


@pytest.mark.parametrize("words", ["-daemon f", "-daemon -name m f"])
def test_mirror_maker_names_what_runs_it_in_the_background(words: str) -> None:
    ended = CliRunner().invoke(mirror_maker_app, words.split())
    assert ended.exit_code == 2
    assert "-daemon is not supported; use a service manager or nohup to run it in the background" in ended.stderr
