"""Where to listen and who may do what: loopback is for everybody, elsewhere callers have tokens and send them over TLS.

| address       | `/health…` | reading                                             | changing                               |
|---------------|------------|-----------------------------------------------------|----------------------------------------|
| loopback      | everybody  | everybody, or the read token if there is one        | everybody, or the operate token if any |
| any other one | everybody  | the read token, or everybody (`--listen-open-read`) | the operate token, over TLS            |

The operate token may read, too.
"""

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
    operate_token: Secret | None = None
    is_loopback: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessFiles:
    """What the options of `run` name."""

    token: str | None = None
    operate_token: str | None = None
    certificate: str | None = None
    is_open: bool = False


def address_of(text: str, files: AccessFiles | None = None) -> ListenAddress:
    """`[HOST:]PORT` with its files read; raises unless HOST is loopback, or callers are asked for what their role needs."""
    files = files or AccessFiles()
    host, port = _split(text)
    token = _token("--listen-token", files.token) if files.token is not None else None
    operate = _token("--listen-operate-token", files.operate_token) if files.operate_token is not None else None
    tls = _tls(files.certificate) if files.certificate is not None else None
    is_loopback = _is_loopback(host)
    if operate is not None and token is not None and operate.reveal() == token.reveal():
        raise ConfigError(
            f"--listen-operate-token {files.operate_token}: expected another token than that of --listen-token, "
            "which may only read, found the same"
        )
    if not is_loopback:
        _require_guards(text, port, token=token, operate=operate, tls=tls, is_open=files.is_open)
    return ListenAddress(host, port, token, tls, files.is_open, operate, is_loopback)


def _require_guards(
    text: str, port: int, *, token: Secret | None, operate: Secret | None, tls: ssl.SSLContext | None, is_open: bool
) -> None:
    if operate is not None and tls is None:
        raise ConfigError(
            f"--listen {text}: others than this machine reach it: expected TLS for the operate token, "
            "found no --listen-certificate",
            hint=f"give --listen-certificate, listen at {LOOPBACK}:{port}, or leave out --listen-operate-token",
        )
    if not is_open and (token is None or tls is None):
        missing = " and ".join(
            option for option, given in (("--listen-token", token), ("--listen-certificate", tls)) if given is None
        )
        raise ConfigError(
            f"--listen {text}: others than this machine reach it: expected a token and TLS, found no {missing}",
            hint=f"give {missing}, listen at {LOOPBACK}:{port}, or add --listen-open-read to let everybody read",
        )


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


def _token(option: str, file: str) -> Secret:
    path, hint = Path(file), f"umask 077 && openssl rand -hex 32 > {file}"
    try:
        with path.open("rb") as opened:
            text = opened.read(TOKEN_SIGNS_MAX + 2).strip()
    except OSError as error:
        raise ConfigError(f"{option} {path}: expected a readable file, found {error.strerror}", hint=hint) from None
    is_plain = all(0x21 <= sign <= 0x7E for sign in text)
    if not TOKEN_SIGNS_MIN <= len(text) <= TOKEN_SIGNS_MAX or not is_plain:
        what = f"{len(text)} signs" if is_plain else "others"
        expected = f"{TOKEN_SIGNS_MIN} to {TOKEN_SIGNS_MAX} visible ASCII signs without blanks"
        raise ConfigError(f"{option} {path}: expected {expected}, found {what}", hint=hint)
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
