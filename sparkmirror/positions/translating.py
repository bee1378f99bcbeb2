"""Where a reader of one cluster resumes on the other: exact, by sparkmirror's ledger or by the records themselves.

| the topic                        | is found on the other side                                                    |
|----------------------------------|-------------------------------------------------------------------------------|
| is copied by the flow from here  | under its remote name: by the ledger's map or MM2's syncs, and by its records |
| is a copy that came from there   | under its own name: by the same map, read the other way                       |

The mirror's offset mappings give a first guess, rough where only MM2's syncs are known. The records at both places then
prove it or correct it. Where a cluster does not answer, the maps that the other one holds stand alone, and a group whose
commits cannot be read is known by its checkpoints (`group_checkpoints.py`). Reads only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from sparkmirror.clusters import name_of
from sparkmirror.clusters.client import PATIENCE, Patience
from sparkmirror.clusters.probing import PartitionEnds
from sparkmirror.config import FlowSettings, Settings
from sparkmirror.errors import NoFlowEnabled
from sparkmirror.model import FlowName, Side, TopicPartition
from sparkmirror.offsets import Basis, TimedCheckpoint
from sparkmirror.offsets.proof import Pair, Proof, WalkLimits, prove
from sparkmirror.positions.group_checkpoints import count_between, nearest_checkpoint, origins_of
from sparkmirror.state import FlowState, Notes, Part
from sparkmirror.state.flow_logs import FlowLogs
from sparkmirror.state.proof_runner import run_all
from sparkmirror.topology import topic_filter
from sparkmirror.wire.error_codes import UNKNOWN_TOPIC_OR_PARTITION

NO_NOTES = "the mirror's offset mappings do not reach back to it"
SCHEMA = 1  # of the JSON; raised when a field is removed or changes its meaning, not when a field is added
WORDS = {Basis.BEYOND: "not copied yet: resumes at the end of the copy", Basis.FIRST: "before the first copied record"}
TRIES_MAX = 3  # guesses that are compared with the records, each corrected by what the one before showed


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslateRequest:
    """Whose positions: those that groups committed on `origin`, or `at`; to be found on `destination`."""

    origin: str
    destination: str
    groups: tuple[str, ...] = ()
    at: tuple[tuple[TopicPartition, int], ...] = ()
    limits: WalkLimits | None = field(default_factory=WalkLimits)
    patience: Patience = PATIENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslatedPosition:
    """One position and what it is on the other side; both are the next offset to read.

    `sureness`: "proven" by the records, "ledger" by the exact map alone, "checkpoint" by a checkpoint alone and "rough"
    otherwise, where records may be read again, "likely" where many records are alike, "unknown" without an answer. `again`
    records are read a second time, `missing` upstream offsets were never copied.

    `as_of_ms` is when the group was seen at `offset`. If that is not now (`is_current`), its commit on the destination is
    in `committed`, if it has one and it is known; a reader that resumes from that commit reads `committed_again` records of
    the destination before it comes to `destination_offset`.
    """

    group: str
    origin: TopicPartition
    offset: int
    destination: TopicPartition | None = None
    destination_offset: int | None = None
    sureness: Literal["proven", "ledger", "checkpoint", "rough", "likely", "unknown"] = "unknown"
    again: int | None = None
    missing: int = 0
    reason: str = ""
    as_of_ms: int | None = None
    is_current: bool = True
    committed: int | None = None
    is_committed_known: bool = False
    committed_again: int | None = None


@dataclass(frozen=True, slots=True)
class Translations:
    """Every position that was requested, by group and partition, and what could not be read.

    `unknown` says why nothing is known of a group. `down` are the clusters that did not answer, or refused the login: what
    stays unknown because of it is said of each position.
    """

    origin: str
    destination: str
    positions: tuple[TranslatedPosition, ...]
    notes: Notes
    unknown: Mapping[str, str] = field(default_factory=dict)
    down: frozenset[str] = frozenset()

    @property
    def is_complete(self) -> bool:
        """Whether everything that was asked for has an answer."""
        is_read = not any(note.is_incomplete and note.cluster not in self.down for note in self.notes)
        is_known = all(position.destination_offset is not None for position in self.positions) and not self.unknown
        return is_known and is_read and not self.notes.left_out

    @property
    def status(self) -> int:
        """0 all are exact; 2 some have no answer, or something could not be read; 3 some are rough, old or lack records."""
        if not self.is_complete:
            return 2
        exact = ("proven", "ledger")
        return 0 if all(p.sureness in exact and p.is_current and not p.missing for p in self.positions) else 3


def translations_json(found: Translations) -> dict[str, Any]:
    """The answer as JSON, as the command and REST show it."""
    return {
        "schema": SCHEMA,
        "from": found.origin,
        "to": found.destination,
        "positions": [_position_json(position) for position in found.positions],
        "unknown": [{"group": group, "reason": reason} for group, reason in found.unknown.items()],
        "notes": [note.fields() for note in (*found.notes, *found.notes.rest())],
        "status": found.status,
    }


def _position_json(position: TranslatedPosition) -> dict[str, Any]:
    there = position.destination
    return {
        "group": position.group,
        "from": {"topic": position.origin.topic, "partition": position.origin.partition, "offset": position.offset},
        "to": None
        if there is None
        else {"topic": there.topic, "partition": there.partition, "offset": position.destination_offset},
        "sureness": position.sureness,
        "records_again": position.again,
        "offsets_missing": position.missing,
        "reason": position.reason,
        "as_of_ms": position.as_of_ms,
        "current": position.is_current,
        "committed": {"offset": position.committed, "records_again": position.committed_again}
        if position.is_committed_known
        else None,
    }


def translate_positions(settings: Settings, request: TranslateRequest) -> Translations:
    """Reads both clusters and finds each position on the other side. Changes nothing."""
    routes = [
        route
        for name, is_back in (
            (FlowName(request.origin, request.destination), False),
            (FlowName(request.destination, request.origin), True),
        )
        if (route := _route(settings, name, request, is_back=is_back)) is not None
    ]
    if not routes:
        raise NoFlowEnabled(f"{settings.path}: no enabled flow connects {request.origin} and {request.destination}")
    try:
        asked, unknown = _asked(routes, request)
        found = {key: _unknown(key) for key in asked}
        for route in routes:
            found |= route.translate({key: seen for key, seen in asked.items() if found[key].destination is None})
        notes, down = Notes(), set[str]()
        for route in routes:
            down |= {outage.alias for outage in route.state.reader.outages.values()}
            for note in route.state.notes:
                notes.add(note)
            notes.omitted.update(route.state.notes.omitted)
    finally:
        for route in routes:
            route.close()
    ordered = sorted(found.values(), key=lambda p: (p.group, p.origin, p.offset))
    return Translations(request.origin, request.destination, tuple(ordered), notes, unknown, frozenset(down))


class _Key(NamedTuple):
    """A position that is to be found, and the partition of the destination that a checkpoint names for it."""

    group: str
    origin: TopicPartition
    offset: int
    place: TopicPartition | None = None


@dataclass(frozen=True, slots=True)
class _Sighting:
    """When a group was seen at a position (None: nobody says so), and the checkpoint that says it, if its commits cannot."""

    as_of_ms: int | None = None
    checkpoint: TimedCheckpoint | None = None


def _asked(routes: Sequence[_Route], request: TranslateRequest) -> tuple[dict[_Key, _Sighting], dict[str, str]]:
    """The positions that are to be found, and the groups of which none is known."""
    if request.at:
        groups = request.groups or ("",)
        return {_Key(group, place, offset): _Sighting() for group in groups for place, offset in request.at}, {}
    asked: dict[_Key, _Sighting] = {}
    unknown: dict[str, str] = {}
    first = routes[0]
    commits = first.state.commits(first.here, request.groups)
    as_of_ms = first.state.reader.known.get(Part.commits(first.here))
    for group in request.groups:
        known = commits.get(group)
        if known is None or (known.error and not known.committed):
            found = first.last_known(group)
            asked |= found
            if not found:
                unknown[group] = first.why_unknown(group)
            continue
        at = {place: commit.offset for place, commit in known.committed.items() if commit is not None}
        asked |= {_Key(group, place, offset): _Sighting(as_of_ms) for place, offset in at.items()}
        if not at:
            unknown[group] = f"cluster {request.origin}: no positions of {group}"
    return asked, unknown


def _unknown(key: _Key) -> TranslatedPosition:
    reason = "no flow of the file copies this topic"
    return TranslatedPosition(group=key.group, origin=key.origin, offset=key.offset, reason=reason)


def _route(settings: Settings, name: FlowName, request: TranslateRequest, *, is_back: bool) -> _Route | None:
    flows = {flow.name: flow for flow in settings.flows if flow.enabled}
    return _Route(flows[name], request, is_back=is_back) if name in flows else None


class _Route:
    """One flow, followed in its own direction or, for copies that came from the destination, against it."""

    def __init__(self, flow: FlowSettings, request: TranslateRequest, *, is_back: bool) -> None:
        self.state = FlowState(flow, request.patience)
        self.here: Side = "target" if is_back else "source"
        self.there: Side = "source" if is_back else "target"
        self._flow, self._limits, self._is_back = flow, request.limits, is_back
        self._logs = FlowLogs(self.state)

    def close(self) -> None:
        """Drops the connections."""
        self._logs.close()
        self.state.close()

    # --- positions whose commits cannot be read --------------------------------------------------------------------

    def last_known(self, group: str) -> dict[_Key, _Sighting]:
        """The group's positions as its checkpoints on the destination have them; none on the way back."""
        if self._is_back:
            return {}
        checkpoints = self.state.checkpoints().last.timed(group)
        origins = origins_of(self.state, checkpoints)
        return {
            _Key(group, origins[place], point.upstream, place): _Sighting(point.time_ms, point)
            for place, point in checkpoints.items()
        }

    def why_unknown(self, group: str) -> str:
        """Why neither commits nor checkpoints tell of a group."""
        parts = self.state.unknown
        here = parts.get(Part.commits(self.here))
        alias = {side: client.alias for side, client in self.state.clients.items()}
        text = here.reason if here is not None else f"cluster {alias[self.here]} does not show the commits of {group}"
        if self._is_back:
            return f"{text}, and no flow of the file writes checkpoints from there"
        if Part.CHECKPOINTS in parts:
            return f"{text}, and its checkpoints are unknown: {parts[Part.CHECKPOINTS].reason}"
        return f"{text}, and cluster {alias[self.there]} holds no checkpoint of {group}"

    # --- the whole way -----------------------------------------------------------------------------------------------

    def translate(self, asked: Mapping[_Key, _Sighting]) -> dict[_Key, TranslatedPosition]:
        """Those of the positions whose topics this flow copies."""
        places = {key: key.place or place for key in asked if (place := self._place_of(key.origin)) is not None}
        if not places:
            return {}
        self.state.ledger(), self.state.syncs()  # before the ends: what they know of must not seem to lie past an end
        here = self.state.ends(self.here, {key.origin for key in places})
        there = self.state.ends(self.there, set(places.values()))
        found = {}
        steps: dict[_Key, _Step] = {}
        for key, place in places.items():
            origin, seen = key.origin, asked[key]
            ours, theirs = here.get(origin), there.get(place)
            known = TranslatedPosition(
                group=key.group, origin=origin, offset=key.offset, destination=place, as_of_ms=seen.as_of_ms,
                is_current=seen.checkpoint is None,
            )  # fmt: skip
            absent = [str(p) for p, ends in ((origin, ours), (place, theirs)) if _is_absent(ends)]
            if absent:
                found[key] = replace(known, reason=f"{absent[0]} does not exist")
                continue
            ends = theirs if theirs is not None and theirs.is_known else None
            found[key] = self._guess(known, seen.checkpoint, ends)
            if ends is not None and ours is not None and ours.is_known:
                steps[key] = _Step(ours, ends)
            else:
                found[key] = _unproven(found[key], {origin: ours, place: theirs})
        if self._limits is None:
            return self._committed(found)
        return self._committed(found | self._prove({k: found[k] for k in steps}, steps, self._limits))

    def _place_of(self, place: TopicPartition) -> TopicPartition | None:
        """The partition on the other side, None if this flow has nothing to do with the topic."""
        policy, name = self.state.policy, self._flow.name
        if self._is_back:
            original = policy.upstream_topic(place.topic) if policy.topic_source(place.topic) == name.source else None
            wanted = original
        else:
            came_from_there = policy.topic_source(place.topic) == name.target
            wanted = None if came_from_there else policy.format_remote_topic(name.source, place.topic)
            original = place.topic
        if wanted is None or original is None or not topic_filter(self._flow).wants(original):
            return None
        return TopicPartition(wanted, place.partition)

    # --- the offset mappings -------------------------------------------------------------------------------------

    def _guess(
        self, known: TranslatedPosition, checkpoint: TimedCheckpoint | None, there: PartitionEnds | None
    ) -> TranslatedPosition:
        """The position by the ledger, by MM2's syncs or by checkpoints; unknown if none of them reaches back to it."""
        assert known.destination is not None
        if self._is_back:
            return self._guess_back(known, checkpoint, there)
        if not self.state.is_up("target"):
            reason = self.state.unknown[Part.topics("target")].reason
            return replace(known, reason=f"{reason}: the ledger and the checkpoints are there")
        found = self._logs.translation(known.origin, known.destination, known.offset)
        is_exact = found is not None and found.basis is not Basis.MM2_SYNCS
        reason = ""
        if not is_exact and checkpoint is None and Part.SYNCS in self.state.unknown:
            checkpoint = nearest_checkpoint(self.state.checkpoints().last, known.destination, known.offset)
            reason = f"{Part.SYNCS}: {self.state.unknown[Part.SYNCS].reason}"
        if checkpoint is not None and not is_exact and (found is None or checkpoint.downstream >= found.downstream):
            by_checkpoint = replace(known, destination_offset=checkpoint.downstream, sureness="checkpoint", reason=reason)
            return _within(by_checkpoint, there)
        if found is None:
            return replace(known, reason=self._why_nothing())
        text = replace(known, destination_offset=found.downstream, missing=found.missing)
        sure: Literal["ledger", "rough"] = "ledger" if is_exact else "rough"
        return _within(replace(text, sureness=sure, reason=WORDS.get(found.basis, "")), there)

    def _guess_back(
        self, known: TranslatedPosition, checkpoint: TimedCheckpoint | None, there: PartitionEnds | None
    ) -> TranslatedPosition:
        """The way back of a copy. The other flow's checkpoints know it too: those of B.orders on A lead to orders on B."""
        assert known.destination is not None
        source, remote = known.destination, known.origin
        found = self._logs.resumed_upstream(source, remote, known.offset)
        if found is not None and found[1]:
            return replace(known, destination_offset=found[0], sureness="ledger")
        if checkpoint is not None:
            return _within(replace(known, destination_offset=checkpoint.downstream, sureness="checkpoint"), there)
        bounds = self._logs.upstream_map(source, remote).bounds(known.offset)
        rough = bounds.guess if bounds is not None else found[0] if found is not None else None
        if rough is None:
            return replace(known, reason=self._why_nothing())
        return replace(known, destination_offset=rough, sureness="rough")

    def _why_nothing(self) -> str:
        """Why the offset mappings have no answer: they do not reach back, as far as they could be read."""
        unread = [f"{part}: {self.state.unknown[part].reason}" for part in (Part.LEDGER, Part.SYNCS)
                  if part in self.state.unknown]  # fmt: skip
        return "; ".join([NO_NOTES, *unread])

    # --- the group's own commits there -------------------------------------------------------------------------------

    def _committed(self, found: dict[_Key, TranslatedPosition]) -> dict[_Key, TranslatedPosition]:
        """Positions that are not current, beside what the group has committed on the destination by itself."""
        old = {key: position for key, position in found.items() if not position.is_current and position.group}
        commits = self.state.commits(self.there, {key.group for key in old})
        behind: dict[_Key, tuple[TopicPartition, int, int]] = {}
        for key, position in old.items():
            known, place, at = commits.get(key.group), position.destination, position.destination_offset
            if known is None or known.error or place is None:
                continue
            commit = known.committed.get(place)
            offset = None if commit is None else commit.offset
            is_past = offset is not None and at is not None and offset >= at
            found[key] = replace(
                position, committed=offset, is_committed_known=True, committed_again=0 if is_past else None
            )
            if offset is not None and at is not None and offset < at:
                behind[key] = (place, offset, at)
        if self._limits is not None and behind:
            askings = [((place, place), count_between(self.there, start, end)) for place, start, end in behind.values()]
            counts = run_all(askings, self._logs.open(self._limits))
            found |= {k: replace(found[k], committed_again=count) for k, count in zip(behind, counts, strict=True)}
        return found

    # --- the records ----------------------------------------------------------------------------------------------

    def _prove(
        self, guesses: Mapping[_Key, TranslatedPosition], steps: Mapping[_Key, _Step], limits: WalkLimits
    ) -> dict[_Key, TranslatedPosition]:
        """Each guess compared with the records, corrected and compared again."""
        found = dict(guesses)
        waiting = {key: self._first_try(guess, steps[key]) for key, guess in guesses.items()}
        for _ in range(TRIES_MAX):
            if not waiting:
                break
            pairs = [self._pair(found[key], at, steps[key]) for key, at in waiting.items()]
            askings = [((pair.source, pair.target), prove(pair)) for pair in pairs]
            proofs = dict(zip(waiting, run_all(askings, self._logs.open(limits)), strict=True))
            following: dict[_Key, int] = {}
            for key, proof in proofs.items():
                found[key], again = self._judge(found[key], waiting[key], proof, steps[key])
                if again is not None:
                    following[key] = again
            waiting = following
        return found

    def _first_try(self, guess: TranslatedPosition, step: _Step) -> int:
        if guess.destination_offset is None:
            return step.there.first
        return min(max(guess.destination_offset, step.there.first), step.there.end)

    def _places(self, position: TranslatedPosition) -> tuple[TopicPartition, TopicPartition]:
        assert position.destination is not None
        places = position.origin, position.destination
        return (places[1], places[0]) if self._is_back else places

    def _pair(self, position: TranslatedPosition, at: int, step: _Step) -> Pair:
        source, target = self._places(position)
        upstream, downstream = (at, position.offset) if self._is_back else (position.offset, at)
        ours, theirs = (step.there, step.here) if self._is_back else (step.here, step.there)
        return Pair(
            source=source,
            target=target,
            upstream=upstream,
            downstream=downstream,
            source_first=ours.first,
            source_end=ours.end,
            target_first=theirs.first,
            target_end=theirs.end,
            bounds=self._logs.upstream_map(source, target).bounds,
        )

    def _judge(
        self, known: TranslatedPosition, at: int, proof: Proof, step: _Step
    ) -> tuple[TranslatedPosition, int | None]:
        """What a proof makes of a position, and the place that is tried next, if any."""
        better = proof.means if self._is_back else proof.wanted
        if proof.result == "exact" or better is not None:
            offset = better if better is not None else at
            sureness: Literal["proven", "likely"] = "proven" if proof.is_certain else "likely"
            return replace(known, destination_offset=offset, sureness=sureness, again=0, reason=""), None
        if proof.result in ("behind", "ahead") and proof.records is not None and not self._is_back:
            step_to = at + proof.records if proof.result == "behind" else at - proof.records
            bounded = min(max(step_to, step.there.first), step.there.end)
            if bounded != at:
                rough = replace(known, destination_offset=at, sureness="rough", again=proof.records)
                return (rough if proof.result == "behind" else known), bounded
            if proof.result == "behind" and at == step.there.end:
                end = replace(known, destination_offset=at, sureness="proven", again=proof.records)
                return replace(end, reason=WORDS[Basis.BEYOND]), None
        if known.destination_offset is None or known.sureness == "unknown":
            return replace(known, destination_offset=None, sureness="unknown", reason=proof.reason or known.reason), None
        return replace(known, reason=proof.reason or known.reason), None


@dataclass(frozen=True, slots=True)
class _Step:
    """The ends of a partition on both sides."""

    here: PartitionEnds
    there: PartitionEnds


def _is_absent(ends: PartitionEnds | None) -> bool:
    return ends is not None and ends.error == UNKNOWN_TOPIC_OR_PARTITION


def _within(position: TranslatedPosition, there: PartitionEnds | None) -> TranslatedPosition:
    """Not outside of the log, if its ends are known. What lies at the end is read by nobody twice."""
    at = position.destination_offset
    if there is None or at is None:
        return position
    if at > there.end:
        reason = f"{position.destination} ends at {there.end}: what the mirror had copied up to {at} is not there any more"
        return replace(position, destination_offset=there.end, sureness="rough", reason=reason)
    again = 0 if position.sureness == "checkpoint" and at == there.end else None
    return replace(position, destination_offset=max(at, there.first), again=again)


def _unproven(
    position: TranslatedPosition, ends: Mapping[TopicPartition, PartitionEnds | None]
) -> TranslatedPosition:
    """Says of which partition the ends are unknown, though its cluster answers."""
    reasons = [
        f"records not compared, ends of {place}: {name_of(found.error)}"
        for place, found in ends.items()
        if found is not None and found.error
    ]
    return replace(position, reason="; ".join([position.reason, *reasons] if position.reason else reasons))
