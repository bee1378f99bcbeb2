"""Two records that should be one: which of their fields differ, and what became of neighbours that do not fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

from sparkmirror.comparison.values import Difference, DifferenceKind, Findings
from sparkmirror.wire import Headers
from sparkmirror.wire.tails import read_tail

ANY_TIME = None  # in the place of a timestamp that the target's broker set itself


class Cell(NamedTuple):
    """One record of one side; a timestamp of None is not compared."""

    offset: int
    timestamp: int | None
    tail: bytes


class PlacePair(NamedTuple):
    """What lies in one place; None where a side has nothing."""

    source: Cell | None
    target: Cell | None


def are_equal(source: Cell, target: Cell) -> bool:
    """Whether key, value, headers and timestamp are the same."""
    if target.timestamp not in (ANY_TIME, source.timestamp):
        return False
    return source.tail == target.tail or not _fields(source.tail, target.tail)


def changed_fields(source: Cell, target: Cell) -> tuple[tuple[str, ...], str]:
    """The fields that differ, and where; nothing of what the record holds but a header's name."""
    fields = _fields(source.tail, target.tail)
    if target.timestamp not in (ANY_TIME, source.timestamp):
        assert source.timestamp is not None and target.timestamp is not None
        fields["timestamp"] = f"timestamp {source.timestamp} on the source, {target.timestamp} on the target"
    return tuple(fields), "; ".join(fields.values())


def _fields(source: bytes, target: bytes) -> dict[str, str]:
    if source == target:
        return {}
    ours, theirs = read_tail(source), read_tail(target)
    found = {}
    for name, left, right in (("key", ours[0], theirs[0]), ("value", ours[1], theirs[1])):
        if left != right:
            found[name] = f"{name} {_difference(left, right)}"
    if tuple(ours[2]) != tuple(theirs[2]):
        found["headers"] = _header_difference(ours[2], theirs[2])
    return found


def _difference(left: bytes | None, right: bytes | None) -> str:
    if left is None or right is None:
        return f"{_size(left)} on the source, {_size(right)} on the target"
    at = next((i for i, (a, b) in enumerate(zip_longest(left, right)) if a != b), 0)
    sizes = _size(left) if len(left) == len(right) else f"{_size(left)} on the source, {_size(right)} on the target"
    return f"differs from byte {at} on, {sizes}"


def _size(content: bytes | None) -> str:
    return "null" if content is None else f"{len(content)} bytes"


def _header_difference(ours: Headers, theirs: Headers) -> str:
    for at, (left, right) in enumerate(zip_longest(ours, theirs)):
        if left == right:
            continue
        if left is None or right is None or left[0] != right[0]:
            return f"headers differ from header {at} on: {len(ours)} on the source, {len(theirs)} on the target"
        return f"header {left[0].decode('utf-8', 'backslashreplace')} {_difference(left[1], right[1])}"
    return "headers differ"


def judge(pairs: Sequence[PlacePair], earlier: Sequence[Cell], findings: Findings) -> None:
    """Says of each place in a row of differing ones what is wrong with it; `earlier` are source records before the first."""
    at = 0
    known = {cell.tail: cell for cell in earlier}
    while at < len(pairs):
        pair = pairs[at]
        following = pairs[at + 1] if at + 1 < len(pairs) else PlacePair(None, None)
        if _is_swap(pair, following):
            assert pair.source is not None and pair.target is not None and following.target is not None
            detail = f"with the next one, at downstream offset {following.target.offset}"
            findings.differs(Difference(DifferenceKind.SWAPPED, pair.source.offset, pair.target.offset, detail=detail))
            at += 1
        elif pair.source is not None and pair.target is not None and are_equal(pair.source, pair.target):
            findings.records += 1
        else:
            findings.differs(_judged(pair, known))
        known |= {p.source.tail: p.source for p in pairs[max(at - 1, 0) : at + 1] if p.source is not None}
        at += 1


def _is_swap(first: PlacePair, second: PlacePair) -> bool:
    if first.source is None or first.target is None or second.source is None or second.target is None:
        return False
    return are_equal(first.source, second.target) and are_equal(second.source, first.target)


def _judged(pair: PlacePair, known: Mapping[bytes, Cell]) -> Difference:
    source, target = pair
    if target is None:
        assert source is not None
        return Difference(DifferenceKind.MISSING, source.offset, None)
    again = known.get(target.tail)
    if again is not None and are_equal(again, target):
        detail = f"the record of upstream offset {again.offset} again"
        if source is not None:
            detail += f", in the place of that of {source.offset}"
        return Difference(DifferenceKind.DOUBLED, again.offset, target.offset, detail=detail)
    if source is None:
        return Difference(DifferenceKind.EXTRA, None, target.offset)
    fields, detail = changed_fields(source, target)
    return Difference(DifferenceKind.CHANGED, source.offset, target.offset, fields, detail)
