"""The routes, as a Starlette application: Connect's, and those of `answers.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from sparkmirror.rest.answers import FlowAnswers
from sparkmirror.rest.guard import FAILED
from sparkmirror.rest.paths import METHODS, Paths, refuse, response, routes_of


def application(
    answers: FlowAnswers, page: Sequence[BaseRoute], paths: Paths, note: Callable[[Exception], None]
) -> Starlette:
    """Everything that is served."""

    async def look(request: Request) -> Response:
        # As it was sent: a name in it may have an encoded slash.
        found = answers.of(request.scope["raw_path"].decode("ascii"))
        if found is None:
            raise HTTPException(404)
        if request.method not in ("GET", "HEAD"):
            raise HTTPException(405, headers={"Allow": "GET, HEAD"})
        return response(found)

    async def fail(request: Request, error: Exception) -> Response:
        note(error)  # before the caller has the answer; Starlette raises it again
        return response(FAILED)

    routes = [*page, *routes_of(paths), Route("/{path:path}", look, methods=METHODS)]
    return Starlette(routes=routes, exception_handlers={HTTPException: refuse, Exception: fail})
