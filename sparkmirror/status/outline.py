"""A flow in the fields that programs and terminals show: `/flows` and `sparkmirror status` have the same. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

from sparkmirror.config import KeyChange
from sparkmirror.status.flow_status import FlowStatus
from sparkmirror.status.health import counted_states, flow_state, stopped_partitions, troubles
from sparkmirror.status.lag import flow_lag
from sparkmirror.status.reloads import ReloadResult
from sparkmirror.status.wishes import flow_reason, wish_fields

SCHEMA = 1  # fields may be added under the same number
TROUBLES_MAX = 50  # in the list of flows; a flow's own page has all


def health_fields(flow: FlowStatus) -> dict[str, object]:
    """The state in one word, and why."""
    return {"flow": str(flow.name), "state": flow_state(flow), "reason": flow_reason(flow)}


def lag_fields(flow: FlowStatus) -> dict[str, object]:
    """The lag is null unless it is known of every partition now; then `lag_known` is what is, or was at `lag_as_of`."""
    lag = flow_lag(flow)
    return {
        "stopped_partitions": stopped_partitions(flow),
        "lag": lag.records,
        "lag_seconds": lag.seconds,
        "lag_known": lag.known,
        "lag_seconds_known": None if lag.oldest_ms is None else lag.oldest_ms / 1000,
        "lag_unknown_partitions": lag.unknown,
        "lag_as_of": time_text(lag.as_of_ms),
        "lag_is_current": lag.is_current,
    }


def outline(flow: FlowStatus) -> dict[str, object]:
    """Everything about the flow as a whole, with the partitions that are not copied, worst first."""
    found = troubles(flow)
    return health_fields(flow) | lag_fields(flow) | {
        "as_of": time_text(flow.taken_ms or -1),
        "owner": flow.owner or None,
        "owned_since": time_text(flow.owned_since_ms),
        "records": flow.records,
        "bytes": flow.record_bytes,
        "gaps": flow.gaps,
        "slots": flow.slots,
        "slots_started": flow.slots_started,
        "partitions": dict(counted_states(flow)),
        "groups": None if flow.groups is None else flow.groups._asdict(),
        "heartbeat": time_text(flow.heartbeat_ms),
        "wishes": [wish_fields(wish, flow.file_words) for wish in flow.wishes],
        "chores": {chore: trouble for chore, trouble in flow.chores.items() if trouble},
        "settings": _settings_fields(flow.settings),
        "troubles": [{"what": t.what, "state": t.state, "code": t.code, "reason": t.reason, "lag": t.lag}
                     for t in found[:TROUBLES_MAX]],
        "troubles_left_out": max(len(found) - TROUBLES_MAX, 0),
    }  # fmt: skip


def _settings_fields(found: ReloadResult) -> dict[str, object]:
    """Whether the flow runs with what its file says; values of secret keys are hidden in it."""
    return {
        "applied_at": time_text(found.applied_ms),
        "changed_at": time_text(found.changed_ms),
        "error": found.error,
        "trouble": found.trouble,
        "taken": [_change_fields(change) for change in found.taken],
        "refused": [_change_fields(change) | {"reason": change.reason} for change in found.refused],
    }


def _change_fields(change: KeyChange) -> dict[str, str]:
    return {"key": change.key, "old": change.old, "new": change.new}


def time_text(ms: int) -> str | None:
    """A time in ISO 8601, UTC; None for −1."""
    if ms < 0:
        return None
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
