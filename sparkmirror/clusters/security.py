"""From a cluster's security settings to a TLS context and a SASL mechanism. The only place that opens a Secret."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from typing import Any

from kafka.net.sasl import get_sasl_mechanism

from sparkmirror.config import Secret
from sparkmirror.errors import ConfigError

__all__ = ["sasl_mechanism", "sasl_mechanism_name", "tls_context"]

SASL_PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL")
TLS_PROTOCOLS = ("SSL", "SASL_SSL")
LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
JAAS_OPTION = re.compile(r'\s+(\w+)\s*=\s*"((?:[^"\\]|\\.)*)"')


def protocol_of(security: Mapping[str, str | Secret]) -> str:
    """The security protocol in Kafka's upper-case spelling."""
    return _plain(security.get("security.protocol", "PLAINTEXT")).upper()


def tls_context(security: Mapping[str, str | Secret]) -> ssl.SSLContext | None:
    """A verifying TLS context, or None for an unencrypted protocol."""
    if protocol_of(security) not in TLS_PROTOCOLS:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load_trust(context, security)
    _load_identity(context, security)
    if _plain(security.get("ssl.endpoint.identification.algorithm", "https")) == "":
        context.check_hostname = False
    return context


def _load_trust(context: ssl.SSLContext, security: Mapping[str, str | Secret]) -> None:
    inline = security.get("ssl.truststore.certificates")
    location = security.get("ssl.truststore.location")
    if inline is not None:
        context.load_verify_locations(cadata=_plain(inline))
    elif location is not None:
        _require_pem("ssl.truststore", security)
        context.load_verify_locations(cafile=_plain(location))
    else:
        context.load_default_certs()


def _load_identity(context: ssl.SSLContext, security: Mapping[str, str | Secret]) -> None:
    location = security.get("ssl.keystore.location")
    if location is None:
        return
    _require_pem("ssl.keystore", security)
    password = security.get("ssl.key.password")
    context.load_cert_chain(_plain(location), password=_plain(password) if password is not None else None)


def _require_pem(store: str, security: Mapping[str, str | Secret]) -> None:
    kind = _plain(security.get(f"{store}.type", "JKS")).upper()
    if kind != "PEM":
        raise ConfigError(
            f"{store}.type: expected PEM, found {kind}",
            hint=f"convert the store with keytool and openssl to one PEM file, then set {store}.type=PEM",
        )


def sasl_mechanism_name(security: Mapping[str, str | Secret]) -> str | None:
    """The SASL mechanism to ask for, or None for a protocol without SASL."""
    if protocol_of(security) not in SASL_PROTOCOLS:
        return None
    return _plain(security.get("sasl.mechanism", "GSSAPI"))


def sasl_mechanism(security: Mapping[str, str | Secret], host: str) -> Any:
    """A fresh kafka-python SASL mechanism for one connection."""
    name = sasl_mechanism_name(security)
    if name not in LOGIN_MODULES:
        raise ConfigError(f"sasl.mechanism: expected one of {', '.join(LOGIN_MODULES)}, found {name}")
    options = _jaas_options(name, security.get("sasl.jaas.config"))
    return get_sasl_mechanism(name)(
        host=host,
        sasl_mechanism=name,
        security_protocol=protocol_of(security),
        sasl_plain_username=options["username"],
        sasl_plain_password=options["password"],
    )


def _jaas_options(mechanism: str, jaas: str | Secret | None) -> dict[str, str]:
    """The options of a one-module JAAS text; the module must be the one of the mechanism (never loaded by name)."""
    text = _plain(jaas).strip() if jaas is not None else ""
    module, _, rest = text.partition(" ")
    if module != LOGIN_MODULES[mechanism] or not rest.strip().startswith("required") or not text.endswith(";"):
        raise ConfigError(
            f'sasl.jaas.config: expected `{LOGIN_MODULES[mechanism]} required username="…" password="…";` '
            f"for {mechanism}, found another module or form"
        )
    options = {key: re.sub(r"\\(.)", r"\1", value) for key, value in JAAS_OPTION.findall(rest.strip()[len("required") :])}
    for wanted in ("username", "password"):
        if wanted not in options:
            raise ConfigError(f"sasl.jaas.config: option {wanted} is missing")
    return options


def _plain(value: str | Secret) -> str:
    return value.reveal() if isinstance(value, Secret) else value
