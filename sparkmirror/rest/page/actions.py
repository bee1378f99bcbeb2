"""What can be asked of a flow's owner: the plan and its consequence first, then the same request as the CLI's."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sparkmirror.config import FlowSettings, Settings
from sparkmirror.driver import Asking
from sparkmirror.positions import RestartScope, restart
from sparkmirror.rest.page.topics import place_of
from sparkmirror.status import FlowStatus, PartitionStatus

NAMED_MAX = 12
WAIT_S = 30.0
_HALTED = ("stopped", "waiting")


@dataclass(frozen=True, slots=True)
class ActionScope:
    """What an action is about: the flow, a topic of it, or a partition."""

    flow: str
    topic: str = ""
    partition: int | None = None

    def __str__(self) -> str:
        return place_of(self.topic, self.partition) if self.topic else f"flow {self.flow}"

    def covers(self, status: PartitionStatus) -> bool:
        """Whether a partition is meant."""
        place = status.partition
        return (not self.topic or place.topic == self.topic) and self.partition in (None, place.partition)

    @property
    def options(self) -> str:
        """As a command line writes it."""
        words = f" --topic {shlex.quote(self.topic)}" if self.topic else ""
        return words + ("" if self.partition is None else f" --partition {self.partition}")


Ask = Callable[[Settings, FlowSettings, ActionScope, Asking], str]


@dataclass(frozen=True, slots=True)
class PageAction:
    """One verb. `consequences` are whole sentences; `is_dangerous` of a whole flow wants the flow's name typed."""

    verb: str
    label: str
    does: str
    consequences: tuple[str, ...]
    ask: Ask
    touches: Callable[[PartitionStatus], bool]
    undo: str = ""
    is_dangerous: bool = False


@dataclass(frozen=True, slots=True)
class ActionPlan:
    """What would happen, told before the button."""

    action: PageAction
    scope: ActionScope
    partitions: int
    named: tuple[PartitionStatus, ...]
    topics: int
    command: str
    undo_command: str
    must_type: str  # "" if nothing must be typed


def plan_of(action: PageAction, scope: ActionScope, flow: FlowStatus) -> ActionPlan:
    """From the last look at the flow."""
    meant = [p for p in flow.partitions.values() if scope.covers(p) and action.touches(p)]
    meant.sort(key=lambda status: (status.state not in _HALTED, status.partition))
    words = getattr(flow, "file_words", "") or "FILE"
    undo = f"sparkmirror {action.undo} {words}{scope.options}" if action.undo else ""
    return ActionPlan(
        action, scope, len(meant), tuple(meant[:NAMED_MAX]), len({p.partition.topic for p in meant}),
        f"sparkmirror {action.verb} {words}{scope.options}", undo,
        scope.flow if action.is_dangerous and not scope.topic else "",
    )  # fmt: skip


def _restart(settings: Settings, flow: FlowSettings, scope: ActionScope, asking: Asking) -> str:
    found = restart(flow, RestartScope(scope.topic or None, scope.partition), asking)
    again = f"; {found.stopped} stopped again" if found.stopped else ""
    return f"{found.text}{again}"


ACTIONS: Mapping[str, PageAction] = {
    action.verb: action
    for action in (
        PageAction(
            "restart", "Restart", "takes up stopped and waiting partitions again, at once",
            ("Each goes on exactly where its copy ended: nothing is lost and nothing is doubled.",
             "What stopped them must be mended before, else they stop again for the same reason.",
             "Partitions that copy are not touched."),
            _restart, lambda status: status.state in _HALTED,
        ),
    )
}  # fmt: skip
