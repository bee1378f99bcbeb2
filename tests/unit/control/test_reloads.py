"""The configuration file of a running mirror is watched, and taken once it is whole."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sparkmirror.config import Settings, load
from sparkmirror.control import reloads
from sparkmirror.control.reloads import Reloads
from sparkmirror.errors import ClusterUnreachable
from sparkmirror.status import ReloadResult

FILE = "clusters = A, B\nA.bootstrap.servers = h:1\nB.bootstrap.servers = h:2\nA->B.enabled = true\n"
CLASS = "org.apache.kafka.common.config.provider.DirectoryConfigProvider"
PROVIDER = f"config.providers = d\nconfig.providers.d.class = {CLASS}\n"


class Watched:
    """A file, whose reloads are noted."""

    def __init__(self, path: Path, text: str = FILE) -> None:
        self.path, self.error = path, ""
        path.write_text(text)
        self.taken: list[tuple[Settings, ReloadResult]] = []
        self.reloads = Reloads(load(str(path)), self._take)

    def _take(self, settings: Settings, result: ReloadResult) -> None:
        if self.error and not result.error:
            raise ClusterUnreachable(self.error)
        self.taken.append((settings, result))

    def look(self) -> list[tuple[str, ...]]:
        """One look; the topics of what was taken by it."""
        before = len(self.taken)
        if self.reloads._is_due():
            self.reloads.reload()
        return [settings.flows[0].topics for settings, _ in self.taken[before:]]


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path / "file")


def in_place(path: Path, text: str) -> None:
    path.write_text(text)


def renamed(path: Path, text: str) -> None:
    new = path.with_name("new")
    new.write_text(text)
    new.replace(path)


def with_the_old_time(path: Path, text: str) -> None:
    """As `cp -p` and archives do it, with the same length."""
    stamp = os.stat(path).st_mtime_ns
    path.write_text(text)
    os.utime(path, ns=(stamp, stamp))


@pytest.mark.parametrize("change", [in_place, renamed, with_the_old_time])
def test_a_change_is_taken_once_two_looks_see_the_same(watched: Watched, change: Callable[[Path, str], None]) -> None:
    assert watched.look() == []
    change(watched.path, FILE + "topics = x\n")
    assert [watched.look(), watched.look(), watched.look()] == [[], [("x",)], []]


def test_a_config_map_that_moves_a_link_is_seen(tmp_path: Path) -> None:
    """Kubernetes: file → ..data/file, and ..data → a folder that is replaced by a rename of the link."""
    for name, text in (("one", FILE), ("two", FILE + "topics = x\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(text)
    (tmp_path / "..data").symlink_to("one")
    (tmp_path / "file").symlink_to("..data/file")
    watched = Watched.__new__(Watched)
    watched.path, watched.error, watched.taken = tmp_path / "file", "", []
    watched.reloads = Reloads(load(str(watched.path)), watched._take)
    (tmp_path / "..new").symlink_to("two")
    (tmp_path / "..new").replace(tmp_path / "..data")
    assert [watched.look(), watched.look()] == [[], [("x",)]]


def test_a_file_that_is_just_being_written_is_not_taken(watched: Watched) -> None:
    watched.path.write_text(FILE.removesuffix("A->B.enabled = true\n"))
    assert watched.look() == []
    watched.path.write_text(FILE)
    assert [watched.look(), watched.look()] == [[], []]
    assert watched.reloads.result.is_whole and watched.taken == []


def test_an_error_changes_nothing_and_is_said_until_it_is_mended(watched: Watched) -> None:
    watched.path.write_text(FILE + "tasks.max = many\n")
    watched.look()
    assert watched.look() == [(".*",)]
    result = watched.reloads.result
    assert "was changed and cannot be used: line 5: tasks.max: expected a whole number" in result.trouble
    assert result.changed_ms > 0 and not result.is_whole
    assert [watched.look(), watched.look()] == [[], []]
    watched.path.unlink()
    watched.look()
    watched.look()
    assert "cannot be read: No such file" in watched.reloads.result.error
    watched.path.write_text(FILE)
    watched.look()
    assert watched.look() == [(".*",)]
    assert (watched.reloads.result.trouble, watched.reloads.result.changed_ms) == ("", -1)


def test_a_key_that_is_refused_stays_said_while_others_are_taken(watched: Watched) -> None:
    watched.path.write_text(FILE + "tasks.max = 3\n")
    result = watched.reloads.reload()
    assert [change.key for change in result.refused] == ["tasks.max"] and result.taken == ()
    watched.path.write_text(FILE + "tasks.max = 3\ntopics = x\n")
    again = watched.reloads.reload()
    assert ([change.key for change in again.taken], again.refused, again.changed_ms) == (
        ["topics"], result.refused, result.changed_ms
    )  # fmt: skip
    watched.path.write_text(FILE + "topics = x\n")
    assert watched.reloads.reload().is_whole
    assert watched.taken[-1][0].flows[0].tasks_max is None


def test_a_secret_of_a_provider_that_changes_is_a_changed_file(tmp_path: Path) -> None:
    secret = tmp_path / "jaas"
    secret.write_text("one")
    watched = Watched(tmp_path / "file", FILE + PROVIDER + f"A.sasl.jaas.config = ${{d:{tmp_path}:jaas}}\n")
    assert watched.look() == []
    secret.write_text("two")
    watched.look()
    assert len(watched.look()) == 1
    assert watched.taken[0][0].flows[0].source.security["sasl.jaas.config"].reveal() == "two"  # type: ignore[attr-defined]
    assert "two" not in str(watched.reloads.result)


def test_a_login_that_fails_is_tried_again_later_and_the_rest_waits_with_it(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched.error = "cluster A is unreachable"
    watched.path.write_text(FILE + "topics = x\nA.bootstrap.servers = h:3\n")
    watched.look()
    assert watched.look() == [(".*",)]
    assert "cluster A is unreachable" in watched.reloads.result.error
    watched.error = ""
    assert watched.look() == []
    monkeypatch.setattr(reloads, "RETRY_S", 0.0)
    watched.reloads._retry_due = 1e-9
    assert watched.look() == [("x",)]
    assert watched.reloads.result.is_whole


def test_a_second_look_at_the_same_file_takes_nothing_again(watched: Watched) -> None:
    watched.path.write_text(FILE + "topics = x\n")
    first = watched.reloads.reload()
    assert (watched.reloads.reload(), len(watched.taken)) == (first, 1)
