"""MirrorMaker 2 when the source deletes what it has not copied, or topics. As staged for us in test_loud_loss.py."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest
from integration.mirroring import admin_of, create_topics, move_log_start, numbered, produce, recreate_topic
from judge import java_records

from faults.mm2.flow import START_SECONDS_MAX, Mm2Flow, log_of
from faults.mm2.tally import tally
from faults.workload import wait_until
from sparkmirror.local import LocalCluster, MirrorMaker

ALIAS = "mm2loss"
LONG_POLL_SECONDS = 1.2  # a fetch that waits at the broker while its asker is frozen is over by then
REST_SECONDS = 15.0
OVERTAKEN, STOPPED, SHORTER, LONGER, DELETED, FINE = TOPICS = [
    f"loss-{name}" for name in ("overtaken", "stopped", "shorter", "longer", "deleted", "fine")
]
FIRST, SECOND, THIRD = numbered(10), numbered(10, first=10), numbered(3, first=100)
SHORT, LONG = numbered(4, first=200), numbered(25, first=300)
LOG_START = 17

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]


@dataclass
class Story:
    """What the copies hold in the end, as Java reads them, and what was reported of each topic."""

    copies: dict[str, list[bytes | None]] = field(default_factory=dict)
    reported: dict[str, str] = field(default_factory=dict)


def spoil(source: LocalCluster, mm2: MirrorMaker) -> None:
    """While it is frozen, so that it has copied nothing of what is deleted."""
    mm2.suspend()
    try:
        time.sleep(LONG_POLL_SECONDS)
        produce(source, OVERTAKEN, 0, SECOND)
        move_log_start(source, OVERTAKEN, 0, LOG_START)
        for topic, values in ((SHORTER, SHORT), (LONGER, LONG)):
            recreate_topic(source, topic)
            produce(source, topic, 0, values)
        with admin_of(source) as admin:
            admin.delete_topics([DELETED])
        produce(source, FINE, 0, SECOND)
    finally:
        mm2.resume()


def go_on(flow: Mm2Flow, topics: Sequence[str], fine: Sequence[bytes]) -> None:
    """More records in these topics, and time for whatever it does about the others."""
    flow.await_rest(*TOPICS, seconds=REST_SECONDS)
    for topic in topics:
        produce(flow.source, topic, 0, THIRD)
    produce(flow.source, FINE, 0, fine)
    wanted = flow.copied(FINE) + len(fine)
    wait_until(lambda: flow.copied(FINE) >= wanted, "the others go on", START_SECONDS_MAX)
    flow.await_rest(*TOPICS, seconds=REST_SECONDS)


@pytest.fixture(scope="module")
def story(source_cluster: LocalCluster, target_cluster: LocalCluster) -> Iterator[Story]:
    """One process under which the source changes, and a second one after it changed while none ran."""
    source, made = source_cluster, Story()
    create_topics(source, dict.fromkeys(TOPICS, (1, {})))
    for topic in TOPICS:
        produce(source, topic, 0, FIRST)
    flow = Mm2Flow(source, target_cluster, alias=ALIAS, topics="loss-.*")
    with flow.process() as mm2:
        for topic in TOPICS:
            wait_until(lambda topic=topic: flow.copied(topic) == len(FIRST), f"{topic} is copied", START_SECONDS_MAX)
        after = len(log_of(mm2))
        spoil(source, mm2)
        wait_until(lambda: flow.copied(FINE) == len(FIRST + SECOND), "the others go on", START_SECONDS_MAX)
        go_on(flow, (OVERTAKEN, SHORTER, LONGER), THIRD)
        made.reported = {topic: flow.reported(mm2, topic, after=after) for topic in TOPICS}
        mm2.check()
        mm2.stop()
    produce(source, STOPPED, 0, SECOND)
    move_log_start(source, STOPPED, 0, LOG_START)
    with flow.process() as mm2:
        go_on(flow, (STOPPED,), numbered(3, first=400))
        made.reported[STOPPED] = flow.reported(mm2, STOPPED)
        mm2.check()
    for topic in TOPICS:
        made.copies[topic] = [record.value for record in java_records(target_cluster.bootstrap, flow.remote(topic))[0]]
        assert made.copies[topic][: len(FIRST)] == FIRST, "the fault came after these were copied"
    yield made


@pytest.mark.fault_mm2("F25")
@pytest.mark.parametrize("topic", [OVERTAKEN, STOPPED])
def test_retention_overtakes_the_reader(story: Story, topic: str, row) -> None:
    found = tally({0: FIRST + SECOND + THIRD}, {0: story.copies[topic]})
    row.seen = f"{'running' if topic == OVERTAKEN else 'stopped'}: {found}; {story.reported[topic]}"


@pytest.mark.fault_mm2("F26")
def test_the_source_topic_is_deleted(story: Story, row) -> None:
    kept = f"the copy keeps {len(story.copies[DELETED])} of {len(FIRST)} records"
    row.seen = f"{kept}, the others go on; {story.reported[DELETED]}"


@pytest.mark.fault_mm2("F27")
@pytest.mark.parametrize(("topic", "new"), [(SHORTER, SHORT + THIRD), (LONGER, LONG + THIRD)], ids=["shorter", "longer"])
def test_the_source_topic_is_deleted_and_created_again(story: Story, topic: str, new: list[bytes], row) -> None:
    copy = story.copies[topic]
    of_new = tally({0: new}, {0: [value for value in copy if value not in FIRST]})
    both = "both topics in one copy" if set(copy) & set(new) else "nothing of the new topic in the copy"
    row.seen = f"({'a' if topic == SHORTER else 'b'}) {both}; of the new one {of_new}; {story.reported[topic]}"
