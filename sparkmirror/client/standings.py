"""Internal topics folded into answers, record by record, in the order of the log. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from sparkmirror.groups import Basis, Checkpoints, Copied, translate
from sparkmirror.ledger import LedgerView, Owner, SlotBeat, SlotStop
from sparkmirror.model import Checkpoint, TopicPartition
from sparkmirror.offsets import OffsetMap
from sparkmirror.wire import MalformedInternalRecord, Record, decode_checkpoint, decode_checkpoint_key

__all__ = ["CheckpointStandings", "LedgerStandings", "RemotePosition"]


@dataclass(frozen=True, slots=True)
class RemotePosition:
    """Where a reader of a source partition goes on: partition and next offset on the asked cluster, and why there.

    `missing` is how many upstream offsets from its position on were never copied.
    """

    partition: TopicPartition
    offset: int
    basis: Basis
    missing: int = 0


class CheckpointStandings:
    """A topic of checkpoints: the last checkpoint of a group and partition counts, a tombstone takes it away."""

    def __init__(self) -> None:
        self.malformed = 0
        self._checkpoints = Checkpoints()

    def take(self, record: Record) -> None:
        """The next record of the topic; one that is no checkpoint is counted and not used."""
        try:
            if record.key is None:
                raise MalformedInternalRecord("checkpoint without a key")
            if record.value is None:
                self._checkpoints.forget(*decode_checkpoint_key(record.key))
                return
            checkpoint = decode_checkpoint(record.key, record.value)
            if checkpoint.downstream_offset < 0:
                raise MalformedInternalRecord(f"checkpoint at offset {checkpoint.downstream_offset}")
        except MalformedInternalRecord:
            self.malformed += 1
            return
        self._checkpoints.take(checkpoint)

    def of(self, group: str) -> dict[TopicPartition, Checkpoint]:
        """The last checkpoint of a group for each remote partition."""
        return self._checkpoints.of(group)


class LedgerStandings:
    """Our ledger: the exact map of every partition that was copied."""

    def __init__(self) -> None:
        self._view = LedgerView()
        # A map is made when it is asked for and stays until the ledger says something new of its partition.
        self._copied: dict[TopicPartition, Copied] = {}

    @property
    def malformed(self) -> int:
        """How many records were none of the ledger's."""
        return self._view.malformed

    def take(self, record: Record) -> None:
        """The next record of the ledger."""
        told = self._view.read(record.key if record.key is not None else b"", record.value)
        match told:
            case None:
                self._copied.clear()  # a tombstone does not say whose map it changes
            case Owner() | SlotBeat() | SlotStop():
                pass
            case _:
                self._copied.pop(told.partition, None)

    def position(self, partition: TopicPartition, upstream: int) -> RemotePosition | None:
        """Where a reader at this upstream position goes on; None if nothing was copied that would tell."""
        history = self._view.partitions.get(partition)
        newest = history.newest if history is not None else None
        if history is None or newest is None:
            return None
        copied = self._copied.get(partition)
        if copied is None:
            copied = self._copied[partition] = Copied(history.position(), OffsetMap.of_blocks(history.run_blocks()), None)
        found = translate(upstream, copied)
        if found is None:
            return None
        remote = TopicPartition(newest.target_topic, partition.partition)
        return RemotePosition(remote, found.downstream, found.basis, found.missing)
