"""The command line itself: words, errors, statuses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import typer

from sparkmirror.cli.app import error_lines, main, spread_clusters
from sparkmirror.cli.run import settings_of
from sparkmirror.errors import ClusterUnreachable, ConfigFileUnreadable, ConfigInvalid

PROGRAM = str(Path(sys.executable).with_name("sparkmirror"))


@pytest.mark.parametrize(
    ("written", "understood"),
    [
        ("run f --clusters A B", "run f --clusters A --clusters B"),
        ("run f --clusters A B C --once", "run f --clusters A --clusters B --clusters C --once"),
        ("run f --once --clusters A B --conf a=b", "run f --once --clusters A --clusters B --conf a=b"),
        ("run --clusters A f", "run --clusters A f"),
        ("run --master m --clusters A f --clusters B C", "run --master m --clusters A f --clusters B --clusters C"),
        ("plan f --clusters A --clusters B", "plan f --clusters A --clusters B"),
        ("run f --clusters", "run f --clusters"),
        ("demo --records 5", "demo --records 5"),
        ("offsets skip f --topic t --partition 0 --to 5 --flow A->B --yes",) * 2,
    ],
)
def test_clusters_may_be_named_as_mirror_maker_does(written: str, understood: str) -> None:
    assert spread_clusters(written.split()) == understood.split()


def test_spark_settings_are_pairs() -> None:
    assert settings_of(["a=b", "c=d=e", "f="]) == {"a": "b", "c": "d=e", "f": ""}
    for wrong in ("a", "=b", ""):
        with pytest.raises(typer.BadParameter):
            settings_of([wrong])


def test_an_error_is_one_line_and_a_hint() -> None:
    assert error_lines(ClusterUnreachable("cluster B is unreachable", hint="check it")) == [
        "sparkmirror: cluster B is unreachable",
        "  check it",
    ]


def test_every_problem_of_a_configuration_is_a_line() -> None:
    assert error_lines(ConfigInvalid("f", ["line 1: a", "line 2: b"])) == [
        "sparkmirror: f: 2 problems",
        "  line 1: a",
        "  line 2: b",
    ]


def test_a_name_cannot_forge_an_error_line() -> None:
    error = ConfigFileUnreadable("a\nsparkmirror: all is well\x1b[2J")
    assert error_lines(error) == ["sparkmirror: a", r"  sparkmirror: all is well\x1b[2J"]


def test_a_bug_is_one_line_with_status_70(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def break_down(_words: list[str]) -> None:
        raise FileNotFoundError("no such thing\n")

    monkeypatch.setattr("sparkmirror.cli.app.app", break_down)
    monkeypatch.delenv("SPARKMIRROR_TRACEBACK", raising=False)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 70
    assert capsys.readouterr().err.startswith("sparkmirror: FileNotFoundError: no such thing\n")


def call(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=False, timeout=60, env=environment)


VERBS = ["run", "plan", "offsets list", "offsets skip --topic t", "offsets reset --topic t", "offsets set --all --to 0"]


@pytest.mark.parametrize("verb", VERBS)
def test_a_missing_file_ends_with_255_and_one_line(verb: str, tmp_path: Path) -> None:
    ended = call(*verb.split(), str(tmp_path / "missing\x1b[31m.properties"), COLUMNS="20")
    assert ended.returncode == 255
    assert ended.stdout == ""
    first, *rest = ended.stderr.splitlines()
    assert first.startswith("sparkmirror: ")
    assert first.endswith(r"missing\x1b[31m.properties cannot be read: No such file or directory")
    assert rest == ["  give a readable file"]


@pytest.mark.parametrize("verb", VERBS)
def test_a_file_without_an_enabled_flow_ends_with_2(verb: str, tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text("clusters = A, B\nA.bootstrap.servers = 127.0.0.1:1\nB.bootstrap.servers = 127.0.0.1:1\n")
    ended = call(*verb.split(), str(file))
    assert ended.returncode == 2
    assert "no flow is enabled" in ended.stderr
    assert "A->B.enabled = true" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_importing_the_package_imports_neither_spark_nor_kafka() -> None:
    code = "import sys, sparkmirror; print({n.split('.')[0] for n in sys.modules} & {'pyspark', 'kafka', 'rich'})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
