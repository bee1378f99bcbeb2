"""SaslHandshake: PLAIN where users may log in, else there is no login."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka.protocol.sasl import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from fake.cluster import FakeCluster

REQUEST, RESPONSE, VERSIONS = SaslHandshakeRequest, SaslHandshakeResponse, (0, 1)

UNSUPPORTED_SASL_MECHANISM, ILLEGAL_SASL_STATE = 33, 34


def answer(cluster: FakeCluster, request: Any) -> dict[str, Any]:
    """The broker's answer."""
    if cluster.passwords is None:
        return {"error_code": ILLEGAL_SASL_STATE, "mechanisms": []}
    is_offered = request.mechanism == "PLAIN"
    return {"error_code": 0 if is_offered else UNSUPPORTED_SASL_MECHANISM, "mechanisms": ["PLAIN"]}
