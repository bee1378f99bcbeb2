"""Where a reader of one cluster resumes on the other: exact, by sparkmirror's ledger or by the records themselves.

| the topic                        | is found on the other side                                                    |
|----------------------------------|-------------------------------------------------------------------------------|
| is copied by the flow from here  | under its remote name: by the ledger's map or MM2's syncs, and by its records |
| is a copy that came from there   | under its own name: by the same map, read the other way                       |

The mirror's offset mappings give a first guess, rough where only MM2's syncs are known. The records at both places then
prove it or correct it. Reads only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from sparkmirror.clusters.client import PATIENCE, Patience
from sparkmirror.clusters.probing import PartitionEnds
from sparkmirror.config import FlowSettings, Settings
from sparkmirror.errors import NoFlowEnabled
from sparkmirror.model import FlowName, Side, TopicPartition
from sparkmirror.offsets import Basis
from sparkmirror.offsets.proof import Pair, Proof, WalkLimits, prove
from sparkmirror.state import FlowState, Note, Notes
from sparkmirror.state.flow_logs import FlowLogs
from sparkmirror.state.proof_runner import run_all
from sparkmirror.topology import topic_filter

NO_NOTES = "the mirror's offset mappings do not reach back to it"
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

    `sureness`: "proven" by the records, "ledger" by the exact map alone, "rough" where records are read again, "likely"
    where many records are alike, "unknown" without an answer. `again` records are read a second time, `missing` upstream
    offsets were never copied.
    """

    group: str
    origin: TopicPartition
    offset: int
    destination: TopicPartition | None = None
    destination_offset: int | None = None
    sureness: Literal["proven", "ledger", "rough", "likely", "unknown"] = "unknown"
    again: int | None = None
    missing: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Translations:
    """Every position that was requested, by group and partition, and what could not be read."""

    origin: str
    destination: str
    positions: tuple[TranslatedPosition, ...]
    notes: Notes

    @property
    def status(self) -> int:
        """0 all are exact; 2 some have no answer, or something could not be read; 3 some are rough or lack records."""
        if any(position.destination_offset is None for position in self.positions) or not self.notes.is_complete:
            return 2
        is_plain = all(p.sureness in ("proven", "ledger") and not p.missing for p in self.positions)
        return 0 if is_plain else 3


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
    notes = Notes()
    try:
        asked = list(_asked(routes[0], request))
        found = {key: _unknown(*key) for key in asked}
        for route in routes:
            found |= route.translate([key for key in asked if found[key].destination is None])
    finally:
        for route in routes:
            route.close()
    for route in routes:
        for note in route.state.notes:
            notes.add(note)
        notes.omitted.update(route.state.notes.omitted)
    if not asked:
        _note_nothing(notes, request)
    ordered = sorted(found.values(), key=lambda p: (p.group, p.origin, p.offset))
    return Translations(request.origin, request.destination, tuple(ordered), notes)


Key = tuple[str, TopicPartition, int]


def _asked(route: _Route, request: TranslateRequest) -> Iterator[Key]:
    groups = request.groups or ("",)
    if request.at:
        yield from ((group, place, offset) for group in groups for place, offset in request.at)
        return
    for group, offsets in route.state.commits(route.here, request.groups).items():
        for place, committed in offsets.committed.items():
            if committed is not None:
                yield group, place, committed.offset


def _unknown(group: str, place: TopicPartition, offset: int) -> TranslatedPosition:
    return TranslatedPosition(group=group, origin=place, offset=offset, reason="no flow of the file copies this topic")


def _note_nothing(notes: Notes, request: TranslateRequest) -> None:
    if notes.is_complete:
        named = ", ".join(request.groups)
        text = f"cluster {request.origin}: no positions of {named or 'these partitions'}"
        notes.add(Note("refused", request.origin, text, f"Describe on group {named}" if named else ""))


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

    def translate(self, keys: Sequence[Key]) -> dict[Key, TranslatedPosition]:
        """Those of the positions whose topics this flow copies."""
        places = {key: place for key in keys if (place := self._place_of(key[1])) is not None}
        if not places or not self.state.is_up(self.there) or not self.state.is_up(self.here):
            return {}
        here = _known(self.state.ends(self.here, {key[1] for key in places}))
        there = _known(self.state.ends(self.there, set(places.values())))
        found = {}
        steps: dict[Key, _Step] = {}
        for key, place in places.items():
            group, origin, offset = key
            known = TranslatedPosition(group=group, origin=origin, offset=offset, destination=place)
            if origin not in here or place not in there:
                absent = place if origin in here else origin
                found[key] = replace(known, reason=f"{absent} does not exist, or its ends are not known")
            else:
                found[key] = self._guess(known, there[place])
                steps[key] = _Step(here[origin], there[place])
        return found if self._limits is None else found | self._prove({k: found[k] for k in steps}, steps, self._limits)

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

    def _guess(self, known: TranslatedPosition, there: PartitionEnds) -> TranslatedPosition:
        """The position by the ledger or by MM2's syncs; the start of the log if neither knows."""
        assert known.destination is not None
        source, remote = (known.destination, known.origin) if self._is_back else (known.origin, known.destination)
        if self._is_back:
            bounds = self._logs.upstream_map(source, remote).bounds(known.offset)
            if bounds is None:
                return replace(known, reason=NO_NOTES)
            exact = self._logs.exact_map(source, remote)
            is_exact = exact is not None and exact.upstream(known.offset) is not None
            return replace(known, destination_offset=bounds.guess, sureness="ledger" if is_exact else "rough")
        found = self._logs.translation(source, remote, known.offset)
        if found is None:
            return replace(known, reason=NO_NOTES)
        is_exact = found.basis is not Basis.MM2_SYNCS
        text = replace(known, destination_offset=max(found.downstream, there.first), missing=found.missing)
        return replace(text, sureness="ledger" if is_exact else "rough", reason=WORDS.get(found.basis, ""))

    # --- the records ----------------------------------------------------------------------------------------------

    def _prove(
        self, guesses: Mapping[Key, TranslatedPosition], steps: Mapping[Key, _Step], limits: WalkLimits
    ) -> dict[Key, TranslatedPosition]:
        """Each guess compared with the records, corrected and compared again."""
        found = dict(guesses)
        waiting = {key: self._first_try(guess, steps[key]) for key, guess in guesses.items()}
        for _ in range(TRIES_MAX):
            if not waiting:
                break
            pairs = [self._pair(found[key], at, steps[key]) for key, at in waiting.items()]
            askings = [((pair.source, pair.target), prove(pair)) for pair in pairs]
            proofs = dict(zip(waiting, run_all(askings, self._logs.open(limits)), strict=True))
            following: dict[Key, int] = {}
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


def _known(ends: Mapping[TopicPartition, PartitionEnds]) -> dict[TopicPartition, PartitionEnds]:
    return {place: found for place, found in ends.items() if found.is_known}
