"""Durations as Java's `Duration.parse` reads them: PT1M, PT30S, PT0.5S, P1D; letters in either case. Pure."""

from __future__ import annotations

import re

_NUMBER = "([-+]?[0-9]+)"
_FORM = re.compile(
    rf"([-+]?)P(?:{_NUMBER}D)?(T(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}(?:[.,]([0-9]{{0,9}}))?S)?)?", re.IGNORECASE
)
_UNITS = (86_400, 3_600, 60, 1)


def parse_duration(text: str) -> float:
    """The duration in seconds; raises ValueError for a text that Java rejects."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not an ISO-8601 duration such as PT30S or PT1M")
    sign, days, time_part, hours, minutes, seconds, fraction = found.groups()
    parts = (days, hours, minutes, seconds)
    if all(part is None for part in parts) or (time_part is not None and time_part.upper() == "T"):
        raise ValueError(f"{text!r} is not an ISO-8601 duration: it has no time unit")
    total = float(sum(int(part) * unit for part, unit in zip(parts, _UNITS, strict=True) if part is not None))
    if fraction and seconds is not None:
        part = float(f"0.{fraction}")
        total += -part if seconds.startswith("-") else part
    return -total if sign == "-" else total
