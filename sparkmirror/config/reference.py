"""The page of all keys, made from the tables that the program itself reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from sparkmirror.config.client_keys import CLIENT_KEYS, SECURITY_KEYS
from sparkmirror.config.keys import (
    CONNECTOR_SECTIONS,
    DRIVER_KEYS,
    FLOW_KEYS,
    TASK_KEYS,
    WORKER_KEYS,
    WORKER_TOP_PREFIXES,
    Key,
    Scope,
)
from sparkmirror.config.reloading import taken

REGENERATE = "python -m sparkmirror.config > docs/configuration.md"

_HEAD = f"""# Configuration

Every key of MirrorMaker 2 (Apache Kafka 4.3.1) and what it does here. Generated from the program's own tables by
`{REGENERATE}`; do not edit it.

A key of MirrorMaker 2 works, is refused with the reason, or causes a warning with the reason; none is ignored silently.
`sparkmirror plan FILE` shows the warnings of a file without starting anything.

An unknown key that resembles a known one (`A->B.topic`, `bootstrap.server`) or was its name before Kafka 4
(`topics.blacklist`) is refused with its line, the right key and what would happen without it: MirrorMaker 2 ignores it, and
copies every topic. Other unknown keys cause a warning. With `--allow-unknown-keys` all of them do.

| where | written as | |
|---|---|---|
| top | `key` | for all flows or all clusters |
| cluster | `A.key` | for one cluster; takes precedence over top |
| target | `B.key` | for all flows into cluster B |
| flow | `A->B.key` | for one flow; takes precedence over top |
| role | `A.consumer.key`, `A->B.source.consumer.key` | for a client of one kind |

At top level MirrorMaker 2 ignores `producer.*`, `consumer.*`, `admin.*` and the keys marked *flow* below. Here that causes a
warning with the right place, one for all client keys. Types are Kafka's; a LIST is split at commas, so a pattern cannot
contain a comma; patterns have Java's syntax and must match the whole name. Intervals are in seconds; a negative value means
never.

*A change* says what a running flow makes of a changed key ([running.md](running.md#changing-the-file-while-it-runs)): `live`
is taken while everything else goes on, `reconnect` by new connections, `restart` when sparkmirror is restarted; `–` has no
effect. Transforms (`transforms`, `predicates`, `A->B.transform.…`) and keys of new clusters or flows need a restart.
"""
_EXACTLY_ONCE = """## Exactly once

Copying is always exactly once; `exactly.once.source.support` and `exactly.once.support` are accepted with any of their
values and have no effect. The ledger, a compacted topic on the target, records an attempt to write before its first byte,
and receipts for what it wrote. Every batch carries the producer id and epoch of the flow's owner, and brokers refuse those
of a previous owner. A new owner of a partition fences it, waits until the log has settled, compares its tail with the
source, and only then writes
([protocol.md](protocol.md)). Records of open and aborted transactions on the source are copied like others unless
`A.consumer.isolation.level` is `read_committed`.
"""
_CLIENTS_HEAD = """## Clients

`A.consumer.key` and `A->B.source.consumer.key` configure the client that reads records; the second takes precedence.
sparkmirror has its own clients, which need few of Kafka's settings. Those that work:
"""
_WHERE = {
    Scope.TOP: "top",
    Scope.CONNECTOR: "top, flow",
    Scope.FLOW: "flow",
    Scope.WORKER: "target",
    Scope.SECURITY: "top, cluster",
    Scope.CLIENT: "role",
    Scope.TASK: "nowhere",
}


def render() -> str:
    """The whole page."""
    parts = [_HEAD, _section("Clusters and process", DRIVER_KEYS)]
    for title, keys in CONNECTOR_SECTIONS.items():
        parts.append(_section(title, keys))
    parts.append(_section("One flow only", FLOW_KEYS))
    parts.append(_section("Positions and Connect workers", WORKER_KEYS))
    parts.append(_EXACTLY_ONCE)
    parts.append(_section("Security", _working(SECURITY_KEYS.values())) + _without_effect(SECURITY_KEYS.values()))
    parts.append(_CLIENTS_HEAD + _client_tables())
    parts.append("Keys that MirrorMaker 2 sets for its own tasks, not for users: " + _names(TASK_KEYS) + ".\n")
    return "\n".join(parts)


def _section(title: str, keys: Mapping[str, Key]) -> str:
    return f"## {title}\n\n{_table(keys.values())}"


def _table(keys: Iterable[Key]) -> str:
    rows = ["| key | type | default | meaning | where | a change | difference from MirrorMaker 2 |", "|---" * 7 + "|"]
    for key in keys:
        about = (_type(key), _default(key), _meaning(key), _where(key), taken(key).value)
        cells = (f"`{key.name}`", *about, "; ".join(_differences(key)))
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows) + "\n"


def _type(key: Key) -> str:
    low = "" if key.low is None else f" ≥ {key.low:g}"
    return key.kind.value + low + ("" if key.high is None else f", ≤ {key.high:g}")


def _default(key: Key) -> str:
    if key.required and key.scope is Scope.TOP:
        return "required"
    default = key.effective_default
    if default is None:
        return "–"
    return f"`{default.replace(',', ', ')}`" if default else "empty"


def _meaning(key: Key) -> str:
    return key.doc + (f"; {', '.join(f'`{choice}`' for choice in key.choices)}" if key.choices else "")


def _where(key: Key) -> str:
    also_top = key.scope is Scope.WORKER and key.name.startswith(WORKER_TOP_PREFIXES)
    return _WHERE[key.scope] + (", or top, which takes precedence" if also_top else "")


def _differences(key: Key) -> Iterator[str]:
    if key.ours:
        yield "**ours**: MirrorMaker 2 does not have it"
    if key.our_default is not None:
        yield f"Kafka's default is `{key.default}`"
    if key.differs:
        yield key.differs
    if _reason(key):
        yield f"**no effect**, a warning: {_reason(key)}"


def _reason(key: Key) -> str:
    return key.ignored or key.unused


def _working(keys: Iterable[Key]) -> Mapping[str, Key]:
    return {key.name: key for key in keys if not _reason(key)}


def _without_effect(keys: Iterable[Key]) -> str:
    reasons: dict[str, list[Key]] = {}
    for key in keys:
        if _reason(key):
            reasons.setdefault(_reason(key), []).append(key)
    lines = [f"- {reason}: {_names({key.name: key for key in found})}" for reason, found in reasons.items()]
    return "\nAccepted without effect, with a warning:\n\n" + "\n".join([*lines, ""])


def _client_tables() -> str:
    consumer = _working(CLIENT_KEYS["consumer"].values())
    found = ["\n" + _table(consumer.values())]
    for role, keys in CLIENT_KEYS.items():
        found.append(f"\n### {role.capitalize()}s\n{_without_effect(keys.values())}")
    return "".join(found)


def _names(keys: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in keys)
