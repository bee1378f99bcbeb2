"""Clients that outlive a task: Spark's Python workers serve many, and a new connection would cost each of them its start."""

from __future__ import annotations

import time

from sparkmirror.clusters import ClusterClient
from sparkmirror.datasource.options import ClusterOptions

IDLE_S_MAX = 60.0
_CLIENTS: dict[ClusterOptions, tuple[ClusterClient, float]] = {}


def client_of(options: ClusterOptions) -> ClusterClient:
    """The client of this cluster and login; a client that was not used for a minute is closed."""
    now = time.monotonic()
    for other, (client, used_at) in list(_CLIENTS.items()):
        if now - used_at > IDLE_S_MAX:
            client.close()
            del _CLIENTS[other]
    client = _CLIENTS[options][0] if options in _CLIENTS else ClusterClient(options.settings())
    _CLIENTS[options] = client, now
    return client
