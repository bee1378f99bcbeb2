"""The routes: from the last look at the flows to JSON and figures. Nothing in here waits for a cluster."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from urllib.parse import unquote

from sparkmirror.metrics import MirrorMetrics, exposition
from sparkmirror.rest.messages import HttpAnswer, json_answer, refusal
from sparkmirror.status import FlowStatus, PartitionStatus, counted_states, flow_state, troubles

LIVE, READY, METRICS, FLOWS = "/health/live", "/health/ready", "/metrics", "/flows"
PATHS = (LIVE, READY, METRICS, FLOWS, f"{FLOWS}/SOURCE->TARGET")
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
# The main loop looks ten times a second, rarer with thousands of partitions; one that has not for so long hangs (I7).
LOOK_S_MAX = 30.0
KEPT_S = 1.0  # receipts come once a second: answers that are younger are the same answers
KEPT_TIMES = 10.0  # as long as it took to make it, an answer is kept so many times: they cost a tenth of a core at most
SCHEMA = 1  # fields may be added under the same number
TROUBLES_MAX = 50  # in the list of flows; a flow's own page has all

_READY_STATES = frozenset({"running", "standby"})


class FlowAnswers:
    """What is known now. `show` is called by the main loop, `of` by the thread that serves."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
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

    def of(self, path: str) -> HttpAnswer:
        """The answer to a GET of `path`."""
        if path == LIVE:
            return json_answer(200, {"status": "up"})
        if path == READY:
            return self._ready()
        if path == METRICS:
            return self._keep(path, self._figures)
        if path == FLOWS:
            return self._keep(path, self._outlines)
        if path == "/":
            return json_answer(200, {"paths": PATHS})
        if path.startswith(f"{FLOWS}/"):
            return self._one(unquote(path.removeprefix(f"{FLOWS}/")))
        return refusal(404, f"expected one of {', '.join(PATHS)}, found another path")

    def _keep(self, key: str, make: Callable[[], HttpAnswer]) -> HttpAnswer:
        """An answer that takes long with thousands of partitions; there are as many as flows and two more."""
        began = self._clock()
        due, answer = self._kept.get(key, (began, None))
        if answer is None or began >= due:
            answer = make()
            now = self._clock()
            self._kept[key] = (now + max(KEPT_S, KEPT_TIMES * (now - began)), answer)
        return answer

    def _ready(self) -> HttpAnswer:
        """Whether every flow does what it is there for; a standby's task is to wait."""
        silent_s = self._clock() - self._looked
        flows = [_health(flow) for flow in self._flows]
        is_ready = bool(flows) and all(flow["state"] in _READY_STATES for flow in flows)
        status = "ready" if is_ready else "not ready" if flows else "starting"
        if silent_s > LOOK_S_MAX:
            is_ready, status = False, f"hanging: nobody has looked at the flows for {silent_s:.0f} s"
        return json_answer(200 if is_ready else 503, {"status": status, "flows": flows})

    def _figures(self) -> HttpAnswer:
        with self._metering:  # which the main loop waits for
            metrics = list(self._metrics.metrics(self._clock()))
        return HttpAnswer(200, exposition(metrics).encode(), PROMETHEUS)

    def _outlines(self) -> HttpAnswer:
        return json_answer(200, {"schema": SCHEMA, "flows": [_outline(flow) for flow in self._flows]})

    def _one(self, name: str) -> HttpAnswer:
        for flow in self._flows:
            if str(flow.name) == name:
                return self._keep(f"{FLOWS}/{name}", partial(_whole, flow))
        known = ", ".join(str(flow.name) for flow in self._flows) or "none yet"
        return refusal(404, f"expected a flow of this process ({known}), found another name")


def _health(flow: FlowStatus) -> dict[str, object]:
    return {"flow": str(flow.name), "state": flow_state(flow), "reason": flow.reason}


def _outline(flow: FlowStatus) -> dict[str, object]:
    found = troubles(flow)
    return _health(flow) | {
        "records": flow.records,
        "bytes": flow.record_bytes,
        "lag": flow.lag,
        "gaps": flow.gaps,
        "partitions": dict(counted_states(flow)),
        "chores": {chore: trouble for chore, trouble in flow.chores.items() if trouble},
        "troubles": [{"what": t.what, "state": t.state, "code": t.code, "reason": t.reason, "lag": t.lag}
                     for t in found[:TROUBLES_MAX]],
        "troubles_left_out": max(len(found) - TROUBLES_MAX, 0),
    }  # fmt: skip


def _whole(flow: FlowStatus) -> HttpAnswer:
    stopped = [{"topic": topic, "reason": reason} for topic, reason in sorted(flow.stopped_topics.items())]
    partitions = [_partition(flow, status) for _, status in sorted(flow.partitions.items())]
    notes = {"notes": [*flow.notes], "notes_left_out": flow.notes.left_out}
    more = notes | {"stopped_topics": stopped, "partition_list": partitions}
    return json_answer(200, {"schema": SCHEMA} | _outline(flow) | more)


def _partition(flow: FlowStatus, status: PartitionStatus) -> dict[str, object]:
    topic = status.partition.topic
    return {
        "topic": topic,
        "partition": status.partition.partition,
        "remote_topic": flow.remotes.get(topic, topic),
        "state": status.state,
        "code": status.code,
        "reason": status.reason,
        "next_upstream_offset": status.next_upstream,
        "source_end_offset": status.source_end if status.source_end >= 0 else None,
        "lag": status.lag if status.source_end >= 0 else None,
        "records": status.records,
        "bytes": status.record_bytes,
        "gap_offsets": status.gap_offsets,
    }
