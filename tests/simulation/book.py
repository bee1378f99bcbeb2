"""The ledger topic: records may be appended twice or late, acks may be lost, and a cleaner removes superseded keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from simulation.events import Clock
from sparkmirror.ledger import LedgerRecord, LedgerView, decode, encode

__all__ = ["Book", "fold"]


@dataclass(slots=True)
class _Entry:
    key: bytes
    record: LedgerRecord | bytes | None  # a tombstone's key; None: removed by the cleaner
    writer: str


class Book:
    """The log of the ledger."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.entries: list[_Entry] = []
        self.on_append: Callable[[LedgerRecord, str], None] = lambda *_: None
        self.readers: list[Callable[[], None]] = []

    def append(self, records: Sequence[LedgerRecord], writer: str) -> bool:
        """What the broker does when the request arrives."""
        for record in records:
            key, value = encode(record)
            again = decode(key, value)
            assert again == record, "a record does not survive the ledger"
            if self.clock.trace is not None:
                self.clock.note(f"ledger {len(self.entries)}: {again} by {writer}")
            self.entries.append(_Entry(key, again, writer))
            self.on_append(again, writer)
        for wake in self.readers:
            wake()
        return True

    def remove(self, keys: Sequence[bytes], writer: str) -> bool:
        """Tombstones, when they arrive."""
        for key in keys:
            self.clock.note(f"ledger {len(self.entries)}: tombstone {key!r} by {writer}")
            self.entries.append(_Entry(key, key, writer))
        return True

    def compact(self) -> None:
        """The cleaner, up to some point; the last record stays."""
        if not self.entries:
            return
        limit = self.clock.rng.randint(0, len(self.entries) - 1)
        last = {entry.key: at for at, entry in enumerate(self.entries[:limit])}
        for at, entry in enumerate(self.entries[:limit]):
            if last[entry.key] != at:
                entry.record = None
        self.clock.note(f"ledger is compacted up to {limit}")

    def read(self, start: int, end: int | None = None) -> tuple[list[LedgerRecord | bytes], int]:
        """Records from `start` on and the next offset."""
        part = self.entries[start:end]
        return [entry.record for entry in part if entry.record is not None], start + len(part)

    def view(self) -> LedgerView:
        """What a new reader makes of it."""
        view = LedgerView()
        for record in self.read(0)[0]:
            fold(view, record)
        return view


def fold(view: LedgerView, record: LedgerRecord | bytes) -> None:
    """One entry of the ledger into a view."""
    if isinstance(record, bytes):
        view.read(record, None)
    else:
        view.apply(record)
