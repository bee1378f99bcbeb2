"""Connect's REST, as far as it changes something: each change is a request to the flow's owner, as the commands' are."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from starlette.requests import Request

from sparkmirror.config import FlowSettings, Settings
from sparkmirror.config.parsing import parse_reset
from sparkmirror.driver import Asking
from sparkmirror.errors import ConfigError, SparkmirrorError
from sparkmirror.positions import (
    ConnectorKind,
    Goal,
    MoveRequest,
    RestartScope,
    alteration_problem,
    apply,
    choose_flow,
    restart,
)
from sparkmirror.rest.bodies import BadBody, offset_entries, parsed
from sparkmirror.rest.connectors import (
    ConnectorTask,
    ConnectState,
    Document,
    MirrorConnector,
    MirrorRole,
    Named,
    find,
    status_document,
)
from sparkmirror.rest.entries import NoSuchPartition, next_offsets
from sparkmirror.rest.messages import HttpAnswer, compact_answer, empty_answer, refusal
from sparkmirror.rest.paths import Paths, Workers

WAIT_S = 60.0  # for the owner's answer; Connect itself gives up after 90 s
SHOWN_S = 5.0  # until what was changed is seen by the next GET
LOOK_S = 0.05
NO_OFFSETS = "Partitions / offsets need to be provided for an alter offsets request"
ALTERED, RESET = ("The offsets for this connector have been altered successfully",
                  "The offsets for this connector have been reset successfully")  # fmt: skip
CHORES = {MirrorRole.SOURCE: "source", MirrorRole.CHECKPOINT: "checkpoint", MirrorRole.HEARTBEAT: "heartbeat"}


class Refused(Exception):
    """A request that is answered with a refusal."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.answer = refusal(status, message)


@dataclass(frozen=True, slots=True)
class ConnectChanges:
    """What the paths need: the connectors as they are now, the file's settings, and threads for what waits."""

    connectors: Callable[[], Sequence[MirrorConnector]]
    settings: Settings
    worker_id: str
    workers: Workers
    forget_topics: Callable[[Named], None]

    def paths(self) -> Paths:
        """Everything that changes something, under Connect's paths."""
        at = "/connectors/{connector}"
        return {
            f"{at}/restart": {"POST": self.guarded(self.restart)},
            f"{at}/tasks/{{task:int}}/restart": {"POST": self.guarded(self.restart_task)},
            f"{at}/offsets": {"PATCH": self.guarded(self.alter_offsets), "DELETE": self.guarded(self.reset_offsets)},
            f"{at}/topics/reset": {"PUT": self.reset_topics},
        }

    def guarded(
        self, handle: Callable[[Request], Awaitable[HttpAnswer]]
    ) -> Callable[[Request], Awaitable[HttpAnswer]]:
        """The answer, or the refusal that it ended in."""

        async def answer(request: Request) -> HttpAnswer:
            try:
                return await handle(request)
            except Refused as error:
                return error.answer
            except BadBody as error:
                return refusal(500, str(error))

        answer.__doc__ = handle.__doc__
        return answer

    # --- restart -------------------------------------------------------------------------------------------------

    async def restart(self, request: Request) -> HttpAnswer:
        """Takes up what is stopped or waits; with `includeTasks` and without `onlyFailed` also what copies."""
        includes_tasks, only_failed = (_flag(request, name) for name in ("includeTasks", "onlyFailed"))
        named = self._named(request, "Unknown connector: {}")
        part = _only(named)
        if part.state in (ConnectState.STOPPED, ConnectState.PAUSED):
            pass  # Connect restarts nothing of what is stopped, and says the same
        else:
            scope = RestartScope(running=includes_tasks and not only_failed, connector=CHORES[part.kind])
            await self._ask(request, part, lambda flow, asking: restart(flow, scope, asking))
        if not includes_tasks and not only_failed:
            return empty_answer(204)
        return compact_answer(202, _restarting(status_document(named, self.worker_id), only_failed=only_failed))

    async def restart_task(self, request: Request) -> HttpAnswer:
        """Takes up the partitions of one slot again, also those that copy."""
        named = self._named(request, "Unknown connector: {}")
        number = request.path_params["task"]
        if number >= len(named.tasks):
            raise Refused(404, f"Unknown task: {named.name}-{number}")
        part, task = named.tasks[number]
        scope = _task_scope(part, task)
        await self._ask(request, part, lambda flow, asking: restart(flow, scope, asking))
        return empty_answer(204)

    # --- offsets -------------------------------------------------------------------------------------------------

    async def alter_offsets(self, request: Request) -> HttpAnswer:
        """Moves positions of a stopped source connector; those of the others mean nothing, as in MirrorMaker 2."""
        entries = offset_entries(parsed(await request.body()))
        if not entries:
            raise Refused(400, NO_OFFSETS)
        named = self._named(request, "Connector {} not found")
        part = self._stopped(named)
        problem = alteration_problem(ConnectorKind(part.kind.value), entries)
        if problem is not None:
            raise Refused(500, problem)
        if part.kind is MirrorRole.SOURCE:
            try:
                wanted = next_offsets(entries, part)
            except NoSuchPartition as error:
                raise Refused(400, str(error)) from error
            if wanted:
                move = MoveRequest("import", None, to=self._start(part), entries=wanted, flow=str(part.flow))
                await self._move(request, part, move)
        return compact_answer(200, {"message": ALTERED})

    async def reset_offsets(self, request: Request) -> HttpAnswer:
        """Forgets every position of a stopped source connector: it begins where a new one would."""
        part = self._stopped(self._named(request, "Connector {} not found"))
        if part.kind is MirrorRole.SOURCE:
            await self._move(request, part, MoveRequest("reset", None, to=self._start(part), flow=str(part.flow)))
        return compact_answer(200, {"message": RESET})

    def _stopped(self, named: Named) -> MirrorConnector:
        part = _only(named)
        if part.state is not ConnectState.STOPPED:
            raise Refused(
                400,
                "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the "
                f"specified connector by issuing a 'PUT' request to the '/connectors/{named.name}/stop' endpoint",
            )
        return part

    def _start(self, part: MirrorConnector) -> Goal:
        """Where a partition without a position begins."""
        found = parse_reset(choose_flow(self.settings, str(part.flow)).consumer["auto.offset.reset"])
        if isinstance(found, float):
            return Goal("time", int((time.time() - found) * 1000))
        return Goal("latest" if found == "latest" else "earliest")

    async def _move(self, request: Request, part: MirrorConnector, move: MoveRequest) -> None:
        await self._ask(request, part, lambda flow, asking: apply(self.settings, move, asking))

    # --- topics --------------------------------------------------------------------------------------------------

    def reset_topics(self, request: Request) -> HttpAnswer:
        """Forgets which topics were written; those that are written from now on are shown again."""
        named = find(self.connectors(), request.path_params["connector"])
        if named is not None:
            self.forget_topics(named)
        return empty_answer(202)

    # --- asking --------------------------------------------------------------------------------------------------

    def _named(self, request: Request, unknown: str) -> Named:
        name = request.path_params["connector"]
        named = find(self.connectors(), name)
        if named is None:
            raise Refused(404, unknown.format(name))
        return named

    async def _ask(
        self, request: Request, part: MirrorConnector, ask: Callable[[FlowSettings, Asking], object]
    ) -> None:
        """Asks the owner of the connector's flow, and waits; raises Refused with what became of it."""
        asking = Asking(wait_s=WAIT_S, command=f"{request.method} {request.url.path}", who=who_asks(request))

        def work() -> HttpAnswer:
            try:
                ask(choose_flow(self.settings, str(part.flow)), asking)
            except SparkmirrorError as error:
                return refusal(400 if isinstance(error, ConfigError) else error.http_status, str(error))
            return empty_answer(204)

        found = await self.workers.do(work)
        if found.status != 204:
            refused = Refused(found.status, "")
            refused.answer = found
            raise refused

    async def _await_shown(self, name: str, state: ConnectState) -> None:
        """Until the next GET shows it; not for ever, since who waits for its turn as owner never sees it."""
        deadline = time.monotonic() + SHOWN_S
        while time.monotonic() < deadline:
            named = find(self.connectors(), name)
            if named is None or all(part.state is state for part in named.parts):
                return
            await asyncio.sleep(LOOK_S)


def who_asks(request: Request) -> str:
    """Whose token it was and from where it came, as the history shows it."""
    host = request.client.host if request.client is not None else "?"
    return f"{request.scope['state'].get('who', 'HTTP')} from {host}"


def _flag(request: Request, name: str) -> bool:
    return request.query_params.get(name, "").lower() == "true"


def _only(named: Named) -> MirrorConnector:
    if len(named.parts) > 1:
        names = ", ".join(part.name for part in named.parts)
        raise Refused(400, f"{named.name} is a connector of {len(named.parts)} flows: expected one of {names}")
    return named.parts[0]


def _task_scope(part: MirrorConnector, task: ConnectorTask) -> RestartScope:
    return RestartScope(slot=task.slot, running=True, connector=CHORES[part.kind])


def _restarting(document: Document, *, only_failed: bool) -> Document:
    """The plan of a restart, as Connect shows it: what is taken up again is RESTARTING."""
    parts = [document["connector"], *document["tasks"]]  # type: ignore[misc]  # as status_document makes them
    for part in parts:
        is_failed = part["state"] == ConnectState.FAILED.value
        if is_failed or (not only_failed and part["state"] == ConnectState.RUNNING.value):
            part["state"] = ConnectState.RESTARTING.value
            part.pop("trace", None)
    return document
