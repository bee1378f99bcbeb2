"""Where to listen and who may ask: loopback for everybody, elsewhere a token over TLS unless the user says otherwise."""

from __future__ import annotations

import ipaddress
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

from sparkmirror.config.secrets import Secret
from sparkmirror.errors import ConfigError

LOOPBACK = "127.0.0.1"
TOKEN_SIGNS_MIN, TOKEN_SIGNS_MAX = 16, 512  # shorter can be guessed at the rate that is answered, longer is another file


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """A place to listen at, and what it asks of a caller."""

    host: str
    port: int
    token: Secret | None = None
    tls: ssl.SSLContext | None = None
    is_open: bool = False  # everybody who reaches it may read


def address_of(
    text: str, *, token_file: str | None = None, certificate: str | None = None, is_open: bool = False
) -> ListenAddress:
    """`[HOST:]PORT` with its files read; raises unless HOST is loopback, or a token and TLS guard it, or `is_open`."""
    host, port = _split(text)
    token = _token(Path(token_file)) if token_file is not None else None
    tls = _tls(certificate) if certificate is not None else None
    if not _is_loopback(host) and not is_open and (token is None or tls is None):
        missing = " and ".join(
            option for option, given in (("--listen-token", token), ("--listen-certificate", tls)) if given is None
        )
        raise ConfigError(
            f"--listen {text}: others than this machine reach it: expected a token and TLS, found no {missing}",
            hint=f"give {missing}, listen at {LOOPBACK}:{port}, or add --listen-open to let everybody read",
        )
    return ListenAddress(host, port, token, tls, is_open)


def _split(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    is_port = port.isascii() and port.isdigit() and int(port) <= 0xFFFF
    if not is_port or (":" in host and not (host.startswith("[") and host.endswith("]"))):
        raise ConfigError(f"--listen {text}: expected [HOST:]PORT, found no port from 0 to 65535 behind the last colon",
                          hint="such as 8083, 127.0.0.1:8083 or [::1]:8083")  # fmt: skip
    return host.removeprefix("[").removesuffix("]") or LOOPBACK, int(port)


def _is_loopback(host: str) -> bool:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not a name"
        raise ConfigError(f"--listen {host}: expected an address of this machine, found none: {why}",
                          hint="such as 127.0.0.1, or 0.0.0.0 for all of them") from None  # fmt: skip
    return all(ipaddress.ip_address(str(place[0]).partition("%")[0]).is_loopback for *_, place in found)


def _token(path: Path) -> Secret:
    hint = f"umask 077 && openssl rand -hex 32 > {path}"
    try:
        with path.open("rb") as file:
            text = file.read(TOKEN_SIGNS_MAX + 2).strip()
    except OSError as error:
        raise ConfigError(f"--listen-token {path}: expected a readable file, found {error.strerror}", hint=hint) from None
    is_plain = all(0x21 <= sign <= 0x7E for sign in text)
    if not TOKEN_SIGNS_MIN <= len(text) <= TOKEN_SIGNS_MAX or not is_plain:
        what = f"{len(text)} signs" if is_plain else "others"
        expected = f"{TOKEN_SIGNS_MIN} to {TOKEN_SIGNS_MAX} visible ASCII signs without blanks"
        raise ConfigError(f"--listen-token {path}: expected {expected}, found {what}", hint=hint)
    return Secret(text.decode("ascii"))


def _tls(certificate: str) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # An empty password instead of a question on a terminal that nobody sits at.
        context.load_cert_chain(certificate, password="")
    except (OSError, ValueError) as error:
        found = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigError(
            f"--listen-certificate {certificate}: expected a PEM file with the certificates and their key, not encrypted, "
            f"found {found}",
            hint="cat certificate.pem chain.pem key.pem > server.pem",
        ) from None
    return context
