"""Commands that only look need no Spark, and do not wait for its import."""

from __future__ import annotations

import subprocess
import sys

BLOCKED = "import sys; sys.modules['pyspark'] = None; sys.argv = ['sparkmirror', *sys.argv[1:]]; "


def test_the_command_starts_without_importing_spark() -> None:
    script = BLOCKED + "from sparkmirror.cli import main; main()"
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, "--help"], capture_output=True, text=True, timeout=120, check=False
    )
    assert (ended.returncode, "plan" in ended.stdout) == (0, True), ended.stderr
