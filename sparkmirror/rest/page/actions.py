"""What can be asked of a flow's owner: the plan and its consequence first, then the same request as the CLI's."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sparkmirror.config import FlowSettings, Settings
from sparkmirror.driver import Asking
from sparkmirror.positions import RestartScope, WishRequest, ask_for, restart
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
    """One verb. `consequences` are whole sentences; `is_dangerous`: of a whole flow it wants the flow's name typed."""

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
    words = flow.file_words or "FILE"
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


def _wish(verb: str) -> Ask:
    def ask(settings: Settings, flow: FlowSettings, scope: ActionScope, asking: Asking) -> str:
        return ask_for(settings, flow, WishRequest(verb, scope.topic or None, scope.partition), asking).text

    return ask


_OUTLIVES = "It holds until somebody resumes it, also after a restart and with another owner."
_GROWS = "Nothing is lost or doubled, but the copy falls behind; what the source's retention deletes meanwhile is lost."

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
        PageAction(
            "pause", "Pause", "ends the copying within 2 s, with every position as it is then",
            (_GROWS, _OUTLIVES), _wish("pause"), lambda status: status.state != "paused", "resume", is_dangerous=True,
        ),
        PageAction(
            "resume", "Resume", "goes on with what somebody paused or stopped",
            ("Each partition goes on exactly where its copy ended.", "It is behind until what came meanwhile is copied."),
            _wish("resume"), lambda status: status.state == "paused", "pause",
        ),
        PageAction(
            "stop", "Stop", "ends the copying within 2 s, and takes the partitions from their tasks",
            (_GROWS, _OUTLIVES, "Positions may be changed while it is stopped, as with Connect's STOPPED."),
            _wish("stop"), lambda status: status.state != "paused", "resume", is_dangerous=True,
        ),
    )
}  # fmt: skip
