"""The program and its libraries as an archive for machines that have neither: it is unpacked beside every executor.

Libraries with native code are copied as they are installed here, so executors need the same minor version of Python, the
same architecture and a C library that is not older. PySpark is left out: it comes with Spark.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from sparkmirror.caches import cache_root
from sparkmirror.errors import EnvironmentUnfit
from sparkmirror.slot.program import PACKAGE, program

# What tasks import; of the rest of our libraries the driver alone has need.
TASK_LIBRARIES = (
    "cffi", "cramjam", "crc32c", "cryptography", "javaproperties", "kafka-python", "msgspec", "orjson", "typing_extensions",
)  # fmt: skip
QUERY_LIBRARIES = ("pyarrow",)
OPTIONAL_LIBRARIES = ("gssapi", "decorator")
UNUSED_S_MAX = 7 * 86_400.0
LEFT_OUT = ("/tests/", "/include/", "/__pycache__/", "/src/", ".pyx", ".pxd")


def packages(*, has_queries: bool) -> Path:
    """The archive for this program, made if it is not there yet."""
    libraries = TASK_LIBRARIES + (QUERY_LIBRARIES if has_queries else ())
    path = cache_root() / f"packages-{_digest(libraries)}.zip"
    if not path.is_file():
        _sweep(path.parent)
        write_packages(path, has_queries=has_queries)
    os.utime(path)
    return path


def _sweep(folder: Path) -> None:
    """Removes archives of other versions that nobody has used for long."""
    for old in folder.glob("packages-*.zip"):
        with suppress(OSError):  # another process does the same
            if time.time() - old.stat().st_mtime > UNUSED_S_MAX:
                old.unlink()


def write_packages(path: Path, *, has_queries: bool) -> None:
    """Writes the archive; the file appears whole."""
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        with zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for source, name in _files(TASK_LIBRARIES + (QUERY_LIBRARIES if has_queries else ())):
                archive.write(source, name)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def _files(libraries: tuple[str, ...]) -> Iterator[tuple[Path, str]]:
    for source in sorted(PACKAGE.rglob("*")):
        if source.is_file() and "__pycache__" not in source.parts:
            yield source, f"sparkmirror/{source.relative_to(PACKAGE).as_posix()}"
    for library in (*libraries, *OPTIONAL_LIBRARIES):
        yield from _library_files(library, is_needed=library in libraries)


def _library_files(library: str, *, is_needed: bool) -> Iterator[tuple[Path, str]]:
    try:
        found = distribution(library).files
    except PackageNotFoundError:
        found = None
    if found is None and is_needed:
        raise EnvironmentUnfit(f"{library} is not installed here, and tasks need it", hint="install sparkmirror with pip")
    for file in found or ():
        name, source = file.as_posix(), Path(str(file.locate()))
        if not name.startswith("..") and not any(part in f"/{name}" for part in LEFT_OUT) and source.is_file():
            yield source, name


def _digest(libraries: tuple[str, ...]) -> str:
    versions = [f"{library} {_version(library)}" for library in (*libraries, *OPTIONAL_LIBRARIES)]
    here = [program(), f"{sys.version_info.major}.{sys.version_info.minor}", platform.machine(), *versions]
    return hashlib.sha256("\n".join(here).encode()).hexdigest()[:16]


def _version(library: str) -> str:
    try:
        return distribution(library).version
    except PackageNotFoundError:
        return ""
