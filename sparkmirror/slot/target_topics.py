"""What the target's topics accept, read from the target itself and read again from time to time."""

from __future__ import annotations

import time
from dataclasses import dataclass

from sparkmirror.clusters import describe_configs_request, read_topic_configs
from sparkmirror.errors import ClusterError
from sparkmirror.slot.loop import Procedure
from sparkmirror.slot.side import ClusterSide
from sparkmirror.wire import DECOMPRESSED_BYTES_MAX, PackLimits

# Kafka's own defaults, used where the target does not let us read its settings.
MESSAGE_BYTES_MAX = 1_048_588
NEVER_MS = (1 << 63) - 1
# A batch of its own costs the target's broker some 75 µs. Splicing a plain record costs us under 1 µs, so batches of few
# records are spliced whatever their size, unless copying the bytes begins to show; opening and compressing costs more.
SPLICE_BELOW_BYTES = 64 << 10
MERGE_BELOW_BYTES = 4096
MERGE_TO_BYTES = 512 << 10


@dataclass(slots=True)
class TargetTopic:
    """One topic's settings that decide how batches must look."""

    message_bytes_max: int = MESSAGE_BYTES_MAX
    is_compacted: bool = False
    is_log_append_time: bool = False
    timestamp_before_max_ms: int = NEVER_MS
    timestamp_after_max_ms: int = 3_600_000

    def limits(self) -> PackLimits:
        """The bounds that hold now."""
        now_ms = int(time.time() * 1000)
        checks_time = not self.is_log_append_time
        return PackLimits(
            batch_bytes_max=self.message_bytes_max,
            merge_below_bytes=min(MERGE_BELOW_BYTES, self.message_bytes_max),
            splice_below_bytes=SPLICE_BELOW_BYTES,
            merge_to_bytes=min(MERGE_TO_BYTES, self.message_bytes_max),
            decompressed_bytes_max=DECOMPRESSED_BYTES_MAX,
            refuse_null_keys=self.is_compacted,
            timestamp_after_max=now_ms + self.timestamp_after_max_ms
            if checks_time and self.timestamp_after_max_ms < NEVER_MS
            else None,
            timestamp_before_min=now_ms - self.timestamp_before_max_ms
            if checks_time and self.timestamp_before_max_ms < NEVER_MS
            else None,
        )


class TargetTopics:
    """The topics a slot writes to."""

    def __init__(self, side: ClusterSide) -> None:
        self._side = side
        self._topics: dict[str, TargetTopic] = {}

    def known(self, name: str) -> TargetTopic:
        """A topic's settings as last read."""
        return self._topics.setdefault(name, TargetTopic())

    def load(self, names: list[str]) -> Procedure:
        """Reads the settings; a topic that may not be described keeps what is known of it."""
        try:
            answer = yield from self._side.ask_any(lambda c: describe_configs_request(c, names))
            configs = read_topic_configs(answer)
        except ClusterError:
            return
        for name, entries in configs.items():
            values = {entry.name: entry.value or "" for entry in entries}
            topic = self.known(name)
            topic.message_bytes_max = int(values.get("max.message.bytes", MESSAGE_BYTES_MAX))
            topic.is_compacted = "compact" in values.get("cleanup.policy", "")
            topic.is_log_append_time = values.get("message.timestamp.type") == "LogAppendTime"
            topic.timestamp_before_max_ms = int(values.get("message.timestamp.before.max.ms", NEVER_MS))
            topic.timestamp_after_max_ms = int(values.get("message.timestamp.after.max.ms", NEVER_MS))
