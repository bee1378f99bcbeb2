"""From a position on the source to the position on the target: exact wherever our ledger covers it.

| the position                                  | resumes at                                          | basis      |
|-----------------------------------------------|-----------------------------------------------------|------------|
| was copied                                    | that very record                                    | exact      |
| lies in a gap (compacted, aborted, a marker)  | the next record that was copied, or the copy's end  | exact      |
| is where the copy ends                        | the copy's end                                      | exact      |
| lies beyond the copy                          | the copy's end, and moves on with it                | beyond     |
| lies where MM2 copied between two of our runs | where MM2 would put it, but within that range       | mm2 syncs  |
| lies before our ledger, MM2 wrote syncs       | where MM2 would put it                              | mm2 syncs  |
| lies before everything that was copied        | the first record, with what it will not find there  | first      |
| nothing was copied yet, nothing is known      | nowhere                                             | –          |

A gap whose neighbours do not touch on the target holds something that our map does not know: the marker of a fence, or
what MM2 copied while we were away. The answer there is just behind the last record we know of, which skips nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from sparkmirror.ledger import Position
from sparkmirror.offsets import OffsetMap
from sparkmirror.offsets.sync_history import TOO_OLD, SyncHistory


class Basis(Enum):
    """What a translation rests on."""

    EXACT = "exact"
    BEYOND = "beyond the copy"
    MM2_SYNCS = "MM2's offset syncs"
    FIRST = "first copied record"


@dataclass(frozen=True, slots=True)
class Copied:
    """What is known of one partition: where the proven copy ends, its map, and MM2's syncs from before."""

    end: Position | None
    offset_map: OffsetMap
    syncs: SyncHistory | None


@dataclass(frozen=True, slots=True)
class Translation:
    """Where a reader resumes, why there, and how many upstream offsets it will not find on the target."""

    downstream: int
    basis: Basis
    missing: int = 0


def translate(position: int, copied: Copied) -> Translation | None:
    """The position on the target for the next record to read on the source; never one that skips a copied record."""
    end, offset_map = copied.end, copied.offset_map
    if end is None:
        return _by_syncs(position, copied.syncs)
    if position >= end.upstream:
        return Translation(end.downstream, Basis.EXACT if position == end.upstream else Basis.BEYOND)
    floor = offset_map.end_before(position)
    if offset_map.covers(position) or floor is not None:
        return _within(position, copied, floor, end)
    before = _by_syncs(position, copied.syncs)
    if before is not None:
        return before
    run = offset_map.first
    first_upstream, first = (run.upstream, run.downstream) if run is not None else (end.upstream, end.downstream)
    if first > 0:
        return None  # the target holds records from before our time, and which of them these are is unknown
    return Translation(first, Basis.FIRST, missing=first_upstream - position)


def _within(position: int, copied: Copied, floor: int | None, end: Position) -> Translation:
    """Between the first copied record and the copy's end."""
    following = copied.offset_map.downstream(position)
    ceiling = end.downstream if following is None else following
    if copied.offset_map.covers(position) or floor is None or ceiling <= floor:
        return Translation(ceiling, Basis.EXACT)
    rough = _by_syncs(position, copied.syncs)
    if rough is not None and floor < rough.downstream <= ceiling:
        return rough
    return Translation(floor, Basis.EXACT if ceiling == floor + 1 else Basis.MM2_SYNCS)


def _by_syncs(position: int, syncs: SyncHistory | None) -> Translation | None:
    downstream = TOO_OLD if syncs is None else syncs.translate(position)
    return None if downstream == TOO_OLD else Translation(downstream, Basis.MM2_SYNCS)
