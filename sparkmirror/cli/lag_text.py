"""The lag of a flow in words and in a log line's fields: a part that is not known is never left out."""

from __future__ import annotations

from datetime import UTC, datetime

from sparkmirror.cli.text import amount, duration
from sparkmirror.status import FlowLag


def lag_words(lag: FlowLag) -> str:
    """`lag 120, oldest 34 s`; a question mark where something is not known, with what was known last and when."""
    if lag.is_current:
        text = f"lag {_with_unknown(amount(lag.known), lag.known, lag.unknown)}"
    else:
        text = "lag ?" + (f" ({amount(lag.known)} as of {_time(lag):%H:%M:%S}Z)" if lag.as_of_ms >= 0 else "")
    if not lag.oldest_ms:
        return text
    return f"{text}, oldest {_with_unknown(duration(lag.oldest_ms / 1000), lag.oldest_ms, lag.unknown_ages)}"


def lag_fields(lag: FlowLag) -> str:
    """`lag=120 lag_seconds=34.2`."""
    oldest = "?" if lag.oldest_ms is None else f"{lag.oldest_ms / 1000:.1f}"
    seconds = f"lag_seconds={_with_unknown(oldest, lag.oldest_ms or 0, lag.unknown_ages)}"
    if lag.is_current:
        return f"lag={_with_unknown(str(lag.known), lag.known, lag.unknown)} {seconds}"
    if lag.as_of_ms < 0:
        return f"lag=? {seconds}"
    return f"lag=? lag_known={lag.known} as_of={_time(lag):%Y-%m-%dT%H:%M:%SZ} {seconds}"


def _with_unknown(text: str, known: int, unknown: int) -> str:
    """A sum of which some parts are not known must not pass for the whole."""
    if not unknown:
        return text
    return f"{text}+?" if known else "?"


def _time(lag: FlowLag) -> datetime:
    return datetime.fromtimestamp(lag.as_of_ms / 1000, UTC)
