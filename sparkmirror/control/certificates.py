"""When the certificates end that a flow's connections rest on, so that somebody hears of it before they do."""

from __future__ import annotations

from collections.abc import Collection

from sparkmirror.clusters import ClusterClient
from sparkmirror.clusters.security.certificates import broker_certificates, file_certificates
from sparkmirror.clusters.security.settings import tls_settings
from sparkmirror.config import ClusterSettings
from sparkmirror.status import CertificateEnd, FlowStatus

LOOK_S = 3600.0


class Certificates:
    """Looks at the files of the configuration and at what the brokers show."""

    def __init__(self, status: FlowStatus, sides: Collection[tuple[ClusterSettings, ClusterClient]]) -> None:
        self._status = status
        self._sides = [(settings, client) for settings, client in sides if tls_settings(settings.security) is not None]

    @property
    def is_needed(self) -> bool:
        """Whether a connection uses TLS."""
        return bool(self._sides)

    def look(self) -> list[str]:
        """One round; the first end of each owner counts."""
        found: dict[tuple[str, str], int] = {}
        for settings, client in self._sides:
            for seen in (*file_certificates(settings), *broker_certificates(client)):
                key, ends_ms = (settings.alias, seen.whose), int(seen.ends.timestamp() * 1000)
                found[key] = min(ends_ms, found.get(key, ends_ms))
        self._status.certificates = tuple(CertificateEnd(*key, ends_ms) for key, ends_ms in sorted(found.items()))
        return []
