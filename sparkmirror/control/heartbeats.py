"""Heartbeats into one cluster: one record a second for every flow into it, whether the flow copies or not (spec §8).

MM2 runs a Connect worker for each pair of clusters to do this; here it is one thread for each cluster.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from sparkmirror.clusters import ClusterClient, append_records
from sparkmirror.config import FlowSettings
from sparkmirror.driver import ensure_compacted_topic
from sparkmirror.errors import SparkmirrorError
from sparkmirror.model import FlowName, Heartbeat, TopicPartition
from sparkmirror.topology import policy_for
from sparkmirror.wire import encode_heartbeat

INTERVAL_S_MIN = 0.05
RETRY_S = 1.0


class Heartbeats:
    """Heartbeats of all flows into one cluster; `tell` hears why they cannot be written, and "" when they can again.

    Those of a flow that `is_paused` names are not written.
    """

    def __init__(
        self,
        flows: Sequence[FlowSettings],
        tell: Callable[[str], None],
        is_paused: Callable[[FlowName], bool] = lambda flow: False,
    ) -> None:
        self.target = flows[0].name.target
        self._flows, self._tell, self._is_paused = flows, tell, is_paused
        self._client = ClusterClient(flows[0].target)
        self._topic = policy_for(flows[0]).heartbeats_topic
        self._stop = threading.Event()
        self._beating = [flow for flow in flows if flow.emits_heartbeats and flow.emit_heartbeats_interval_seconds >= 0]
        self.written_ms: dict[FlowName, int] = {}  # when each flow's newest heartbeat was written
        self._due = {flow.name: time.monotonic() + flow.emit_heartbeats_interval_seconds for flow in self._beating}

    def stop(self) -> None:
        """Ends it at once."""
        self._stop.set()

    def run(self) -> None:
        """Until stopped. A flow that copies gets the topic even if it writes no heartbeats, as with MM2."""
        try:
            while not self._stop.is_set() and not self._try(self._prepare):
                self._stop.wait(RETRY_S)
            while self._beating and not self._stop.wait(self._pause()):
                if not self._try(self._beat):
                    self._stop.wait(RETRY_S)
        finally:
            self._client.close()

    def _try(self, action: Callable[[], None]) -> bool:
        try:
            action()
        except SparkmirrorError as error:
            self._tell(str(error))
            return False
        except Exception as error:  # noqa: BLE001  border of a thread: it must not end in silence
            self._tell(f"{type(error).__name__}: {error}")
            return False
        self._tell("")
        return True

    def _prepare(self) -> None:
        factor = max(flow.heartbeats_topic_replication_factor for flow in self._flows)
        ensure_compacted_topic(self._client, self._topic, 1, factor, "heartbeats.topic.replication.factor")

    def _pause(self) -> float:
        return max(min(self._due.values()) - time.monotonic(), INTERVAL_S_MIN)

    def _beat(self) -> None:
        now = time.monotonic()
        due = [flow for flow in self._beating if self._due[flow.name] <= now]
        beating = [flow for flow in due if not self._is_paused(flow.name)]
        now_ms = int(time.time() * 1000)
        entries = [encode_heartbeat(Heartbeat(flow.name.source, flow.name.target, now_ms)) for flow in beating]
        if entries:
            append_records(self._client, TopicPartition(self._topic, 0), entries, now_ms)
        for flow in due:
            self.written_ms[flow.name] = now_ms
            self._due[flow.name] = now + flow.emit_heartbeats_interval_seconds
