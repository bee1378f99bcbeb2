"""Whether a Spark master answers: Spark itself asks for a minute, and then says that a context is stopped."""

from __future__ import annotations

import socket

from sparkmirror.errors import EnvironmentUnfit

SCHEME = "spark://"
DIAL_S = 5.0


def require_answer(master: str) -> None:
    """Raises unless a master of a standalone cluster takes a connection; other cluster managers are left to Spark."""
    if not master.startswith(SCHEME):
        return
    reasons = []
    for address in master.removeprefix(SCHEME).split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout=DIAL_S).close()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            reasons.append(f"{address}: {reason}")
        else:
            return
    raise EnvironmentUnfit(
        f"the Spark master {master} does not answer: {'; '.join(reasons)}", hint="check --master and that it runs"
    )
