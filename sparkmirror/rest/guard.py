"""What stands before every route: how often a caller may ask, who may, under which name, and how much it may send."""

from __future__ import annotations

import asyncio
import base64
import hmac
import ipaddress
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from sparkmirror.config.secrets import Secret
from sparkmirror.rest.answers import LIVE
from sparkmirror.rest.connection import HEAD_BYTES_MAX, LINGER_S, Connections
from sparkmirror.rest.messages import TOO_OFTEN, HttpAnswer, refusal
from sparkmirror.rest.rates import Rates

HEADERS_MAX = 64
BODY_BYTES_MAX = 1024 * 1024  # the settings of a connector have some thousands
REST_S = 0.05  # an answer too many takes this long: 20 a second for each connection
UNSENT_BYTES_MAX = 64 * 1024 * 1024  # of all answers that wait for their readers; one of 10,000 partitions has 18 MB
EVERYBODY = "everybody"
READING = frozenset({"GET", "HEAD", "OPTIONS"})
HEALTH = "/health"  # and what is below it: probes have no token
CHALLENGE = 'Bearer, Basic realm="sparkmirror: any user, the token as password", charset="UTF-8"'
FAILED = refusal(500, "this could not be answered; the mirror's log says why")

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class Role(Enum):
    """What a caller may do, by the token that it sent; the value is what the history calls it."""

    STRANGER = "no token"
    READ = "read token"
    OPERATE = "operate token"


class BodyTooLarge(Exception):
    """A request sent more than BODY_BYTES_MAX."""


@dataclass(slots=True)
class Guard:
    """An ASGI application around the routes. `names` are those that a Host header may have, None if any will do."""

    app: App
    connections: Connections
    token: Secret | None = None
    names: frozenset[str] | None = None
    operate_token: Secret | None = None
    is_open: bool = False  # everybody may read
    is_loopback: bool = True
    rates: Rates = field(default_factory=Rates)
    total: Rates = field(default_factory=lambda: Rates(per_s=100.0, burst=200.0))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        role = self._role(headers.get("authorization", ""))
        is_known = role is not Role.STRANGER or self._may_read(role)
        path, is_allowed = scope["path"], self._is_allowed(scope, is_known=is_known)
        if not is_allowed and path != LIVE:
            await asyncio.sleep(REST_S)
            refused: HttpAnswer | None = TOO_OFTEN
        else:
            refused = self._refused(scope, headers, role)
        scope["state"]["who"] = role.value
        if refused is not None:
            await answer(send, refused, receive if _has_body(headers) else None)
        elif scope["method"] in READING:
            await self._route(scope, receive, send)
        else:
            status = await self._route(scope, receive, send)
            who = f"{role.value} from {(scope.get('client') or '?')[0]}"
            self.connections.changes.append(f"{who}: {scope['method']} {scope['path']}: {status}")

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> int:
        """Returns the status that was answered."""
        is_begun, size, status = False, 0, 500

        async def sending(message: Message) -> None:
            nonlocal is_begun, status
            is_begun, status = True, message.get("status", status)
            await send(message)

        async def receiving() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > BODY_BYTES_MAX:
                raise BodyTooLarge
            return message

        try:
            await self.app(scope, receiving, sending)
        except BodyTooLarge:
            if not is_begun:
                await answer(sending, _too_large("more"), receive)
        except Exception as error:  # noqa: BLE001  border to HTTP: the caller gets no traceback, the run's log has it
            self.connections.note_failure(error)
            if not is_begun:
                await answer(send, FAILED)
        return status

    def _is_allowed(self, scope: Scope, *, is_known: bool) -> bool:
        """Whether this is not too often. Liveness probes and strangers do not use up what others may ask."""
        now, kind = time.monotonic(), "live" if scope["path"] == LIVE else "known" if is_known else "stranger"
        is_allowed = self.rates.allows(f"{scope['state']['caller']} {kind}", now)
        return is_allowed and self.total.allows(f"{EVERYBODY} {kind}", now)

    def _role(self, authorization: str) -> Role:
        for role, token in ((Role.OPERATE, self.operate_token), (Role.READ, self.token)):
            if token is not None and _is_token(authorization, token):
                return role
        return Role.STRANGER

    def _may_read(self, role: Role) -> bool:
        return self.token is None or self.is_open or role is not Role.STRANGER

    def _refused(self, scope: Scope, headers: dict[str, str], role: Role) -> HttpAnswer | None:
        """Why this caller gets no answer to this; None if it does."""
        if len(scope["headers"]) > HEADERS_MAX:
            return refusal(431, f"expected at most {HEADERS_MAX} headers, found {len(scope['headers'])}")
        if len(scope["raw_path"]) + sum(len(name) + len(value) for name, value in scope["headers"]) > HEAD_BYTES_MAX:
            return refusal(431, f"expected a head of at most {HEAD_BYTES_MAX} bytes, found more")  # it came in one piece
        if int(headers.get("content-length", "0")) > BODY_BYTES_MAX:
            return _too_large(headers["content-length"])
        if scope["path"] == LIVE and scope["method"] in READING:
            return None
        if scope["method"] not in READING:
            refused = self._refused_change(scope, headers, role)
        else:
            is_health = scope["path"] == HEALTH or scope["path"].startswith(f"{HEALTH}/")
            refused = None if is_health or self._may_read(role) else _unknown_token("--listen-token")
        if refused is not None:
            return refused
        # A page in a browser can make its own name point here; it can neither know a token nor call us by an address.
        if self.names is not None and not _is_own_name(headers.get("host", ""), self.names):
            return refusal(403, "expected an address or this machine's name as Host, found another name")
        if self.connections.unsent_bytes > UNSENT_BYTES_MAX:
            text = f"expected at most {UNSENT_BYTES_MAX} bytes of answers that nobody takes, found more"
            return refusal(503, text, ("Retry-After", "5"))
        return None

    def _refused_change(self, scope: Scope, headers: dict[str, str], role: Role) -> HttpAnswer | None:
        """A change has the operate token, or comes from this machine where nobody has one, and from no other site's page."""
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
        own = f"{scope['scheme']}://{headers.get('host', '')}"
        if (origin is not None and origin.lower() != own.lower()) or site not in ("none", "same-origin"):
            return refusal(403, "expected no page of another site to ask for a change, found one (Origin, Sec-Fetch-Site)")
        if self.operate_token is not None and role is not Role.OPERATE:
            if role is Role.READ:
                return refusal(403, "expected the token of --listen-operate-token, found that of --listen-token")
            return _unknown_token("--listen-operate-token")
        if self.operate_token is None and (self.token is not None or not self.is_loopback):
            missing = "--listen-operate-token" if self.connections.tls or self.is_loopback else (
                "--listen-operate-token and --listen-certificate"
            )  # fmt: skip
            return refusal(403, f"expected a mirror that was started with {missing}: this one lets nobody change anything")
        return None


async def answer(send: Send, found: HttpAnswer, unread: Receive | None = None) -> None:
    """Sends it. A caller that still sends a body sees it, too: its body is thrown away for a while before the end."""
    headers = found.raw_headers if unread is None else [*found.raw_headers, (b"connection", b"close")]
    await send({"type": "http.response.start", "status": found.status, "headers": headers})
    await send({"type": "http.response.body", "body": found.body, "more_body": unread is not None})
    if unread is None:
        return
    try:
        async with asyncio.timeout(LINGER_S):
            while (await unread()).get("more_body", False):
                pass
    except TimeoutError:
        pass  # it has had the time to see the answer
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _unknown_token(option: str) -> HttpAnswer:
    return refusal(401, f"expected the token of {option}, found none or another", ("WWW-Authenticate", CHALLENGE))


def _too_large(found: str) -> HttpAnswer:
    return refusal(413, f"expected a body of at most {BODY_BYTES_MAX} bytes, found {found}")


def _has_body(headers: dict[str, str]) -> bool:
    return headers.get("content-length", "0").strip("0") != "" or "transfer-encoding" in headers


def _is_token(authorization: str, token: Secret) -> bool:
    """As programs send it, or as the password of any user: a browser can send no other."""
    scheme, _, found = authorization.partition(" ")
    sent, kind = found.strip().encode("latin-1"), scheme.lower()
    if kind == "basic":
        try:
            sent = base64.b64decode(sent, validate=True).partition(b":")[2]
        except ValueError:
            return False
    is_equal = hmac.compare_digest(sent, token.reveal().encode())
    return kind in ("bearer", "basic") and is_equal


def _is_own_name(host: str, names: frozenset[str]) -> bool:
    name = host.partition("]")[0].removeprefix("[") if host.startswith("[") else host.partition(":")[0]
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name.lower().removesuffix(".") in names
    return True
