"""What the figures are called: MirrorMaker 2's beans and attributes (spec §9), and our own."""

from __future__ import annotations

from dataclasses import dataclass

DOMAIN = "kafka.connect.mirror"


def spread_names(stem: str) -> tuple[str, str, str, str]:
    """The four attributes that MirrorMaker 2 makes of one measured thing: last, max, min, avg."""
    return stem, f"{stem}-max", f"{stem}-min", f"{stem}-avg"


SOURCE_ATTRIBUTES = (
    "record-count", "record-rate", *spread_names("record-age-ms"),
    "byte-count", "byte-rate", *spread_names("replication-latency-ms"),
)  # fmt: skip
CHECKPOINT_ATTRIBUTES = spread_names("checkpoint-latency-ms")
# What MirrorMaker 2 does not tell: name -> help.
OWN = {
    "flow-running": "1 while the flow copies or has nothing to copy, else 0",
    "partition-lag": "source offsets not yet proven copied",
    "partition-copying": "1 while the partition is copied; else 0, and `sparkmirror run` tells its state, code and reason",
    "partition-gap-offsets": "source offsets that were given up: deleted before they were copied, and accepted as a gap",
}


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure: the bean's type (or `sparkmirror`), the attribute, the tags in MirrorMaker 2's order, the value."""

    type: str
    attribute: str
    tags: tuple[tuple[str, str], ...]
    value: float
