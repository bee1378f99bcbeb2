"""What is copied: seven kinds of data, from the common to the awkward."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["SCENARIOS", "Scenario"]

RECORDS_MIN = 1_000  # fewer say nothing about anything


@dataclass(frozen=True, slots=True)
class Scenario:
    """One kind of data; `key` is also the name of its source topic."""

    key: str
    title: str
    records: int
    content: Literal["random", "json", "uneven"]
    record_bytes: int = 500
    partitions: int = 4
    codec: str = "none"
    producer: Mapping[str, str] = field(default_factory=dict)

    def scaled_records(self, scale: float) -> int:
        """How many records a run of this scale copies."""
        return max(int(self.records * scale), min(self.records, RECORDS_MIN))


def _compressed(codec: str) -> dict[str, str]:
    return {"compression.type": codec, "batch.size": "65536", "linger.ms": "20"}


SCENARIOS = {
    scenario.key: scenario
    for scenario in (
        Scenario("plain", "500 B, plain", 2_000_000, "random"),
        Scenario("json", "JSON, plain", 1_000_000, "json"),
        Scenario("json-lz4", "JSON, lz4", 2_000_000, "json", codec="lz4", producer=_compressed("lz4")),
        Scenario("json-zstd", "JSON, zstd", 1_000_000, "json", codec="zstd", producer=_compressed("zstd")),
        # batch.size 0 switches batching off: what a producer with linger.ms 0 and a flush per record leaves behind.
        Scenario(
            "single",
            "one-record batches, 200 B",
            400_000,
            "random",
            record_bytes=200,
            producer={"batch.size": "0", "linger.ms": "0"},
        ),
        Scenario("large", "100 KB records", 10_000, "random", record_bytes=100_000),
        Scenario("uneven", "64 uneven partitions", 2_000_000, "uneven", partitions=64),
    )
}
