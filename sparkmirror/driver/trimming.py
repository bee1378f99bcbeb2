"""The offset map ends where the source's log does: what retention deleted there is forgotten here."""

from __future__ import annotations

from sparkmirror.clusters import EARLIEST, list_offsets
from sparkmirror.driver.flow_context import FlowContext
from sparkmirror.ledger import TRANSFORM_QUERY, condense, outlived


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


def condense_map(context: FlowContext) -> None:
    """Merges the ledger records of the transform query's batches; removes the old ones once the merged ones are acked."""
    for partition, order in context.placed.items():
        if order.slot != TRANSFORM_QUERY:
            continue
        again, removed = condense(context.ledger.view.of(partition))
        context.ledger.append(again)
        for record in again:
            context.ledger.view.apply(record)
        context.ledger.remove(removed)
