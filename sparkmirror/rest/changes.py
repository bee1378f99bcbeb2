"""Connect's REST, as far as it changes what a connector does: each change is a request to the flow's owner."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from starlette.requests import Request

from sparkmirror.config import choose_flow
from sparkmirror.config.parsing import parse_reset
from sparkmirror.positions import (
    ConnectorKind,
    Goal,
    MoveRequest,
    MoveVerdict,
    RestartScope,
    alteration_problem,
    apply,
    restart,
)
from sparkmirror.rest.asking import FlowOwners, Refused, only, refusing
from sparkmirror.rest.bodies import offset_entries, parsed
from sparkmirror.rest.connectors import (
    ConnectState,
    Document,
    MirrorConnector,
    MirrorRole,
    Named,
    find,
    offsets_document,
    status_document,
)
from sparkmirror.rest.entries import NoSuchPartition, next_offsets
from sparkmirror.rest.messages import HttpAnswer, compact_answer, empty_answer
from sparkmirror.rest.paths import Paths

NO_OFFSETS = "Partitions / offsets need to be provided for an alter offsets request"
ALTERED, RESET = ("The offsets for this connector have been altered successfully",
                  "The offsets for this connector have been reset successfully")  # fmt: skip
UNDO = "X-Sparkmirror-Undo-File"
_IDLE = (ConnectState.STOPPED, ConnectState.PAUSED)


@dataclass(frozen=True, slots=True)
class ConnectChanges:
    """What the paths need: owners to ask, this process's address, and what is shown of a connector's topics."""

    owners: FlowOwners
    worker_id: str
    forget_topics: Callable[[Named], None]

    def paths(self) -> Paths:
        """These paths."""
        at = "/connectors/{connector}"
        return {
            f"{at}/pause": {"PUT": refusing(self.pause)},
            f"{at}/resume": {"PUT": refusing(self.resume)},
            f"{at}/stop": {"PUT": refusing(self.stop)},
            f"{at}/restart": {"POST": refusing(self.restart)},
            f"{at}/tasks/{{task:int}}/restart": {"POST": refusing(self.restart_task)},
            f"{at}/offsets": {"PATCH": refusing(self.alter_offsets), "DELETE": refusing(self.reset_offsets)},
            f"{at}/offsets/stop": {"PUT": refusing(self.stop)},
            f"{at}/topics/reset": {"PUT": self.reset_topics},
        }

    # --- what it does ----------------------------------------------------------------------------------------------

    async def pause(self, request: Request) -> HttpAnswer:
        """Stops the connector's work until it is resumed; the wish is in the ledger and outlives this process."""
        part = self.owners.one(request, "Unknown connector {}")
        await self.owners.wish(request, part, "pause", ConnectState.PAUSED)
        return empty_answer(202)

    async def resume(self, request: Request) -> HttpAnswer:
        """Ends a pause or a stop."""
        part = self.owners.one(request, "Unknown connector {}")
        others = (state for state in ConnectState if state not in _IDLE)
        await self.owners.wish(request, part, "resume", *others)
        return empty_answer(202)

    async def stop(self, request: Request) -> HttpAnswer:
        """As pause, and the connector has no tasks: its offsets can be changed."""
        part = self.owners.one(request, "Unknown connector {}")
        await self.owners.wish(request, part, "stop", ConnectState.STOPPED)
        return empty_answer(204)

    async def restart(self, request: Request) -> HttpAnswer:
        """Takes up what is stopped by an error or waits; with `includeTasks` and without `onlyFailed` also what copies."""
        includes_tasks, only_failed = (_flag(request, name) for name in ("includeTasks", "onlyFailed"))
        named = self.owners.named(request, "Unknown connector: {}")
        part = only(named)
        if part.state not in _IDLE:  # Connect restarts nothing of what is stopped, and says the same
            scope = RestartScope(running=includes_tasks and not only_failed, connector=part.kind.connector)
            await self.owners.ask(request, part, lambda flow, asking: restart(flow, scope, asking))
        if not includes_tasks and not only_failed:
            return empty_answer(204)
        return compact_answer(202, _restarting(status_document(named, self.worker_id), only_failed=only_failed))

    async def restart_task(self, request: Request) -> HttpAnswer:
        """Takes up the partitions of one slot again, also those that copy."""
        named = self.owners.named(request, "Unknown connector: {}")
        number = request.path_params["task"]
        if number >= len(named.tasks):
            raise Refused.of(404, f"Unknown task: {named.name}-{number}")
        part, task = named.tasks[number]
        if part.state not in _IDLE:
            scope = RestartScope(slot=task.slot, running=True, connector=part.kind.connector)
            await self.owners.ask(request, part, lambda flow, asking: restart(flow, scope, asking))
        return empty_answer(204)

    # --- where it stands -------------------------------------------------------------------------------------------

    async def alter_offsets(self, request: Request) -> HttpAnswer:
        """Moves positions of a stopped source connector; those of the others mean nothing, as in MirrorMaker 2."""
        entries = offset_entries(parsed(await request.body()))
        if not entries:
            raise Refused.of(400, NO_OFFSETS)
        part = self._stopped(request)
        problem = alteration_problem(ConnectorKind(part.kind.value), entries)
        if problem is not None:
            raise Refused.of(500, problem)
        if part.kind is not MirrorRole.SOURCE:
            return compact_answer(200, {"message": ALTERED})
        try:
            wanted = next_offsets(entries, part)
        except NoSuchPartition as error:
            raise Refused.of(400, str(error)) from error
        if not wanted:
            return compact_answer(200, {"message": ALTERED})
        move = MoveRequest("import", None, to=self._start(part), entries=wanted, flow=str(part.flow))
        return await self._moved(request, part, move, ALTERED)

    async def reset_offsets(self, request: Request) -> HttpAnswer:
        """Forgets every position of a stopped source connector: it begins where a new one would."""
        part = self._stopped(request)
        if part.kind is not MirrorRole.SOURCE:
            return compact_answer(200, {"message": RESET})
        return await self._moved(request, part, MoveRequest("reset", None, to=self._start(part), flow=str(part.flow)), RESET)

    def _stopped(self, request: Request) -> MirrorConnector:
        named = self.owners.named(request)
        part = only(named)
        if part.state is not ConnectState.STOPPED:
            raise Refused.of(
                400,
                "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the "
                f"specified connector by issuing a 'PUT' request to the '/connectors/{named.name}/stop' endpoint",
            )
        return part

    def _start(self, part: MirrorConnector) -> Goal:
        """Where a partition without a position begins."""
        found = parse_reset(choose_flow(self.owners.settings, str(part.flow)).consumer["auto.offset.reset"])
        if isinstance(found, float):
            return Goal("time", int((time.time() - found) * 1000))
        return Goal("latest" if found == "latest" else "earliest")

    async def _moved(self, request: Request, part: MirrorConnector, move: MoveRequest, message: str) -> HttpAnswer:
        verdicts: list[MoveVerdict] = []
        await self.owners.ask(
            request, part, lambda _, asking: verdicts.append(apply(self.owners.settings, move, asking))
        )
        [verdict] = verdicts
        wanted = {moved.partition: moved.new.upstream - 1 for moved in verdict.moves}

        def is_shown() -> bool:
            found = find(self.owners.connectors(), part.name)
            shown = _last_offsets(offsets_document(found)) if found is not None else {}
            return all(shown.get(place, -1) == max(offset, -1) for place, offset in wanted.items())

        await self.owners.until(is_shown)
        answer = compact_answer(200, {"message": message})
        return HttpAnswer(200, answer.body, headers=((UNDO, verdict.undo_file),)) if verdict.undo_file else answer

    def reset_topics(self, request: Request) -> HttpAnswer:
        """Forgets which topics were written; those that are written from now on are shown again."""
        named = find(self.owners.connectors(), request.path_params["connector"])
        if named is not None:
            self.forget_topics(named)
        return empty_answer(202)


def _last_offsets(document: Document) -> dict[tuple[str, int], int]:
    found = document["offsets"]
    assert isinstance(found, list)
    return {(o["partition"]["topic"], o["partition"]["partition"]): o["offset"]["offset"] for o in found}


def _flag(request: Request, name: str) -> bool:
    return request.query_params.get(name, "").lower() == "true"


def _restarting(document: Document, *, only_failed: bool) -> Document:
    """The plan of a restart, as Connect shows it: what is taken up again is RESTARTING."""
    parts = [document["connector"], *document["tasks"]]  # type: ignore[misc]  # as status_document makes them
    for part in parts:
        is_failed = part["state"] == ConnectState.FAILED.value
        if is_failed or (not only_failed and part["state"] == ConnectState.RUNNING.value):
            part["state"] = ConnectState.RESTARTING.value
            part.pop("trace", None)
    return document
