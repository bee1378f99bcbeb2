"""A rehearsal of a failover beside production: the same looks and the same placing, under shadow groups that are removed."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace

from sparkmirror.clusters import ClusterClient, list_groups, name_of
from sparkmirror.clusters.removal import delete_groups
from sparkmirror.config import FlowSettings, Settings
from sparkmirror.driver import FlowLedger
from sparkmirror.failover.looking import look
from sparkmirror.failover.placing import place_group
from sparkmirror.failover.rest import await_copied, ends_of
from sparkmirror.failover.values import FailoverPlan, GroupPlan, GroupPosition
from sparkmirror.model import TopicPartition
from sparkmirror.topology import ledger_topic

PREFIX = "sparkmirror-drill."
STEPS = ("check", "copied", "groups", "clean")
Say = Callable[[str, int, int, str], None]


@dataclass(slots=True, kw_only=True)
class DrillReport:
    """What was measured. `copied_s` is how long everything took that the source held when the drill began."""

    plan: FailoverPlan
    began_ms: int
    ended_ms: int = 0
    copied_s: float | None = None
    groups_s: float = 0.0
    placed: dict[str, int] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    left_behind: tuple[str, ...] = ()  # shadow groups that could not be removed

    @property
    def failover_s(self) -> float | None:
        """How long a failover would have taken from when the producers stopped."""
        return None if self.copied_s is None else self.copied_s + self.groups_s

    @property
    def again(self) -> int | None:
        """Records that all groups together would read again; None if that is not known of one."""
        counts = [group.again for group in self.plan.groups if not group.left_alone]
        return None if None in counts else sum(count for count in counts if count is not None)

    @property
    def needs_attention(self) -> bool:
        """Whether a failover would be refused, or would not be exact."""
        left = any(group.left_alone or not group.is_proven for group in self.plan.groups)
        return bool(self.plan.obstacles or self.refused or self.left_behind) or left or self.again != 0


class Drill:
    """One rehearsal."""

    def __init__(self, settings: Settings, flow: FlowSettings, wait_s: float, say: Say) -> None:
        self._settings, self._flow, self._wait_s, self._say = settings, flow, wait_s, say
        self._of_flow = f"{PREFIX}{flow.name}."
        self._prefix = f"{self._of_flow}{uuid.uuid4().hex[:8]}."

    def run(self) -> DrillReport:
        """All steps; both clusters are left as they were, whatever happens."""
        report = DrillReport(plan=look(self._settings, self._flow, "planned"), began_ms=int(time.time() * 1000))
        plan = report.plan
        self._ended(1, f"{len(plan.copies)} partitions, {len(plan.groups)} groups, {len(plan.obstacles)} obstacles")
        with (
            closing(ClusterClient(self._flow.source)) as source,
            closing(ClusterClient(self._flow.target)) as target,
        ):
            self._remove_old(target)
            if not plan.obstacles:
                began = time.monotonic()
                places = [copy.partition for copy in plan.copies]
                ledger = FlowLedger(target, ledger_topic(self._flow.name.source))
                waiting = lambda words: self._ended(2, f"… {words}")  # noqa: E731
                await_copied(source, ledger, ends_of(source, places), self._wait_s, waiting, self._settings.path)
                report.copied_s = time.monotonic() - began
                self._ended(2, f"what the source held is copied, {report.copied_s:.1f} s later")
            began = time.monotonic()
            try:
                self._place(target, report)
            finally:
                report.groups_s = time.monotonic() - began
                report.left_behind = self._clean(target, [self._prefix + group for group in report.placed])
        self._ended(4, "the shadow groups are removed")
        report.ended_ms = int(time.time() * 1000)
        return report

    def _ended(self, number: int, words: str) -> None:
        self._say(STEPS[number - 1], number, len(STEPS), words)

    def _place(self, target: ClusterClient, report: DrillReport) -> None:
        """Every group as a failover now would, by what it has committed on the source at this moment."""
        if report.plan.source_down:
            return
        report.plan = replace(look(self._settings, self._flow, "planned"), obstacles=report.plan.obstacles)
        for group in report.plan.groups:
            wanted = _positions(group)
            if not wanted:
                continue
            report.placed[group.name] = len(wanted)
            reason = place_group(target, self._prefix + group.name, wanted)
            if reason:
                report.refused[group.name] = reason
        count = sum(report.placed.values())
        self._ended(3, f"{count} positions of {len(report.placed)} shadow groups written and read back")

    def _remove_old(self, target: ClusterClient) -> None:
        """Those of a drill of this flow that was killed."""
        self._clean(target, [group.name for group in list_groups(target) if group.name.startswith(self._of_flow)])

    def _clean(self, target: ClusterClient, groups: list[str]) -> tuple[str, ...]:
        return tuple(f"{group}: {name_of(code)}" for group, code in delete_groups(target, groups).items() if code)


def _positions(group: GroupPlan) -> dict[TopicPartition, GroupPosition]:
    """Each position that a failover would leave the group at, also where it is already."""
    found: dict[TopicPartition, GroupPosition] = {}
    for position in group.positions:
        if position.remote is not None and position.downstream is not None:
            known = found.get(position.remote)
            if known is None or (known.downstream or 0) > position.downstream:
                found[position.remote] = position
    return found
