"""Where a key stands, whether it means something there, and if not, where it should stand.

MirrorMaker 2 drops a key in the wrong place in silence; here every such key is a warning with the right place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sparkmirror.config.client_keys import CLIENT_KEYS, ROLES, SECURITY_KEYS
from sparkmirror.config.keys import (
    CONNECTOR_KEYS,
    DRIVER_KEYS,
    FLOW_KEYS,
    TASK_KEYS,
    WORKER_KEYS,
    WORKER_TOP_PREFIXES,
    Key,
)
from sparkmirror.config.nearest import similar
from sparkmirror.config.parsing import shown
from sparkmirror.config.properties import Entry
from sparkmirror.model import FlowName

UNKNOWN_KEY = "has no effect: unknown key"

_CONVERTERS = ("key.converter", "value.converter", "header.converter")
_STEPS = ("transforms.", "predicates.")
_CONNECT_FAMILIES = (*_STEPS, "topic.creation.")
_NEVER_THERE = "has no effect, MirrorMaker 2 writes it for its own tasks"
# Where MirrorMaker 2 reads the keys of a client, of which it drops all at top level.
CLIENT_PLACES = {
    "consumer": "`<source>.consumer.…` or `<source>-><target>.source.consumer.…`",
    "producer": "`<target>.producer.…` or `<source>-><target>.producer.override.…`",
    "admin": "`<cluster>.admin.…` or `<source>-><target>.admin.…`",
}
_ONE_LOGIN = "is not used: all clients of a cluster log in alike"

METRIC_LABELS = "metrics.labels."  # and the name of a label that every figure has


@dataclass(frozen=True, slots=True)
class Place:
    """A written key: its definition if known, what is odd (`warning`) or wrong (`problem`) about where it stands.

    `right_place` is set for a client key at top level, where MirrorMaker 2 drops all of them: one warning names them all.
    """

    level: str
    name: str
    key: Key | None = None
    flow: FlowName | None = None
    alias: str | None = None
    warning: str = ""
    problem: str = ""
    right_place: str = ""

    @property
    def counts(self) -> bool:
        """Whether the value has an effect and must therefore be valid."""
        return self.key is not None and not self.warning.startswith("has no effect")


def place_of(written: str, clusters: tuple[str, ...]) -> Place:
    """The place of one key of the file."""
    if "->" in written:
        return _flow_place(written, clusters)
    if written.startswith("transform."):  # without an effect, records would cross a border as they are
        return Place("top", written, problem=f"a transform belongs to a flow; write `A->B.{written}`")
    if written in DRIVER_KEYS or written in CONNECTOR_KEYS or written in SECURITY_KEYS:
        return _top_place(written, clusters)
    owners = [alias for alias in clusters if written.startswith(alias + ".")]
    if owners:
        alias = max(owners, key=len)
        return _cluster_place(alias, written[len(alias) + 1 :])
    return _top_place(written, clusters)


def _flow_place(written: str, clusters: tuple[str, ...]) -> Place:
    flows = [FlowName(s, t) for s in clusters for t in clusters if written.startswith(f"{s}->{t}.")]
    if not flows:
        return Place("flow", written, problem=_unknown_flow(written, clusters))
    flow = max(flows, key=lambda found: len(str(found)))
    if flow.source == flow.target:
        return Place("flow", written, problem=f"expected two different clusters, found {flow.source} twice")
    name = written[len(str(flow)) + 1 :]
    if name.startswith("transform."):
        return Place("transform", name, flow=flow)
    key, warning = _flow_key(name, flow)
    return Place("flow", name, key, flow=flow, warning=warning)


def _unknown_flow(written: str, clusters: tuple[str, ...]) -> str:
    source, _, rest = written.partition("->")
    if source not in clusters:
        return f"no cluster is called {shown(source)}{_nearest(source, clusters)}"
    if rest in clusters:
        return f"expected a key after the flow, such as {source}->{rest}.enabled"
    target = rest.partition(".")[0]
    return f"no cluster is called {shown(target)}{_nearest(target, clusters)}"


def _flow_key(name: str, flow: FlowName) -> tuple[Key | None, str]:
    if name in TASK_KEYS:
        return TASK_KEYS[name], _NEVER_THERE
    known = CONNECTOR_KEYS.get(name) or FLOW_KEYS.get(name)
    if known is not None:
        return known, _ignored(known)
    if name in SECURITY_KEYS:
        return SECURITY_KEYS[name], f"has no effect on a flow; write `{flow.source}.{name}` or `{flow.target}.{name}`"
    if name in WORKER_KEYS:
        return WORKER_KEYS[name], f"has no effect on a flow; write `{flow.target}.{name}`"
    client = _flow_client_key(name, flow)
    if client is not None:
        return client
    if name.startswith(_STEPS):  # judged together, where the flow is read
        return None, ""
    if name.startswith((*_CONNECT_FAMILIES, "config.providers.")):
        return None, "has no effect here"
    return None, UNKNOWN_KEY


def _flow_client_key(name: str, flow: FlowName) -> tuple[Key | None, str] | None:
    """A client key on a flow: behind an optional side, a role, and an optional `override.`."""
    side, _, rest = name.partition(".")
    if side not in ("source", "target"):
        side, rest = "", name
    if side and rest.startswith("cluster."):
        tail = rest.removeprefix("cluster.")
        return SECURITY_KEYS.get(tail), _login_warning(tail, flow, side) or UNKNOWN_KEY
    role, _, tail = rest.partition(".")
    if role not in ROLES or not tail:
        return None
    override = not side and tail.startswith("override.")
    key, warning = _client_key(role, tail.removeprefix("override.") if override else tail)
    warning = warning or _login_warning(tail.removeprefix("override."), flow, side)
    if override and role != "producer":
        return key, f"has no effect; write `{flow}.{role}.{tail.removeprefix('override.')}`"
    if role == "producer" and not override and not warning:
        better = f"`{flow.target}.producer.{tail}` or `{flow}.producer.override.{tail}`"
        warning = f"reaches only the producer of offset syncs; for the copied records write {better}"
    return key, warning


def _login_warning(name: str, flow: FlowName, side: str) -> str:
    """A security key for one client of a flow: all clients of a cluster log in alike here."""
    if name not in SECURITY_KEYS:
        return ""
    aliases = {"source": [flow.source], "target": [flow.target]}.get(side, [flow.source, flow.target])
    return f"{_ONE_LOGIN}; write " + " or ".join(f"`{alias}.{name}`" for alias in aliases)


def _cluster_place(alias: str, name: str) -> Place:
    role, _, tail = name.partition(".")
    key: Key | None
    if name in SECURITY_KEYS:
        key, warning = SECURITY_KEYS[name], _ignored(SECURITY_KEYS[name])
    elif role in ROLES and tail:
        key, warning = _client_key(role, tail)
        if tail in SECURITY_KEYS:
            warning = warning or f"{_ONE_LOGIN}; write `{alias}.{tail}`"
    elif name in WORKER_KEYS:
        key, warning = WORKER_KEYS[name], _ignored(WORKER_KEYS[name])
        if name == "group.id":
            warning = (
                "has no effect: there is no Connect group here (in MirrorMaker 2 it puts all flows into this cluster into "
                "one Connect group)"
            )
    elif name in _CONVERTERS:
        key, warning = CONNECTOR_KEYS[name], ""
    elif name in CONNECTOR_KEYS or name in FLOW_KEYS:
        found = CONNECTOR_KEYS.get(name) or FLOW_KEYS[name]
        top = f"`{name}` or " if name in CONNECTOR_KEYS else ""
        key, warning = found, f"has no effect on a cluster; write {top}`{alias}->….{name}`"
    else:
        key, warning = None, _other_cluster_key(alias, name)
    return Place("cluster", name, key, alias=alias, warning=warning)


def _other_cluster_key(alias: str, name: str) -> str:
    if name.startswith(_CONVERTERS):
        return "has no effect: records are copied byte for byte"
    roles = [role for role in ROLES if name in CLIENT_KEYS[role]]
    if roles:
        return "has no effect without a role; write " + " or ".join(f"`{alias}.{role}.{name}`" for role in roles)
    return UNKNOWN_KEY


def _top_place(name: str, clusters: tuple[str, ...]) -> Place:
    known = DRIVER_KEYS.get(name) or CONNECTOR_KEYS.get(name) or SECURITY_KEYS.get(name)
    if known is not None:
        return Place("top", name, known, warning=_ignored(known))
    if name in WORKER_KEYS and name.startswith(WORKER_TOP_PREFIXES):
        return Place("top", name, WORKER_KEYS[name], warning=_ignored(WORKER_KEYS[name]))
    if name.startswith(("config.providers.", METRIC_LABELS)):
        return Place("top", name)
    role, _, tail = name.partition(".")
    if role in ROLES and tail:
        return Place("top", name, right_place=CLIENT_PLACES[role])
    key, warning = _dropped_at_top(name)
    return Place("top", name, key, warning=warning or _unknown_at_top(name, clusters))


def client_keys_warning(entries: Mapping[str, Entry], misplaced: Mapping[str, Place]) -> str:
    """One sentence about all client keys at top level: where they belong, and which have no effect there either."""
    lines = ", ".join(str(entries[written].line) for written in misplaced)
    names = ", ".join(shown(written)[1:-1] for written in misplaced)
    places = dict.fromkeys(place.right_place for place in misplaced.values())
    idle: dict[str, list[str]] = {}
    for written in misplaced:
        idle.setdefault(_why_idle(written), []).append(shown(written)[1:-1])
    idle.pop("", None)
    there = "".join(f"; no effect there either, here: {', '.join(keys)} ({reason})" for reason, keys in idle.items())
    return (
        f"line{'s' if len(misplaced) > 1 else ''} {lines}: {names}: client keys have no effect at top level, in "
        f"MirrorMaker 2 neither; write {', '.join(places)}{there}"
    )


def _why_idle(written: str) -> str:
    role, _, name = written.partition(".")
    known = CLIENT_KEYS[role].get(name.removeprefix("override."))
    return "" if known is None else known.ignored or known.unused


def _dropped_at_top(name: str) -> tuple[Key | None, str]:
    """A key that MirrorMaker 2 reads elsewhere and drops at top level."""
    nowhere = "has no effect at top level; write"
    if name in WORKER_KEYS:
        return WORKER_KEYS[name], f"{nowhere} `<target>.{name}`"
    if name in FLOW_KEYS:
        return FLOW_KEYS[name], f"{nowhere} `<source>-><target>.{name}`"
    if name in TASK_KEYS:
        return TASK_KEYS[name], _NEVER_THERE
    if name.startswith(_CONNECT_FAMILIES) or ".override." in name:
        return None, f"{nowhere} `<source>-><target>.{name}`"
    if name.startswith(_CONVERTERS):
        return None, "has no effect: records are copied byte for byte"
    return None, ""


def _unknown_at_top(name: str, clusters: tuple[str, ...]) -> str:
    alias, _, tail = name.partition(".")
    if tail in SECURITY_KEYS or tail in WORKER_KEYS or tail.startswith(tuple(role + "." for role in ROLES)):
        return f"has no effect: no cluster is called {shown(alias)}{_nearest(alias, clusters)}"
    return UNKNOWN_KEY


def _client_key(role: str, name: str) -> tuple[Key | None, str]:
    known = SECURITY_KEYS.get(name) or CLIENT_KEYS[role].get(name)
    if known is None:
        return None, UNKNOWN_KEY
    return known, _ignored(known)


def _ignored(key: Key) -> str:
    return f"has no effect: {key.ignored}" if key.ignored else ""


def _nearest(alias: str, clusters: Iterable[str]) -> str:
    found = similar(alias, clusters)
    return f"; nearest known: `{found}`" if found else ""
