"""The certificates that connections to a cluster rest on, and until when they are valid."""

from __future__ import annotations

import datetime
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kafka.protocol.metadata import ApiVersionsRequest

from sparkmirror.clusters.client import ClusterClient
from sparkmirror.clusters.connection import Connection
from sparkmirror.clusters.security.key_stores import certificate_days
from sparkmirror.clusters.security.settings import tls_settings
from sparkmirror.clusters.security.tls import known_certificates
from sparkmirror.config import ClusterSettings
from sparkmirror.errors import ConfigError


@dataclass(frozen=True, slots=True)
class SeenCertificate:
    """Whose it is, where it was found, and when it ends."""

    whose: str
    where: str
    ends: datetime.datetime


def file_certificates(settings: ClusterSettings) -> list[SeenCertificate]:
    """Those of the configuration: authorities that we trust, and our own. A store that cannot be read has none."""
    tls = tls_settings(settings.security)
    if tls is None:
        return []
    try:
        trusted, own = known_certificates(tls)
    except ConfigError:
        return []  # every connection tells that
    found = [*_seen("a trusted authority", tls.trust_source, trusted), *_seen("our own certificate", tls.key_source, own)]
    return found


def _seen(whose: str, where: str, certificates: list[bytes]) -> Iterator[SeenCertificate]:
    for certificate in certificates:
        days = certificate_days(certificate)
        if days is not None:
            yield SeenCertificate(whose, where, days[1])


def broker_certificates(client: ClusterClient) -> list[SeenCertificate]:
    """What each broker shows; nothing from one that does not speak TLS."""
    found: list[SeenCertificate] = []
    for node, address in sorted(client.view(()).brokers.items()):
        shown: list[bytes] = []
        client.ask_node(node, lambda c, kept=shown: _greeting(c, kept))  # type: ignore[misc]
        found += _seen(f"the certificate of broker {node}", str(address), shown)
    return found


def _greeting(connection: Connection, kept: list[bytes]) -> Any:
    if isinstance(connection.sock, ssl.SSLSocket):
        kept.append(connection.sock.getpeercert(binary_form=True) or b"")
    return ApiVersionsRequest(
        version=connection.version(18, lowest=0, highest=3), client_software_name="sparkmirror", client_software_version="1"
    )
