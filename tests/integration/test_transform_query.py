"""The transform query in `run`: transforms on real clusters, exact whatever dies. Java's consumer is the judge."""

from __future__ import annotations

import functools
import json
import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from integration.mirroring import (
    LiveMirror,
    Outcome,
    await_true,
    create_topics,
    flow_settings,
    log_ends,
    move_log_start,
    produce,
    produce_raw,
    run_once,
    topics_of,
    write_settings,
)
from integration.scenario import commit
from judge import compare, java_records
from shapes import PARTITIONS, STARTED, batches_of_shapes

from sparkmirror.local import LocalCluster, consumer_groups

pytestmark = pytest.mark.timeout(900)
WAIT_S = 180.0
KILLS = int(os.environ.get("SPARKMIRROR_LANE_KILLS", "4"))
GROUPS = 20
NIGHTLY = functools.partial(pytest.param, marks=pytest.mark.nightly)


def order_of(number: int) -> bytes:
    country = ("de", "us", "fr", "pl")[number % 4]
    return b'{"id": %d, "card": "4711-%d", "country": "%s"}' % (number, number, country.encode())


def masked(value: bytes) -> bytes:
    told = json.loads(value)
    return value.replace(b'"%s"' % told["card"].encode(), b'"***"')


MASK = "select * except (value), json_mask(value, '$.card') as value from records"
FILTER = "select * from records where get_json_object(string(value), '$.country') <> 'us'"
ROUTE = (
    "select * except (topic), if(get_json_object(string(value), '$.country') = 'fr', '{}', topic) as topic from records"
)
RE_KEY = "select * except (key), binary(get_json_object(string(value), '$.country')) as key from records"


def transforms(flow: str, **sqls: tuple[str, str]) -> dict[str, str]:
    """Keys of transforms by name: topics and SQL, in the order given."""
    keys = {}
    for number, (name, (topics, sql)) in enumerate(sqls.items()):
        keys[f"{flow}.transform.{name}.topics"] = topics
        keys[f"{flow}.transform.{name}.sql"] = sql
        keys[f"{flow}.transform.{name}.order"] = str(number)
    return keys


def transform_file(
    source: LocalCluster, target: LocalCluster, folder: Path, alias: str, topics: str, keys: dict[str, str]
) -> Path:
    return write_settings(
        folder / "mm2.properties", flow_settings(source, target, alias=alias, topics=topics) | keys
    )


def done(outcome: Outcome) -> Outcome:
    assert outcome.status == 0, outcome.output
    return outcome


def values(cluster: LocalCluster, topic: str, partition: int) -> list[bytes]:
    return [record.value for record in java_records(cluster.bootstrap, topic).get(partition, [])]


def fill(cluster: LocalCluster, topic: str, partitions: int, count: int, start: int = 0) -> list[list[bytes]]:
    """Numbered orders; of each partition its values."""
    made = [[order_of(start + number * partitions + index) for number in range(count)] for index in range(partitions)]
    for index, some in enumerate(made):
        produce(cluster, topic, index, some)
    return made


def test_mask_filter_route_and_re_key_in_one_run(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    create_topics(source_cluster, {"lane-orders": (2, {}), "lane-plain": (1, {}), "lane-keyed": (1, {})})
    orders = fill(source_cluster, "lane-orders", 2, 400)
    plain = fill(source_cluster, "lane-plain", 1, 50)
    keyed = fill(source_cluster, "lane-keyed", 1, 100)
    flow = "lane->lane-to"
    keys = transforms(
        flow,
        pii=("lane-orders", MASK),
        home=("lane-orders", FILTER),
        route=("lane-orders", ROUTE.format("orders-fr")),
        key=("lane-keyed", RE_KEY),
    )
    path = transform_file(source_cluster, target_cluster, tmp_path, "lane", "lane-.*", keys)
    done(run_once(path))
    for index, made in enumerate(orders):
        kept = [masked(value) for value in made if b'"us"' not in value]
        assert values(target_cluster, "lane.lane-orders", index) == [value for value in kept if b'"fr"' not in value]
        assert values(target_cluster, "lane.orders-fr", index) == [value for value in kept if b'"fr"' in value]
    assert values(target_cluster, "lane.lane-plain", 0) == plain[0]
    found = java_records(target_cluster.bootstrap, "lane.lane-keyed")[0]
    assert [(record.key, record.value) for record in found] == [
        (json.loads(value)["country"].encode(), value) for value in keyed[0]
    ]
    # Again: nothing is copied twice, and what came since is copied.
    more = fill(source_cluster, "lane-orders", 2, 30, start=5000)
    ends = log_ends(target_cluster, "lane.lane-keyed")
    done(run_once(path))
    assert log_ends(target_cluster, "lane.lane-keyed") == ends
    for index, made in enumerate(more):
        kept = [masked(value) for value in orders[index] + made if b'"us"' not in value and b'"fr"' not in value]
        assert values(target_cluster, "lane.lane-orders", index) == kept


WAYS = {
    "whole": "select * from records",
    "thinned": "select * from records where offset % 3 <> 1",
    "routed": "select * except (topic), if(offset % 5 = 0, 'ways-elsewhere', topic) as topic from records",
    "marked": "select * except (headers), set_header(headers, 'seen', 'by us') as headers from records",
}


@pytest.mark.parametrize("wanted", [["whole", "thinned", "marked"], NIGHTLY(["whole", "routed"])])
def test_every_shape_comes_through_whether_batches_go_as_they_came_or_not(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path, wanted: list[str]
) -> None:
    """All columns stay on the spool: batches as they came, records picked from them, records with a header more."""
    alias = "-".join(["ways", *wanted])
    topics = {way: f"{alias}-{way}" for way in wanted}
    create_topics(source_cluster, {topic: (PARTITIONS, {"retention.ms": "-1"}) for topic in topics.values()})
    for topic in topics.values():
        produce_raw(source_cluster, topic, batches_of_shapes())
        move_log_start(source_cluster, topic, STARTED, 45)
    flow = f"{alias}->{alias}-to"
    keys = transforms(flow, **{way: (topics[way], WAYS[way]) for way in wanted})
    outcome = done(run_once(transform_file(source_cluster, target_cluster, tmp_path, alias, f"{alias}-.*", keys)))
    assert "QUERY_LOST" not in outcome.output  # it was asked to end
    sides = {
        way: (java_records(source_cluster.bootstrap, topic), java_records(target_cluster.bootstrap, f"{alias}.{topic}"))
        for way, topic in topics.items()
    }
    source, target = sides["whole"]
    assert sum(map(len, source.values())) > 2500
    assert compare(source, target) == []
    if "marked" in sides:
        source, target = sides["marked"]
        added = {p: [r._replace(headers=(*r.headers, ("seen", b"by us"))) for r in rs] for p, rs in source.items()}
        assert compare(added, target) == []
    picks = {"thinned": lambda offset: offset % 3 != 1, "routed": lambda offset: offset % 5 != 0}
    for way in picks.keys() & sides.keys():
        source, target = sides[way]
        kept = {p: [r for r in records if picks[way](r.offset)] for p, records in source.items()}
        assert compare(kept, target) == []
    if "routed" in sides:
        moved = {p: [r for r in records if r.offset % 5 == 0] for p, records in sides["routed"][0].items()}
        elsewhere = java_records(target_cluster.bootstrap, f"{alias}.ways-elsewhere")
        assert compare(moved, elsewhere) == []


@contextmanager
def orders_coming(cluster: LocalCluster, topic: str, partitions: int) -> Iterator[list[list[bytes]]]:
    """Numbered orders, some hundred a second, until the end of the block; of each partition those that were sent."""
    sent: list[list[bytes]] = [[] for _ in range(partitions)]
    is_over = threading.Event()

    def send() -> None:
        number = 0
        while not is_over.wait(0.1):
            for index in range(partitions):
                some = [order_of(number + i * partitions + index) for i in range(20)]
                produce(cluster, topic, index, some)
                sent[index] += some
            number += 20 * partitions

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield sent
    finally:
        is_over.set()
        thread.join()


def strike(mirror: LiveMirror, path: Path, rng: random.Random, number: int) -> LiveMirror:
    """kill -9 of the driver, or of a Python process that reads, changes or writes records."""
    workers = mirror.workers()
    if number % 2 and workers:
        victim = rng.choice(workers)
        print(f"kill {number}: worker {victim.pid}")
        victim.kill()
        return mirror
    print(f"kill {number}: driver {mirror.pid}")
    mirror.kill()
    return LiveMirror(path)


@pytest.mark.nightly
@pytest.mark.timeout(600 + 120 * KILLS)
def test_kills_lose_nothing_double_nothing_and_keep_every_group_exact(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path, rng: random.Random
) -> None:
    """Mask, filter and route under load; the checkpoint directory is a new one after every kill."""
    topic, flow = "lanek-orders", "lanek->lanek-to"
    create_topics(source_cluster, {topic: (2, {})})
    keys = transforms(flow, pii=(topic, MASK), home=(topic, FILTER), route=(topic, ROUTE.format("lanek-fr")))
    keys |= {
        f"{flow}.sync.group.offsets.enabled": "true",
        f"{flow}.groups": "lanek-.*",
        "emit.checkpoints.interval.seconds": "1",
        "sync.group.offsets.interval.seconds": "1",
        "refresh.groups.interval.seconds": "1",
    }
    path = transform_file(source_cluster, target_cluster, tmp_path, "lanek", topic, keys)
    mirror = LiveMirror(path)
    try:
        with orders_coming(source_cluster, topic, 2) as sent:
            for number in range(KILLS):
                before = log_ends(target_cluster, f"lanek.{topic}") if number else {0: 0, 1: 0}
                await_true(
                    lambda before=before: sum(_ends(target_cluster, f"lanek.{topic}").values()) > sum(before.values()),
                    WAIT_S,
                    "copying goes on",
                )
                time.sleep(rng.uniform(0.0, 4.0))
                mirror = strike(mirror, path, rng, number)
        for group in range(GROUPS):
            at = {index: rng.randrange(len(made) + 1) for index, made in enumerate(sent)}
            commit(source_cluster, f"lanek-{group}", topic, at)
        ends = {index: len(made) for index, made in enumerate(sent)}
        commit(source_cluster, "lanek-end", topic, ends)
        await_true(lambda: _is_whole(target_cluster, topic, sent), WAIT_S, "everything is copied")
        await_true(lambda: len(places_of_groups(target_cluster, "lanek-")) == GROUPS + 1, WAIT_S, "groups are placed")
        outcome = mirror.stop()
        assert outcome.status == 0, outcome.output
    finally:
        print(mirror.output[-6000:])
        mirror.kill()
    copied = {remote: java_records(target_cluster.bootstrap, remote) for remote in (f"lanek.{topic}", "lanek.lanek-fr")}
    for index, made in enumerate(sent):
        kept = [masked(value) for value in made if b'"us"' not in value]
        home, french = ([value for value in kept if (b'"fr"' in value) == fr] for fr in (False, True))
        assert [record.value for record in copied[f"lanek.{topic}"][index]] == home
        assert [record.value for record in copied["lanek.lanek-fr"][index]] == french
    _judge_groups(source_cluster, target_cluster, topic, sent, copied)


PARTLY = "transform.batch_acked=kill@1"


def await_death(path: Path, died: Path) -> Path:
    """Lets a worker die, and its driver before it could find out what had landed; another folder for another file."""
    mirror = LiveMirror(path)
    try:
        await_true(died.exists, WAIT_S, "a worker has died")
    finally:
        mirror.kill()
    folder = path.parent / "without"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("at", [NIGHTLY("transform.intent_acked=kill@1"), NIGHTLY(PARTLY), "transform.batch_acked=kill@3"])
def test_a_worker_that_dies_between_its_intent_and_its_receipt(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """Of what it sent nothing has landed, or a part in one place and all of it in another."""
    alias = f"lanep{at[10]}{at[-1]}"
    topic, flow = f"{alias}-orders", f"{alias}->{alias}-to"
    create_topics(source_cluster, {topic: (1, {})})
    made = [value[:-1] + b', "more": "%s"}' % (b"x" * 1000) for value in map(order_of, range(6000))]
    produce(source_cluster, topic, 0, made)
    keys = transforms(flow, route=(topic, ROUTE.format(f"{alias}-fr")))
    path = transform_file(source_cluster, target_cluster, tmp_path, alias, topic, keys)
    died = tmp_path / "died"
    monkeypatch.setenv("SPARKMIRROR_FAULTS", f"{at}:{died}")
    if at == PARTLY:
        died_in = await_death(path, died)
        outcome = run_once(transform_file(source_cluster, target_cluster, died_in, alias, topic, {}))
        assert outcome.status == 4 and "TRANSFORM_MISSING" in outcome.output, outcome.output
        monkeypatch.delenv("SPARKMIRROR_FAULTS")
    done(run_once(path))
    assert died.exists()
    assert values(target_cluster, f"{alias}.{topic}", 0) == [value for value in made if b'"fr"' not in value]
    assert values(target_cluster, f"{alias}.{alias}-fr", 0) == [value for value in made if b'"fr"' in value]


def _ends(cluster: LocalCluster, topic: str) -> dict[int, int]:
    try:
        return log_ends(cluster, topic)
    except Exception:  # noqa: BLE001  it is not there yet
        return {}


def _is_whole(target: LocalCluster, topic: str, sent: list[list[bytes]]) -> bool:
    wanted = sum(b'"us"' not in value for made in sent for value in made)
    ends = [_ends(target, remote) for remote in (f"lanek.{topic}", "lanek.lanek-fr")]
    if sum(sum(found.values()) for found in ends) < wanted:
        return False
    found = [java_records(target.bootstrap, remote) for remote in (f"lanek.{topic}", "lanek.lanek-fr")]
    return sum(len(records) for parts in found for records in parts.values()) >= wanted


def _judge_groups(source: LocalCluster, target: LocalCluster, topic: str, sent: list[list[bytes]], copied: dict) -> None:
    """From its place on the target a group reads the survivors of what it had not read on the source, no more, no less."""
    at, places = places_of_groups(source, "lanek-"), places_of_groups(target, "lanek-")
    for group in at:
        for remote, is_french in ((f"lanek.{topic}", False), ("lanek.lanek-fr", True)):
            for index, made in enumerate(sent):
                left = [v for v in made[at[group][topic, index] :] if b'"us"' not in v and (b'"fr"' in v) == is_french]
                found = [r.value for r in copied[remote][index] if r.offset >= places[group][remote, index]]
                assert found == [masked(value) for value in left], (group, remote, index)


def places_of_groups(cluster: LocalCluster, prefix: str) -> dict[str, dict[tuple[str, int], int]]:
    """What `kafka-consumer-groups` shows of the groups whose names begin so: topic and partition, and the offset."""
    told = consumer_groups(cluster.bootstrap, "--describe", "--offsets", "--all-groups")
    rows = [line.split() for line in told.splitlines()]
    found: dict[str, dict[tuple[str, int], int]] = {}
    for row in rows:
        if len(row) > 3 and row[0].startswith(prefix) and row[3] != "-":
            found.setdefault(row[0], {})[row[1], int(row[2])] = int(row[3])
    return found


STRICT = "select * except (value), binary(string(1000 / int(get_json_object(string(value), '$.id')))) as value from records"


@pytest.mark.parametrize("is_tolerant", [NIGHTLY(False), True], ids=["stops", "dead letters"])
def test_a_record_that_a_transform_cannot_handle(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path, is_tolerant: bool
) -> None:
    alias = "lanet" if is_tolerant else "lanes"
    topic, flow = f"{alias}-numbers", f"{alias}->{alias}-to"
    create_topics(source_cluster, {topic: (2, {})})
    good = [b'{"id": %d}' % number for number in range(1, 301)]
    produce(source_cluster, topic, 0, [*good[:150], b'{"id": 0}', *good[150:]])
    produce(source_cluster, topic, 1, good)
    keys = transforms(flow, divide=(topic, STRICT))
    if is_tolerant:
        keys |= {f"{flow}.errors.tolerance": "all", f"{flow}.errors.deadletterqueue.topic.name": f"{alias}-dead"}
    path = transform_file(source_cluster, target_cluster, tmp_path, alias, topic, keys)
    outcome = run_once(path)
    ids = [1000 / number for number in range(1, 301)]
    assert [float(value) for value in values(target_cluster, f"{alias}.{topic}", 1)] == ids
    copied = [float(value) for value in values(target_cluster, f"{alias}.{topic}", 0)]
    if not is_tolerant:
        assert outcome.status == 4, outcome.output
        assert f"{topic}-0: the record at upstream offset 150 cannot be transformed: [DIVIDE_BY_ZERO]" in outcome.output
        assert f"--topic {topic} --partition 0 --to 151" in outcome.output
        assert copied == ids[:150]
        return
    assert outcome.status == 0, outcome.output
    assert copied == ids
    assert "the record at upstream offset 150 cannot be transformed" in outcome.output
    [letter] = java_records(target_cluster.bootstrap, f"{alias}-dead")[0]
    assert letter.value == b'{"id": 0}'
    headers = dict(letter.headers)
    assert headers["__connect.errors.topic"] == topic.encode()
    assert headers["__connect.errors.offset"] == b"150"
    assert b"DIVIDE_BY_ZERO" in headers["__connect.errors.exception.stacktrace"]


@pytest.mark.nightly
def test_a_topic_is_copied_once_while_it_gains_and_loses_transforms(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    topic, flow = "laneb-orders", "laneb->laneb-to"
    create_topics(source_cluster, {topic: (1, {})})
    wanted: list[bytes] = []
    for number, keys in enumerate(({}, transforms(flow, pii=(topic, MASK)), {}, transforms(flow, home=(topic, FILTER)))):
        made = fill(source_cluster, topic, 1, 40, start=100 * number)[0]
        done(run_once(transform_file(source_cluster, target_cluster, tmp_path, "laneb", topic, keys)))
        wanted += [masked(v) if number == 1 else v for v in made if number < 3 or b'"us"' not in v]
        assert values(target_cluster, f"laneb.{topic}", 0) == wanted


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("selec * from records", "transform.bad.sql: [PARSE_SYNTAX_ERROR]"),
        NIGHTLY("select nobody from records", "transform.bad.sql: [UNRESOLVED_COLUMN"),
        NIGHTLY("select * from records order by offset", "transform.bad.sql: has a sort"),
        NIGHTLY("select topic, partition, offset, key from records", "the output has no column timestamp, value, headers"),
    ],
    ids=["no SQL", "no such column", "a sort", "columns"],
)
def test_a_transform_that_cannot_be_used_ends_the_run_before_a_record_is_copied(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path, sql: str, told: str
) -> None:
    topic = "lanex-orders"
    if topic not in topics_of(source_cluster):
        create_topics(source_cluster, {topic: (1, {})})
        fill(source_cluster, topic, 1, 5)
    keys = transforms("lanex->lanex-to", bad=(topic, sql))
    path = transform_file(source_cluster, target_cluster, tmp_path, "lanex", topic, keys)
    outcome = run_once(path)
    assert outcome.status == 2, outcome.output
    assert told in outcome.output
    assert "Traceback" not in outcome.output
    assert values(target_cluster, f"lanex.{topic}", 0) == []
