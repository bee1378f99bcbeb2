"""The wheel, installed into an environment that has none of this repository."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
from fake.pair import fake_pair

import sparkmirror

ROOT = Path(__file__).parents[2]


def output(*words: str, cwd: Path) -> str:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ended = subprocess.run(words, capture_output=True, text=True, check=False, cwd=cwd, timeout=300, env=env)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.nightly
def test_wheel_in_an_empty_environment_runs_its_commands(tmp_path: Path) -> None:
    """What it depends on is lent from here: a path in a .pth file, from which no other .pth file is read."""
    wheels, place = tmp_path / "wheels", tmp_path / "venv"
    build = ["-m", "pip", "wheel", "--no-deps", "--wheel-dir", str(wheels), str(ROOT)]
    output(sys.executable, *build, cwd=tmp_path)
    [wheel] = wheels.glob("*.whl")
    venv.create(place, with_pip=False, symlinks=True)
    python = str(place / "bin" / "python")
    [packages] = place.glob("lib/python*/site-packages")
    (packages / "lent.pth").write_text(sysconfig.get_path("purelib"))
    output(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", str(wheel), cwd=tmp_path)
    where = output(python, "-c", "import sparkmirror; print(sparkmirror.__file__)", cwd=tmp_path).strip()
    assert Path(where).is_relative_to(place)
    program = str(place / "bin" / "sparkmirror")
    assert output(program, "--version", cwd=tmp_path) == f"sparkmirror {sparkmirror.__version__}\n"
    with fake_pair({"A->B.topics": "wanted"}) as pair:
        pair.source.create_topic("wanted")
        file = tmp_path / "mm2.properties"
        file.write_text(
            f"clusters = A, B\nA.bootstrap.servers = {pair.source.bootstrap}\n"
            f"B.bootstrap.servers = {pair.target.bootstrap}\nA->B.enabled = true\n"
            "A->B.topics = wanted\nreplication.factor = 1\n"
            + "".join(f"{name}.topic.replication.factor = 1\n" for name in ("checkpoints", "heartbeats", "offset-syncs"))
        )
        assert "copied: wanted -> A.wanted" in output(program, "plan", str(file), cwd=tmp_path)
