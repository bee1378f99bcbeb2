"""Maps and numbers as Java shows them: the order of a `HashMap`, and what `toString` makes of a value.

The order is part of MM2's keys, which Connect writes from a HashMap, and both are part of what it says of a wrong one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal

BUCKETS_MIN = 16
MASK = 0xFFFFFFFF
# Double.toString writes 1.0E7 from here on, and 9.99E-4 below this.
PLAIN_FROM, PLAIN_BELOW = Decimal("1e-3"), Decimal("1e7")


def java_order(names: Iterable[str]) -> list[str]:
    """The names as a HashMap goes through them: by bucket, and in a bucket as they came."""
    found = list(dict.fromkeys(names))
    buckets = BUCKETS_MIN
    while len(found) * 4 > buckets * 3:  # grown when three quarters full
        buckets *= 2
    return sorted(found, key=lambda name: _spread(_hash(name)) & buckets - 1)


def java_text(value: object) -> str:
    """What `String.valueOf` says of a JSON value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _double(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}={java_text(value[name])}" for name in java_order(value)) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(java_text(item) for item in value) + "]"
    return str(value)


def _hash(text: str) -> int:
    units = text.encode("utf-16-be", "surrogatepass")
    found = 0
    for at in range(0, len(units), 2):
        found = 31 * found + int.from_bytes(units[at : at + 2], "big") & MASK
    return found


def _spread(found: int) -> int:
    return found ^ found >> 16


def _double(value: float) -> str:
    if value != value or value in (float("inf"), float("-inf")):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)
    minus = "-" if sign else ""
    if value == 0 or PLAIN_FROM <= abs(Decimal(repr(value))) < PLAIN_BELOW:
        plain = f"{abs(Decimal(repr(value))):f}"
        return minus + (plain if "." in plain else f"{plain}.0")
    text = "".join(map(str, digits)).rstrip("0")
    return f"{minus}{text[0]}.{text[1:] or '0'}E{exponent + len(digits) - 1}"
