"""Sets of characters as sorted ranges of code points, and the named sets of Java's regular expressions."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import lru_cache

CharSet = tuple[tuple[int, int], ...]
_LAST = 0x10FFFF


def of(*ranges: tuple[str, str] | str) -> CharSet:
    """The set of the given ranges and of every character of the given strings."""
    pairs: list[tuple[int, int]] = []
    for item in ranges:
        if isinstance(item, tuple):
            pairs.append((ord(item[0]), ord(item[1])))
        else:
            pairs.extend((ord(character), ord(character)) for character in item)
    return united(pairs)


def united(pairs: Iterable[tuple[int, int]]) -> CharSet:
    """The sorted, disjoint ranges that hold what `pairs` hold."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(pairs):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return tuple(merged)


def union(one: CharSet, other: CharSet) -> CharSet:
    """What is in either."""
    return united((*one, *other))


def negated(chars: CharSet) -> CharSet:
    """What is not in `chars`."""
    pairs, start = [], 0
    for low, high in chars:
        if low > start:
            pairs.append((start, low - 1))
        start = high + 1
    if start <= _LAST:
        pairs.append((start, _LAST))
    return tuple(pairs)


def both(one: CharSet, other: CharSet) -> CharSet:
    """What is in both."""
    return negated(union(negated(one), negated(other)))


def without_case(chars: CharSet) -> CharSet:
    """`chars` with the other case of every ASCII letter, which is what Java's (?i) means."""
    lower = both(chars, of(("a", "z")))
    upper = both(chars, of(("A", "Z")))
    swapped = [(low - 32, high - 32) for low, high in lower] + [(low + 32, high + 32) for low, high in upper]
    return united((*chars, *swapped))


ANY: CharSet = ((0, _LAST),)
LINE_ENDS = of("\n\r\u0085\u2028\u2029")
_DIGIT = of(("0", "9"))
_WORD = of(("a", "z"), ("A", "Z"), ("0", "9"), "_")
_SPACE = of(" \t\n\x0b\f\r")
_HORIZONTAL = of(" \t\xa0\u1680\u180e", ("\u2000", "\u200a"), "\u202f\u205f\u3000")
_VERTICAL = of("\n\x0b\f\r\x85\u2028\u2029")

ESCAPED: dict[str, CharSet] = {
    "d": _DIGIT, "D": negated(_DIGIT), "w": _WORD, "W": negated(_WORD), "s": _SPACE, "S": negated(_SPACE),
    "h": _HORIZONTAL, "H": negated(_HORIZONTAL), "v": _VERTICAL, "V": negated(_VERTICAL),
}  # fmt: skip

POSIX: dict[str, CharSet] = {
    "Lower": of(("a", "z")),
    "Upper": of(("A", "Z")),
    "ASCII": of(("\0", "\x7f")),
    "Alpha": of(("a", "z"), ("A", "Z")),
    "Digit": _DIGIT,
    "Alnum": of(("a", "z"), ("A", "Z"), ("0", "9")),
    "Punct": of(("!", "/"), (":", "@"), ("[", "`"), ("{", "~")),
    "Graph": of(("!", "~")),
    "Print": of((" ", "~")),
    "Blank": of(" \t"),
    "Cntrl": of(("\0", "\x1f"), "\x7f"),
    "XDigit": of(("0", "9"), ("a", "f"), ("A", "F")),
    "Space": _SPACE,
}

# Unicode categories by which Java and Python mean the same, but for characters newer than the older of the two.
CATEGORIES = frozenset({
    "L", "Lu", "Ll", "Lt", "Lm", "Lo", "M", "Mn", "Mc", "Me", "N", "Nd", "Nl", "No", "P", "Pd", "Ps", "Pe", "Pc",
    "Po", "Pi", "Pf", "S", "Sm", "Sc", "Sk", "So", "Z", "Zs", "Zl", "Zp",
})  # fmt: skip


def category(name: str) -> CharSet:
    """All characters whose general category is `name` or begins with it."""
    return united(pair for found, pairs in _categories().items() if found.startswith(name) for pair in pairs)


@lru_cache(maxsize=1)
def _categories() -> dict[str, list[tuple[int, int]]]:
    """Every two-letter category with its ranges; one pass over all characters, only when a pattern asks."""
    found: dict[str, list[tuple[int, int]]] = {}
    for point in range(_LAST + 1):
        pairs = found.setdefault(unicodedata.category(chr(point)), [])
        if pairs and pairs[-1][1] == point - 1:
            pairs[-1] = (pairs[-1][0], point)
        else:
            pairs.append((point, point))
    return found
