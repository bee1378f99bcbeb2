"""Zero redelivery: groups at random positions of topics with gaps go on, on the target, at exactly the next record.

By night the same groups are translated by Java MirrorMaker 2 too, and the number of records that they would read again is
printed: nothing is judged by it.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from integration.mirroring import (
    await_true,
    batch_of,
    create_topics,
    log_ends,
    produce_raw,
    run_cleanly,
    segment_files,
    topics_of,
    transaction,
    transactional,
)
from integration.scenario import Pair, client_of, commit
from judge import JudgeRecord, java_records

from sparkmirror.clusters import committed_offsets
from sparkmirror.local import LocalCluster, MirrorMaker

GROUPS = 20
PLAIN, TRANSACTIONS, EACH, KEYS = 20_000, 60, 25, 3_000


def fill_transactions(cluster: LocalCluster, topic: str, mark: str) -> None:
    """Plain records, then transactions of which each third is aborted, then plain records again."""
    create_topics(cluster, {topic: (1, {})})
    plain = [b"plain %d" % at for at in range(PLAIN)]
    batches = [batch_of(plain[at : at + 500]) for at in range(0, PLAIN, 500)]
    produce_raw(cluster, topic, {0: batches[: len(batches) // 2]})
    with transactional(cluster, f"redelivery-{mark}") as producer:
        for number in range(TRANSACTIONS):
            values = [b"transaction %d.%d" % (number, step) for step in range(EACH)]
            transaction(producer, topic, values, commit=number % 3 != 1)
    produce_raw(cluster, topic, {0: batches[len(batches) // 2 :]})


def fill_compacted(cluster: LocalCluster, topic: str, rng: random.Random) -> None:
    """Keys of which a random half is written again, and compaction leaves the newest."""
    configs = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
    create_topics(cluster, {topic: (1, configs)})
    keys = [b"key %d" % at for at in range(KEYS)]
    again = [key for key in keys if rng.random() < 0.5]
    written = keys + again
    rows = [written[at : at + 100] for at in range(0, len(written), 100)]
    batches = [
        batch_of([b"%s in row %d" % (key, number) for key in row], keys=row) for number, row in enumerate(rows)
    ]
    produce_raw(cluster, topic, {0: batches})
    size, numbers = sum(map(len, batches)), iter(range(10_000))

    def is_rolled() -> bool:
        produce_raw(cluster, topic, {0: [batch_of([b"filler"], keys=[b"filler %d" % next(numbers)])]})
        return len(segment_files(cluster, topic, 0)) > 1

    def is_cleaned() -> bool:
        with suppress(FileNotFoundError):
            return sum(path.stat().st_size for path in segment_files(cluster, topic, 0)) < size * 0.8
        return False

    await_true(is_rolled, 180.0, "a second segment")
    await_true(is_cleaned, 180.0, "compaction")


def read_again(
    source: Sequence[JudgeRecord], target: Sequence[JudgeRecord], at_source: int, at_target: int
) -> int:
    """How many records a group reads on the target that it has read on the source; negative: how many it never reads."""
    return sum(r.offset >= at_target for r in target) - sum(r.offset >= at_source for r in source)


def positions_on(cluster: LocalCluster, groups: Sequence[str], topic: str) -> dict[str, int]:
    """What each group has committed in partition 0 of a topic."""
    with client_of(cluster) as client:
        found = committed_offsets(client, groups)
    return {
        group: commit.offset
        for group, offsets in found.items()
        for place, commit in offsets.committed.items()
        if place.topic == topic and commit is not None
    }


def mm2_positions(pair: Pair, path: Path, groups: Sequence[str], topics: Mapping[str, str]) -> dict[str, dict[str, int]]:
    """Where MM2 puts the groups, after it had time to translate them."""
    with MirrorMaker(path.read_text(), name="redelivery") as mm2:
        for topic, remote in topics.items():
            visible = sum(len(r) for r in java_records(pair.primary.bootstrap, topic, "read_committed").values())
            await_true(
                lambda r=remote, v=visible: r in topics_of(pair.backup) and sum(log_ends(pair.backup, r).values()) >= v, 90
            )
        seen: list[int] = []

        def is_steady() -> bool:
            mm2.check()
            seen.append(sum(sum(positions_on(pair.backup, groups, r).values()) for r in topics.values()))
            return len(seen) > 60 and len(set(seen[-40:])) == 1  # several rounds of one second without a change

        await_true(is_steady, 180.0, "MM2's groups come to rest")
    return {topic: positions_on(pair.backup, groups, remote) for topic, remote in topics.items()}


def beside_mm2(other: Pair, mark: str, groups: Sequence[str], topics: Sequence[str]) -> dict[str, dict[str, int]]:
    """Where MM2 puts the groups of another pair of aliases, after it has copied the same topics."""
    path = other.write(
        {
            f"{other.source}.consumer.isolation.level": "read_committed",
            "sync.group.offsets.enabled": "true",
            "topics": f"test-topic-.*{mark}",
            "groups": f"consumer-group-.*{mark}",
            f"{other.target}.offset.flush.interval.ms": "1000",
            "emit.heartbeats.enabled": "false",
            "sync.topic.acls.enabled": "false",
        }
    )
    return mm2_positions(other, path, groups, {topic: f"{other.source}.{topic}" for topic in topics})


@pytest.mark.timeout(600)
@pytest.mark.parametrize("beside", ["nobody", pytest.param("MirrorMaker 2", marks=pytest.mark.nightly)])
def test_groups_go_on_at_exactly_the_next_record(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path, rng: random.Random, beside: str
) -> None:
    pair = Pair(source_cluster, target_cluster, tmp_path)
    filled = {pair.topic(1): "transactions", pair.topic(2): "compacted"}
    fill_transactions(pair.primary, pair.topic(1), pair.mark)
    fill_compacted(pair.primary, pair.topic(2), rng)
    ends = {topic: log_ends(pair.primary, topic)[0] for topic in filled}
    groups = [pair.group(str(number)) for number in range(GROUPS)]
    wanted = {g: {t: rng.randint(0, end) for t, end in ends.items()} for g in groups}
    for group, offsets in wanted.items():
        for topic, offset in offsets.items():
            commit(pair.primary, group, topic, {0: offset})

    committed = {f"{pair.source}.consumer.isolation.level": "read_committed", "sync.group.offsets.enabled": "true"}
    run_cleanly(pair.write(committed))
    other = Pair(source_cluster, target_cluster, tmp_path)
    theirs = beside_mm2(other, pair.mark, groups, list(filled)) if beside == "MirrorMaker 2" else None

    lines = [f"{'records':>14}  {'group at':>9}  {'sparkmirror reads again':>24}  {'MM2 reads again':>16}"]
    for topic, kind in filled.items():
        source = java_records(pair.primary.bootstrap, topic, "read_committed")[0]
        ours = java_records(pair.backup.bootstrap, f"{pair.source}.{topic}", "read_committed")[0]
        mm2s = java_records(pair.backup.bootstrap, f"{other.source}.{topic}", "read_committed")[0] if theirs else []
        assert [r.value for r in ours] == [r.value for r in source]
        placed = positions_on(pair.backup, groups, f"{pair.source}.{topic}")
        for group in sorted(groups, key=lambda g, t=topic: wanted[g][t]):
            at = wanted[group][topic]
            again = read_again(source, ours, at, placed[group])
            theirs_at = theirs[topic].get(group) if theirs else None
            theirs_again = "no offset" if theirs_at is None else str(read_again(source, mm2s, at, theirs_at))
            lines.append(f"{kind:>14}  {at:>9}  {again:>24}  {theirs_again:>16}")
            assert again == 0, "\n".join(lines)
            following = [r.value for r in source if r.offset >= at][:1]
            assert [r.value for r in ours if r.offset >= placed[group]][:1] == following
    print("\n".join(lines))
