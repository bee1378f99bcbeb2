"""Spark's long word about a query that failed, in one line."""

from __future__ import annotations

import pytest

from sparkmirror.session.root_cause import cause_in, root_cause

PYTHON = """[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted
Traceback (most recent call last):
  File "worker.py", line 1, in main
    process()
ValueError: transforms.hide (MaskField$Value): the value is no JSON object

\tat org.apache.spark.Task.run(Task.scala:1)
\t... 14 more"""
OURS = PYTHON.replace("ValueError: transforms.hide", "sparkmirror.errors.BrokerRefused: append to t-0: no right; hide")
LOST = (
    "An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.\n: org.apache.spark."
    "SparkException: "
    "Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 times, most recent failure: Lost task 0.0 in stage 0.0 "
    "(TID 0) (localhost executor driver): {}\n\tat java.base/java.lang.ProcessBuilder.start(ProcessBuilder.java:1143)\n"
    "Caused by: java.io.IOException: error=2, No such file or directory\n\t... 20 more\n\nDriver stacktrace:"
)
NO_PYTHON = LOST.format('java.io.IOException: Cannot run program "/nope/python": error=2, No such file or directory')
NO_MODULE = LOST.format(
    "org.apache.spark.SparkException: \nError from python worker:\n  Traceback (most recent call last):\n"
    "    File \"worker.py\", line 1, in <module>\n      import javaproperties\n"
    "  ModuleNotFoundError: No module named 'javaproperties'\nPYTHONPATH was:\n  /x\n"
    "org.apache.spark.SparkException: EOFException occurred while reading the port number from pyspark.daemon's stdout."
)
CRASH = LOST.format("org.apache.spark.SparkException: Python worker exited unexpectedly (crashed).")
SPARK = "[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012\n== SQL (line 1) ==\n...a / 0\n   ^^^\n\tat org.apache.Thing"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (PYTHON, "ValueError: transforms.hide (MaskField$Value): the value is no JSON object"),
        (OURS, "a task ended: append to t-0: no right; hide (MaskField$Value): the value is no JSON object"),
        (SPARK, "[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012"),
        (NO_PYTHON, 'Cannot run program "/nope/python": error=2, No such file or directory'),
        (NO_MODULE, "ModuleNotFoundError: No module named 'javaproperties'"),
        (CRASH, "Python worker exited unexpectedly (crashed)."),
        ("Connection refused", "Connection refused"),
        ("", "Exception"),
    ],
    ids=["a function", "our own", "SQL", "no Python", "no module", "a crash", "plain", "nothing"],
)
def test_the_line_that_says_what_happened_is_told(text: str, told: str) -> None:
    assert root_cause(Exception(text)) == told


def test_the_end_of_sparks_log_is_told_by_its_cause() -> None:
    log = (
        "26/11/18 WARN Utils: Set SPARK_LOCAL_IP\nException in thread \"main\" org.apache.spark.SparkException: Master must "
        "either be yarn or start with spark\n\tat org.apache.spark.deploy.SparkSubmit.main(SparkSubmit.scala)\n"
    )
    assert cause_in(log) == "Master must either be yarn or start with spark"
