"""Text to typed values by Kafka's own rules, and the sentence for a text that does not fit."""

from __future__ import annotations

import math
import re

from sparkmirror.config.keys import Key, Kind

Value = bool | int | float | str | tuple[str, ...]

SHOWN_CHARACTERS_MAX = 80
_DURATION = re.compile(r"P(?:(\d{1,6})D)?(?:T(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9}(?:\.\d{1,9})?)S)?)?\Z")
_WHOLE = re.compile(r"[+-]?[0-9]+\Z")
_LIMITS = {Kind.SHORT: 2**15, Kind.INT: 2**31, Kind.LONG: 2**63}
# More digits than any limit has; int() of a very long text is slow and refused by Python itself.
_DIGITS_MAX = 20
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[dDfF]?\Z")
# Kafka's own pattern for one address, with the protocol before it that it allows and drops.
_ADDRESS = re.compile(r"(?:[0-9a-zA-Z\-%._]*://)?\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]{1,5})\Z")
_JAVA_BLANKS = "".join(map(chr, range(0x21)))


class ValueRefused(Exception):
    """A text that is no value of its key; `expected` says what would be."""

    def __init__(self, expected: str) -> None:
        super().__init__(expected)
        self.expected = expected


def parse_value(key: Key, text: str) -> Value:
    """The value of `text`; raises `ValueRefused`."""
    trimmed = text.strip(_JAVA_BLANKS)
    if key.kind is Kind.BOOLEAN:
        return _boolean(trimmed)
    if key.kind in _LIMITS:
        return _whole(key, trimmed)
    if key.kind is Kind.DOUBLE:
        return _decimal(key, trimmed)
    if key.kind is Kind.LIST:
        return _list(key, split_list(text))
    _require_choice(key, trimmed)
    return trimmed


def split_list(text: str) -> tuple[str, ...]:
    """Kafka's LIST: split at commas, blanks around them dropped; an empty text is an empty list."""
    trimmed = text.strip(_JAVA_BLANKS)
    return tuple(re.split(r"\s*,\s*", trimmed)) if trimmed else ()


def is_exactly_true(text: str | None) -> bool:
    """How MirrorMaker 2 reads a switch when it decides which flows exist: blanks are not dropped."""
    return text is not None and text.lower() == "true"


def parse_servers(text: str) -> tuple[tuple[str, int], ...]:
    """Host and port of every address in a bootstrap.servers list; raises `ValueRefused`."""
    servers = []
    for item in split_list(text):
        match = _ADDRESS.match(item)
        if not match or not match[1] or not 0 < int(match[2]) < 65536:
            raise ValueRefused("host:port, separated by commas")
        servers.append((match[1], int(match[2])))
    if not servers:
        raise ValueRefused("at least one host:port")
    return tuple(servers)


def parse_reset(text: str) -> float | str:
    """`auto.offset.reset`: one of its words, or for `by_duration:PT1H` the seconds to look back; raises `ValueRefused`."""
    if text in ("earliest", "latest", "none"):
        return text
    match = _DURATION.match(text.removeprefix("by_duration:")) if text.startswith("by_duration:") else None
    if match is None or not any(match.groups()):
        raise ValueRefused("earliest, latest, none or by_duration: with an ISO 8601 duration such as PT1H or P2DT30M")
    days, hours, minutes, seconds = (float(group or 0) for group in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def shown(text: str) -> str:
    """`text` fit for a message: control characters escaped, long text cut."""
    cut = text if len(text) <= SHOWN_CHARACTERS_MAX else text[:SHOWN_CHARACTERS_MAX] + "…"
    return "`" + "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut) + "`"


def _list(key: Key, items: tuple[str, ...]) -> tuple[str, ...]:
    """Since 4.2 an empty item is refused and a repeated one dropped (KIP-1161)."""
    if "" in items:
        raise ValueRefused("an item on both sides of every comma")
    if key.choices and not items:
        raise ValueRefused("one or more of " + ", ".join(key.choices))
    for item in items:
        _require_choice(key, item)
    return tuple(dict.fromkeys(items))


def _boolean(trimmed: str) -> bool:
    lowered = trimmed.lower()
    if lowered not in ("true", "false"):
        raise ValueRefused("true or false")
    return lowered == "true"


def _whole(key: Key, trimmed: str) -> int:
    limit = _LIMITS[key.kind]
    low = -limit if key.low is None else int(key.low)
    high = limit - 1 if key.high is None else int(key.high)
    if _WHOLE.match(trimmed) and len(trimmed) <= _DIGITS_MAX and low <= int(trimmed) <= high:
        return int(trimmed)
    raise ValueRefused(f"a whole number from {low} to {high}")


def _decimal(key: Key, trimmed: str) -> float:
    number = float(trimmed.rstrip("dDfF")) if _DECIMAL.match(trimmed) else math.nan
    low = -math.inf if key.low is None else key.low
    high = math.inf if key.high is None else key.high
    if low <= number <= high:
        return number
    bounds = "" if key.low is None else f" from {key.low} to {key.high}"
    raise ValueRefused(f"a decimal number{bounds}")


def _require_choice(key: Key, trimmed: str) -> None:
    if not key.choices:
        return
    found = trimmed.lower() if key.any_case else trimmed
    known = {choice.lower() if key.any_case else choice for choice in key.choices}
    if found not in known:
        raise ValueRefused("one of " + ", ".join(key.choices))
