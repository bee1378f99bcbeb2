"""What every change has in common: the connector that is meant, the request to its owner, and what became of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from starlette.requests import Request

from sparkmirror.config import FlowSettings, Settings, choose_flow
from sparkmirror.driver import Asking
from sparkmirror.errors import ConfigError, SparkmirrorError
from sparkmirror.positions import WishRequest, ask_for
from sparkmirror.rest.bodies import BadBody
from sparkmirror.rest.connectors import ConnectState, MirrorConnector, Named, find
from sparkmirror.rest.messages import HttpAnswer, empty_answer, refusal
from sparkmirror.rest.paths import Workers

WAIT_S = 60.0  # for the owner's answer; Connect itself gives up after 90 s
SHOWN_S = 5.0  # until what was changed is seen by the next GET
LOOK_S = 0.05
NOT_FOUND = "Connector {} not found"

Answering = Callable[[Request], Awaitable[HttpAnswer]]


class Refused(Exception):
    """A request that is answered with a refusal."""

    def __init__(self, answer: HttpAnswer) -> None:
        super().__init__(answer.status)
        self.answer = answer

    @classmethod
    def of(cls, status: int, message: str) -> Refused:
        """With these words."""
        return cls(refusal(status, message))


def refusing(handle: Answering) -> Answering:
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


@dataclass(frozen=True, slots=True)
class FlowOwners:
    """The connectors as they are now, and their flows' owners, who are asked for changes."""

    connectors: Callable[[], Sequence[MirrorConnector]]
    settings: Settings
    workers: Workers

    def named(self, request: Request, unknown: str = NOT_FOUND) -> Named:
        """The connectors of the path's name; raises Refused with 404 if there is none."""
        name = request.path_params["connector"]
        named = find(self.connectors(), name)
        if named is None:
            raise Refused.of(404, unknown.format(name))
        return named

    def one(self, request: Request, unknown: str = NOT_FOUND) -> MirrorConnector:
        """The only connector of the path's name; raises Refused with the names to choose from if there are several."""
        return only(self.named(request, unknown))

    async def ask(
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
            raise Refused(found)

    async def wish(self, request: Request, part: MirrorConnector, verb: str, *states: ConnectState) -> None:
        """Asks for `pause`, `stop` or `resume` of a connector, and waits until that is seen."""
        wanted = WishRequest(verb, connector=part.kind.connector)
        await self.ask(request, part, lambda flow, asking: ask_for(self.settings, flow, wanted, asking))

        def is_shown() -> bool:
            found = find(self.connectors(), part.name)
            return found is None or found.parts[0].state in states or not states

        await self.until(is_shown)

    async def until(self, is_shown: Callable[[], bool]) -> None:
        """Until the next GET shows a change; not for ever, since who waits for its turn as owner never sees it."""
        deadline = time.monotonic() + SHOWN_S
        while not is_shown() and time.monotonic() < deadline:
            await asyncio.sleep(LOOK_S)


def only(named: Named) -> MirrorConnector:
    """The only connector of a name; raises Refused with the names to choose from if there are several."""
    if len(named.parts) > 1:
        names = ", ".join(part.name for part in named.parts)
        raise Refused.of(400, f"{named.name} is a connector of {len(named.parts)} flows: expected one of {names}")
    return named.parts[0]


def who_asks(request: Request) -> str:
    """Whose token it was and from where it came, as the history shows it."""
    host = request.client.host if request.client is not None else "?"
    return f"{request.scope['state'].get('who', 'HTTP')} from {host}"
