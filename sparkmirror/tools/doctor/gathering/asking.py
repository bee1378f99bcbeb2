"""Asking that never ends a gathering: what is not answered becomes a missing part, with the right that it takes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from sparkmirror.clusters import ClusterClient
from sparkmirror.errors import BrokerRefused, ClusterError, ClusterUnreachable, ConnectionLost
from sparkmirror.tools.doctor.facts import Missing, Open, Subject
from sparkmirror.tools.evidence import FlowEvidence, Note, NoteKind, Side

__all__ = ["Asker"]

T = TypeVar("T")
D = TypeVar("D")
_NEEDS = re.compile(r"needs ([A-Z]\w+(?:, \w+| and \w+)* on .+)$")


class Asker:
    """Questions about one flow, and what of them stayed open."""

    def __init__(self, evidence: FlowEvidence) -> None:
        self.evidence = evidence
        self.missing: dict[str, Missing] = {}
        self.opens: list[Open] = []
        self._taken = 0
        self._omitted: Counter[tuple[NoteKind, str]] = Counter()

    @property
    def flow(self) -> str:
        """The flow's name."""
        return str(self.evidence.flow.name)

    def client(self, side: Side) -> ClusterClient:
        """The client of one side."""
        return self.evidence.clients[side]

    def ask(self, part: str, side: Side, look: Callable[[ClusterClient], T], default: D) -> T | D:
        """The answer of one cluster, or `default` and a missing part."""
        client = self.client(side)
        if not self.evidence.is_up(side):
            self.missing[part] = Missing(f"cluster {client.alias} does not answer", "a broker that answers")
            return default
        try:
            return look(client)
        except BrokerRefused as error:
            self.missing[part] = Missing(error.message, needs_of(error))
        except (ClusterUnreachable, ConnectionLost) as error:
            self.missing[part] = Missing(error.message, "a broker that answers")
        except ClusterError as error:
            self.missing[part] = Missing(error.message, needs_of(error))
        return default

    def hear(self, part: str, side: Side, look: Callable[[], T]) -> T:
        """An answer of the evidence; what it notes as not answered makes the part missing."""
        found = look()
        if not self.evidence.is_up(side):
            self.missing[part] = Missing(f"cluster {self.client(side).alias} does not answer", "a broker that answers")
        for note in self._new_notes():
            if note.kind == "refused":
                self.missing.setdefault(part, Missing(note.message, note.needs or _named_in(note.message)))
        return found

    def hear_each(self, side: Side, subject: Callable[[Note], Subject], look: Callable[[], T]) -> T:
        """An answer about many things: each that was refused stays open alone."""
        found = look()
        for note in self._new_notes():
            if note.kind == "refused":
                self.opens.append(Open("V1", self.flow, subject(note), note.message, note.needs or _named_in(note.message)))
        return found

    def _new_notes(self) -> list[Note]:
        notes = self.evidence.notes
        new = [*notes[self._taken :], *notes.rest(self._omitted)]
        self._taken, self._omitted = len(notes), notes.omitted.copy()
        return new

    def leave_open(self, subject: Subject, reason: str, needs: str) -> None:
        """One thing that was not answered."""
        self.opens.append(Open("V1", self.flow, subject, reason, needs))


def needs_of(error: ClusterError) -> str:
    """The right that a refusal names, else its hint."""
    return _named_in(error.message) or error.hint


def _named_in(message: str) -> str:
    """The right that a message says somebody needs, if it does."""
    found = _NEEDS.search(message)
    return found[1] if found else ""
