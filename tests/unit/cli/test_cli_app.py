"""The command line itself: words, errors, statuses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.exceptions import TyperException

from sparkmirror import __version__
from sparkmirror.cli.app import app, error_lines, main
from sparkmirror.cli.run import settings_of
from sparkmirror.errors import ClusterUnreachable, ConfigFileUnreadable, ConfigInvalid

PROGRAM = str(Path(sys.executable).with_name("sparkmirror"))


def understood(written: str) -> tuple[str, list[str], str | None]:
    """FILE, --clusters and --listen of a line as the command itself takes it."""
    verb, *words = written.split()
    command = typer.main.get_command(app).commands[verb]  # type: ignore[attr-defined]
    found = command.make_context(verb, words).params
    return found["file"], found["clusters"] or [], found.get("listen")


@pytest.mark.parametrize(
    ("written", "clusters"),
    [
        ("run f", ""),
        ("run f --clusters A B", "A B"),
        ("run f --clusters=A B", "A B"),
        ("run f --clusters A B C --once", "A B C"),
        ("run f --once --clusters A B --conf a=b", "A B"),
        ("run --once f --clusters A B", "A B"),
        ("run --clusters A f", "A"),
        ("run --clusters A B f", "A B"),
        ("run --clusters=A B f", "A B"),
        ("run --clusters A B f --once", "A B"),
        ("run --clusters A B --once f", "A B"),
        ("run --clusters A B -- f", "A B"),
        ("run --clusters A B --master m f", "A B"),
        ("run --clusters A --clusters B f", "A B"),
        ("run --clusters A f --clusters B", "A B"),
        ("run --master m --clusters A --once f --clusters B C", "A B C"),
        ("run --listen-certificate c --listen-token t --clusters A f", "A"),
        ("plan f --clusters A --clusters B", "A B"),
        ("plan --json --clusters A B f", "A B"),
    ],
)
def test_file_and_clusters_may_be_given_in_any_order(written: str, clusters: str) -> None:
    assert understood(written)[:2] == ("f", clusters.split())


def test_the_program_itself_finds_the_file_behind_any_option(tmp_path: Path) -> None:
    file = str(tmp_path / "missing.properties")
    ended = call("run", "--listen", "8083", "--clusters", "B", file)
    assert (ended.returncode, ended.stderr.splitlines()[0]) == (
        255, f"sparkmirror: {file} cannot be read: No such file or directory",
    )  # fmt: skip


@pytest.mark.parametrize("written", ["run --listen 8083 --clusters B f", "run --clusters B --listen 8083 f"])
def test_the_value_of_an_option_is_not_counted_as_the_file(written: str) -> None:
    assert understood(written) == ("f", ["B"], "8083")


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("run --clusters A f --clusters B C", "expected FILE before --clusters, found two lists of clusters that may end"),
        ("run --clusters A", "Missing argument 'FILE'"),
        ("run f --clusters", "expected a cluster, found none"),
        ("run f --clusters --once", "expected a cluster, found none"),
        ("run --clusters A f --listen", "Option '--listen' requires an argument"),
        ("run f --clusters A --listen", "Option '--listen' requires an argument"),
        ("run f --clusters A -- g", "Got unexpected extra argument(s) (g)"),
    ],
)
def test_a_line_without_one_file_is_one_usage_error(written: str, reason: str) -> None:
    with pytest.raises(TyperException) as refused:
        understood(written)
    assert reason in refused.value.format_message()
    assert refused.value.exit_code == 2


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


def commands_of(group: typer.core.TyperGroup, before: str = "") -> dict[str, typer.core.TyperCommand]:
    found: dict[str, typer.core.TyperCommand] = {}
    for name, command in group.commands.items():
        if isinstance(command, typer.core.TyperGroup):
            found |= commands_of(command, f"{before}{name} ")
        else:
            found[before + name] = command
    return found


def test_every_command_that_reads_the_file_can_allow_unknown_keys() -> None:
    found = commands_of(typer.main.get_command(app))  # type: ignore[arg-type]  # an app of several commands is a group
    options = {name: [option for parameter in at.params for option in parameter.opts] for name, at in found.items()}
    reading = {name for name, opts in options.items() if "file" in opts}
    assert len(reading) >= 13
    assert {name for name in reading if "--allow-unknown-keys" not in options[name]} == set()


def test_a_key_that_resembles_a_known_one_is_refused_unless_it_is_meant(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(
        "clusters = A, B\nA.bootstrap.servers = 127.0.0.1:1\nB.bootstrap.servers = 127.0.0.1:1\nA->B.enabled = true\n"
        "A->B.topic = a\ntasks.max = none\n"
    )
    ended = call("plan", str(file))
    assert (ended.returncode, ended.stderr.splitlines()) == (2, [
        f"sparkmirror: {file}: 2 problems",
        "  line 5: A->B.topic: unknown key, expected `A->B.topics`; without an effect it would leave `topics` at its "
        "default `.*`",
        "  line 6: tasks.max: expected a whole number from 1 to 2147483647, found `none`",
        "  correct the keys; for keys that are meant as they are: --allow-unknown-keys",
    ])  # fmt: skip
    file.write_text(file.read_text().replace("none", "1"))
    meant = call("plan", str(file), "--allow-unknown-keys")
    assert "line 5: A->B.topic: has no effect: unknown key; nearest known: `A->B.topics`" in meant.stdout
    assert "unreachable" in meant.stdout


def test_the_version_is_printed() -> None:
    ended = call("--version")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"sparkmirror {__version__}\n", "")
