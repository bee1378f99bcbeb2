"""What rules find: one severity, one certainty, findings with the facts behind them, and the rules themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import TYPE_CHECKING

from sparkmirror.state.facts import Facts, OpenQuestion, Subject

if TYPE_CHECKING:
    from sparkmirror.diagnose.flow_positions import JudgedPosition

class Severity(IntEnum):
    """How bad it is."""

    FINE = 0
    INFO = 1
    WARNING = 2
    ERROR = 3

    @property
    def letter(self) -> str:
        """As findings print it: E, W or I."""
        return self.name[0]


class Certainty(Enum):
    """How certain it is: proven by the data, the best explanation, or one of several."""

    PROVEN = "proven"
    LIKELY = "likely"
    POSSIBLE = "possible"

    @property
    def rank(self) -> int:
        """0 is the most certain."""
        return list(Certainty).index(self)


ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO
PROVEN, LIKELY, POSSIBLE = Certainty.PROVEN, Certainty.LIKELY, Certainty.POSSIBLE


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact: its name, its value as text, and when it was read (wall time in ms, None: not timed)."""

    name: str
    value: str
    time_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding. `cause` is the same for all findings of one cause; `message` has the numbers of this finding."""

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


Verdicts = Iterator[Finding | OpenQuestion]


@dataclass(frozen=True, slots=True)
class Rule:
    """One check: what it means, how it decides, what it needs, and what to do. docs/doctor.md is generated from it.

    `check` reads the whole flow, `report` the group positions whose cause has the rule's id. A rule with neither is
    reported by others (`same_as`).
    """

    id: str
    title: str
    severities: str
    means: str
    decides: str
    needs: str
    mend: str
    check: Callable[[Facts], Verdicts] | None = field(default=None, compare=False)
    report: Callable[[Facts, Sequence[JudgedPosition]], Verdicts] | None = field(default=None, compare=False)
    parts: tuple[str, ...] = ()  # without which the check cannot be made
    same_as: str = ""  # reported under these ids, too
