"""Asks a running mirror for its flows over HTTP."""

from __future__ import annotations

import http.client
import ipaddress
import ssl
import urllib.error
import urllib.request
from collections.abc import Collection
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import msgspec

from sparkmirror.clusters import ClusterClient
from sparkmirror.config import FlowSettings
from sparkmirror.config.secrets import Secret
from sparkmirror.ledger import Owner
from sparkmirror.process import Process
from sparkmirror.state import ClusterReader, RouteTable
from sparkmirror.state.parts import Part
from sparkmirror.topology import ledger_topic

ANSWER_S = 5.0
ANSWER_BYTES_MAX = 32 * 1024 * 1024
Outline = dict[str, Any]


class NoAnswer(Exception):
    """Why no process answered, in words."""


def fetch_outlines(url: str, token: Secret | None = None, trusted: str | None = None) -> list[Outline]:
    """The flows of the process at `url`; raises `NoAnswer`. `trusted` is a PEM file with the certificate to trust."""
    request = urllib.request.Request(f"{url.rstrip('/')}/flows", headers={"Accept": "application/json"})
    if token is not None:
        request.add_unredirected_header("Authorization", f"Bearer {token.reveal()}")
    try:
        context = ssl.create_default_context(cafile=trusted)
        handlers = [urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context), _NoRedirect()]
        with urllib.request.build_opener(*handlers).open(request, timeout=ANSWER_S) as answer:
            found = msgspec.json.decode(answer.read(ANSWER_BYTES_MAX))
    except urllib.error.HTTPError as error:
        with error:
            raise NoAnswer(_refused(error)) from None
    except (OSError, http.client.HTTPException, msgspec.DecodeError, ValueError) as error:
        raise NoAnswer(str(getattr(error, "reason", error)) or type(error).__name__) from None
    flows = found.get("flows") if isinstance(found, dict) else None
    if not isinstance(flows, list) or not all(isinstance(flow, dict) and "lag_known" in flow for flow in flows):
        raise NoAnswer("it answers, but not as a mirror does")
    return flows


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """A mirror never redirects; the token must not go elsewhere."""


def _refused(error: urllib.error.HTTPError) -> str:
    reason = {401: "it wants its token (--token)", 429: "it is asked too often"}.get(error.code, error.reason)
    return f"HTTP {error.code}: {reason}"


def recorded_owner(flow: FlowSettings) -> Owner | None:
    """The newest owner by the flow's ledger; None if there is none, or the target does not say."""
    client = ClusterClient(flow.target, any_release=True)
    with closing(ClusterReader({"target": client})) as reader:
        table = reader.table(Part.LEDGER, "target", ledger_topic(flow.name.source), RouteTable(), may_be_absent=True)
        return None if table is None else table.owner


def local_outlines(flows: Collection[FlowSettings]) -> dict[str, tuple[str, Outline]]:
    """By flow: where its owner answers, and how. Only owners on this machine are asked, on loopback.

    The ledger is no place from which to take an address anywhere else, and the owner's name shows who answers.
    """
    found: dict[str, tuple[str, Outline]] = {}
    asked: dict[str, list[Outline]] = {}
    for flow in flows:
        owner = recorded_owner(flow)
        if owner is None or not _is_here(owner):
            continue
        try:
            outlines = asked[owner.url] if owner.url in asked else asked.setdefault(owner.url, fetch_outlines(owner.url))
        except NoAnswer:
            continue
        for outline in outlines:
            if (outline.get("flow"), outline.get("owner")) == (str(flow.name), owner.name):
                found[str(flow.name)] = owner.url, outline
    return found


def _is_here(owner: Owner) -> bool:
    process = Process.this()
    if not owner.url or owner.released or not process.is_neighbour(owner.name) or process.is_dead(owner.name):
        return False
    try:
        parts = urlsplit(owner.url)
        return parts.scheme in ("http", "https") and ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False
