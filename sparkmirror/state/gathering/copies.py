"""Every partition of every selected topic on both sides, and how far its copy has come."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sparkmirror.clusters.probing import PartitionEnds
from sparkmirror.ledger import PartitionHistory, SourceEnd
from sparkmirror.model import TopicPartition
from sparkmirror.state import FlowState, Part, copy_position, has_topic, last_source_ends, recorded_partitions
from sparkmirror.state.facts import Copy, Stop
from sparkmirror.status.state_code import RECOVERED
from sparkmirror.topology import TopicDecision


def copies_of(state: FlowState, decisions: Sequence[TopicDecision]) -> dict[TopicPartition, Copy]:
    """Positions, syncs and ledger were read before; the ends are read now, so that growth cannot fake a loss."""
    remotes = {decision.topic: decision.remote for decision in decisions if decision.replicated}
    places = {p: TopicPartition(remotes[p.topic], p.partition) for p in _listed(state) if p.topic in remotes}
    known = state.topics("target")
    there = [r for r in places.values() if has_topic(known, r.topic)]
    there = [r for r in there if known is not None and r.partition in known.topics[r.topic].leaders]
    source, target = state.ends("source", list(places)), state.ends("target", there)
    last = last_source_ends(state) if any(place not in source or source[place].error for place in places) else {}
    return {place: _copy(state, place, remote, source, target, last) for place, remote in places.items()}


def _listed(state: FlowState) -> Iterator[TopicPartition]:
    """Every partition of the source: by itself, else by what the target remembers."""
    view = state.topics("source")
    if view is None:
        yield from recorded_partitions(state)
        return
    for topic in view.topics.values():
        yield from (TopicPartition(topic.name, index) for index in sorted(topic.leaders))


def _copy(
    state: FlowState,
    place: TopicPartition,
    remote: TopicPartition,
    source: Mapping[TopicPartition, PartitionEnds],
    target: Mapping[TopicPartition, PartitionEnds],
    last: Mapping[TopicPartition, SourceEnd],
) -> Copy:
    position, syncs, ledger = copy_position(state, place), state.syncs(), state.ledger()
    history = ledger.history(place) if ledger is not None else None
    newest = history.newest if history is not None else None
    proven = history.position() if history is not None else None
    is_ours = position is not None and position.basis == "ledger"
    is_seen = place in source and not source[place].error
    stop_time = ledger.times.get(place) if ledger is not None else None
    return Copy(
        partition=place,
        remote=remote,
        source=source.get(place),
        target=target.get(remote),
        next_upstream=None if position is None else position.next_upstream_offset,
        basis="" if position is None else position.basis,
        position_ms=None if position is None else position.time_ms,
        stored=state.positions().of(place),
        is_unstored=position is None and not state.positions().records_of(place),
        sync=syncs.newest.get(place),
        first_sync=syncs.firsts.get(place),
        holes=tuple(syncs.holes.get(place, ())),
        rewind=syncs.rewinds.get(place),
        next_downstream=proven.downstream if is_ours and proven is not None else None,
        source_topic_id=newest.source_topic_id if is_ours and newest is not None else "",
        target_topic_id=newest.target_topic_id if is_ours and newest is not None else "",
        first_run=_first_run(history) if is_ours and history is not None else None,
        stop=_stop(history, stop_time) if is_ours and history is not None else None,
        gaps=tuple(history.accepted_gaps()) if is_ours and history is not None else (),
        is_position_known=not state.unknown.keys() & {Part.LEDGER, Part.POSITIONS},
        last_source=None if is_seen else last.get(place),
    )


def _first_run(history: PartitionHistory) -> tuple[int, int] | None:
    first = min(history.runs(), key=lambda run: run.downstream, default=None)
    return None if first is None else (first.upstream, first.downstream)


def _stop(history: PartitionHistory, time_ms: int | None) -> Stop | None:
    newest = history.newest
    state = history.states.get(newest.attempt) if newest is not None else None
    if state is None or state.state == "copying" or (state.state == "lost" and state.code in RECOVERED):
        return None
    condition = "waiting" if state.state == "waiting" else "stopped"
    return Stop(condition, state.code, state.reason, time_ms, state.detail, state.hint)
