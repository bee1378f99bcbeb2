"""The offset map ends where the source's log does: what retention deleted there is forgotten here."""

from __future__ import annotations

from sparkmirror.clusters import EARLIEST, list_offsets
from sparkmirror.ledger import outlived
from sparkmirror.pipeline.flow_context import FlowContext

__all__ = ["trim_map"]


def trim_map(context: FlowContext) -> None:
    """Removes what lies below the source's log starts from the ledger; only partitions with many runs are asked for."""
    held = [p for p, history in context.ledger.view.partitions.items() if len(history.blocks) > 1]
    view = context.source.view({partition.topic for partition in held})
    led = [partition for partition in held if view.leader(partition) is not None]
    if not led:
        return
    starts = list_offsets(context.source, led, timestamp=EARLIEST)
    histories = context.ledger.view.partitions
    context.ledger.remove([key for p, (start, _) in starts.items() for key in outlived(histories[p], start)])
