"""sparkmirror ship: the program and its libraries as an archive, for executors that do not get it from the driver."""

from __future__ import annotations

import platform
import sys
from pathlib import Path
from typing import Annotated

import typer

from sparkmirror.cli.text import megabytes, printable
from sparkmirror.errors import EnvironmentUnfit
from sparkmirror.session import FOLDER, SHIP, write_packages

ARCHIVE_HELP = "The archive to write."
TRANSFORMS_HELP = "With PyArrow, which flows with transforms need."


def ship(
    archive: Annotated[Path, typer.Argument(help=ARCHIVE_HELP, metavar="ARCHIVE")] = Path("sparkmirror-packages.zip"),
    transforms: Annotated[bool, typer.Option(help=TRANSFORMS_HELP)] = True,
) -> None:
    """Write the program and the libraries of its tasks into an archive.

    `run --master …` gives executors the same archive by itself. This one is for a place that they read it from, such as
    HDFS or S3, or for an image.

    Exit status: 0 done; 2 the archive cannot be written.
    """
    try:
        write_packages(archive, has_queries=transforms)
    except OSError as error:
        raise EnvironmentUnfit(f"{archive} cannot be written: {error.strerror}", hint="give another path") from error
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    words = f"for Python {version} on {platform.system()} {platform.machine()}, {' '.join(platform.libc_ver())} or newer"
    print(f"{printable(str(archive))}: {megabytes(archive.stat().st_size)}, {words.strip()}")
    print("after you have put it where every executor can read it:")
    print(
        f"  sparkmirror run FILE --master … --conf {SHIP}=false --conf spark.archives=URL#{FOLDER} "
        f"--conf spark.executorEnv.PYTHONPATH=./{FOLDER}"
    )
