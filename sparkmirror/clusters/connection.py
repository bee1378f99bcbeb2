"""One authenticated connection to one broker, on a socket of our own.

kafka-python encodes and decodes the control messages; its transport is not used, because it
reads 4 KiB at a time and copies every byte twice (measured: 5.9 s of CPU for 1 GB against 1.5 s for this socket).
"""

from __future__ import annotations

import io
import math
import socket
import ssl
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka.errors import KafkaError
from kafka.protocol.api_key import ApiKey
from kafka.protocol.metadata import ApiVersionsRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from sparkmirror.clusters import clock
from sparkmirror.clusters.compact import skip_tags
from sparkmirror.clusters.error_codes import name_of
from sparkmirror.clusters.security.logins import LoginFailed
from sparkmirror.clusters.security.settings import Login, sasl_login, tls_context, tls_settings
from sparkmirror.clusters.security.tls import TlsSettings, handshake_trouble, is_alert
from sparkmirror.config import Secret
from sparkmirror.errors import BrokerTooOld, ClusterUnreachable, ConfigError, ConnectionLost, LoginRefused
from sparkmirror.wire.error_codes import ILLEGAL_SASL_STATE, SASL_AUTHENTICATION_FAILED

CLIENT_ID = "sparkmirror"
CLIENT = CLIENT_ID.encode()
HEADER = struct.Struct(">ihhih")
Buffer = bytes | bytearray | memoryview
# A frame is at most one fetch answer: fetch.max.bytes (≤ 64 MiB here) plus one batch that exceeds it. Four times that
# leaves room for large batches and still refuses a hostile 2 GB length.
FRAME_BYTES_MAX = 256 << 20
SOCKET_BUFFER_BYTES = 4 << 20
# An answer that comes in more slowly than this for so long is not a slow link but a broken or hostile end.
TRICKLE_S, TRICKLE_BYTES_PER_S = 30.0, 1000
SASL_ROUNDS_MAX = 10  # Kerberos takes four, SCRAM two
# A connection is renewed after this part of the time for which the broker knows us (KIP-368; Java: 85 to 95 %).
SESSION_PART = 0.85
# What kafka-python raises for bytes that are no answer.
UNREADABLE = (ValueError, struct.error, IndexError, KafkaError, UnicodeDecodeError)
# What copying needs; the first release that has all of it. KIP-699, KIP-709 and KIP-664 came with it.
NEEDED = {ApiKey.FindCoordinator: 4, ApiKey.OffsetFetch: 8, ApiKey.DescribeTransactions: 0}
OLDEST_RELEASE = "3.0"
NOT_SPOKEN = (0, -1)
CLOSED = "the broker closed the connection"
WRONG_PROTOCOL = "is the listener's security protocol the configured one?"
TLS_ALERT = b"\x15\x03"  # how a TLS listener answers who does not speak TLS


@dataclass(frozen=True, slots=True)
class Address:
    """Where a broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class _SpeaksTls(EOFError):
    """The listener answered with an alert of TLS to a client that does not speak it."""


class Connection:
    """A blocking request/answer talk with one broker."""

    def __init__(self, sock: socket.socket, address: Address, alias: str) -> None:
        self.sock = sock
        self.address = address
        self.alias = alias
        # A listener that expects a login answers to ApiVersions and hangs up on anything else: an answer to something else
        # shows that it takes us as we are.
        self._is_understood = False
        self.versions: dict[int, tuple[int, int]] = {}
        self.renew_at = math.inf  # on the monotonic clock; from then on the broker may end the session
        self._correlation = 0

    def version(self, api_key: int, *, lowest: int, highest: int) -> int:
        """The newest version of an API that both sides speak, within what the caller can encode."""
        low, high = self.versions.get(api_key, NOT_SPOKEN)
        chosen = min(high, highest)
        if chosen < max(low, lowest):
            wanted = f"{lowest} to {highest}" if lowest < highest else f"{lowest}"
            raise BrokerTooOld(f"cluster {self.alias} at {self.address}: {_lack(api_key, wanted, (low, high))}")
        return chosen

    def supports(self, api_key: int, version: int) -> bool:
        """Whether the broker speaks this version of this API."""
        low, high = self.versions.get(api_key, (0, -1))
        return low <= version <= high

    @property
    def is_outlived(self) -> bool:
        """Whether the login is about to end, so that a new connection must take its place."""
        return clock.now() >= self.renew_at

    def call(self, request: Any, *, timeout_s: float) -> Any:
        """The decoded answer to one control request of kafka-python's own message types."""
        self._correlation = (self._correlation + 1) & 0x7FFFFFFF
        request.with_header(correlation_id=self._correlation, client_id=CLIENT_ID)
        try:
            self.sock.settimeout(timeout_s)
            self.sock.sendall(request.encode(framed=True, header=True))
            frame = self._read_frame()
        except (OSError, EOFError) as error:
            self.close()
            raise ConnectionLost(f"{self.alias} at {self.address}: {_reason(error, timeout_s)}") from error
        answer = self._decode(request, frame)
        self._is_understood = self._is_understood or not isinstance(request, ApiVersionsRequest)
        return answer

    def exchange(self, api: int, version: int, parts: Sequence[Buffer], *, timeout_s: float) -> tuple[bytearray, int]:
        """The raw answer to a request in flexible encoding, and where its body begins."""
        self._correlation = (self._correlation + 1) & 0x7FFFFFFF
        head = request_head(api, version, self._correlation, sum(map(len, parts)))
        try:
            self.sock.settimeout(timeout_s)
            self.sock.sendall(b"".join((head, *parts)))
            frame = bytearray(self._read_frame())
            if int.from_bytes(frame[:4], "big") != self._correlation:
                raise EOFError("an answer to another request")
            self._is_understood = True
            return frame, skip_tags(frame, 4)
        except (OSError, EOFError, IndexError) as error:
            self.close()
            raise ConnectionLost(f"{self.alias} at {self.address}: {_reason(error, timeout_s)}") from error

    def _decode(self, request: Any, frame: bytes) -> Any:
        response_type = request.header.get_response_class()
        stream = io.BytesIO(frame)
        try:
            header = response_type.parse_header(stream)
            if header.correlation_id != self._correlation:
                raise ValueError(f"correlation id {header.correlation_id}, expected {self._correlation}")
            return response_type.decode(stream)
        except UNREADABLE as error:
            self.close()
            raise ConnectionLost(f"{self.alias} at {self.address}: unreadable answer: {error}") from error

    def _read_frame(self) -> bytes:
        head = self._read_exactly(4)
        if head.startswith(TLS_ALERT):
            raise _SpeaksTls("the listener speaks TLS; write security.protocol = SSL or SASL_SSL")
        (size,) = struct.unpack(">i", head)
        if not 4 <= size <= FRAME_BYTES_MAX:
            raise EOFError(f"frame of {size} bytes, expected 4 to {FRAME_BYTES_MAX}: is this a Kafka listener?")
        return self._read_exactly(size)

    def _read_exactly(self, size: int) -> bytes:
        chunks, since = bytearray(), clock.now()
        while len(chunks) < size:
            chunk = self.sock.recv(min(size - len(chunks), 1 << 20))
            if not chunk:
                raise EOFError(CLOSED if self._is_understood else f"{CLOSED}; {WRONG_PROTOCOL}")
            chunks += chunk
            # What is whole is taken, however long it took: this process may have been frozen meanwhile.
            if len(chunks) < size and is_trickle(len(chunks), clock.now() - since):
                raise EOFError(f"{len(chunks)} of {size} bytes of an answer in {clock.now() - since:.0f} s")
        return bytes(chunks)

    def close(self) -> None:
        """Drops the connection; what was in flight stays unknown."""
        self.sock.close()


def is_trickle(received: int, waited_s: float) -> bool:
    """Whether an answer comes in so slowly that it is not worth waiting for its end."""
    return waited_s > TRICKLE_S and received < waited_s * TRICKLE_BYTES_PER_S


def request_head(api: int, version: int, correlation: int, body_bytes: int) -> bytes:
    """Length and header (version 2) of a request in flexible encoding."""
    size = HEADER.size - 4 + len(CLIENT) + 1 + body_bytes
    return HEADER.pack(size, api, version, correlation, len(CLIENT)) + CLIENT + b"\0"


def missing_apis(versions: Mapping[int, tuple[int, int]]) -> str:
    """What a broker with these versions lacks for copying; empty if it is new enough."""
    for api, needed in NEEDED.items():
        found = versions.get(api, NOT_SPOKEN)
        if found[1] < needed:
            return _lack(api, f"{needed}", found)
    return ""


def _lack(api_key: int, wanted: str, found: tuple[int, int]) -> str:
    offered = "none" if found == NOT_SPOKEN else f"{found[0]} to {found[1]}"
    return f"{ApiKey(api_key).name} is needed in version {wanted}, found {offered}"


def connect(
    address: Address, *, alias: str, security: Mapping[str, str | Secret], timeout_s: float, any_release: bool = False
) -> Connection:
    """A connection that has passed TLS, API versions and SASL, to a broker that is new enough unless `any_release` will do.

    What a person must mend (a certificate, a password, a key of the file) is `LoginRefused`, never `ConfigError`: files
    and passwords change while we run, and whoever waits for a cluster waits for these, too.
    """
    where = f"cluster {alias} at {address}"
    try:
        tls = tls_settings(security)
        context = tls_context(security)
        sock = _dial(address, where, timeout_s)
        if tls is not None and context is not None:
            sock = _wrap(sock, context, tls, address, where, timeout_s)
        connection = Connection(sock, address, alias)
        try:
            _greet(connection, tls, where, timeout_s)
            lack = "" if any_release else missing_apis(connection.versions)
            if lack:
                raise BrokerTooOld(f"{where}: {lack}", hint=f"sparkmirror needs Kafka {OLDEST_RELEASE} or newer")
            _authenticate(connection, security, where, timeout_s)
        except BaseException:
            connection.close()
            raise
    except ConfigError as error:
        raise _refused(where, error.message) from error
    return connection


def _dial(address: Address, where: str, timeout_s: float) -> socket.socket:
    try:
        sock = socket.create_connection((address.host, address.port), timeout=timeout_s)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BUFFER_BYTES)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BUFFER_BYTES)
    except OSError as error:
        raise ClusterUnreachable(f"{where}: {_reason(error, timeout_s)}") from error
    return sock


def _wrap(
    sock: socket.socket, context: ssl.SSLContext, tls: TlsSettings, address: Address, where: str, timeout_s: float
) -> ssl.SSLSocket:
    try:
        return context.wrap_socket(sock, server_hostname=address.host)
    except OSError as error:
        sock.close()
        trouble = handshake_trouble(error, tls, address.host, address.port) if isinstance(error, ssl.SSLError) else ""
        if trouble:
            raise _refused(where, trouble) from error
        reason = _reason(error, timeout_s)
        if isinstance(error, ssl.SSLEOFError | ConnectionError):
            reason = "the broker closed the connection in the TLS handshake; does this listener speak TLS?"
        raise ClusterUnreachable(f"{where}: {reason}") from error


def _greet(connection: Connection, tls: TlsSettings | None, where: str, timeout_s: float) -> None:
    """The first words. Since TLS 1.3 a broker refuses a client's certificate only now."""
    try:
        _learn_versions(connection, timeout_s)
    except ConnectionLost as error:
        cause = error.__cause__
        if isinstance(cause, _SpeaksTls):
            raise _refused(where, str(cause)) from error
        if tls is not None and isinstance(cause, ssl.SSLError) and is_alert(cause):
            trouble = handshake_trouble(cause, tls, connection.address.host, connection.address.port)
            raise _refused(where, trouble) from error
        if tls is not None and isinstance(cause, EOFError | ConnectionError):
            raise ConnectionLost(
                f"{error.message}; a listener that wants a client certificate does so, too: ssl.keystore.location"
            ) from error
        raise


def _learn_versions(connection: Connection, timeout_s: float) -> None:
    version = 4
    for _ in range(2):  # a broker that does not know our version answers with the ones it knows, in version 0
        answer = connection.call(
            ApiVersionsRequest(version=version, client_software_name=CLIENT_ID, client_software_version="1"),
            timeout_s=timeout_s,
        )
        known = {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys}
        if answer.error_code == 0:
            connection.versions = known
            return
        version = min(version, known.get(ApiKey.ApiVersions, (0, 0))[1])
    raise BrokerTooOld(f"cluster {connection.alias} at {connection.address}: no common version of ApiVersions")


def _authenticate(
    connection: Connection, security: Mapping[str, str | Secret], where: str, timeout_s: float
) -> None:
    login = sasl_login(security, connection.address.host)
    if login is None:
        return
    answer = connection.call(SaslHandshakeRequest(version=1, mechanism=login.mechanism), timeout_s=timeout_s)
    if answer.error_code == ILLEGAL_SASL_STATE:
        reason = "the listener wants no SASL login; write security.protocol = PLAINTEXT or SSL, or another port"
        raise _refused(where, reason, answer.error_code)
    if answer.error_code:
        offered = ", ".join(answer.mechanisms)
        reason = f"SASL mechanism {login.mechanism} is not offered, only {offered}; write one of them as sasl.mechanism"
        raise _refused(where, reason, answer.error_code)
    began = clock.now()
    lifetime_ms = _converse(connection, login, where, timeout_s)
    if lifetime_ms > 0:
        connection.renew_at = began + lifetime_ms / 1000 * SESSION_PART


def _converse(connection: Connection, login: Login, where: str, timeout_s: float) -> int:
    """Says what the mechanism says; returns for how many milliseconds the broker then knows us, 0 for ever."""
    about = f"{login.mechanism} login of {login.who}"
    lifetime_ms = 0
    try:
        said = next(login.exchange)
        for _ in range(SASL_ROUNDS_MAX):
            answer = connection.call(SaslAuthenticateRequest(version=1, auth_bytes=said), timeout_s=timeout_s)
            if answer.error_code:
                login.refused()
                text = answer.error_message or name_of(answer.error_code)
                raise _refused(where, f"{about} was refused: {text}; check {login.check}", answer.error_code)
            lifetime_ms = answer.session_lifetime_ms or 0
            said = login.exchange.send(answer.auth_bytes or b"")
    except StopIteration:
        return lifetime_ms
    except LoginFailed as failure:
        login.refused()
        raise _refused(where, f"{about} failed: {failure.reason}; check {login.check}") from failure
    raise _refused(where, f"{about} did not end after {SASL_ROUNDS_MAX} rounds; check {login.check}")


def _refused(where: str, reason: str, error_code: int = SASL_AUTHENTICATION_FAILED) -> LoginRefused:
    return LoginRefused(f"{where}: {reason}", error_code=error_code)


def _reason(error: BaseException, timeout_s: float) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {timeout_s:g} s"
    return str(error) or type(error).__name__
