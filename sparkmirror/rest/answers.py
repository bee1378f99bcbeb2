"""The routes: from the last look at the flows to JSON and figures. Nothing in here waits for a cluster."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from urllib.parse import unquote

from sparkmirror.metrics import MirrorMetrics, exposition
from sparkmirror.rest.messages import HttpAnswer, json_answer, refusal
from sparkmirror.status import FlowStatus, PartitionStatus, is_healthy, partition_lag, partition_lag_ms
from sparkmirror.status.outline import SCHEMA, health_fields, lag_fields, outline, time_text

LIVE, READY, HEALTHY, METRICS, FLOWS = "/health/live", "/health/ready", "/health/flows", "/metrics", "/flows"
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
# The main loop looks ten times a second, rarer with thousands of partitions; one that has not for so long hangs (I7).
LOOK_S_MAX = 30.0
KEPT_S = 1.0  # receipts come once a second: answers that are younger are the same answers
KEPT_TIMES = 10.0  # as long as it took to make it, an answer is kept so many times: they cost a tenth of a core at most

# A pod must not fall out of rotation because one partition is stopped, or because a cluster is silent for a moment.
_READY_STATES = frozenset({"running", "degraded", "unknown", "standby", "paused"})


class FlowAnswers:
    """What is known now. `show` is called by the main loop, `of` by the thread that serves."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, labels: Sequence[tuple[str, str]] = ()
    ) -> None:
        self._clock, self._labels = clock, tuple(labels)
        self._metrics = MirrorMetrics()
        self._metering = threading.Lock()
        self._flows: Sequence[FlowStatus] = ()
        self._looked = clock()
        self._kept: dict[str, tuple[float, HttpAnswer]] = {}

    def show(self, flows: Sequence[FlowStatus]) -> None:
        """One look at the flows, which nobody changes any more."""
        now = self._clock()
        with self._metering:
            self._metrics.take(flows, now)
        self._flows, self._looked = flows, now

    def of(self, path: str) -> HttpAnswer | None:
        """The answer to a GET of `path`; None if it is none of ours."""
        if path == LIVE:
            return json_answer(200, {"status": "up"})
        if path == READY:
            return self._ready()
        if path == HEALTHY:
            return self._keep(path, self._all_healthy)
        if path == METRICS:
            return self._keep(path, self._figures)
        if path == FLOWS:
            return self._keep(path, self._outlines)
        if path.startswith(f"{FLOWS}/"):
            return self._one(unquote(path.removeprefix(f"{FLOWS}/")))
        return None

    @property
    def flows(self) -> Sequence[FlowStatus]:
        """The last look at the flows."""
        return self._flows

    def _keep(self, key: str, make: Callable[[], HttpAnswer]) -> HttpAnswer:
        """An answer that takes long with thousands of partitions; there are as many as flows and three more."""
        began = self._clock()
        due, answer = self._kept.get(key, (began, None))
        if answer is None or began >= due:
            answer = make()
            now = self._clock()
            self._kept[key] = (now + max(KEPT_S, KEPT_TIMES * (now - began)), answer)
        return answer

    def _ready(self) -> HttpAnswer:
        """Whether every flow does what it is there for; a standby's task is to wait."""
        flows = [health_fields(flow) for flow in self._flows]
        states = {flow["state"] for flow in flows}
        is_ready = bool(flows) and states <= _READY_STATES
        status = "not ready" if flows else "starting"
        if is_ready:
            status = next((state for state in ("degraded", "unknown", "paused") if state in states), "ready")
        hanging = self._hanging()
        return json_answer(200 if is_ready and not hanging else 503, {"status": hanging or status, "flows": flows})

    def _all_healthy(self) -> HttpAnswer:
        """Whether every flow is as it should be: none degraded, stopped, failed, unknown or waiting for a cluster."""
        flows = [health_fields(flow) | lag_fields(flow) for flow in self._flows]
        is_fine = bool(flows) and all(is_healthy(flow) for flow in self._flows)
        hanging = self._hanging()
        status = hanging or ("healthy" if is_fine else "unhealthy" if flows else "starting")
        return json_answer(200 if is_fine and not hanging else 503, {"status": status, "flows": flows})

    def _hanging(self) -> str:
        silent_s = self._clock() - self._looked
        return f"hanging: nobody has looked at the flows for {silent_s:.0f} s" if silent_s > LOOK_S_MAX else ""

    def _figures(self) -> HttpAnswer:
        with self._metering:  # which the main loop waits for
            metrics = list(self._metrics.metrics(self._clock()))
        return HttpAnswer(200, exposition(metrics, self._labels).encode(), PROMETHEUS)

    def _outlines(self) -> HttpAnswer:
        return json_answer(200, {"schema": SCHEMA, "flows": [outline(flow) for flow in self._flows]})

    def _one(self, name: str) -> HttpAnswer:
        for flow in self._flows:
            if str(flow.name) == name:
                return self._keep(f"{FLOWS}/{name}", partial(_whole, flow))
        known = ", ".join(str(flow.name) for flow in self._flows) or "none yet"
        return refusal(404, f"expected a flow of this process ({known}), found another name")


def _whole(flow: FlowStatus) -> HttpAnswer:
    stopped = [{"topic": topic, "reason": reason} for topic, reason in sorted(flow.stopped_topics.items())]
    partitions = [_partition(flow, status) for _, status in sorted(flow.partitions.items())]
    notes = {"notes": [*flow.notes], "notes_left_out": flow.notes.left_out}
    more = notes | {"stopped_topics": stopped, "partition_list": partitions}
    return json_answer(200, {"schema": SCHEMA} | outline(flow) | more)


def _partition(flow: FlowStatus, status: PartitionStatus) -> dict[str, object]:
    topic, age_ms = status.partition.topic, partition_lag_ms(flow, status)
    return {
        "topic": topic,
        "partition": status.partition.partition,
        "remote_topic": flow.remote(topic),
        "state": status.state,
        "code": status.code,
        "reason": status.reason,
        "next_upstream_offset": status.next_upstream if status.next_upstream >= 0 else None,
        "source_end_offset": status.source_end if status.source_end >= 0 else None,
        "lag": partition_lag(flow, status),
        "lag_seconds": None if age_ms is None else age_ms / 1000,
        "lag_known": status.lag,
        "lag_as_of": time_text(status.end_seen_ms),
        "records": status.records,
        "bytes": status.record_bytes,
        "gap_offsets": status.gap_offsets,
    }

