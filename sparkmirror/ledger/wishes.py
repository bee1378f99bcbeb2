"""Which wish decides about a part of a flow. A wish about more than that part counts as well; stopped before paused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sparkmirror.ledger.flow_records import Wish, WishKey
from sparkmirror.ledger.records import removed
from sparkmirror.model import TopicPartition

SOURCE, CHECKPOINT, HEARTBEAT = CONNECTORS = ("source", "checkpoint", "heartbeat")
PAUSED, STOPPED = "paused", "stopped"


def wish_on(wishes: Mapping[WishKey, Wish], partition: TopicPartition) -> Wish | None:
    """What keeps a partition from being copied, None if nobody wants that."""
    if not wishes:
        return None
    keys = (WishKey(SOURCE), WishKey(SOURCE, partition.topic), WishKey(SOURCE, *partition))
    return _strongest(wishes[key] for key in keys if key in wishes)


def flow_wish(wishes: Iterable[Wish], connector: str) -> Wish | None:
    """What keeps a connector from doing anything at all for the flow."""
    return next((wish for wish in wishes if wish.key == WishKey(connector)), None)


def wider_wish(wishes: Mapping[WishKey, Wish], scope: WishKey) -> Wish | None:
    """A wish about more than the scope, all of which it is about, too."""
    return _strongest(wish for key, wish in wishes.items() if key != scope and key.covers(scope))


def wishes_within(wishes: Mapping[WishKey, Wish], scope: WishKey) -> list[Wish]:
    """The wishes about the scope or parts of it."""
    return [wish for key, wish in wishes.items() if scope.covers(key)]


def wish_removed(wish: Wish) -> tuple[bytes, None]:
    """The key that removes it, and no value."""
    topic, partition = wish.topic or None, None if wish.partition < 0 else wish.partition
    return removed("wish", wish.connector, topic, partition)


def _strongest(wishes: Iterable[Wish]) -> Wish | None:
    """A stopped one, else the first: callers name the widest first."""
    found = list(wishes)
    return next((wish for wish in found if wish.state == STOPPED), found[0] if found else None)
