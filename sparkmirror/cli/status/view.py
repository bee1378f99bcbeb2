"""The fields of a flow's status as lines for a terminal, and the exit status that they mean. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from sparkmirror.cli.lag_text import lag_words
from sparkmirror.cli.styled_lines import Line
from sparkmirror.cli.text import amount, duration, printable
from sparkmirror.diagnose.findings import Severity
from sparkmirror.status import FlowLag, Trouble, grouped

TROUBLES_MAX = 8
_STYLES = {
    "running": "bold green", "copying": "green", "degraded": "bold yellow", "unknown": "bold yellow", "waiting": "yellow",
    "opening": "yellow", "recovering": "yellow", "stopped": "bold red", "failed": "bold red", "not running": "bold red",
    "paused": "cyan",
}  # fmt: skip
_BAD_STATES = ("degraded", "stopped", "failed", "unknown", "waiting")
_PROCESS = re.compile(r"^(?P<host>[^/]+)/(?P<pid>pid \d+)/")


def severity_of(flow: Mapping[str, Any]) -> tuple[Severity, bool]:
    """How bad what a running process says of a flow is, as the doctor grades the same findings, and whether it is all."""
    groups = flow.get("groups") or {}
    is_warning = any(flow.get(key) for key in ("troubles", "chores", "wishes")) or groups.get("unsynced")
    is_warning = is_warning or _file(flow) or flow.get("state") == "failed over"
    worst = Severity.ERROR if flow.get("state") in _BAD_STATES else Severity.WARNING if is_warning else Severity.FINE
    return worst, flow.get("lag") is not None and not groups.get("unknown")


def flow_lines(flow: Mapping[str, Any], place: str, now_ms: int) -> Iterator[Line]:
    """One flow; `place` is who said so."""
    state = str(flow.get("state"))
    yield [
        (printable(str(flow.get("flow"))), "bold"), ("  ", ""), (printable(state), _STYLES.get(state, "bold yellow")),
        (f"  as of {_clock(flow.get('as_of'))}, from {printable(place)}", "dim"),
    ]  # fmt: skip
    if flow.get("reason"):
        yield [(f"  {printable(str(flow['reason']))}", "yellow")]
    yield [(f"  owner {_owner(flow)}", "")]
    lag = lag_of(flow)
    yield [(f"  {lag_words(lag)}", "" if lag.is_current else "dim")]
    counts = ", ".join(f"{amount(count)} {printable(name)}" for name, count in (flow.get("partitions") or {}).items())
    gaps = f"; {amount(flow['gaps'])} gaps accepted" if flow.get("gaps") else ""
    yield [(f"  partitions: {counts or 'none known'}{gaps}", "")]
    yield [(f"  groups: {_groups(flow.get('groups'))}", "")]
    yield [(f"  heartbeat {_age(flow.get('heartbeat'), now_ms)}", "")]
    if file := _file(flow):
        yield [(f"  configuration file: {printable(file)}", "yellow")]
    yield from _trouble_lines(flow)
    for wish in flow.get("wishes") or ():
        yield [(f"  {printable(str(wish.get('text')))} (to resume: {printable(str(wish.get('resume')))})", "cyan")]
    for chore, trouble in (flow.get("chores") or {}).items():
        yield [("  cannot be done now", "yellow"), (f"  {printable(chore)}: {printable(str(trouble))}", "")]


def _file(flow: Mapping[str, Any]) -> str:
    """Why the flow does not run with what its file says; empty if it does, or if nobody says."""
    return str((flow.get("settings") or {}).get("trouble") or "")


def lag_of(flow: Mapping[str, Any]) -> FlowLag:
    """The lag as it was judged where the fields come from."""
    oldest, is_whole = flow.get("lag_seconds_known"), flow.get("lag_seconds") is not None
    as_of = _ms(flow.get("lag_as_of"))
    return FlowLag(
        known=int(flow.get("lag_known") or 0),
        unknown=int(flow.get("lag_unknown_partitions") or 0),
        oldest_ms=None if oldest is None else round(oldest * 1000),
        unknown_ages=int(not is_whole),
        as_of_ms=-1 if as_of is None else as_of,
        is_current=bool(flow.get("lag_is_current")),
    )


def _trouble_lines(flow: Mapping[str, Any]) -> Iterator[Line]:
    found = [
        Trouble(str(t.get("what")), str(t.get("state")), str(t.get("code")), str(t.get("reason")), t.get("lag"))
        for t in flow.get("troubles") or ()
    ]
    groups = grouped(found)
    for group in groups[:TROUBLES_MAX]:
        first = group.first
        words = "  ".join(word for word in (group.names(1), first.code, first.reason) if word)
        yield [("  ", ""), (printable(first.state), _STYLES.get(first.state, "")), (f"  {printable(words)}", "")]
    rest = sum(len(group.troubles) for group in groups[TROUBLES_MAX:]) + int(flow.get("troubles_left_out") or 0)
    if rest:
        yield [(f"  and {amount(rest)} more that are not copied (doctor names all)", "red")]


def _owner(flow: Mapping[str, Any]) -> str:
    owner = flow.get("owner")
    if not owner:
        return "unknown" if flow.get("state") == "unknown" else "none"
    found = _PROCESS.match(str(owner))
    name = f"{found['host']} {found['pid']}" if found else str(owner)
    since = flow.get("owned_since")
    return printable(name) + (f", since {_clock(since)}" if since else ", since when is not known")


def _groups(groups: Mapping[str, Any] | None) -> str:
    if groups is None:
        return "unknown, or their offsets are not synced"
    return ", ".join(f"{amount(groups.get(name, 0))} {name}" for name in ("ready", "unsynced", "unknown")
                     if groups.get(name) or name == "ready")  # fmt: skip


def _age(text: Any, now_ms: int) -> str:
    ms = _ms(text)
    return "unknown" if ms is None else f"{duration(max(now_ms - ms, 0) / 1000)} ago"


def _clock(text: Any) -> str:
    ms = _ms(text)
    return "?" if ms is None else f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%SZ}"


def _ms(text: Any) -> int | None:
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except (TypeError, ValueError, OverflowError):
        return None
