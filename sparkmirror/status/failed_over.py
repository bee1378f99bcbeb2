"""A flow that was failed over, in words, and what to do about it. Pure; every view shows it so."""

from __future__ import annotations

from datetime import UTC, datetime

from sparkmirror.ledger import Failover

FAILED_OVER = "failed over"


def failover_words(flow: str, found: Failover) -> str:
    """Who failed it over and when."""
    when = datetime.fromtimestamp(found.time_ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    state = f"was {FAILED_OVER}" if found.is_done else "is being failed over"
    return f"{flow} {state} ({found.kind}) by {found.who} at {when}: nothing is copied any more"


def failover_hint(file_words: str) -> str:
    """The commands that end it."""
    return f"sparkmirror failback {file_words} brings home what was written since; failover … --abandon takes it back"
