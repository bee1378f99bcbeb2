"""The mixed workload says who each record is; the judge over it is proved by mutation. Only the last test needs a broker."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from integration.mirroring import await_true, log_ends
from judge import JudgeRecord, compacted_violations, compare, java_digests, newest_violations, refuted_sends, send_violations
from judge.digests import digest, gather, named_send

from faults.chaos import Verdict, keep
from faults.judging import GroupWatch
from faults.mixed import (
    KEYS,
    LANES,
    MIXED,
    PARTITIONS,
    SIZE_MAX,
    TRANSACTED,
    Books,
    MixedWorkload,
    Outcome,
    Shape,
    Shaper,
    key_of,
    send_id,
)
from faults.soak import Sample, Soak, Use, draw, last_life, put_between, report, slope_per_hour

RUN = "run"
IDENTIFY = named_send(RUN, send_id)


def read(shape: Shape, offset: int = 0) -> JudgeRecord:
    """The record as Java would read it."""
    return JudgeRecord(offset, shape.timestamp_ms or 0, "CreateTime", shape.key, shape.value, tuple(shape.headers))


def shapes(lane: int, count: int = 400) -> Iterator[Shape]:
    shaper = Shaper(RUN, LANES[lane], "seed")
    return (shaper.shape(1, number) for number in range(count))


# --- the workload ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lane", range(len(LANES)))
def test_every_record_of_every_lane_says_who_it_is(lane: int) -> None:
    for number, shape in enumerate(shapes(lane)):
        assert IDENTIFY(1, read(shape)) == send_id(lane, number)


def test_the_workload_has_every_shape_that_it_promises() -> None:
    found = list(shapes(0, 3000))
    sizes = [len(shape.value) for shape in found if shape.value is not None]
    assert (min(sizes), max(sizes)) == (0, SIZE_MAX)
    assert any(shape.value is None for shape in found) and any(shape.value is None and shape.key is None for shape in found)
    assert {shape.key for shape in found} > {None, b""}
    headers = [shape.headers for shape in found]
    assert any([name for name, _ in row].count("h") == 3 for row in headers)
    assert any(value is None for row in headers for _, value in row) and any(not row for row in headers)
    times = [shape.timestamp_ms or 0 for shape in found]
    assert min(times) < 1_000_000 and any(late < early for early, late in itertools.pairwise(times))
    assert any(late == early for early, late in itertools.pairwise(times))
    assert {lane.codec for lane in LANES} == {None, "gzip", "snappy", "lz4", "zstd"}
    assert {lane.kind for lane in LANES} == {"plain", "idempotent", "transactional", "keyed", "refused"}


def test_the_same_seed_gives_the_same_bytes() -> None:
    first, again = ([(s.key, s.value, s.headers) for s in shapes(2, 50)] for _ in range(2))
    assert first == again


def named(partition: int, record: JudgeRecord) -> int | None:
    """Whose it says it is, None if that cannot be true."""
    try:
        return IDENTIFY(partition, record)
    except ValueError:
        return None


@pytest.mark.parametrize("part", ["value", "key", "partition", "name"])
def test_a_record_that_was_changed_does_not_say_who_it_is(part: str) -> None:
    rng, caught = random.Random(1), 0
    for shape in shapes(0, 200):
        record, partition = read(shape), 1
        if part == "value" and record.value:
            at = rng.randrange(len(record.value))
            record = record._replace(value=record.value[:at] + bytes([record.value[at] ^ 1]) + record.value[at + 1 :])
        elif part == "key" and record.key:
            record = record._replace(key=record.key + b"0")
        elif part == "partition":
            partition = 2
        elif part == "name" and not record.headers and record.value:
            record = record._replace(value=b"other" + record.value)
        else:
            continue
        assert named(partition, record) != IDENTIFY(1, read(shape))
        caught += 1
    assert caught > 20


# --- the judge of sends ----------------------------------------------------------------------------------------

OUTCOMES = dict(enumerate([Outcome.OK] * 5 + [*Outcome] * 3))
THERE = [number for number, outcome in OUTCOMES.items() if outcome is Outcome.OK]


def test_true_sends_pass() -> None:
    uncertain = [number for number, outcome in OUTCOMES.items() if outcome is not Outcome.OK]
    committed = [number for number in uncertain if OUTCOMES[number] is not Outcome.ABORTED]
    assert send_violations(OUTCOMES, THERE, THERE, committed_only=True) == []
    assert send_violations(OUTCOMES, THERE + uncertain, THERE + uncertain, committed_only=False) == []
    assert send_violations(OUTCOMES, THERE + committed, THERE + committed, committed_only=True) == []


Mutation = Callable[[list[int], list[int]], tuple[list[int], list[int]]]
ABORTED = next(number for number, outcome in OUTCOMES.items() if outcome is Outcome.ABORTED)
FAILED = next(number for number, outcome in OUTCOMES.items() if outcome is Outcome.FAILED)
UNKNOWN = next(number for number, outcome in OUTCOMES.items() if outcome is Outcome.UNKNOWN)
SEND_MUTATIONS: dict[str, Mutation] = {
    "an ok one is lost on the way": lambda source, target: (source, target[1:]),
    "an ok one is lost on both sides": lambda source, target: (source[1:], target[1:]),
    "an ok one is doubled on the way": lambda source, target: (source, [*target, target[0]]),
    "an ok one is doubled on both sides": lambda source, target: ([*source, source[0]], [*target, target[0]]),
    "a failed one is only on the target": lambda source, target: (source, [*target, FAILED]),
    "a failed one is only on the source": lambda source, target: ([*source, FAILED], target),
    "an unknown one is doubled": lambda source, target: ([*source, UNKNOWN], [*target, UNKNOWN, UNKNOWN]),
    "an aborted one is copied": lambda source, target: (source, [*target, ABORTED]),
    "an aborted one is seen on both sides": lambda source, target: ([*source, ABORTED], [*target, ABORTED]),
    "one is nobody's": lambda source, target: ([*source, 999], [*target, 999]),
}


@pytest.mark.parametrize("mutation", SEND_MUTATIONS.values(), ids=SEND_MUTATIONS.keys())
def test_every_mutation_of_the_sends_is_caught(mutation: Mutation) -> None:
    source, target = mutation(list(THERE), list(THERE))
    assert len(send_violations(OUTCOMES, source, target, committed_only=True)) == 1


def test_a_send_that_the_source_itself_aborted_is_taken_for_that_and_a_lost_one_is_not() -> None:
    _lost, aborted, *kept = THERE
    assert refuted_sends(OUTCOMES, kept, [aborted, *kept, ABORTED]) == {aborted}
    outcomes = OUTCOMES | {aborted: Outcome.ABORTED}
    assert len(send_violations(outcomes, kept, kept, committed_only=True)) == 1  # the lost one
    assert len(send_violations(outcomes, kept, [aborted, *kept], committed_only=True)) == 2  # and now one that was copied


# --- the judge of compacted topics -----------------------------------------------------------------------------


def keyed(count: int = 60) -> list[JudgeRecord]:
    return [JudgeRecord(at, at, "CreateTime", key_of(at % 7), b"%d" % at, ()) for at in range(count)]


def cleaned(records: list[JudgeRecord], upto: int) -> list[JudgeRecord]:
    """What the cleaner leaves when it has been up to an offset: before it only the last of each key."""
    last = {record.key: record.offset for record in records if record.offset < upto}
    return [record for record in records if record.offset >= upto or last[record.key] == record.offset]


@pytest.mark.parametrize(("source_upto", "target_upto"), [(0, 0), (30, 0), (0, 30), (50, 20), (20, 50), (60, 60), (60, 0)])
def test_sides_that_were_cleaned_at_other_times_are_one_topic(source_upto: int, target_upto: int) -> None:
    records = keyed()
    assert compacted_violations(cleaned(records, source_upto), cleaned(records, target_upto)) == []


@pytest.mark.parametrize("at", [0, 5, -2])
@pytest.mark.parametrize("mutation", ["drop", "double", "swap", "flip"])
def test_every_mutation_of_a_compacted_side_is_caught(mutation: str, at: int) -> None:
    source = cleaned(keyed(), 60)
    target = list(source)
    if mutation == "drop":
        del target[at]
    elif mutation == "double":
        target.append(target[at])
    elif mutation == "swap":
        target[at], target[at + 1] = target[at + 1], target[at]
    else:
        target[at] = target[at]._replace(value=b"?")
    assert compacted_violations(source, target)
    assert compacted_violations(target, source)


def test_the_newest_of_every_key_must_be_there() -> None:
    outcomes = dict.fromkeys(range(2 * KEYS), int(Outcome.OK)) | {2 * KEYS: int(Outcome.UNKNOWN)}
    newest = list(range(KEYS, 2 * KEYS))
    sides = {"source": newest, "target": newest}
    assert newest_violations(outcomes, key_of, sides) == []
    assert newest_violations(outcomes, key_of, sides | {"target": [*newest[1:], 2 * KEYS]}) == []  # the unknown one is newer
    assert newest_violations(outcomes, key_of, sides | {"target": newest[1:]})
    assert newest_violations(outcomes, key_of, sides | {"source": [0, *newest[1:]]})
    assert newest_violations(outcomes, key_of, sides | {"target": [*newest, newest[-1]]})
    assert newest_violations(outcomes, key_of, sides | {"target": [*newest, 999]})


# --- digests ---------------------------------------------------------------------------------------------------


def test_digests_differ_wherever_records_do() -> None:
    record = JudgeRecord(3, 1, "CreateTime", b"k", b"value", (("h", b"x"), ("h", None)))
    others = [
        record._replace(key=None),
        record._replace(value=b"valuf"),
        record._replace(value=None),
        record._replace(headers=record.headers[::-1]),
        record._replace(headers=(("h", b"x"), ("h", b""))),
        record._replace(timestamp=2),
    ]
    assert compare({0: [digest(record)]}, {0: [digest(record)]}) == []
    assert [compare({0: [digest(record)]}, {0: [digest(other)]}) == [] for other in others] == [False] * len(others)
    assert digest(record._replace(value=b"")) != digest(record._replace(value=None))


def test_what_is_broken_is_told_with_its_place() -> None:
    records = [read(shape, offset) for offset, shape in enumerate(shapes(0, 3))]
    records[1] = records[1]._replace(value=b"?", headers=())
    found = gather([0, 1], ((1, record) for record in records), IDENTIFY)
    assert [line.partition(": ")[0] for line in found.damaged] == ["partition 1, offset 1"]
    assert list(found.sends[1]) == [send_id(0, 0), send_id(0, 2)]
    assert (len(found.records[1]), found.records[0]) == (3, [])


# --- what watches and what is drawn ----------------------------------------------------------------------------


def test_a_group_that_is_set_back_is_seen() -> None:
    watch = GroupWatch("nowhere:1")
    for offset in (5, 5, 9):
        watch.see("g", {("t", 0): offset, ("t", 1): 3})
    assert watch.violations == []
    watch.see("g", {("t", 0): 8})
    assert watch.violations == ["g was set back in t-0: 9 to 8"]


def a_soak() -> Soak:
    samples = [
        Sample(5.0 * at, 1 if at < 20 else 2, Use(100, 10, 5, 1), Use(300 + at, 50, 40, 1), Use(2.0 * at, 20, 4, 2), at * 7)
        for at in range(100)
    ]
    faults = [(60.0, "cut <produce>"), (130.0, "crash source")]
    return Soak(7, 8.0, 5.0, samples, faults, [], ["a note"], 1000, "3 ok", 10**9, 2.0, 3.0)


def test_growth_is_told_in_figures() -> None:
    soak = a_soak()
    assert slope_per_hour([(0.0, 1.0), (1800.0, 2.0), (3600.0, 3.0)]) == pytest.approx(2.0)
    assert {sample.life for sample in last_life(soak.samples)} == {2}
    assert last_life(soak.samples)[0].at - 100.0 >= 120.0
    text = report(soak, "abc", "2026-01-01")
    assert "**0 violations.**" in text and "| workers | 88 | 198 | 198 | +1440 |" in text
    soak.records = 0
    assert "0 violations" not in report(soak, "abc", "2026-01-01") and "**Not judged.**" in report(soak, "abc", "2026-01-01")
    soak.records = 1000
    soak.violations.append("something was lost")
    assert "0 violations" not in report(soak, "abc", "2026-01-01")


def test_the_picture_is_well_formed_and_has_a_line_for_every_fault_in_every_panel() -> None:
    root = ElementTree.fromstring(draw(a_soak()))
    titles = [title.text for title in root.iter("{http://www.w3.org/2000/svg}title")]
    assert titles.count("cut <produce>") == titles.count("crash source") == 4
    assert len(list(root.iter("{http://www.w3.org/2000/svg}polyline"))) == 10


def test_only_what_stands_between_the_marks_is_replaced(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<a>\nold\n<b>\nafter\n")
    put_between(page, "<a>", "<b>", "new")
    put_between(page, "<a>", "<b>", "newer")
    assert page.read_text() == "before\n<a>\n\nnewer\n\n<b>\nafter\n"


def test_a_send_is_unknown_until_it_is_settled() -> None:
    books, place = Books(), (0, "mixed", 1)
    assert [books.issue(place) for _ in range(3)] == [0, 1, 2]
    books.settle(place, 1, Outcome.OK)
    assert list(books.outcomes[place]) == [Outcome.UNKNOWN, Outcome.OK, Outcome.UNKNOWN]


def test_results_of_seeds_are_kept_beside_those_of_others(tmp_path: Path) -> None:
    store, page = tmp_path / "seeds.json", tmp_path / "seeds.md"
    first, again = Verdict(12, ["kill driver (0.1 s)"], ["lost"], records=5), Verdict(12, ["cut fetch"], records=7)
    for verdict in (first, Verdict(3), again):
        keep(verdict, store, page)
    rows = [line for line in page.read_text().splitlines() if line.startswith("| ") and line[2].isdigit()]
    assert [row.split(" | ")[:3] for row in rows] == [["| 3", "0", "0"], ["| 12", "0", "7"]]
    assert "2 seeds, 1 faults, 7 records judged; 0 seeds with violations." in page.read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["seeds.json", "seeds.md"]


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_what_the_workload_calls_ok_is_on_its_broker_once(own_cluster, tmp_path: Path) -> None:
    cluster = own_cluster("mixed")
    with MixedWorkload(cluster, tmp_path, run=RUN, seed=1, megabytes_per_s=2.0, groups=["group-1"]) as workload:
        await_true(lambda: min(log_ends(cluster, topic)[0] for topic in PARTITIONS) > 100, 120, "records in every topic")
        sent = workload.finish()
    for topic in (MIXED, TRANSACTED):
        for isolation in ("read_committed", "read_uncommitted"):
            found = java_digests(cluster.bootstrap, topic, isolation, IDENTIFY)
            assert found.damaged == []
            for partition, sends in found.sends.items():
                outcomes = {
                    send_id(lane, number): code
                    for (lane, sent_topic, sent_partition), codes in sent.outcomes.items()
                    if (sent_topic, sent_partition) == (topic, partition)
                    for number, code in enumerate(codes)
                }
                is_committed = isolation == "read_committed"
                assert send_violations(outcomes, sends, sends, committed_only=is_committed) == [], sent.troubles
    codes = b"".join(sent.outcomes.values())
    assert all(codes.count(outcome) for outcome in (Outcome.OK, Outcome.FAILED, Outcome.ABORTED)), sent.counted()
