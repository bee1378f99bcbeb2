"""What is said in a SASL login, without any I/O: a generator yields what is sent and is given what came back.

It ends when nothing more is to be said, and raises `LoginFailed` if the broker does not prove to be who it must be.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import importlib.util
import re
import secrets
from collections.abc import Generator, Mapping

from kafka.net.sasl import get_sasl_mechanism

Exchange = Generator[bytes, bytes, None]

SCRAM_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
# RFC 7677 and Kafka itself refuse fewer rounds; many more would only keep us busy (a million take a second).
ITERATIONS_MIN, ITERATIONS_MAX = 4_096, 1_000_000
NONCE_BYTES = 24
_SERVER_FIRST = re.compile(rb"r=([\x21-\x2b\x2d-\x7e]+),s=([A-Za-z0-9+/=]+),i=([0-9]{1,9})(?:,.*)?", re.DOTALL)
_SERVER_FINAL = re.compile(rb"v=([A-Za-z0-9+/=]+)(?:,.*)?", re.DOTALL)


class LoginFailed(Exception):
    """The broker's part of a login is not what it must be."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def plain_exchange(username: str, password: str) -> Exchange:
    """RFC 4616."""
    answer = yield f"\0{username}\0{password}".encode()
    if answer:
        raise LoginFailed("the broker answered PLAIN with something else than nothing")


def scram_exchange(mechanism: str, username: str, password: str, nonce: str | None = None) -> Exchange:
    """RFC 5802 without channel binding. The broker must prove that it knows the password, too."""
    name = SCRAM_HASHES[mechanism]
    own = (nonce or secrets.token_urlsafe(NONCE_BYTES)).encode()
    escaped = username.replace("=", "=3D").replace(",", "=2C").encode()
    client_first = b"n=" + escaped + b",r=" + own
    server_first = yield b"n,," + client_first
    match = _SERVER_FIRST.fullmatch(server_first)
    if match is None:
        raise LoginFailed(f"the broker's first {mechanism} message is malformed")
    both, iterations = match[1], int(match[3])
    if not both.startswith(own) or both == own:
        raise LoginFailed("the broker's nonce does not continue ours")
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise LoginFailed(
            f"the broker keeps the password with {iterations} iterations, expected {ITERATIONS_MIN} to {ITERATIONS_MAX}"
        )
    salted = hashlib.pbkdf2_hmac(name, password.encode(), _base64(match[2], mechanism), iterations)
    client_final = b"c=biws,r=" + both
    said = b",".join((client_first, server_first, client_final))
    client_key = hmac.digest(salted, b"Client Key", name)
    signature = hmac.digest(hashlib.new(name, client_key).digest(), said, name)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    server_final = yield client_final + b",p=" + base64.b64encode(proof)
    final = _SERVER_FINAL.fullmatch(server_final)
    expected = hmac.digest(hmac.digest(salted, b"Server Key", name), said, name)
    if final is None or not hmac.compare_digest(_base64(final[1], mechanism), expected):
        raise LoginFailed("the broker's signature is wrong: it does not know the password of this user")


def _base64(text: bytes, mechanism: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise LoginFailed(f"the broker's {mechanism} message is not base64") from error


def token_exchange(token: str, extensions: Mapping[str, str]) -> Exchange:
    """RFC 7628. What the broker has against a token comes as a message, and after our `\\x01` as an error code."""
    parts = [f"auth=Bearer {token}", *(f"{name}={value}" for name, value in extensions.items())]
    complaint = yield ("n,,\x01" + "\x01".join(parts) + "\x01\x01").encode()
    if complaint:
        yield b"\x01"
        raise LoginFailed("the broker refused the token")


def has_kerberos() -> bool:
    """Whether the optional library is installed."""
    return importlib.util.find_spec("gssapi") is not None


def kerberos_exchange(service: str, host: str) -> Exchange:
    """RFC 4752 by kafka-python, with the ticket that the system has."""
    try:
        mechanism = get_sasl_mechanism("GSSAPI")(sasl_kerberos_service_name=service, host=host)
        while not mechanism.is_done():
            mechanism.receive((yield mechanism.auth_bytes()))
    except (ValueError, RuntimeError, OSError) as error:
        raise LoginFailed(f"Kerberos: {error}") from error
    except Exception as error:  # the library's own errors cannot be named where it is not installed
        if type(error).__module__.partition(".")[0] != "gssapi":
            raise
        raise LoginFailed(f"Kerberos: {error}") from error
