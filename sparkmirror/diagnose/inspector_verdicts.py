"""The seven verdicts of Aiven's offset sync inspector 0.1, by its own decision tree. Pure.

| G   | T   | E   | V   | verdict | OK    |   G  the group has offsets on the target
|-----|-----|-----|-----|---------|-------|   T  it has one for this partition
| yes | yes | any | any | 1       | true  |   E  the source partition is empty
| yes | no  | yes | any | 2       | true  |   V  the source position lies between the ends of its partition,
| yes | no  | no  | no  | 4       | true  |      both included
| yes | no  | no  | yes | 6       | false |
| no  | –   | yes | any | 3       | true  |
| no  | –   | no  | no  | 5       | true  |
| no  | –   | no  | yes | 7       | false |

The numbers are those of Aiven's documentation; the program prints only texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sparkmirror.state.facts import ALIVE_STATES

Blocking = Literal["", "SOURCE PARTITION", "SOURCE GROUP", "REPLICATION"]

# What the program calls a group with members; others are left out unless inactive groups are included.
ACTIVE_STATES = frozenset(ALIVE_STATES)

_EMPTY = "Intentionally not synced because source partition is empty."
_OLD = "Intentionally not synced because source group is too old."
_ERROR = "Erroneously not synced. Source partition has data, and other partitions for this group"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One of the seven: its number in the documentation, its text, whether it is OK, and the blocking component.

    Number 0 is none of them: a cluster could not be read, and nobody knows.
    """

    number: int
    text: str
    is_ok: bool
    blocking: Blocking

    @property
    def is_known(self) -> bool:
        """Whether it is one of the seven."""
        return self.number > 0


VERDICTS: Mapping[int, Verdict] = {
    verdict.number: verdict
    for verdict in (
        Verdict(1, "Successfully synced, operating normally", True, ""),
        Verdict(2, f"{_EMPTY} Other partitions in this group are synced.", True, "SOURCE PARTITION"),
        Verdict(3, f"{_EMPTY} Other partitions in this group are not synced.", True, "SOURCE PARTITION"),
        Verdict(4, f"{_OLD} Other partitions in this group are synced.", True, "SOURCE GROUP"),
        Verdict(5, f"{_OLD} Other partitions in this group are not synced.", True, "SOURCE GROUP"),
        Verdict(6, f"{_ERROR} are synced.", False, "REPLICATION"),
        Verdict(7, f"{_ERROR} are not synced.", False, "REPLICATION"),
    )
}


# None of the seven: what the tree asks could not be read.
NO_SOURCE = Verdict(0, "Unknown: the source could not be read.", False, "")
NO_TARGET = Verdict(0, "Unknown: the target could not be read.", False, "")


def verdict_of(*, has_group: bool, has_offset: bool, is_empty: bool, is_valid: bool) -> Verdict:
    """G, T, E, V, checked in that order: emptiness takes precedence over validity."""
    if has_group and has_offset:
        return VERDICTS[1]
    if is_empty:
        return VERDICTS[2 if has_group else 3]
    if not is_valid:
        return VERDICTS[4 if has_group else 5]
    return VERDICTS[6 if has_group else 7]


def verdict_of_text(text: str) -> Verdict | None:
    """The verdict of a text, in the program's words or in the documentation's, which have an article more."""
    plain = text.strip().replace("because the source", "because source")
    return next((v for v in (*VERDICTS.values(), NO_SOURCE, NO_TARGET) if v.text == plain), None)


class StrictLoop:
    """How the original goes through the groups of a flow, with its defect: the first failure ends the loop.

    On the source the group that cannot be read vanishes from the report, with all after it. On the target every group
    whose offsets could be fetched counts as known, even one that does not exist there (its list is empty, and an empty list
    is an entry); the first that could not be fetched, and all after it, count as unknown.
    """

    def __init__(self) -> None:
        self._source_ended = False
        self._target_ended = False

    def take(self, *, source_failed: bool, target_failed: bool) -> tuple[bool, bool]:
        """The next group: whether it is reported at all, and whether it counts as known on the target."""
        self._source_ended = self._source_ended or source_failed
        if not self._source_ended:
            self._target_ended = self._target_ended or target_failed
        return not self._source_ended, not self._target_ended
