"""Find-out on logs made by hand: what it pairs, passes, waits for and refuses."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from typing import Any

import pytest
from crc32c import crc32c

from sparkmirror.errors import ContentDiffers, CorruptBatch, OrderBroken, ReplicationError, TargetHasStranger
from sparkmirror.ledger import (
    AskEnds,
    AskPause,
    AskSource,
    AskTarget,
    Baseline,
    Ends,
    Found,
    Position,
    Run,
    SourceChunk,
    Truncated,
    find_out,
)
from sparkmirror.model import TopicPartition
from sparkmirror.wire import BatchView, Producer, Record, build_batch, build_sparse_batch, read_batches

P = TopicPartition("orders", 0)
US, EPOCH = 7, 4


def a_record(offset: int, name: str) -> Record:
    return Record(offset, 1000, name.encode(), b"v", ())


def a_batch(base: int, names: str, sequence: int, *, producer: int = US, epoch: int = EPOCH) -> bytes:
    """Records at consecutive offsets, one for each letter; a dot is one that the cleaner took."""
    records = [a_record(base + at, name) for at, name in enumerate(names) if name != "."]
    return bytes(build_sparse_batch(records, producer=Producer(producer, epoch, sequence)))


def a_marker(base: int, *, producer: int = US, epoch: int = EPOCH + 1) -> bytes:
    record = Record(0, 0, b"\x00\x00\x00\x01", b"\x00" * 6)
    return bytes(build_batch([record], base_offset=base, producer=Producer(producer, epoch, -1), attributes=0x30))


def views(*batches: bytes) -> list[BatchView]:
    joined = b"".join(batches)
    return read_batches(memoryview(joined), 0, len(joined))


def source_batches(records: Sequence[Record], epochs: str) -> list[bytes]:
    """One batch for each leader epoch."""
    made = []
    for epoch, group in itertools.groupby(records, lambda record: int((epochs or "0" * 99)[record.offset])):
        batch = build_sparse_batch(list(group))
        struct.pack_into(">i", batch, 12, epoch if epochs else -1)
        made.append(bytes(batch))
    return made


def run(
    target: Sequence[bytes],
    source: str,
    *,
    end: int | None = None,
    start: int = 0,
    ends: Sequence[Ends] = (),
    epochs: str = "",
    **changes: Any,
) -> Any:
    """The outcome; the source is one letter for each offset, a dot for none, and a digit for each one's leader epoch."""
    log = views(*target)
    log_end = end if end is not None else (log[-1].last_offset + 1 if log else 0)
    records = [a_record(at, name) for at, name in enumerate(source) if name != "."]
    settings = {
        "position": Position(0, 0, 0),
        "producer_ids": frozenset((US,)),
        "sequenced_by": (US, EPOCH),
        "shared": False,
        "source_compacts": False,
        "target_compacts": False,
        "compare_timestamps": True,
    } | changes
    asking = find_out(Baseline(partition=P, target=TopicPartition("a.orders", 0), **settings))
    told, answer = list(ends), None
    for _ in range(200):
        try:
            ask = asking.send(answer)
        except StopIteration as stop:
            return stop.value
        match ask:
            case AskEnds():
                answer = told.pop(0) if told else Ends(log_end, log_end, 1, start)
            case AskTarget(offset):
                is_there = offset >= start
                answer = [b for b in log if b.last_offset >= offset and b.last_offset < log_end] if is_there else []
            case AskSource(offset):
                left = [r for r in records if r.offset >= offset]
                answer = SourceChunk(views(*source_batches(left, epochs)), None, 0)
            case AskPause():
                answer = None
    raise AssertionError("find-out does not end")


def test_what_is_in_the_log_is_paired_and_counted() -> None:
    found = run([a_batch(0, "abc", 0), a_batch(3, "de", 3), a_marker(5)], "ab.cdefg")
    assert found == Found(Position(6, 6, 5), [Run(0, 0, 2), Run(3, 2, 3)], marker_last=True, fenced=True)


@pytest.mark.parametrize(
    ("copied", "source", "epochs", "wanted"),
    [
        ("abc", "abcde", "00000", 0),
        ("abc", "abcde", "00111", 1),
        ("abc", "abcde", "00011", 1),  # up to the first record of epoch 1, which is not copied yet
        ("abc", "abc..de", "0000022", 2),  # what lay between was compacted away: nobody knows where epoch 0 ended
        ("abcde", "abcde", "00112", 2),
        ("", "abc", "000", -1),
    ],
)
def test_the_leader_epoch_reaches_as_far_as_what_was_found(copied: str, source: str, epochs: str, wanted: int) -> None:
    """A position with an epoch that ends below it would look like a source that lost records."""
    found = run([a_batch(0, copied, 0)] if copied else [], source, epochs=epochs)
    assert found.source_leader_epoch == wanted
    assert wanted < 0 or int(epochs[min(found.position.upstream, len(epochs) - 1)]) <= wanted


def test_D1_the_log_is_read_only_when_everything_on_the_leader_is_replicated() -> None:
    unsettled = [Ends(1, 3, 1, 0), Ends(3, 3, 1, 0), Ends(3, 3, 2, 0)]
    assert run([a_batch(0, "abc", 0)], "abc", ends=unsettled).position == Position(3, 3, 3)


def test_a_shorter_log_is_truncated() -> None:
    assert run([a_batch(0, "abc", 0)], "abcde", position=Position(5, 5, 5)) == Truncated(3)


@pytest.mark.parametrize("last_copy", [(4, US, EPOCH), (4, -1, -1)])
def test_L19_a_marker_where_a_proven_record_was_is_no_record(last_copy: tuple[int, int, int]) -> None:
    log = [a_batch(0, "abcd", 0), a_marker(4)]
    assert run(log, "abcde", position=Position(5, 5, 5), last_copy=last_copy) == Truncated(4)


def test_L19_a_batch_of_ours_where_another_one_was_is_seen_by_its_sequence() -> None:
    log = [a_batch(0, "abc", 0), a_batch(3, "fg", 5)]
    assert run(log, "abcdefg", position=Position(5, 5, 5)) == Truncated(3)


def test_L19_a_batch_that_reaches_over_the_position_is_not_where_it_was() -> None:
    assert run([a_batch(0, "abcd", 0), a_batch(4, "fgh", 5)], "abcdefgh", position=Position(5, 5, 5)) == Truncated(4)


def test_L18_records_that_the_targets_cleaner_took_are_counted_by_sequence() -> None:
    log = [a_batch(0, "a.c", 0), a_batch(5, "f", 5)]
    found = run(log, "abcdefg", target_compacts=True)
    # They were copied: each has its place in the map, as one has that the cleaner takes after its receipt.
    assert (found.position, found.runs) == (Position(6, 6, 6), [Run(0, 0, 6)])


def test_L18_where_a_marker_is_gone_with_them_nobody_knows_which_place_was_whose() -> None:
    found = run([a_batch(0, "ab", 0), a_batch(5, "e", 4)], "abcdef", target_compacts=True)
    assert (found.position, found.runs) == (Position(5, 6, 5), [Run(0, 0, 2), Run(4, 5, 1)])


def test_a_hole_in_the_sequences_without_a_hole_in_the_offsets_was_never_written() -> None:
    for compacts in (False, True):
        with pytest.raises(OrderBroken):
            run([a_batch(0, "ab", 0), a_batch(2, "f", 5)], "abcdef", target_compacts=compacts)


def test_L9_a_copy_whose_upstream_record_is_gone_keeps_its_place_without_a_partner() -> None:
    found = run([a_batch(0, "abc", 0)], "a.cde", source_compacts=True)
    assert (found.position, found.runs) == (Position(3, 3, 3), [Run(0, 0, 1), Run(2, 2, 1)])


def test_where_both_sides_compact_a_hole_is_not_taken_for_as_many_source_records() -> None:
    # k was written three times; both cleaners kept the last one. d and e were never copied.
    found = run([a_batch(2, "k", 2)], "..kde", source_compacts=True, target_compacts=True)
    assert (found.position, found.runs) == (Position(3, 3, 3), [Run(2, 2, 1)])


def test_where_both_sides_compact_what_only_the_target_lost_is_passed_over() -> None:
    found = run([a_batch(0, "a", 0), a_batch(3, "d", 3)], "abcde", source_compacts=True, target_compacts=True)
    assert (found.position, found.runs) == (Position(4, 4, 4), [Run(0, 0, 1), Run(3, 3, 1)])


def test_content_that_is_not_the_sources_stops() -> None:
    with pytest.raises(ContentDiffers):
        run([a_batch(0, "abx", 0)], "abc")


def test_a_strangers_records_stop_and_a_strangers_marker_does_not() -> None:
    with pytest.raises(TargetHasStranger):
        run([a_batch(0, "a", 0, producer=99)], "abc")
    found = run([a_marker(0, producer=99)], "abc")
    assert (found.position, found.marker_last, found.fenced) == (Position(0, 1, 0), False, False)


def test_a_successors_records_are_not_taken_for_our_own() -> None:
    with pytest.raises(TargetHasStranger):
        run([a_marker(0), a_batch(1, "ab", 0, epoch=EPOCH + 1)], "abc")


def test_a_batch_of_ours_behind_the_fence_means_that_the_fence_does_not_hold() -> None:
    assert not run([a_marker(0), a_batch(1, "ab", 0)], "abc").fenced


def test_L17_a_tail_that_was_deleted_is_counted_by_sequence_or_not_at_all() -> None:
    found = run([a_batch(3, "de", 3)], "abcdef", start=3)
    assert found.position == Position(5, 5, 5)
    with pytest.raises(ContentDiffers):
        run([a_marker(3)], "abcdef", start=3)


def test_what_is_deleted_while_it_is_read_does_not_hang_the_reading() -> None:
    log = [a_batch(3, "de", 3)]
    first = [Ends(5, 5, 1, 0)] * 2
    later = [Ends(5, 5, 1, 3)]
    assert run(log, "abcdef", ends=[*first, *later], start=3, end=5).position == Position(5, 5, 5)


def test_a_source_batch_that_cannot_be_read_is_an_error_and_no_endless_loop() -> None:
    raw = bytearray(build_batch([a_record(0, "a")]))
    raw[61] ^= 0x55  # the record's length; the checksum is made right again
    struct.pack_into(">I", raw, 17, crc32c(memoryview(raw)[21:]))
    asking = find_out(
        Baseline(P, P, Position(0, 0, 0), frozenset((US,)), (US, EPOCH), False, False, False, True)
    )
    answer: Any = None
    with pytest.raises(CorruptBatch):
        for _ in range(50):
            ask = asking.send(answer)
            match ask:
                case AskEnds():
                    answer = Ends(1, 1, 1, 0)
                case AskTarget():
                    answer = views(a_batch(0, "a", 0))
                case AskSource():
                    answer = SourceChunk(views(bytes(raw)), None, 0)
        raise AssertionError("find-out does not end")


def test_every_refusal_is_a_replication_error() -> None:
    assert all(issubclass(kind, ReplicationError) for kind in (ContentDiffers, OrderBroken, TargetHasStranger, CorruptBatch))


def test_copies_of_what_the_source_lost_keep_their_place_and_the_rest_is_paired() -> None:
    log = [a_batch(0, "cdefg", 0), a_marker(5)]
    found = run(log, ".....fgh", position=Position(2, 0, 0), source_compacts=True)
    assert (found.position, found.runs) == (Position(7, 6, 5), [Run(5, 3, 2)])


def test_what_a_stranger_wrote_is_passed_over_where_somebody_said_so() -> None:
    log = [a_batch(0, "ab", 0), a_batch(2, "x", 0, producer=99), a_batch(3, "cd", 2)]
    with pytest.raises(TargetHasStranger):
        run(log, "abcd")
    found = run(log, "abcd", shared=True)
    assert (found.position, found.runs) == (Position(4, 5, 4), [Run(0, 0, 2), Run(2, 3, 2)])


def test_what_a_stranger_wrote_below_the_position_is_no_loss_where_somebody_said_so() -> None:
    log = [a_batch(0, "abc", 0), a_batch(3, "xy", 0, producer=99)]
    behind = {"position": Position(3, 5, 3), "last_copy": (2, US, EPOCH)}
    assert run(log, "abcde", **behind) == Truncated(3)
    assert run(log, "abcde", **behind, foreign_below=True).position == Position(3, 5, 3)
    lost = [a_batch(0, "ab", 0), a_marker(2), *log[1:]]
    assert run(lost, "abcde", **behind, foreign_below=True) == Truncated(2)
