"""What mends the causes for which a cluster cannot run tasks: one command or setting for each."""

from __future__ import annotations

import sys

from sparkmirror.session.equipping import SHIP

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
PYTHON_HINT = (
    f"executors need Python {VERSION} as the driver has it; name theirs with --conf spark.pyspark.python=PATH "
    f"(default python{VERSION}), the same on every machine"
)
TASKS_HINT = "the Python of the tasks is PYSPARK_PYTHON"
PROGRAM_HINT = f"remove {SHIP}=false, so that the driver gives executors its own program; or install the same one there"
SETTINGS_HINT = (
    "tasks read secrets where they run: put the file at this path on every machine, and the files that it refers to; "
    "settings without secrets and references need no file there"
)
_MENDS = {
    "PYTHON_VERSION_MISMATCH": PYTHON_HINT,
    "Cannot run program": PYTHON_HINT,
    "No module named 'sparkmirror'": f"{TASKS_HINT}; on a cluster, {PROGRAM_HINT}",
    "No module named": f"{TASKS_HINT}; on a cluster, {PYTHON_HINT}",
    "the settings cannot be used": SETTINGS_HINT,
    "as on the driver": PROGRAM_HINT,
    "GLIBC": "the executors' C library is older than the driver's: run the driver on such a machine, or from an image of it",
    "wrong ELF class": "driver and executors need the same architecture: run the driver on such a machine",
}


def mend_of(cause: str) -> str:
    """What to do about it."""
    return next((mend for words, mend in _MENDS.items() if words in cause), TASKS_HINT)
