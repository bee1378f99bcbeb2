"""What the doctor says: findings, questions that stay open, and the rules behind both. Values only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sparkmirror.tools.doctor.facts import Facts

__all__ = ["Certainty", "Fact", "Finding", "Open", "Rule", "Severity", "Subject", "Verdicts"]


class Severity(Enum):
    """How bad it is, by the letter that is printed."""

    ERROR = "E"
    WARNING = "W"
    INFORMATION = "I"

    @property
    def rank(self) -> int:
        """0 is the worst."""
        return "EWI".index(self.value)


class Certainty(Enum):
    """How sure it is: shown by what was read, the best explanation of it, or one of several."""

    PROVEN = "proven"
    LIKELY = "likely"
    POSSIBLE = "possible"

    @property
    def rank(self) -> int:
        """0 is the surest."""
        return list(Certainty).index(self)


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that was read: its name, its value in words, and when it was read (wall time in ms, None: not timed)."""

    name: str
    value: str
    time_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Subject:
    """What a finding is about, by names on the source; empty names mean the whole flow or cluster."""

    topic: str = ""
    partition: int | None = None
    group: str = ""
    cluster: str = ""

    def __str__(self) -> str:
        place = self.topic if self.partition is None else f"{self.topic}-{self.partition}"
        if self.group:
            return f"group {self.group}" + (f" at {place}" if place else "")
        return place or (f"cluster {self.cluster}" if self.cluster else "flow")


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding. `cause` is the same for all findings of one cause; `message` has this one's numbers."""

    id: str
    severity: Severity
    certainty: Certainty
    flow: str
    subject: Subject
    cause: str
    message: str
    facts: tuple[Fact, ...] = ()
    mend: str = ""
    command: str = ""


@dataclass(frozen=True, slots=True)
class Open:
    """A question that was not answered, why, and what it takes: a right, or a fact."""

    id: str
    flow: str
    subject: Subject
    reason: str
    needs: str = ""


Verdicts = Iterator[Finding | Open]


@dataclass(frozen=True, slots=True)
class Rule:
    """One check: what it means, how it decides, what it reads and needs, and what to do. The page of docs is made of it."""

    id: str
    title: str
    severities: str
    means: str
    decides: str
    needs: str
    mend: str
    check: Callable[[Facts], Verdicts] | None = field(default=None, compare=False)  # None: another rule's check tells it
    parts: tuple[str, ...] = ()  # without which the check cannot be made
    same_as: str = ""  # told under these ids
