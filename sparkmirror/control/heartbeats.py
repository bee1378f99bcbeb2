"""Heartbeats into one cluster: one record a second for every flow into it, whether the flow copies or not (spec §8).

MM2 runs a Connect worker for each pair of clusters to do this; here it is one thread for each cluster.
"""

from __future__ import annotations

import math
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
PAUSE_S_MAX = 1.0  # so long may pass until new settings are seen
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
        self._tell, self._is_paused = tell, is_paused
        self._client = ClusterClient(flows[0].target)
        self._topic = policy_for(flows[0]).heartbeats_topic
        self._stop = threading.Event()
        self._beating = _beating(flows)
        self.written_ms: dict[FlowName, int] = {}  # when each flow's newest heartbeat was written
        self._due: dict[FlowName, float] = {}
        self._new: Sequence[FlowSettings] | None = flows

    def renew(self, flows: Sequence[FlowSettings]) -> None:
        """Goes on with other settings of the flows into the cluster, or other flows. Any thread may ask for it."""
        if flows:
            self._client.renew(flows[0].target)
        self._new = flows

    def stop(self) -> None:
        """Ends it at once."""
        self._stop.set()

    def run(self) -> None:
        """Until stopped. A flow that copies gets the topic even if it writes no heartbeats, as with MM2."""
        try:
            while not self._stop.wait(self._pause()):
                if not self._try(self._take if self._new is not None else self._beat):
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

    def _take(self) -> None:
        new = self._new or ()
        if new:
            factor = max(flow.heartbeats_topic_replication_factor for flow in new)
            ensure_compacted_topic(self._client, self._topic, 1, factor, "heartbeats.topic.replication.factor")
        self._beating = _beating(new)
        self._due = {flow.name: time.monotonic() + flow.emit_heartbeats_interval_seconds for flow in self._beating}
        self._new = None if self._new is new else self._new

    def _pause(self) -> float:
        if self._new is not None:
            return 0.0
        due = min(self._due.values(), default=math.inf)
        return min(max(due - time.monotonic(), INTERVAL_S_MIN), PAUSE_S_MAX)

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


def _beating(flows: Sequence[FlowSettings]) -> list[FlowSettings]:
    return [flow for flow in flows if flow.emits_heartbeats and flow.emit_heartbeats_interval_seconds >= 0]
