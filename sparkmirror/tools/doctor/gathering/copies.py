"""Every partition of every selected topic on both sides, and how far its copy has come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sparkmirror.clusters import ClusterClient
from sparkmirror.clusters.probing import PartitionEnds
from sparkmirror.ledger import PartitionHistory
from sparkmirror.model import TopicPartition
from sparkmirror.tools.doctor.facts import Copy, Part, Stop, Stored, Subject, Synced
from sparkmirror.tools.doctor.gathering.asking import Asker
from sparkmirror.tools.evidence import Note, Side, copy_position, has_topic, read_to_mark
from sparkmirror.tools.standing_records import SyncTable
from sparkmirror.topology import TopicDecision
from sparkmirror.wire import MalformedInternalRecord, Record, decode_offset_sync

__all__ = ["SyncStory", "copies_of", "read_sync_story"]

HOLES_MAX = 3  # of one partition, the newest
MENDED_BY_ITSELF = ("FENCED", "IN_DOUBT", "TARGET_TRUNCATED")  # losses that the driver recovers from within moments


class SyncStory:
    """The topic of offset syncs in its own order: where offsets are missing between two, and where they went back."""

    def __init__(self) -> None:
        self.holes: dict[TopicPartition, list[tuple[Synced, Synced]]] = {}
        self.rewinds: dict[TopicPartition, tuple[Synced, Synced]] = {}
        self.firsts: dict[TopicPartition, Synced] = {}  # the oldest since either side began anew
        self._last: dict[TopicPartition, Synced] = {}

    def take(self, record: Record) -> None:
        """The next record; what is none of MM2's is passed over."""
        if record.key is None or record.value is None:
            return
        try:
            sync = decode_offset_sync(record.key, record.value)
        except MalformedInternalRecord:
            return
        place = sync.partition
        if sync.upstream_offset < 0:  # sparkmirror's word that a partition begins anew
            for known in (self.holes, self.rewinds, self.firsts, self._last):
                known.pop(place, None)
            return
        new = Synced(sync.upstream_offset, sync.downstream_offset, record.timestamp)
        before, self._last[place] = self._last.get(place), new
        is_anew = before is None or new.upstream < before.upstream or new.downstream < before.downstream
        if is_anew:
            self.firsts[place] = new
        if before is None:
            return
        if new.upstream < before.upstream:
            self.holes.pop(place, None)
            if new.downstream > before.downstream:
                self.rewinds[place] = (before, new)
        elif new.downstream < before.downstream:
            self.holes.pop(place, None)
        elif new.upstream - before.upstream > new.downstream - before.downstream:
            self.holes[place] = [*self.holes.get(place, []), (before, new)][-HOLES_MAX:]


def read_sync_story(asker: Asker) -> SyncStory:
    """Reads the topic of offset syncs once more; it is small, and only here the order of its records matters."""
    story = SyncStory()
    flow, topic = asker.evidence.flow, asker.evidence.syncs_topic
    side: Side = "source" if flow.offset_syncs_topic_location == "source" else "target"

    def read(client: ClusterClient) -> None:
        for record in read_to_mark(client, TopicPartition(topic, 0)):
            story.take(record)

    if has_topic(asker.evidence, side, topic) and Part.SYNCS not in asker.missing:
        asker.ask(Part.SYNCS, side, read, None)
    return story


def copies_of(
    asker: Asker, decisions: Sequence[TopicDecision], syncs: SyncTable, story: SyncStory
) -> dict[TopicPartition, Copy]:
    """Positions, syncs and ledger were read before; the ends are read now, so that growth cannot fake a loss."""
    evidence = asker.evidence
    view = evidence.topics("source")
    places = {
        TopicPartition(d.topic, index): TopicPartition(d.remote, index)
        for d in decisions
        if d.replicated and view is not None and d.topic in view.topics
        for index in sorted(view.topics[d.topic].leaders)
    }
    there = [remote for remote in places.values() if has_topic(evidence, "target", remote.topic)]
    known = evidence.topics("target")
    there = [r for r in there if known is not None and r.partition in known.topics[r.topic].leaders]
    source = asker.hear_each("source", _topic_of, lambda: evidence.ends("source", list(places)))
    target = asker.hear_each("target", _topic_of, lambda: evidence.ends("target", there))
    asker.ask(Part.SOURCE_ENDS, "source", lambda _: None, None)  # missing if the cluster does not answer any more
    asker.ask(Part.TARGET_ENDS, "target", lambda _: None, None)
    return {place: _copy(asker, place, remote, source, target, syncs, story) for place, remote in places.items()}


def _topic_of(note: Note) -> Subject:
    return Subject(note.needs.rpartition("topic ")[2] if "topic " in note.needs else "")


def _copy(
    asker: Asker,
    place: TopicPartition,
    remote: TopicPartition,
    source: Mapping[TopicPartition, PartitionEnds],
    target: Mapping[TopicPartition, PartitionEnds],
    syncs: SyncTable,
    story: SyncStory,
) -> Copy:
    evidence = asker.evidence
    position, stored = copy_position(evidence, place), evidence.positions().of(place)
    ledger = evidence.ledger()
    history = ledger.view.partitions.get(place) if ledger is not None else None
    sync = syncs.newest.get(place)
    newest = history.newest if history is not None else None
    proven = history.position() if history is not None else None
    is_ours = position is not None and position.basis == "ledger"
    stop_time = ledger.times.get(place) if ledger is not None else None
    return Copy(
        partition=place,
        remote=remote,
        source=source.get(place),
        target=target.get(remote),
        next_upstream=None if position is None else position.next_upstream_offset,
        basis="" if position is None else position.basis,
        position_ms=None if position is None else position.time_ms,
        stored=None if stored is None else Stored(stored.last_offset, stored.time_ms, stored.place),
        is_unstored=position is None and not evidence.positions().has_key_of(place),
        sync=None if sync is None else Synced(sync.sync.upstream_offset, sync.sync.downstream_offset, sync.time_ms),
        first_sync=story.firsts.get(place),
        holes=tuple(story.holes.get(place, ())),
        rewind=story.rewinds.get(place),
        next_downstream=proven.downstream if is_ours and proven is not None else None,
        source_topic_id=newest.source_topic_id if is_ours and newest is not None else "",
        target_topic_id=newest.target_topic_id if is_ours and newest is not None else "",
        first_run=_first_run(history) if is_ours and history is not None else None,
        stop=_stop(history, stop_time) if is_ours and history is not None else None,
        gaps=tuple(history.accepted_gaps()) if is_ours and history is not None else (),
    )


def _first_run(history: PartitionHistory) -> tuple[int, int] | None:
    first = min(history.runs(), key=lambda run: run.downstream, default=None)
    return None if first is None else (first.upstream, first.downstream)


def _stop(history: PartitionHistory, time_ms: int | None) -> Stop | None:
    newest = history.newest
    state = history.states.get(newest.attempt) if newest is not None else None
    if state is None or state.state == "copying" or (state.state == "lost" and state.code in MENDED_BY_ITSELF):
        return None
    return Stop("waiting" if state.state == "waiting" else "stopped", state.code, state.reason, time_ms, state.detail)
