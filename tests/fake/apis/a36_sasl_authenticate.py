"""SaslAuthenticate by PLAIN."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka.protocol.sasl import SaslAuthenticateRequest, SaslAuthenticateResponse

if TYPE_CHECKING:
    from fake.cluster import FakeCluster

REQUEST, RESPONSE, VERSIONS = SaslAuthenticateRequest, SaslAuthenticateResponse, (0, 2)

SASL_AUTHENTICATION_FAILED = 58
REFUSED = "Authentication failed: Invalid username or password"


def answer(cluster: FakeCluster, request: Any) -> dict[str, Any]:
    """The broker's answer."""
    _, user, password = bytes(request.auth_bytes).decode().split("\0")
    is_right = (cluster.passwords or {}).get(user) == password
    code, text = (0, None) if is_right else (SASL_AUTHENTICATION_FAILED, REFUSED)
    return {"error_code": code, "error_message": text, "auth_bytes": b"", "session_lifetime_ms": 0}
