"""A chain of Connect's transforms in an mm2.properties that MirrorMaker 2 runs too, and records for each of its steps."""

from __future__ import annotations

from integration.mirroring import create_topics, produce_raw
from integration.scenario import Pair

from sparkmirror.wire import Record, build_batch

__all__ = ["LITERAL", "ROUTED", "STAMP", "chain_properties", "moved", "produce_for_chain"]

TRANSFORMS = "org.apache.kafka.connect.transforms."
LITERAL = "eu-west 1"
STAMP = 1_790_000_000_000
ROUTED = (1, 2)  # test topics whose records go elsewhere; 3 stays
PARTITIONS = 2


def moved(pair: Pair, number: int) -> str:
    """Where the records of a test topic go."""
    return f"{pair.source}.moved-{number}-{pair.mark}" if number in ROUTED else pair.remote(number)


def chain_properties(pair: Pair, literal: str) -> dict[str, str]:
    """The keys of the flow: routes, leaves out two kinds of records, and puts a header on what remains."""
    keys = {
        "transforms": "route, marked, gone, origin",
        "predicates": "is.marked, is.gone, is.test",
        # A replacement in a file of properties: `$1` needs no escape, each backslash needs one.
        "transforms.route.type": TRANSFORMS + "RegexRouter",
        "transforms.route.regex": f"(.*)\\\\.test-topic-([12])-{pair.mark}",
        "transforms.route.replacement": f"$1.moved-$2-{pair.mark}",
        "transforms.marked.type": TRANSFORMS + "Filter",
        "transforms.marked.predicate": "is.marked",
        "predicates.is.marked.type": TRANSFORMS + "predicates.HasHeaderKey",
        "predicates.is.marked.name": "internal",
        "transforms.gone.type": TRANSFORMS + "Filter",
        "transforms.gone.predicate": "is.gone",
        "predicates.is.gone.type": TRANSFORMS + "predicates.RecordIsTombstone",
        "transforms.origin.type": TRANSFORMS + "InsertHeader",
        "transforms.origin.header": "origin",
        "transforms.origin.value.literal": literal,
        "transforms.origin.predicate": "is.test",
        "predicates.is.test.type": TRANSFORMS + "predicates.TopicNameMatches",
        "predicates.is.test.pattern": f".*-[123]-{pair.mark}|heartbeats",
    }
    return {f"{pair.flow}.{key}": text for key, text in keys.items()}


def produce_for_chain(pair: Pair) -> None:
    """Three topics on the source with every kind of record, and the topics that the chain routes to on the target."""
    numbers = (1, 2, 3)
    create_topics(pair.primary, {pair.topic(number): (PARTITIONS, {"retention.ms": "-1"}) for number in numbers})
    kept = (PARTITIONS, {"retention.ms": "-1"})
    create_topics(pair.backup, {moved(pair, number): kept for number in ROUTED})
    for number in numbers:
        produce_raw(pair.primary, pair.topic(number), {at: [_batch(number, at)] for at in range(PARTITIONS)})


def _batch(number: int, partition: int) -> bytearray:
    at = f"{number}-{partition}".encode()
    headers = ((), ((b"a", b"\x00\xff"), (b"a", None)), ((b"internal", b"1"),), ((b"origin", b"old"),))
    records = [
        Record(offset, STAMP + offset, b"k" + at, None if offset == 5 else b"v%d-" % offset + at, headers[offset % 4])
        for offset in range(10)
    ]
    return build_batch(records, codec=0)
