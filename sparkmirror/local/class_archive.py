"""Kafka's classes as the JVM likes to read them: an archive made once per Java and Kafka, used by brokers and tools.

A broker starts with two thirds of the CPU time. MirrorMaker 2 does not use it: it is measured as its users start it.
A JVM that does not like the archive starts without it.
"""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from sparkmirror.caches import cache_root
from sparkmirror.errors import InternalError
from sparkmirror.local.java import find_java

SILENT = "-Xlog:cds*=off"  # complaints would go to stdout, among a tool's answer
DUMP_SECONDS_MAX = 300.0  # it took 7 s


def class_archive(jars: Path) -> Path:
    """Where the archive of this Java and these jars belongs."""
    binary = Path(find_java()).resolve()
    key = f"{binary} {binary.stat().st_mtime_ns} {jars}"
    return cache_root() / f"{jars.name}-{hashlib.sha256(key.encode()).hexdigest()[:16]}.jsa"


def archive_options(jars: Path) -> list[str]:
    """The JVM options that use the archive; none while there is no archive."""
    archive = class_archive(jars)
    return [f"-XX:SharedArchiveFile={archive}", SILENT] if archive.is_file() else []


def class_list_option(file: Path) -> str:
    """The JVM option that writes the names of all classes a program loads into a file."""
    return f"-XX:DumpLoadedClassList={file}"


def make_archive(jars: Path, class_lists: Sequence[Path]) -> None:
    """Makes the archive of all classes in these lists; it appears at once and whole."""
    archive = class_archive(jars)
    names = {name for file in class_lists for name in file.read_text(encoding="utf-8").splitlines()}
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix=f"{archive.stem}.") as folder:
        listed, part = Path(folder) / "classes.lst", Path(folder) / "part.jsa"
        listed.write_text("".join(f"{name}\n" for name in sorted(names)), encoding="utf-8")
        files = [f"-XX:SharedClassListFile={listed}", f"-XX:SharedArchiveFile={part}"]
        command = [find_java(), "-Xshare:dump", *files, SILENT, "-cp", f"{jars}/*"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DUMP_SECONDS_MAX)
        if answer.returncode != 0:
            raise InternalError(f"{command[0]} could not archive Kafka's classes: {(answer.stderr + answer.stdout)[-500:]}")
        part.replace(archive)
