"""What the figures are called: MirrorMaker 2's beans and attributes (spec §9), and our own."""

from __future__ import annotations

from dataclasses import dataclass

DOMAIN = "kafka.connect.mirror"
BOARD = "board"  # the type of a figure whose attribute is the whole name of its series
Labels = tuple[tuple[str, str], ...]


def spread_names(stem: str) -> tuple[str, str, str, str]:
    """The four attributes that MirrorMaker 2 makes of one measured thing: last, max, min, avg."""
    return stem, f"{stem}-max", f"{stem}-min", f"{stem}-avg"


SOURCE_ATTRIBUTES = (
    "record-count", "record-rate", *spread_names("record-age-ms"),
    "byte-count", "byte-rate", *spread_names("replication-latency-ms"),
)  # fmt: skip
CHECKPOINT_ATTRIBUTES = spread_names("checkpoint-latency-ms")
# What MirrorMaker 2 does not tell: name -> help.
FLOW_OWN = {
    "flow-running": "1 while the flow copies or has nothing to copy, else 0; 0 while it is paused",
    "flow-paused": "1 while no partition is copied because somebody paused or stopped them; `sparkmirror resume` ends it",
    "flow-paused-partitions": "partitions that somebody paused or stopped",
    "flow-degraded": "partitions that are stopped until somebody acts or the cause is gone",
    "flow-lag": "source offsets not yet proven copied, of all partitions; NaN if one of them is not known now",
    "flow-lag-seconds": "age of the oldest source record not yet copied, 0 if all are; NaN if it is not known",
    "flow-lag-unknown-partitions": "partitions of which it is not known now how far their copy is behind",
    "config-reload-failed": "1 while the flow does not run with all that its configuration file says, else 0",
    "config-applied-timestamp-seconds": "when the settings that the flow runs with were taken, at the start or by a reload",
    "flow-source-seen-timestamp-seconds": "when the source last told where its partitions end; NaN before",
    "flow-groups-ready": "groups that could continue on the target; NaN if not known, or group offsets are not synced",
    "flow-groups-unsynced": "groups that could not; NaN if not known, or group offsets are not synced",
    "flow-heartbeat-age-seconds": "age of the flow's newest heartbeat on the target; NaN before the first",
    "flow-gap-offsets": "source offsets of all partitions that were given up, and accepted as a gap",
}
PARTITION_OWN = {
    "partition-lag": "source offsets not yet proven copied; NaN if that is not known now",
    "partition-lag-seconds": "age of the oldest source record not yet copied, 0 if all are; NaN if that is not known",
    "partition-copying": "1 while the partition is copied; else 0, and `sparkmirror run` tells its state, code and reason",
    "partition-gap-offsets": "source offsets that were given up: deleted before they were copied, and accepted as a gap",
}
CERTIFICATE_OWN = {"certificate-expiry-timestamp-seconds": "when the first certificate of this owner ends; only with TLS"}
OWN = FLOW_OWN | PARTITION_OWN | CERTIFICATE_OWN


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure: the bean's type (or `sparkmirror`), the attribute, the tags in MirrorMaker 2's order, the value."""

    type: str
    attribute: str
    tags: tuple[tuple[str, str], ...]
    value: float
