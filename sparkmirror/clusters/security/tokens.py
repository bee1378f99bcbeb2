"""Tokens for OAUTHBEARER: asked for with client credentials (RFC 6749 §4.4), kept, and asked for again before they end.

Only https, and http to this very machine; no redirect is followed, no file is read. A token is in no message.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import http.client
import ipaddress
import json
import re
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote_plus, urlencode, urlsplit

from sparkmirror.clusters import clock

ANSWER_BYTES_MAX = 1 << 20  # Kafka's own limit
REASON_CHARACTERS_MAX = 100
SOURCES_MAX = 64  # clusters of one process that need tokens
RENEWAL_PAUSE_S = 5.0  # between two tries to renew a token that is still good
TRUST = "the ssl.truststore options inside sasl.jaas.config; without them the system's authorities are trusted"
LIFE_S_MAX = 10 * 365 * 86_400.0  # a longer lifetime is a mistake of the server
_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
_REASON = re.compile(r"[A-Za-z0-9_.\- ]+")


class TokenRefused(Exception):
    """No token could be had; `check` is what to look at, where that is not the address and the client."""

    def __init__(self, reason: str, check: str = "") -> None:
        super().__init__(reason)
        self.reason, self.check = reason, check


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """Where tokens come from, and for whom. `window` is the part of a token's life after which a new one is asked for."""

    url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None
    context: ssl.SSLContext | None
    connect_s: float
    read_s: float
    window: float
    encodes_header: bool


def is_loopback(host: str) -> bool:
    """Whether an address is this very machine."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def token_for(request: TokenRequest) -> str:
    """A token that is still good for a while; raises `TokenRefused`."""
    return _source(request).token()


def forget_token(request: TokenRequest, token: str) -> None:
    """A broker refused this token: the next login asks for another one, however long this one would have lived."""
    _source(request).forget(token)


@functools.lru_cache(SOURCES_MAX)
def _source(request: TokenRequest) -> _TokenSource:
    return _TokenSource(request)


class _TokenSource:
    """The newest token of one client."""

    def __init__(self, request: TokenRequest) -> None:
        self._request = request
        self._lock = threading.Lock()
        self._token = ""
        self._renew_at = self._ends_at = 0.0

    def token(self) -> str:
        """The kept token, or a new one when its time is nearly over."""
        with self._lock:
            if clock.now() < self._renew_at:
                return self._token
            try:
                self._renew()
            except TokenRefused:
                if clock.now() >= self._ends_at:
                    raise
                # Not at every login: a server that does not answer would hold up each of them.
                self._renew_at = min(clock.now() + RENEWAL_PAUSE_S, self._ends_at)
            return self._token

    def forget(self, token: str) -> None:
        """Does not hand out this token again."""
        with self._lock:
            if token == self._token:
                self._renew_at = self._ends_at = 0.0

    def _renew(self) -> None:
        asked = clock.now()
        answer = _ask(self._request)
        token = answer.get("access_token") or answer.get("id_token")
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise TokenRefused(f"token endpoint {_place(self._request)}: the answer holds no access_token")
        life = _life_s(answer, token)
        self._token, self._ends_at = token, asked + life
        self._renew_at = asked + life * self._request.window


def _place(request: TokenRequest) -> str:
    parts = urlsplit(request.url)
    return f"{parts.scheme}://{parts.netloc}{parts.path}"


def _ask(request: TokenRequest) -> dict[str, Any]:
    place = _place(request)
    try:
        connection = _connection(request)
        try:
            connection.connect()
            connection.sock.settimeout(request.read_s)
            with _no_longer_than(request.read_s, connection.sock):
                status, body = _post(connection, request)
        finally:
            connection.close()
    except ssl.SSLCertVerificationError as error:
        reason = f"token endpoint {place}: its certificate is not trusted: {error.verify_message}"
        raise TokenRefused(reason, TRUST) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = "no answer in time" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
        raise TokenRefused(f"token endpoint {place} cannot be asked: {reason}") from error
    answer = _json(body)
    if status != http.client.OK or answer is None:
        code = answer.get("error") if answer is not None else None
        text = f" ({code})" if isinstance(code, str) and _is_harmless(code, request) else ""
        raise TokenRefused(f"token endpoint {place} refused client {request.client_id}: status {status}{text}")
    return answer


@contextlib.contextmanager
def _no_longer_than(seconds: float, sock: socket.socket) -> Iterator[None]:
    """Ends the talk after so long: a socket's own timeout restarts with every byte of an answer that trickles in."""
    is_over = threading.Event()

    def end() -> None:
        is_over.set()
        with contextlib.suppress(OSError):
            socket.socket.shutdown(sock, socket.SHUT_RDWR)  # of TLS, too, without its polite words

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (OSError, http.client.HTTPException, ValueError):
        if not is_over.is_set():
            raise
    finally:
        timer.cancel()
    if is_over.is_set():  # also of an answer that only looks whole
        raise TimeoutError


def _connection(request: TokenRequest) -> http.client.HTTPConnection:
    parts = urlsplit(request.url)
    host = parts.hostname or ""
    if parts.scheme == "https":
        context = request.context or ssl.create_default_context()
        return http.client.HTTPSConnection(host, parts.port, timeout=request.connect_s, context=context)
    return http.client.HTTPConnection(host, parts.port, timeout=request.connect_s)


def _post(connection: http.client.HTTPConnection, request: TokenRequest) -> tuple[int, bytes]:
    parts = urlsplit(request.url)
    pair = (request.client_id, request.client_secret)
    encoded = ":".join(map(quote_plus, pair) if request.encodes_header else pair)
    form = {"grant_type": "client_credentials"} | ({"scope": request.scope} if request.scope else {})
    headers = {
        "Authorization": "Basic " + base64.b64encode(encoded.encode()).decode(),
        "Content-Type": "application/x-www-form-urlencoded",
        "Accept": "application/json",
        "Cache-Control": "no-cache",
    }
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    connection.request("POST", target, urlencode(form), headers)
    answer = connection.getresponse()
    body = answer.read(ANSWER_BYTES_MAX + 1)
    if len(body) > ANSWER_BYTES_MAX:
        raise ValueError(f"the answer is larger than {ANSWER_BYTES_MAX} bytes")
    return answer.status, body


def _is_harmless(reason: str, request: TokenRequest) -> bool:
    is_short = len(reason) <= REASON_CHARACTERS_MAX and bool(_REASON.fullmatch(reason))
    return is_short and request.client_secret not in reason


def _json(body: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _life_s(answer: dict[str, Any], token: str) -> float:
    """How long a new token lives; nothing known means: ask each time."""
    text = [answer.get("expires_in"), _claimed_life_s(token)]
    known = [float(life) for life in text if isinstance(life, int | float) and 0 < life < LIFE_S_MAX]
    return min(known, default=0.0)


def _claimed_life_s(token: str) -> float | None:
    """By the token's own claim, if it is a JWT."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return float(claims["exp"]) - clock.wall_s()
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
