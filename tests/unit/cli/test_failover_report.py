"""The file of `--report`: refused before anything is done, and never in the way of the same command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sparkmirror.cli.failover.command import reserved, write_report
from sparkmirror.errors import MoveRefused, RequestRefused


def test_a_report_of_a_command_that_was_refused_is_gone_again(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    with pytest.raises(RequestRefused), reserved(str(path)):
        raise RequestRefused("not now")
    assert not path.exists()


def test_an_empty_report_that_a_killed_command_left_is_used(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.touch()
    with reserved(str(path)) as found:
        assert found == path
    write_report(path, {"schema": 1})
    assert json.loads(path.read_text()) == {"schema": 1}


def test_a_report_that_holds_something_or_cannot_be_written_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text("of October")
    for name, why in ((path, "it exists already"), (tmp_path / "gone" / "report.json", "No such file")):
        with pytest.raises(MoveRefused, match=why), reserved(str(name)):
            raise AssertionError("nothing is to be done")
    assert path.read_text() == "of October"
