"""Spark's long word about a query that failed, in one line."""

from __future__ import annotations

import pytest

from sparkmirror.transforms.orders import reason_of

PYTHON = """[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted
Traceback (most recent call last):
  File "worker.py", line 1, in main
    process()
ValueError: transforms.hide (MaskField$Value): the value is no JSON object

\tat org.apache.spark.Task.run(Task.scala:1)
\t... 14 more"""
OURS = PYTHON.replace("ValueError: transforms.hide", "sparkmirror.errors.BrokerRefused: append to t-0: no right; hide")
SPARK = "[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012\n== SQL (line 1) ==\n...a / 0\n   ^^^\n\tat org.apache.Thing"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (PYTHON, "ValueError: transforms.hide (MaskField$Value): the value is no JSON object"),
        (OURS, "a task ended: append to t-0: no right; hide (MaskField$Value): the value is no JSON object"),
        (SPARK, "[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012"),
        ("Connection refused", "Connection refused"),
        ("", "Exception"),
    ],
    ids=["a function", "our own", "SQL", "plain", "nothing"],
)
def test_the_line_that_says_what_happened_is_told(text: str, told: str) -> None:
    assert reason_of(Exception(text)) == told
