"""What is served: for each path what answers each method. One table makes the routes and the OpenAPI document."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Mapping

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sparkmirror.rest.messages import JSON, HttpAnswer, refusal

Handler = Callable[[Request], HttpAnswer | Awaitable[HttpAnswer]]
Paths = Mapping[str, Mapping[str, Handler]]

METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
WORKING_MAX = 8  # requests that wait for a cluster or an owner at the same time; one takes a second
BUSY = refusal(503, f"expected at most {WORKING_MAX} requests that wait for a cluster, found more", ("Retry-After", "5"))


def merged(*tables: Paths) -> dict[str, dict[str, Handler]]:
    """One table of several; a path may have its methods in more than one."""
    found: dict[str, dict[str, Handler]] = {}
    for table in tables:
        for path, methods in table.items():
            found.setdefault(path, {}).update(methods)
    return found


def routes_of(paths: Paths) -> list[Route]:
    """As Starlette takes them."""
    return [_route(path, methods) for path, methods in paths.items()]


def _route(path: str, methods: Mapping[str, Handler]) -> Route:
    allowed = [*methods, *(["HEAD"] if "GET" in methods else []), "OPTIONS"]

    async def endpoint(request: Request) -> Response:
        if request.method == "OPTIONS":
            return response(HttpAnswer(200, b"", headers=(("Allow", ",".join(allowed)),)))
        if request.method not in allowed:
            raise HTTPException(405, headers={"Allow": ",".join(allowed)})
        if request.method not in ("GET", "HEAD") and not _has_json(request):
            raise HTTPException(415)
        found = methods["GET" if request.method == "HEAD" else request.method](request)
        return response(await found if inspect.isawaitable(found) else found)

    return Route(path, endpoint, methods=METHODS)


def _has_json(request: Request) -> bool:
    """Whether the body says that it is JSON, or there is none: a form of another site's page cannot say so."""
    kind = request.headers.get("content-type")
    if kind is None:
        is_empty = request.headers.get("content-length", "0").strip("0") == ""
        return is_empty and "transfer-encoding" not in request.headers
    return kind.partition(";")[0].strip().lower() == JSON


def response(found: HttpAnswer) -> Response:
    """As Starlette sends it."""
    made = Response(found.body, found.status, media_type=None)
    made.raw_headers = found.raw_headers
    return made


async def refuse(request: Request, error: Exception) -> Response:
    """An unknown path or a wrong method, in Connect's words."""
    assert isinstance(error, HTTPException)
    allow = [("Allow", value) for name, value in (error.headers or {}).items() if name.lower() == "allow"]
    return response(refusal(error.status_code, f"HTTP {error.status_code} {error.detail}", *allow))


class Workers:
    """Threads for what waits for clusters: none of them holds up the server, the copying or the end of the process."""

    def __init__(self) -> None:
        self._working = 0

    async def do(self, work: Callable[[], HttpAnswer]) -> HttpAnswer:
        """The answer of `work`; a refusal if too many are at it."""
        if self._working >= WORKING_MAX:
            return BUSY
        loop = asyncio.get_running_loop()
        done: asyncio.Future[HttpAnswer] = loop.create_future()
        self._working += 1
        threading.Thread(target=_work, args=(work, loop, done), name="http work", daemon=True).start()
        try:
            # The thread goes on if the caller goes away: what it asked for is in the ledger by then.
            return await asyncio.shield(done)
        finally:
            done.add_done_callback(self._one_less)  # at once, if it is done

    def _one_less(self, _: object) -> None:
        self._working -= 1


def _work(work: Callable[[], HttpAnswer], loop: asyncio.AbstractEventLoop, done: asyncio.Future[HttpAnswer]) -> None:
    try:
        found = work()
    except BaseException as error:  # noqa: BLE001  border of a thread: it is raised where the answer is awaited
        _tell(loop, done, lambda error=error: done.set_exception(error))  # type: ignore[misc]
    else:
        _tell(loop, done, lambda: done.set_result(found))


def _tell(loop: asyncio.AbstractEventLoop, done: asyncio.Future[HttpAnswer], tell: Callable[[], None]) -> None:
    try:
        loop.call_soon_threadsafe(lambda: None if done.done() else tell())
    except RuntimeError:  # the server has ended, and with it whoever waited
        return
