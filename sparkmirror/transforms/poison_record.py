"""Finds the record that a transform cannot handle: Spark reports that a task failed, not at which offset.

The range in question is run through the transform without writing anything, then its halves, down to the first record.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from sparkmirror.config import FlowSettings
from sparkmirror.session.root_cause import root_cause
from sparkmirror.transforms.orders import PoisonRecord, QueryOrder, Suspect
from sparkmirror.transforms.shaping import as_written, shaped

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

def find_poison_record(
    session: SparkSession, flow: FlowSettings, order: QueryOrder, suspect: Suspect
) -> PoisonRecord | None:
    """The first failing record of a range; none if the range passes."""
    start, end = suspect.start, suspect.end
    reason = _failure(session, flow, order, suspect, start, end)
    if not reason:
        return None
    while end - start > 1:
        middle = (start + end) // 2
        text = _failure(session, flow, order, suspect, start, middle)
        if text:
            end, reason = middle, text
        else:
            start = middle
    text = _failure(session, flow, order, suspect, start, end)
    return PoisonRecord(suspect.partition, start, text or reason)


def _failure(
    session: SparkSession, flow: FlowSettings, order: QueryOrder, suspect: Suspect, start: int, end: int
) -> str:
    """The error of the transforms for these records; empty if there is none."""
    if start >= end:
        return ""
    topic, wanted = suspect.partition
    edges = [{topic: {str(p): edge if p == wanted else 0 for p in range(suspect.partitions)}} for edge in (start, end)]
    options = {"config": order.settings.text(), "cluster": flow.source.alias, "subscribe": topic}
    options["startingOffsets"], options["endingOffsets"] = map(json.dumps, edges)
    if flow.reads_committed:
        options["kafka.isolation.level"] = "read_committed"
    rows = session.read.format("kafka-records").options(**options).load()
    try:
        out = as_written(shaped(session, rows, flow, order, suspect.transforms), ())
        out.write.format("noop").mode("overwrite").save()
    except PySparkException as error:
        return root_cause(error)
    return ""
