"""What becomes of a key that changes while the flows run: the one place that says so for every key. Pure.

| a change is …      | which means                                                                       |
|--------------------|-----------------------------------------------------------------------------------|
| `live`             | taken while everything else goes on                                               |
| `reconnect`        | taken by new connections, once a login with the new settings has succeeded         |
| `restart`          | not taken: the former value stays in force until sparkmirror is restarted         |
| `–`                | the key has no effect                                                             |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from sparkmirror.config.client_keys import CLIENT_KEYS, SECURITY_KEYS
from sparkmirror.config.keys import Key, Scope
from sparkmirror.config.layers import may_be_secret
from sparkmirror.config.placement import METRIC_LABELS, Place, place_of
from sparkmirror.config.secrets import HIDDEN
from sparkmirror.config.settings import settings_of
from sparkmirror.config.values import Settings


class ReloadKind(Enum):
    """How a running flow takes a change of a key."""

    LIVE = "live"
    RECONNECT = "reconnect"
    RESTART = "restart"
    NO_EFFECT = "–"


FLOWS = "restart sparkmirror to start or end a flow"
NAMES = "it names what is on the target: another value would be another copy; restart sparkmirror to take it"
POSITIONS = "positions are kept there; restart sparkmirror to take it"
SLOTS = "the number of Spark's tasks is decided when Spark starts; restart sparkmirror to take it"
READING = "it decides which records every open partition reads; restart sparkmirror to take it"
MEMBER = "the flow joins the group when it starts; restart sparkmirror to take it"
LABELS = "figures have their labels from the start on; restart sparkmirror to take it"
TRANSFORMS = "the transform query is planned when the flow starts; restart sparkmirror to take it"

_RESTART: Mapping[str, str] = {
    "clusters": FLOWS,
    "enabled": FLOWS,
    "source.cluster.alias": NAMES,
    "target.cluster.alias": NAMES,
    "replication.policy.class": NAMES,
    "replication.policy.separator": NAMES,
    "replication.policy.internal.topic.separator.enabled": NAMES,
    "offset-syncs.topic.location": POSITIONS,
    "offset.storage.topic": POSITIONS,
    "offset.storage.partitions": POSITIONS,
    "offset.storage.replication.factor": POSITIONS,
    "tasks.max": SLOTS,
    "isolation.level": READING,
    "lag.group.enabled": MEMBER,
    "transforms": TRANSFORMS,
    "predicates": TRANSFORMS,
    "header.converter": TRANSFORMS,
}
_LIVE = frozenset({
    "auto.offset.reset", "checkpoints.topic.replication.factor", "config.properties.exclude", "config.property.filter.class",
    "config.providers", "emit.checkpoints.enabled", "emit.checkpoints.interval.seconds", "emit.heartbeats.enabled",
    "emit.heartbeats.interval.seconds", "emit.offset-syncs.enabled", "errors.deadletterqueue.topic.name",
    "errors.tolerance", "exactly.once.source.support", "exactly.once.support", "fetch.max.bytes", "fetch.max.wait.ms",
    "fetch.min.bytes", "forwarding.admin.class", "group.filter.class", "groups", "groups.exclude",
    "heartbeats.replication.enabled", "heartbeats.topic.replication.factor", "key.converter",
    "max.partition.fetch.bytes", "offset-syncs.topic.replication.factor", "offset.lag.max", "on.positions.removed",
    "on.source.gap", "on.source.gap.skip.topics", "refresh.groups.enabled", "refresh.groups.interval.seconds",
    "refresh.topics.enabled", "refresh.topics.interval.seconds", "replication.factor", "replication.loops.allowed",
    "sync.group.offsets.enabled", "sync.group.offsets.interval.seconds", "sync.group.offsets.rewind",
    "sync.topic.acls.enabled", "sync.topic.acls.interval.seconds", "sync.topic.configs.enabled",
    "sync.topic.configs.interval.seconds", "topic.filter.class", "topics", "topics.exclude", "use.defaults.from",
    "value.converter",
})  # fmt: skip
# Keys of Connect's workers that have no effect as such, but by which a MirrorMaker 2 that runs the flow is found.
_FOUND_BY = frozenset({"config.storage.topic", "group.id"})
_STEPS = ("transform.", "transforms.", "predicates.")
_POLICY = "replication.policy."


def taken(key: Key) -> ReloadKind:
    """How a change of a known key is taken. Raises `LookupError` for one that nobody classified."""
    if key.name in _RESTART:
        return ReloadKind.RESTART
    if key.scope is Scope.SECURITY:
        return ReloadKind.NO_EFFECT if key.ignored or key.unused else ReloadKind.RECONNECT
    if key.name in _LIVE or key.name in _FOUND_BY:
        return ReloadKind.LIVE
    if key.ignored or key.unused or key.scope is Scope.TASK:
        return ReloadKind.NO_EFFECT
    raise LookupError(f"{key.name} is in none of the sets of {__name__}")


@dataclass(frozen=True, slots=True)
class KeyChange:
    """A key of the file that says something else now, as people may see it; `reason` is empty if it was taken."""

    key: str
    old: str
    new: str
    reason: str = ""

    def __str__(self) -> str:
        words = f"{self.key}: {self.old} → {self.new}"
        return f"{words} ({self.reason})" if self.reason else words


@dataclass(frozen=True, slots=True)
class Merged:
    """What flows are to run with after their file changed, which keys that changes, and which it leaves as they were."""

    settings: Settings
    changed: tuple[KeyChange, ...] = ()
    refused: tuple[KeyChange, ...] = ()


def merge(now: Settings, new: Settings) -> Merged:
    """The new file with the present values of all keys that cannot be taken. Raises `ConfigError` if these do not fit."""
    keys = dict.fromkeys((*new.written, *now.written))
    changes = [_change(now, new, key) for key in keys if _differs(now, new, key)]
    refused = tuple(change for change in changes if change.reason)
    changed = tuple(change for change in changes if not change.reason)
    if not refused:
        return Merged(new, changed)
    texts = dict(new.written)
    for change in refused:
        texts.pop(change.key, None)
        if change.key in now.written:
            is_same_text = new.written.get(change.key) == now.written[change.key]
            # What a provider says now is another value, too.
            texts[change.key] = now.resolved[change.key] if is_same_text else now.written[change.key]
    return Merged(settings_of(texts, new.path), changed, refused)


def _differs(now: Settings, new: Settings, key: str) -> bool:
    return now.resolved.get(key) != new.resolved.get(key)


def _change(now: Settings, new: Settings, key: str) -> KeyChange:
    return KeyChange(key, _shown(now, key), _shown(new, key), _refusal(key, now.clusters, new.clusters))


def _shown(settings: Settings, key: str) -> str:
    if key not in settings.written:
        return "(not written)"
    return HIDDEN if may_be_secret(key) else settings.written[key].strip() or "(empty)"


def _refusal(written: str, now: tuple[str, ...], new: tuple[str, ...]) -> str:
    """Why a change of this key is not taken; empty if it is."""
    place = place_of(written, tuple(dict.fromkeys((*now, *new))))
    known = {alias for alias in now if alias in new}
    named = {place.alias} if place.alias else {place.flow.source, place.flow.target} if place.flow else set()
    if not named <= known:
        return FLOWS
    if place.name.startswith(_STEPS):
        return TRANSFORMS
    if place.name.startswith(_POLICY):
        return NAMES
    if place.name.startswith(METRIC_LABELS):
        return LABELS
    key = _key(place)
    return _RESTART.get(key.name, "") if key is not None and place.counts else ""


def _key(place: Place) -> Key | None:
    if place.key is not None and place.key.name in SECURITY_KEYS:
        return place.key
    role, _, name = place.name.removeprefix("source.").removeprefix("target.").partition(".")
    name = name.removeprefix("override.")
    return CLIENT_KEYS[role].get(name, place.key) if role in CLIENT_KEYS else place.key
