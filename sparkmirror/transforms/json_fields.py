"""What Connect's transforms do to the fields of a JSON object, on its text: what is not concerned keeps its bytes.

The text of each function is that of a key or a value, None where there is none (a tombstone). What it returns, and which
nulls it accepts, is what Kafka 4.3.1 does with the map that a JsonConverter without schemas makes of the same text. Each
raises ValueError with what is wrong with the text, which follows on the word for it: "the value is no JSON …".
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from typing import Any

from sparkmirror.datasource.json_text import Member, members, whole

NULL = "null"
LONG_BITS = 64
# A larger one is no useful mask: Kafka turns it into 0 in a whole number, and into the text Infinity in another.
EXPONENT_MAX = 400
_TOMBSTONE = "is null; to leave such records alone, add a predicate RecordIsTombstone with negate = true"


def hoisted(text: str | None, field: str) -> str:
    """HoistField: the whole as the one field of a new object."""
    if text is not None:
        whole(text)
    return f"{{{_quoted(field)}:{NULL if text is None else text}}}"


def extracted(text: str | None, path: Sequence[str]) -> str | None:
    """ExtractField: what lies at the path; nothing where there is nothing, or null."""
    for at, step in enumerate(path):
        if text is None or _is_null(text):
            return None
        try:
            text = _last_values(text).get(step)
        except ValueError as error:
            if at == 0:
                raise
            raise ValueError(f"holds in field {path[at - 1]} what {error}") from error
    return None if text is None or _is_null(text) else text


def fields_masked(text: str | None, fields: Collection[str], replacement: str | None) -> str:
    """MaskField: each field by an empty value of its type, or by the replacement; a field that is missing becomes null."""
    if text is None:
        raise ValueError(_TOMBSTONE)
    mask = _emptied if replacement is None else _replacing(replacement)
    found = members(text)
    changes = [(m.value, m.end, mask(m.name, text[m.value : m.end])) for m in found if m.name in fields]
    present = {member.name for member in found}
    missing = [(field, NULL) for field in fields if field not in present]
    return _with_more(_changed(text, changes), missing)


def fields_replaced(
    text: str | None, exclude: Collection[str], include: Collection[str], renames: Mapping[str, str]
) -> str | None:
    """ReplaceField: fields left out and renamed. Of two that get the same name the later one stays."""
    if text is None or _is_null(text):
        return text
    found = members(text)
    wanted = [m for m in found if m.name not in exclude and (not include or m.name in include)]
    names = [renames.get(member.name, member.name) for member in wanted]
    if len(wanted) == len(found) and names == [member.name for member in found]:
        return text
    last = dict(zip(names, wanted, strict=True))
    return _of_members(text, found, [(name, m) for name, m in zip(names, wanted, strict=True) if last[name] is m])


def picked(text: str | None, fields: Sequence[str]) -> str:
    """ValueToKey: an object of these fields alone; null where one is missing."""
    if text is None:
        raise ValueError(_TOMBSTONE)
    values = _last_values(text)
    return "{" + ",".join(f"{_quoted(field)}:{values.get(field, NULL)}" for field in dict.fromkeys(fields)) + "}"


def inserted(text: str | None, values: Sequence[tuple[str, Any]]) -> str | None:
    """InsertField: these values under these names, in the place of what had the name, else at the end."""
    if text is None or _is_null(text):
        return text
    wanted = {name: json.dumps(value, ensure_ascii=False) for name, value in values}
    found = members(text)
    present = {member.name for member in found}
    changes = [(member.value, member.end, wanted[member.name]) for member in found if member.name in wanted]
    return _with_more(_changed(text, changes), [(name, new) for name, new in wanted.items() if name not in present])


def _quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def _is_null(text: str) -> bool:
    return text.strip(" \t\n\r") == NULL


def _last_values(text: str) -> dict[str, str]:
    """Of a name that is written twice the last one counts, as in Kafka."""
    return {member.name: text[member.value : member.end] for member in members(text)}


def _changed(text: str, changes: Sequence[tuple[int, int, str]]) -> str:
    parts: list[str] = []
    at = 0
    for start, end, new in changes:
        parts += (text[at:start], new)
        at = end
    return "".join((*parts, text[at:]))


def _with_more(text: str, more: Sequence[tuple[str, str]]) -> str:
    """An object with members at its end."""
    if not more:
        return text
    end = text.rindex("}")
    before = text[:end].rstrip(" \t\n\r")
    added = ",".join(f"{_quoted(name)}:{new}" for name, new in more)
    return before + ("" if before.endswith("{") and not members(text) else ",") + added + text[len(before) :]


def _of_members(text: str, found: Sequence[Member], kept: Sequence[tuple[str, Member]]) -> str:
    """The object with some of its members, under these names; each keeps the text between it and the next."""
    after = {one: text[one.end : other.start] for one, other in pairwise(found)}
    parts = [text[: found[0].start]]
    for at, (name, member) in enumerate(kept):
        same = name == member.name
        parts.append(text[member.start : member.end] if same else _quoted(name) + _between(text, member))
        if at + 1 < len(kept):
            parts.append(after[member])
    return "".join((*parts, text[found[-1].end :]))


def _between(text: str, member: Member) -> str:
    """The colon, the space around it, and the value."""
    colon = text.rindex(":", member.start, member.value)
    while colon > member.start and text[colon - 1] in " \t\n\r":
        colon -= 1
    return text[colon : member.end]


def _emptied(name: str, text: str) -> str:
    match whole(text):
        case None:
            return NULL
        case bool():
            return "false"
        case int():
            return "0"
        case float():
            return "0.0"
        case str():
            return '""'
        case list():
            return "[]"
        case _:
            return "{}"


def _replacing(replacement: str) -> Callable[[str, str], str]:
    def replace(name: str, text: str) -> str:
        match whole(text):
            case None:
                return NULL
            case str():
                return _quoted(replacement)
            case bool() | list() | dict():
                raise ValueError(f"holds in field {name} neither a number nor a string, which a replacement cannot mask")
            case int():
                return str(_as_long(_number(replacement, name)))
            case _:
                return _as_double(_number(replacement, name), name)

    return replace


def _number(replacement: str, name: str) -> Decimal:
    try:
        found = Decimal(replacement)
    except InvalidOperation:
        found = Decimal("nan")
    if not found.is_finite() or abs(found.adjusted()) > EXPONENT_MAX or "_" in replacement:
        raise ValueError(f"holds in field {name} a number, and the replacement is none")
    return found


def _as_long(number: Decimal) -> int:
    """Java's longValue: what is behind the point is cut off, and of the rest the lowest 64 bits count."""
    low = int(number) & ((1 << LONG_BITS) - 1)
    return low - (1 << LONG_BITS) if low >> (LONG_BITS - 1) else low


def _as_double(number: Decimal, name: str) -> str:
    found = float(number) + 0.0  # no -0.0: Java's BigDecimal has none
    if math.isinf(found):
        raise ValueError(f"holds in field {name} a number, and the replacement is too large for one")
    return repr(found)
