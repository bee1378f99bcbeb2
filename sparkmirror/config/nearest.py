"""The known key that an unknown key resembles: a typing mistake must not be taken for a key without effect."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from types import MappingProxyType

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

# How many letters may be wrong, missing or too many: none in very short names, up to three in long ones.
EDITS_MAX, LETTERS_PER_EDIT, SHORT = 3, 6, 4
# Names that MirrorMaker 2 had before Kafka 4.0, and names by which other programs call the same.
RENAMED = MappingProxyType({
    "topics.blacklist": "topics.exclude", "groups.blacklist": "groups.exclude",
    "config.properties.blacklist": "config.properties.exclude", "topics.whitelist": "topics", "groups.whitelist": "groups",
    "topics.include": "topics", "groups.include": "groups",
})  # fmt: skip
# An unknown key of these families was meant to choose what is copied, and without it everything is.
_CHOOSING = ("topics.", "groups.")
_TOP_WORKER_KEYS = tuple(name for name in WORKER_KEYS if name.startswith(WORKER_TOP_PREFIXES))
_AT_TOP = (*DRIVER_KEYS, *CONNECTOR_KEYS, *SECURITY_KEYS, *_TOP_WORKER_KEYS)
_ON_CLUSTER = (*SECURITY_KEYS, *WORKER_KEYS)
_ON_FLOW = (*CONNECTOR_KEYS, *FLOW_KEYS)
KNOWN = frozenset({*_AT_TOP, *_ON_CLUSTER, *_ON_FLOW, *TASK_KEYS}.union(*CLIENT_KEYS.values()))


def key_named(name: str) -> Key | None:
    """The key of a known name, which may stand behind the role of a client."""
    for role in ROLES:
        _, found, tail = name.rpartition(role + ".")
        if found and name not in CONNECTOR_KEYS:
            return CLIENT_KEYS[role].get(tail.removeprefix("override.")) or SECURITY_KEYS.get(tail)
    tables = (CONNECTOR_KEYS, FLOW_KEYS, WORKER_KEYS, SECURITY_KEYS, DRIVER_KEYS)
    return next((table[name] for table in tables if name in table), None)


def similar(name: str, known: Iterable[str]) -> str:
    """The name of `known` that is `name` but for a few letters, or nothing."""
    allowed = 0 if len(name) < SHORT else min(EDITS_MAX, max(1, len(name) // LETTERS_PER_EDIT))
    best, fewest, letters = "", allowed + 1, _letters(name)
    for other in known:
        # Most names are told apart by a letter that only one of them has: a hostile file may hold 10,000 unknown keys.
        theirs = _letters(other)
        apart = max(abs(len(other) - len(name)), (letters & ~theirs).bit_count(), (theirs & ~letters).bit_count())
        if apart < fewest:
            edits = _edits(name.lower(), other.lower(), fewest)
            if edits < fewest:
                best, fewest = other, edits
    return best


@functools.lru_cache(maxsize=1024)
def _letters(name: str) -> int:
    """One bit for each letter that occurs in `name`."""
    return functools.reduce(lambda bits, letter: bits | 1 << (ord(letter) & 127), name.lower(), 0)


def _edits(one: str, other: str, enough: int) -> int:
    """The Levenshtein distance, or `enough` if it is not smaller."""
    above = list(range(len(other) + 1))
    for row, letter in enumerate(one, 1):
        # Only cells near the diagonal can hold fewer than `enough`.
        low, high = max(1, row - enough), min(len(other), row + enough)
        line = [enough] * (len(other) + 1)
        line[0] = row
        for at in range(low, high + 1):
            line[at] = min(above[at] + 1, line[at - 1] + 1, above[at - 1] + (letter != other[at - 1]))
        if min(line[max(low - 1, 0) : high + 1]) >= enough:
            return enough
        above = line
    return min(above[-1], enough)


def nearest_key(level: str, name: str, *, has_own_keys: bool = False) -> str:
    """The known key of this level (`top`, `cluster`, `flow`) that an unknown one resembles, or nothing.

    `has_own_keys`: a class of the user's may read keys of any name, so only those that resemble one letter by letter count.
    """
    if level == "top" and _is_of_another_cluster(name):
        return ""
    for head, tail, known in _candidates(level, name):
        if tail in KNOWN:
            return ""
        found = similar(tail, known)
        renamed = RENAMED.get(tail, "")
        if renamed in known:
            return head + renamed
        if found:
            return head + found
    if level != "cluster" and name.startswith(_CHOOSING) and not has_own_keys:
        return name.partition(".")[0]
    return ""


def _candidates(level: str, name: str) -> Iterator[tuple[str, str, Iterable[str]]]:
    """(what stands before it, the rest, the keys that may stand there) for each way to read a name."""
    head, rest = "", name
    if level == "flow" and name.startswith(("source.", "target.")):
        side, _, rest = name.partition(".")
        head = side + "."
        if rest.startswith("cluster."):
            yield head + "cluster.", rest.removeprefix("cluster."), SECURITY_KEYS
            return
    role, _, tail = rest.partition(".")
    if role in ROLES and tail and level != "top":  # at top level they are dropped, however they are spelled
        override = "override." if tail.startswith("override.") else ""
        yield f"{head}{role}.{override}", tail.removeprefix(override), (*CLIENT_KEYS[role], *SECURITY_KEYS)
    if not head:
        yield "", name, {"top": _AT_TOP, "cluster": _ON_CLUSTER, "flow": _ON_FLOW}[level]


def _is_of_another_cluster(name: str) -> bool:
    """Whether a known key of a cluster ends `name`: the cluster, whose alias may have dots, is not in `clusters`."""
    parts = name.split(".")
    rests = (".".join(parts[at:]) for at in range(1, len(parts)))
    return any(rest in SECURITY_KEYS or rest in WORKER_KEYS for rest in rests)
