"""What a shell completes, asked in a real bash."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sparkmirror.cli.app import app

BIN = Path(sys.executable).parent
BASH = shutil.which("bash")


def completed(words: str) -> list[str]:
    script = CliRunner().invoke(app, ["completion", "bash"]).stdout
    last = len(words.split(" ")) - 1
    asked = f"{script}\nCOMP_WORDS=({words}); COMP_CWORD={last}\n"
    asked += '_sparkmirror_completion sparkmirror; printf "%s\\n" "${COMPREPLY[@]}"'
    env = os.environ | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    ended = subprocess.run([str(BASH), "-c", asked], capture_output=True, text=True, check=True, timeout=60, env=env)
    return ended.stdout.split()


@pytest.mark.skipif(BASH is None, reason="bash is not installed")
def test_bash_completes_commands_and_options() -> None:
    assert completed("sparkmirror sta") == ["status"]
    assert "--watch" in completed("sparkmirror status --w")
    assert completed("sparkmirror completion f") == ["fish"]


@pytest.mark.parametrize(("shell", "word"), [("bash", "complete -o default"), ("zsh", "#compdef"), ("fish", "complete ")])
def test_each_shell_has_a_script(shell: str, word: str) -> None:
    ended = CliRunner().invoke(app, ["completion", shell])
    assert (ended.exit_code, word in ended.stdout) == (0, True)


def test_unknown_shell_is_refused_by_name() -> None:
    ended = CliRunner().invoke(app, ["completion", "tcsh"])
    assert ended.exit_code == 2 and "tcsh" in ended.output
