"""MirrorMaker 2 and groups that must be left alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing

import pytest
from integration.mirroring import admin_of, await_true, create_topics, numbered, produce
from integration.scenario import CONSOLE_CONSUMER, commit, java_offsets
from judge import group_violations, java_records
from kafka import KafkaConsumer

from faults.mm2.flow import START_SECONDS_MAX, Mm2Flow
from sparkmirror.local import LocalCluster, java_tool

RECORDS = 2000
SYNC_SECONDS = 15.0  # as many rounds of group syncs


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.fault_mm2("F44")
def test_groups_with_members_ahead_deleted_or_of_the_new_protocol(
    source_cluster: LocalCluster, target_cluster: LocalCluster, topic_name: Callable[..., str], row
) -> None:
    source, target, topic = source_cluster, target_cluster, topic_name("mm2groups")
    stem = topic_name("odd")
    plain, held, ahead, past, new, gone = (f"{stem}-{name}" for name in ("plain", "held", "ahead", "past", "new", "gone"))
    more = {"sync.group.offsets.enabled": "true", "groups": f"{stem}-.*"}
    flow = Mm2Flow(source, target, alias="mm2groups", topics=topic, more=more)
    remote = flow.remote(topic)
    create_topics(source, {topic: (2, {})})
    for partition in range(2):
        produce(source, topic, partition, numbered(RECORDS))
    with flow.process() as mm2:
        await_true(lambda: flow.copied(topic) == 2 * RECORDS, START_SECONDS_MAX, "everything is copied")
        commit(target, held, remote, {0: 5})
        commit(target, ahead, remote, {0: RECORDS - 100})
        options = {"bootstrap_servers": target.bootstrap, "group_id": held, "enable_auto_commit": False}
        with closing(KafkaConsumer(remote, **options)) as member:
            await_true(lambda: member.poll(200) or member.assignment(), 60, "a member on the target")
            for group in (plain, held, ahead, gone):
                commit(source, group, topic, {0: RECORDS // 2})
            commit(source, past, topic, {0: 10 * RECORDS})
            read_by_the_new_protocol(source, topic, new)
            for group in (plain, gone):
                await_true(lambda group=group: java_offsets(target, group, remote), START_SECONDS_MAX, f"{group} is placed")
            with admin_of(source) as admin:
                admin.delete_groups([gone])
            deadline = time.monotonic() + SYNC_SECONDS
            while time.monotonic() < deadline:
                member.poll(500)
            at = {group: java_offsets(target, group, remote) for group in (plain, held, ahead, past, new, gone)}
        reported = flow.reported(mm2, stem)
    there, here = java_records(source.bootstrap, topic), java_records(target.bootstrap, remote)
    wrong = group_violations(there[0], here[0], at_source=RECORDS // 2, at_target=at[plain][0])
    said = [
        f"an ordinary group: {wrong[0] if wrong else 'exact'}",
        f"a partition without a position: {'placed' if 1 in at[plain] else 'left alone'}",
        "with a member: left alone" if at[held] == {0: 5} else f"with a member: moved to {at[held]}",
        "ahead: left alone" if at[ahead] == {0: RECORDS - 100} else f"ahead: set back to {at[ahead]}",
        f"past the copy's end: placed at {at[past].get(0, 'nothing')} of {RECORDS}",
        f"new protocol: {'placed' if at[new] else 'not synced'}",
        f"deleted on the source: {'stays' if at[gone] else 'gone'} on the target",
    ]
    row.seen = "; ".join([*said, reported])


def read_by_the_new_protocol(cluster: LocalCluster, topic: str, group: str) -> None:
    """KIP-848: Java's consumer reads some records of the first partition and commits."""
    arguments = ["--bootstrap-server", cluster.bootstrap, "--topic", topic, "--group", group, "--from-beginning"]
    arguments += ["--max-messages", "700", "--command-property", "group.protocol=consumer"]
    java_tool(CONSOLE_CONSUMER, arguments)
    assert java_offsets(cluster, group, topic), "the group has committed"
