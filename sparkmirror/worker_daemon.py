"""Spark's own `pyspark.daemon`, with everything that a slot needs imported before it forks.

Spark points its Python processes at a zip file of PySpark, which has no compiled modules: each start compiled some 150
of them (0.9 s instead of 0.2 s), and each worker imported sparkmirror once more (0.8 s). With a local master
the PySpark beside us is the one that started Spark; executors of a cluster have no other than Spark's own.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import runpy
import sys


def main() -> None:
    """Never returns while Spark runs."""
    zipped = [path for path in sys.path if path.endswith(".zip") and "/python/lib/py" in path]
    sys.path[:] = [path for path in sys.path if path not in zipped]
    if importlib.util.find_spec("pyspark") is None:
        sys.path[1:1] = zipped
    # A Python of another version, or one that lacks the program: the task says so, in a sentence that reaches the driver.
    with contextlib.suppress(ImportError, SyntaxError):
        importlib.import_module("sparkmirror.slot.task")
    importlib.import_module("pyspark.worker")
    runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
