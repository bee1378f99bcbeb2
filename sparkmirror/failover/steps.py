"""A failover, step by step. Each step looks at the clusters, not at a memory: killed and begun again it ends alike."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace

from sparkmirror import failpoints
from sparkmirror.clusters import ClusterClient
from sparkmirror.config import FlowSettings, Settings
from sparkmirror.driver import Asking, FlowLedger
from sparkmirror.errors import BrokerRefused, FailoverUnfinished, RequestRefused
from sparkmirror.failover.access import grant
from sparkmirror.failover.looking import look, recorded_failover
from sparkmirror.failover.placing import place_group, target_positions
from sparkmirror.failover.rest import await_copied, await_no_consumers, await_quiet, behind_of, ends_of, named
from sparkmirror.failover.stopping import stop_flow, write_record
from sparkmirror.failover.values import FailoverPlan, FailoverReport, Kind
from sparkmirror.model import TopicPartition
from sparkmirror.topology import ledger_topic
from sparkmirror.wire.error_codes import CLUSTER_AUTHORIZATION_FAILED

PLANNED = ("check", "producers", "copied", "consumers", "stop", "groups", "access", "record")
UNPLANNED = ("check", "stop", "groups", "access", "record")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverOptions:
    """How to fail over: `wait_s` is how long one step waits without progress, `quiet_s` how long ends must stand still."""

    kind: Kind = "planned"
    wait_s: float = 120.0
    quiet_s: float = 5.0
    leave_consumers: bool = False
    grant: bool = False


Say = Callable[[str, int, int, str], None]


def steps_of(kind: Kind) -> tuple[str, ...]:
    """The names of the steps, in order."""
    return PLANNED if kind == "planned" else UNPLANNED


class FailoverRun:
    """One failover that is being carried out."""

    def __init__(self, settings: Settings, flow: FlowSettings, options: FailoverOptions, asking: Asking, say: Say) -> None:
        self._settings, self._flow, self._options, self._say = settings, flow, options, say
        self._asking = asking if asking.id else replace(asking, id=str(uuid.uuid4()))
        self._began_ms = int(time.time() * 1000)

    def run(self) -> FailoverReport:
        """All steps; raises RequestRefused before anything is changed, FailoverUnfinished where a step could not end."""
        plan = look(self._settings, self._flow, self._options.kind)
        report = FailoverReport(plan=plan, request_id=self._asking.id, began_ms=self._began_ms)
        refuse_obstacles(plan)
        if plan.recorded is not None:
            report.request_id = plan.recorded.request_id
            report.is_repeated = plan.recorded.is_done
        if report.is_repeated:
            report.ended_ms = plan.recorded.time_ms if plan.recorded is not None else 0
            return report
        with (
            closing(ClusterClient(self._flow.source)) as source,
            closing(ClusterClient(self._flow.target)) as target,
        ):
            opts = self._options
            actions: Mapping[str, Callable[[], str]] = {
                "check": lambda: f"{len(plan.topics)} topics, {len(plan.copies)} partitions, {len(plan.groups)} groups",
                "producers": lambda: await_quiet(
                    source, _places(plan), opts.quiet_s, opts.wait_s, self._waiting("producers")
                ),
                "copied": lambda: await_copied(
                    source, FlowLedger(target, ledger_topic(self._flow.name.source)), ends_of(source, _places(plan)),
                    opts.wait_s, self._waiting("copied"), self._settings.path,
                ),
                "consumers": lambda: await_no_consumers(
                    source, {g.name for g in plan.groups if not g.left_alone}, opts.wait_s, self._waiting("consumers"),
                    leave=opts.leave_consumers,
                ),
                "stop": lambda: self._stop(source, target, plan),
                "groups": lambda: self._place_groups(target, report),
                "access": lambda: self._grant(source, target, report),
                "record": lambda: self._record(target, report),
            }
            names = steps_of(self._options.kind)
            for number, name in enumerate(names, 1):
                words = actions[name]()
                report.steps.append((name, words, int(time.time() * 1000)))
                self._say(name, number, len(names), words)
                if failpoints.ARMED:
                    failpoints.point("failover.step")
        report.ended_ms = int(time.time() * 1000)
        return report

    def _waiting(self, name: str) -> Callable[[str], None]:
        names = steps_of(self._options.kind)
        return lambda words: self._say(name, names.index(name) + 1, len(names), f"… {words}")

    # --- the source comes to rest ------------------------------------------------------------------------------------

    # --- the flow ends -------------------------------------------------------------------------------------------------

    def _stop(self, source: ClusterClient, target: ClusterClient, plan: FailoverPlan) -> str:
        words = stop_flow(self._settings, self._flow, self._options.kind, self._asking)
        if self._options.kind == "unplanned":
            return words
        places = _places(plan)
        ledger = FlowLedger(target, ledger_topic(self._flow.name.source))
        ledger.read_all()
        behind = behind_of(source, ledger, ends_of(source, places))
        if behind:
            raise FailoverUnfinished(
                f"{sum(behind.values()):,} records came to {named(behind)} of {self._flow.name.source} "
                "while the flow stopped",
                hint="stop their producers; --abandon --yes lets the flow run again and copy them; then fail over again",
            )
        return words

    # --- groups --------------------------------------------------------------------------------------------------------

    def _place_groups(self, target: ClusterClient, report: FailoverReport) -> str:
        """Writes each position of each group that nobody reads with, and reads it back."""
        plan = look(self._settings, self._flow, self._options.kind)  # the groups as they are now that the flow is stopped
        report.plan = replace(plan, recorded=report.plan.recorded)
        count = 0
        for group in plan.groups:
            wanted = {} if group.left_alone else target_positions(group)
            if not wanted:
                continue
            reason = place_group(target, group.name, wanted)
            if reason:
                report.refused[group.name] = reason
            else:
                report.placed[group.name] = len(wanted)
                count += len(wanted)
            if failpoints.ARMED:
                failpoints.point("failover.group_placed")
        there = sum(p.action == "there" for g in plan.groups for p in g.positions)
        return f"{count} positions of {len(report.placed)} groups written, {there} were there already"

    # --- afterwards ----------------------------------------------------------------------------------------------------

    def _grant(self, source: ClusterClient, target: ClusterClient, report: FailoverReport) -> str:
        access = report.plan.access
        if not self._options.grant or report.plan.source_down:
            return f"{len(access)} to be looked at" if access else "nothing is missing"
        verdicts = grant(source, target, report.plan.topics)
        refused = [reason for reason in verdicts.values() if reason is not None]
        if refused:
            text = f"{len(refused)} rights were refused: {refused[0]}"
            raise BrokerRefused(text, error_code=CLUSTER_AUTHORIZATION_FAILED, needs="Alter on the cluster")
        return f"{len(verdicts)} rights granted"

    def _record(self, target: ClusterClient, report: FailoverReport) -> str:
        held = recorded_failover(target, self._flow)
        if held is None:
            raise RequestRefused("the record of this failover is gone from the ledger: somebody abandoned it meanwhile")
        detail = {"groups": len(report.plan.groups), "placed": sum(report.placed.values())}
        write_record(self._flow, target, replace(held, state="done", time_ms=int(time.time() * 1000), detail=detail))
        report.request_id = held.request_id
        return "the flow stays stopped until it is failed back"


def refuse_obstacles(plan: FailoverPlan) -> None:
    """Raises RequestRefused if something is in the way that no waiting mends."""
    if not plan.obstacles:
        return
    first = plan.obstacles[0]
    more = "".join(f"\n{o.text}{f' ({o.hint})' if o.hint else ''}" for o in plan.obstacles[1:])
    raise RequestRefused(f"{plan.flow} cannot be failed over: {first.text}{more}", hint=first.hint)


def _places(plan: FailoverPlan) -> list[TopicPartition]:
    return [copy.partition for copy in plan.copies]
