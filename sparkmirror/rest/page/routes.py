"""The page's paths: HTML, its events, what it is made of, and the requests that its buttons send."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Scope

from sparkmirror.config import Settings, choose_flow
from sparkmirror.driver import Asking
from sparkmirror.errors import SparkmirrorError
from sparkmirror.rest.asking import who_asks
from sparkmirror.rest.messages import JSON, HttpAnswer, compact_answer, refusal
from sparkmirror.rest.page.actions import ACTIONS, WAIT_S, ActionPlan, ActionScope, plan_of
from sparkmirror.rest.page.readings import Readings
from sparkmirror.rest.page.topics import open_topic, page_of
from sparkmirror.rest.page.views import FlowView, FlowViews
from sparkmirror.rest.page.wanted import PageQuery, wanted_of
from sparkmirror.rest.paths import Workers, response
from sparkmirror.status import FlowStatus

if TYPE_CHECKING:
    from jinja2 import Environment

STATIC = Path(__file__).with_name("static")
HTML = "text/html; charset=utf-8"
# Nothing from elsewhere, nothing written into the page runs, and no other page may show this one.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store",
}  # fmt: skip
STATIC_FILES = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
EVENTS_S = 1.0
EVENTS_TIMES = 10.0  # or so many times as long as it took to write them
STREAMS_MAX = 24
FLOW_FRAGMENTS = ("summary", "attention", "charts", "topics", "timeline")
OVERVIEW_FRAGMENTS = ("flows", "attention")
BODY_KEYS = frozenset({"verb", "flow", "topic", "partition", "typed"})


def wants_html(headers: Mapping[str, str]) -> bool:
    """Whether a browser asks: it names HTML, and curl, probes and Connect's clients do not."""
    kinds = [part.partition(";")[0].strip().lower() for part in headers.get("accept", "").split(",")]
    return "text/html" in kinds


class _BrowserRoute(Route):
    """A path that answers browsers alone; others find what comes behind it."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        found, more = super().matches(scope)
        is_html = scope["type"] == "http" and wants_html(Request(scope).headers)
        return (found, more) if is_html else (Match.NONE, {})


class OperatorPage:
    """Everything under `/ui`, and `/` for browsers."""

    def __init__(self, settings: Settings | None = None, readings: Readings | None = None) -> None:
        self._settings = settings
        if readings is None and settings is not None:
            readings = Readings(settings, settings.enabled_flows(None))
        self._readings = readings
        self.views = FlowViews(readings)
        self._workers = Workers()
        self.streams = 0

    @cached_property
    def _templates(self) -> Environment:
        from sparkmirror.rest.page.rendering import environment  # imported only when a page is opened: it takes 40 ms

        return environment()

    def show(self, flows: Sequence[FlowStatus]) -> None:
        """One look at the flows, called often."""
        self.views.show(flows)

    def close(self) -> None:
        """No more readings."""
        if self._readings is not None:
            self._readings.close()

    def routes(self) -> list[BaseRoute]:
        """In the order in which they are tried."""
        return [
            _BrowserRoute("/", self._overview, methods=["GET"]),
            Route("/ui", lambda request: RedirectResponse("/ui/", headers=HEADERS), methods=["GET"]),
            Route("/ui/", self._overview, methods=["GET"]),
            Route("/ui/static/{file}", self._static, methods=["GET"]),
            Route("/ui/events", self._events, methods=["GET"]),
            Route("/ui/act", self._plan, methods=["GET"]),
            Route("/ui/act", self._act, methods=["POST"]),
            Route("/ui/flows/{flow:path}", self._flow, methods=["GET"]),
        ]

    # --- HTML ----------------------------------------------------------------------------------------------------

    async def _overview(self, request: Request) -> Response:
        names = self.views.names
        if len(names) == 1:
            return self._page_of(names[0], request)
        views = self._views(names)
        return self._html("overview.html", {"views": views, **self._about("", wanted_of(request.query_params), views)})

    async def _flow(self, request: Request) -> Response:
        return self._page_of(request.path_params["flow"], request)

    def _page_of(self, name: str, request: Request) -> Response:
        view = self.views.of(name)
        if view is None:
            return self._html("missing.html", {"name": name}, 404)
        wanted = wanted_of(request.query_params)
        return self._html("flow.html", {**self._values(view, wanted), **self._about(name, wanted, [view])})

    def _about(self, name: str, wanted: PageQuery, views: Sequence[FlowView]) -> dict[str, object]:
        items = [(view, item) for view in views for item in view.items]
        query = wanted.query()
        return {
            "names": self.views.names,
            "items": items,
            "events_url": f"/ui/events?flow={_quoted(name)}{f'&{query}' if query else ''}",
            "as_of_ms": min((view.as_of_ms for view in views), default=0),
        }

    def _values(self, view: FlowView, wanted: PageQuery) -> dict[str, object]:
        readiness = view.reading.readiness
        return {
            "view": view,
            "wanted": wanted,
            "topics": page_of(list(view.topics.values()), wanted, readiness),
            "opened": open_topic(view.flow, wanted, readiness) if wanted.topic else None,
            "actions": ACTIONS,
            "path": f"/ui/flows/{_quoted(view.name)}",
        }

    def _views(self, names: Sequence[str]) -> list[FlowView]:
        return [view for name in names if (view := self.views.of(name)) is not None]

    def _html(self, template: str, values: Mapping[str, object], status: int = 200) -> Response:
        known = {"quoted": _quoted, "names": self.views.names}
        made = self._templates.get_template(template).render(known | dict(values))
        return Response(as_bytes(made), status, HEADERS, HTML)

    async def _static(self, request: Request) -> Response:
        file = request.path_params["file"]
        if file not in STATIC_FILES:
            return response(refusal(404, "HTTP 404 Not Found"))
        return FileResponse(STATIC / file, headers=HEADERS, media_type=STATIC_FILES[file])

    # --- events --------------------------------------------------------------------------------------------------

    async def _events(self, request: Request) -> Response:
        if self.streams >= STREAMS_MAX:
            text = f"expected at most {STREAMS_MAX} open pages, found more"
            return response(refusal(503, text, ("Retry-After", "5")))
        name, wanted = request.query_params.get("flow", ""), wanted_of(request.query_params)
        return StreamingResponse(self._stream(name, wanted), headers=HEADERS, media_type="text/event-stream")

    async def _stream(self, name: str, wanted: PageQuery) -> AsyncIterator[bytes]:
        self.streams += 1
        sent: dict[str, str] = {}
        try:
            yield b"retry: 2000\n\n"
            while True:
                began = time.monotonic()
                if not name and len(self.views.names) == 1:  # opened before the first look: the page is the flow's now
                    yield _event("reload", {})
                    return
                fragments, as_of_ms = self._fragments(name, wanted)
                for key, html in fragments.items():
                    if sent.get(key) != html:
                        sent[key] = html
                        yield _event("fragment", {"id": key, "html": html})
                yield _event("tick", {"as_of_ms": as_of_ms, "now_ms": int(time.time() * 1000)})
                took = time.monotonic() - began
                await asyncio.sleep(max(EVENTS_S, EVENTS_TIMES * took))
        finally:
            self.streams -= 1

    def _fragments(self, name: str, wanted: PageQuery) -> tuple[dict[str, str], int]:
        """Each part of the page that changes, by the id of its element; and as of when it is."""
        views = self._views([name] if name else self.views.names)
        values = {"quoted": _quoted, **self._about(name, wanted, views)}
        values |= self._values(views[0], wanted) if name and views else {"views": views}
        names = () if not views else FLOW_FRAGMENTS if name else OVERVIEW_FRAGMENTS
        found = {f"part-{key}": self._templates.get_template(f"part_{key}.html").render(values) for key in names}
        return found, min((view.as_of_ms for view in views), default=0)

    # --- actions -------------------------------------------------------------------------------------------------

    async def _plan(self, request: Request) -> Response:
        query = request.query_params
        scope = _scope_of(query)
        action, flow = ACTIONS.get(query.get("verb", "")), self.views.status(query.get("flow", ""))
        if action is None or flow is None or scope is None:
            return self._html("missing.html", {"name": query.get("verb", "")}, 404)
        return self._html("act.html", {"plan": plan_of(action, scope, flow)})

    async def _act(self, request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
            return response(refusal(415, "expected Content-Type: application/json, found another"))
        try:
            body = json.loads(await request.body())
        except ValueError:
            body = None
        if not isinstance(body, dict) or not body.keys() <= BODY_KEYS or not all(isinstance(v, str) for v in body.values()):
            return response(refusal(400, f"expected a JSON object of texts with keys {', '.join(sorted(BODY_KEYS))}"))
        scope, action = _scope_of(body), ACTIONS.get(body.get("verb", ""))
        flow = self.views.status(body.get("flow", ""))
        if scope is None or action is None or flow is None or self._settings is None:
            return response(refusal(404, "expected a flow of this process and a verb that it knows, found another"))
        plan = plan_of(action, scope, flow)
        if plan.must_type and body.get("typed", "") != plan.must_type:
            return response(refusal(400, f"expected the flow's name {plan.must_type} to be typed, found another text"))
        return response(await self._workers.do(partial(self._ask, self._settings, plan, who_asks(request))))

    def _ask(self, settings: Settings, plan: ActionPlan, who: str) -> HttpAnswer:
        """Waits for the owner, in a thread of its own."""
        asking = Asking(wait_s=WAIT_S, command=plan.command, who=f"{who}, on the page")
        try:
            text = plan.action.ask(settings, choose_flow(settings, plan.scope.flow), plan.scope, asking)
        except SparkmirrorError as error:
            return refusal(error.http_status, str(error))
        self.views.renew(plan.scope.flow)
        return compact_answer(200, {"text": text})


def _scope_of(query: Mapping[str, str]) -> ActionScope | None:
    """The flow, topic and partition of a query or a body; None if they make no sense."""
    topic, partition = query.get("topic", ""), query.get("partition", "")
    if partition and (not topic or not partition.isascii() or not partition.isdigit() or len(partition) > 9):
        return None
    return ActionScope(query.get("flow", ""), topic, int(partition) if partition else None)


def _event(kind: str, content: Mapping[str, object]) -> bytes:
    return as_bytes(f"event: {kind}\ndata: {json.dumps(content)}\n\n")


def as_bytes(html: str) -> bytes:
    """As it is sent: half a surrogate pair in a name must not cost the page."""
    return html.encode("utf-8", "backslashreplace")


def _quoted(text: str) -> str:
    return quote(text, safe="", errors="surrogatepass")
