"""A file that is changed while its flow runs."""

from __future__ import annotations

import os
from pathlib import Path

from sparkmirror.config import load
from sparkmirror.driver.file_watch import FileWatch

TEXT = "clusters = a, b\na.bootstrap.servers = h:1\nb.bootstrap.servers = h:2\na->b.enabled = true\n"


def test_a_file_that_is_changed_broken_removed_and_mended_is_told(tmp_path: Path) -> None:
    path = tmp_path / "mm2.properties"
    stamps = iter(range(1_000_000_000, 1_000_000_100))

    def write(text: str) -> None:
        path.write_text(text)
        os.utime(path, (next(stamps),) * 2)  # two writes within the clock's grain must differ

    write(TEXT)
    watch = FileWatch(str(path), load(str(path)).digest)
    assert watch.look() == ""
    write(TEXT + "a->b.topics = orders\n")
    assert "was changed; the flow goes on" in watch.look()
    write("clusters =\n")
    assert "was changed and cannot be used" in watch.look()
    path.unlink()
    assert "was changed and cannot be used" in watch.look()
    write(TEXT)
    assert watch.look() == ""
