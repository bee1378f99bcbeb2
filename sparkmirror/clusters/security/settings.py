"""From a cluster's security settings to a TLS context and a SASL login. The only place that opens a Secret.

Whatever cannot be used is a `ConfigError` that names the key, the file or the user, and what to do.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ssl import SSLContext
from typing import NoReturn
from urllib.parse import urlsplit

from sparkmirror.clusters.security.jaas import JaasRefused, parse_jaas
from sparkmirror.clusters.security.logins import (
    Exchange,
    has_kerberos,
    kerberos_exchange,
    plain_exchange,
    scram_exchange,
    token_exchange,
)
from sparkmirror.clusters.security.tls import TlsSettings, trusting_context
from sparkmirror.clusters.security.tokens import TokenRefused, TokenRequest, forget_token, is_loopback, token_for
from sparkmirror.config import SECURITY_KEYS, Secret
from sparkmirror.errors import ConfigError

Security = Mapping[str, str]

SASL_PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL")
TLS_PROTOCOLS = ("SSL", "SASL_SSL")
JAAS = "sasl.jaas.config"
PLAIN_ALLOWED = "sasl.plain.without.tls.allowed"
ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
CLIENT_ID = "sasl.oauthbearer.client.credentials.client.id"
CLIENT_SECRET = "sasl.oauthbearer.client.credentials.client.secret"
_KAFKA = "org.apache.kafka.common.security."
_SCRAM = _KAFKA + "scram.ScramLoginModule"
LOGIN_MODULES = {
    "PLAIN": _KAFKA + "plain.PlainLoginModule",
    "SCRAM-SHA-256": _SCRAM,
    "SCRAM-SHA-512": _SCRAM,
    "OAUTHBEARER": _KAFKA + "oauthbearer.OAuthBearerLoginModule",
    "GSSAPI": "com.sun.security.auth.module.Krb5LoginModule",
}
TOKEN_OPTIONS = frozenset({"clientId", "clientSecret", "scope"})
TLS_OPTIONS = frozenset(name for name in SECURITY_KEYS if name.startswith("ssl."))
KERBEROS_OPTIONS = frozenset({
    "debug", "doNotPrompt", "keyTab", "principal", "refreshKrb5Config", "renewTGT", "serviceName", "storeKey",
    "ticketCache", "useKeyTab", "useTicketCache",
})  # fmt: skip
# Unset or 0 means "for ever" to Java; we tell within 30 s that nobody answers.
TOKEN_WAIT_MS = 10_000
SETTINGS_MAX = 64  # clusters of one process
# RFC 7628 §3.1.
_EXTENSION_NAME = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE = re.compile(r"[\x21-\x7e \t\r\n]+")


@dataclass(frozen=True, slots=True)
class Login:
    """Who logs in and how; `check` is what to look at when the broker refuses, `refused` what to do then."""

    mechanism: str
    who: str
    check: str
    exchange: Exchange = field(repr=False)
    refused: Callable[[], None] = field(repr=False, default=lambda: None)


def protocol_of(security: Security) -> str:
    """The security protocol in Kafka's upper-case spelling."""
    return _text(security, "security.protocol", "PLAINTEXT").upper()


def principal_of(security: Security) -> str:
    """Who we are to the brokers, as far as the settings tell; for whoever grants us rights there."""
    if protocol_of(security) in SASL_PROTOCOLS:
        try:
            mechanism = _mechanism(security)
            return _who(mechanism, security, _jaas_options(mechanism, security))
        except ConfigError:
            return f"whoever {JAAS} names"
    tls = tls_settings(security)
    if tls is not None and tls.key_source:
        return f"the subject of the certificate of {tls.key_source}"
    return "User:ANONYMOUS (there is no login)"


def _mechanism(security: Security) -> str:
    mechanism = _text(security, "sasl.mechanism", "GSSAPI")
    if mechanism not in LOGIN_MODULES:
        raise ConfigError(f"sasl.mechanism: expected one of {', '.join(LOGIN_MODULES)}, found {mechanism}")
    return mechanism


def _who(mechanism: str, security: Security, options: Mapping[str, str]) -> str:
    if mechanism == "OAUTHBEARER":
        return f"client {_text(security, CLIENT_ID) or options.get('clientId', '')}"
    if mechanism == "GSSAPI":
        return f"principal {options['principal']}" if options.get("principal") else "the principal of the ticket cache"
    return f"user {options.get('username', '')}"


# --- TLS -------------------------------------------------------------------------------------------------------


def tls_context(security: Security) -> SSLContext | None:
    """A verifying TLS context, or None for an unencrypted protocol. Re-created only when a setting or a file changed."""
    settings = tls_settings(security)
    return None if settings is None else _context(settings, settings.stamps())


def tls_settings(security: Security) -> TlsSettings | None:
    """What the TLS context is made from, or None for an unencrypted protocol."""
    return _tls_settings(security) if protocol_of(security) in TLS_PROTOCOLS else None


@functools.lru_cache(SETTINGS_MAX)
def _context(settings: TlsSettings, stamps: tuple[object, ...]) -> SSLContext:
    return trusting_context(settings)


def _tls_settings(security: Security) -> TlsSettings:
    store_password = _text(security, "ssl.keystore.password")
    return TlsSettings(
        trusted=_text(security, "ssl.truststore.certificates"),
        trust_file=_text(security, "ssl.truststore.location"),
        trust_type=_text(security, "ssl.truststore.type", "JKS").upper(),
        trust_password=_text(security, "ssl.truststore.password"),
        chain=_text(security, "ssl.keystore.certificate.chain"),
        key=_text(security, "ssl.keystore.key"),
        key_file=_text(security, "ssl.keystore.location"),
        key_type=_text(security, "ssl.keystore.type", "JKS").upper(),
        store_password=store_password,
        key_password=_text(security, "ssl.key.password") or store_password,
        checks_host=_text(security, "ssl.endpoint.identification.algorithm", "https") != "",
        versions=tuple(_text(security, "ssl.enabled.protocols", "TLSv1.2,TLSv1.3").replace(" ", "").split(",")),
    )


# --- SASL ------------------------------------------------------------------------------------------------------


def sasl_login(security: Security, host: str) -> Login | None:
    """The login for one connection to `host`, or None for a protocol without SASL."""
    if protocol_of(security) not in SASL_PROTOCOLS:
        return None
    mechanism = _mechanism(security)
    options = _jaas_options(mechanism, security)
    if mechanism == "GSSAPI":
        return _kerberos_login(security, options, host)
    if mechanism == "OAUTHBEARER":
        return _token_login(security, options)
    return _password_login(mechanism, security, options, host)


def _jaas_options(mechanism: str, security: Security) -> dict[str, str]:
    """The options of the login module; it must be the one of the mechanism."""
    wanted = LOGIN_MODULES[mechanism]
    text = _text(security, JAAS)
    if not text:
        if mechanism == "GSSAPI" or (mechanism == "OAUTHBEARER" and _text(security, CLIENT_ID)):
            return {}
        raise ConfigError(f"{JAAS}: expected `{wanted} required …;` for {mechanism}, found nothing")
    try:
        entry = parse_jaas(text)
    except JaasRefused as refusal:
        raise ConfigError(f"{JAAS}: {refusal.reason}") from refusal
    if entry.module != wanted:
        known = entry.module in LOGIN_MODULES.values()
        found = f"found {entry.module}" if known else "found another one, which is not known here"
        raise ConfigError(f"{JAAS}: at character 1: expected the login module {wanted} for {mechanism}, {found}")
    return entry.options


def _refuse_others(options: Mapping[str, str], known: frozenset[str], mechanism: str) -> None:
    others = sorted(set(options) - known)
    if others:
        raise ConfigError(f"{JAAS}: {mechanism} has no option {others[0]} here; known are {', '.join(sorted(known))}")


def _password_login(mechanism: str, security: Security, options: Mapping[str, str], host: str) -> Login:
    _refuse_others(options, frozenset({"username", "password"}), mechanism)
    for wanted in ("username", "password"):
        if not options.get(wanted):
            raise ConfigError(f'{JAAS}: option {wanted} is missing; write username="…" password="…"')
    username, password = options["username"], options["password"]
    if "\0" in username + password:
        raise ConfigError(f"{JAAS}: expected a user name and a password without NUL characters")
    if mechanism != "PLAIN":
        exchange = scram_exchange(mechanism, username, password)
    else:
        _refuse_plain_without_tls(security, host)
        exchange = plain_exchange(username, password)
    return Login(mechanism, _who(mechanism, security, options), f"username and password in {JAAS}", exchange)


def _refuse_plain_without_tls(security: Security, host: str) -> None:
    is_allowed = _text(security, PLAIN_ALLOWED, "false").lower() == "true"
    if protocol_of(security) == "SASL_PLAINTEXT" and not is_allowed and not is_loopback(host):
        raise ConfigError(
            "security.protocol: SASL_PLAINTEXT with PLAIN would send the password readable over the network; write "
            f"security.protocol = SASL_SSL, or {PLAIN_ALLOWED} = true if something else protects the connection"
        )


def _token_login(security: Security, options: Mapping[str, str]) -> Login:
    extensions = {name[len("extension_") :]: text for name, text in options.items() if name.startswith("extension_")}
    for name, text in extensions.items():
        if name == "auth" or not _EXTENSION_NAME.fullmatch(name) or not _EXTENSION_VALUE.fullmatch(text):
            raise ConfigError(f"{JAAS}: option extension_{name}: expected letters as name and printable text as value")
    tls = {name: text for name, text in options.items() if name.startswith("ssl.")}
    plain = {name: text for name, text in options.items() if name not in tls and not name.startswith("extension_")}
    if any(name.startswith("unsecuredLogin") for name in plain):
        raise ConfigError(f"{JAAS}: tokens that anybody can make are not used; write {ENDPOINT}, clientId and clientSecret")
    _refuse_others(plain, TOKEN_OPTIONS, "OAUTHBEARER")
    _refuse_others(tls, TLS_OPTIONS, "OAUTHBEARER")
    request = _token_request(security, plain, tls)
    try:
        token = token_for(request)
    except TokenRefused as refusal:
        check = refusal.check or f"{ENDPOINT}, clientId and clientSecret"
        raise ConfigError(f"OAUTHBEARER: {refusal.reason}; check {check}") from refusal
    return Login(
        "OAUTHBEARER", _who("OAUTHBEARER", security, options), f"that the broker trusts tokens of {ENDPOINT}",
        token_exchange(token, extensions), lambda: forget_token(request, token),
    )  # fmt: skip


def _token_request(security: Security, options: Mapping[str, str], tls: Mapping[str, str]) -> TokenRequest:
    client_id = _text(security, CLIENT_ID) or options.get("clientId", "")
    client_secret = _text(security, CLIENT_SECRET) or options.get("clientSecret", "")
    for name, found in (("clientId", client_id), ("clientSecret", client_secret)):
        if not found:
            raise ConfigError(f"{JAAS}: option {name} is missing for OAUTHBEARER")
    is_https = _check_endpoint(_text(security, ENDPOINT))
    return TokenRequest(
        url=_text(security, ENDPOINT),
        client_id=client_id,
        client_secret=client_secret,
        scope=_text(security, "sasl.oauthbearer.scope") or options.get("scope"),
        context=_context(_tls_settings(tls), _tls_settings(tls).stamps()) if is_https else None,
        connect_s=_wait_s(security, "sasl.login.connect.timeout.ms"),
        read_s=_wait_s(security, "sasl.login.read.timeout.ms"),
        window=float(_text(security, "sasl.login.refresh.window.factor", "0.8")),
        encodes_header=_text(security, "sasl.oauthbearer.header.urlencode", "false").lower() == "true",
    )


def _wait_s(security: Security, name: str) -> float:
    written = int(_text(security, name, "0"))
    return (written if written > 0 else TOKEN_WAIT_MS) / 1000


def _check_endpoint(url: str) -> bool:
    """Whether tokens come over https; raises for an address that must not be asked."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        _refuse_endpoint("an address that cannot be read")
    if not url.isascii() or not url.isprintable() or " " in url or port == 0:
        _refuse_endpoint("an address that cannot be read")
    if parts.username is not None or parts.password is not None:
        _refuse_endpoint("one with a user or a password in it")
    if parts.scheme == "https" and host:
        return True
    if parts.scheme == "http" and host:
        if not is_loopback(host):
            _refuse_endpoint("http to another machine")
        return False
    _refuse_endpoint(f"{parts.scheme}:" if parts.scheme else "nothing of that kind")


def _refuse_endpoint(found: str) -> NoReturn:
    raise ConfigError(f"{ENDPOINT}: expected https://host/…, found {found}")


def _kerberos_login(security: Security, options: Mapping[str, str], host: str) -> Login:
    _refuse_others(options, KERBEROS_OPTIONS, "GSSAPI")
    if not has_kerberos():
        raise ConfigError(
            "sasl.mechanism: GSSAPI (Kerberos, also Kafka's default) needs the library gssapi, which is not installed; "
            "pip install 'sparkmirror[kerberos]', or write another sasl.mechanism"
        )
    service = options.get("serviceName") or _text(security, "sasl.kerberos.service.name")
    if not service:
        raise ConfigError("sasl.kerberos.service.name: expected the brokers' service name, mostly kafka, found nothing")
    key_file = options.get("keyTab")
    if key_file and os.environ.get("KRB5_CLIENT_KTNAME", "").removeprefix("FILE:") != key_file:
        raise ConfigError(
            f"{JAAS}: Kerberos itself reads the keytab {key_file}; start with KRB5_CLIENT_KTNAME={key_file} in the "
            "environment"
        )
    who = _who("GSSAPI", security, options)
    return Login("GSSAPI", who, "the ticket with klist, and sasl.kerberos.service.name", kerberos_exchange(service, host))


def _text(security: Security, name: str, default: str = "") -> str:
    value = security.get(name, default)
    return value.reveal() if isinstance(value, Secret) else value
