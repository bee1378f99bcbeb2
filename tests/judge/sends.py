"""Whether a workload's own ledger of sends is true of both sides, and whether two compacted copies are one topic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from judge.records import JudgeRecord

__all__ = ["compacted_violations", "newest_violations", "refuted_sends", "send_violations"]

VIOLATIONS_MAX = 10
UNKNOWN, OK, FAILED, ABORTED = range(4)
NAMES = ("unknown", "ok", "failed", "aborted")


def send_violations(
    outcomes: Mapping[int, int], source: Iterable[int], target: Iterable[int], *, committed_only: bool
) -> list[str]:
    """What is wrong with one partition's sends, by id: an ok one is once on both sides, any other on both or on none.

    Where only what was committed is copied, an aborted one is on none.
    """
    there, here = Counter(source), Counter(target)
    found = [f"send {send:#x} is nobody's, and {there[send]} times on the source, {here[send]} times on the target"
             for send in sorted((there.keys() | here.keys()) - outcomes.keys())[:VIOLATIONS_MAX]]  # fmt: skip
    for send, outcome in outcomes.items():
        counts = there[send], here[send]
        is_right = counts[0] == counts[1] <= 1
        if outcome == OK:
            is_right = counts == (1, 1)
        elif outcome == ABORTED and committed_only:
            is_right = counts == (0, 0)
        if not is_right:
            found.append(f"send {send:#x}, {NAMES[outcome]}: {counts[0]} times on the source, {counts[1]} on the target")
        if len(found) >= VIOLATIONS_MAX:
            break
    return found


def refuted_sends(outcomes: Mapping[int, int], committed: Iterable[int], logged: Iterable[int]) -> set[int]:
    """Sends that their client calls ok and the source's own log does not: it holds them, and as aborted.

    Nobody but the source's broker writes that there. Java's consumer must then see them on neither side.
    """
    seen, in_log = set(committed), set(logged)
    return {send for send, outcome in outcomes.items() if outcome == OK and send in in_log and send not in seen}


def _content(record: JudgeRecord) -> tuple[object, ...]:
    return record.key, record.value, record.headers, record.timestamp


def compacted_violations(source: Sequence[JudgeRecord], target: Sequence[JudgeRecord]) -> list[str]:
    """What is wrong with two sides of a compacted partition, each cleaned at its own time.

    No two records may be alike. What is on both sides is in the same order; what is on one side only has a later record
    of its key there and on the other side.
    """
    there = {_content(record): at for at, record in enumerate(source)}
    here = {_content(record): at for at, record in enumerate(target)}
    found = [f"{side}: {len(records) - len(known)} records are there twice"
             for side, records, known in (("source", source, there), ("target", target, here))
             if len(known) != len(records)]  # fmt: skip
    common = [content for content in there if content in here]
    places = [here[content] for content in common]
    if places != sorted(places):
        found.append("records that survived on both sides are in another order")
    last_common: dict[object, tuple[int, int]] = {}
    for content in common:
        last_common[content[0]] = there[content], here[content]
    for side, records, other, index in (("source", source, here, 0), ("target", target, there, 1)):
        for at, record in enumerate(records):
            last = last_common.get(record.key)
            if _content(record) not in other and (last is None or last[index] < at):
                found.append(f"offset {record.offset} of the {side} is not on the other side and has no later record there")
    return found[:VIOLATIONS_MAX]


def newest_violations(
    outcomes: Mapping[int, int], key_of: Callable[[int], object], sides: Mapping[str, Iterable[int]]
) -> list[str]:
    """Sends to a compacted partition, in order: the newest of each key that is known to be there must be there."""
    newest: dict[object, int] = {}
    for send, outcome in outcomes.items():
        if outcome == OK:
            newest[key_of(send)] = send
    found = []
    for side, sends in sides.items():
        survived = Counter(sends)
        later = {key_of(send): send for send in sorted(survived)}
        found += [f"{side}: send {send:#x} is nobody's" for send in survived if send not in outcomes]
        found += [f"{side}: send {send:#x} is there {count} times" for send, count in survived.items() if count > 1]
        found += [
            f"{side}: send {send:#x}, the newest of {key!r}, is missing"
            for key, send in newest.items()
            if later.get(key, -1) < send
        ]
    return found[:VIOLATIONS_MAX]
