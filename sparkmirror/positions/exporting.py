"""`offsets export`: every stored position of a flow in a file, with the partition of the topic that holds it."""

from __future__ import annotations

from sparkmirror.clusters import ClusterClient
from sparkmirror.config import FlowSettings
from sparkmirror.driver import FlowLedger
from sparkmirror.positions.requests import StoragePlace
from sparkmirror.positions.snapshots import LedgerPosition, SavedRecord, Snapshot
from sparkmirror.positions.stored import present_topics, read_stored
from sparkmirror.positions.undo_file import now_text
from sparkmirror.topology import ledger_topic, policy_for


def export(flow: FlowSettings, storage: StoragePlace) -> Snapshot:
    """What is stored now, of every connector in the same topic; may be read while the flow runs."""
    target = ClusterClient(flow.target)
    try:
        topics = storage.offsets_topics or (flow.offset_storage_topic,)
        stored = read_stored(target, topics, connector=storage.connector, alias=flow.name.source)
        records = list(stored.all())
        policy = policy_for(flow)
        copies = sorted({policy.format_remote_topic(flow.name.source, p.topic) for p in stored.partitions()})
        view = target.view(copies).topics
        return Snapshot(
            kind="export",
            flow=str(flow.name),
            connector=storage.connector,
            time=now_text(),
            positions=tuple(
                SavedRecord(record.place, record.key, record.value)
                for record in sorted(records, key=lambda record: (record.place, record.offset))
            ),
            ledger=_ledger(target, ledger_topic(flow.name.source)),
            topic_ids={name: topic.topic_id.hex() for name, topic in sorted(view.items()) if not topic.error},
        )
    finally:
        target.close()


def _ledger(target: ClusterClient, topic: str) -> tuple[LedgerPosition, ...]:
    if not present_topics(target, [topic]):
        return ()
    positions = {p: history.position() for p, history in FlowLedger(target, topic).read_all().partitions.items()}
    return tuple(LedgerPosition(p, at.upstream, at.downstream) for p, at in sorted(positions.items()) if at is not None)
