"""`sparkmirror offsets` on real brokers: positions of MirrorMaker 2, read back by Java and followed by MirrorMaker 2."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from host import hosted_command
from integration.mirroring import (
    Outcome,
    admin_of,
    await_true,
    create_topics,
    flow_settings,
    log_ends,
    move_log_start,
    numbered,
    produce,
    run_cleanly,
    set_topic_config,
    topics_of,
    transactional,
    write_settings,
)
from integration.scenario import client_of, commit, java_formatted, java_offsets
from integration.test_inspect_on_clusters import AUTHORIZER, rule_filter
from judge import java_records
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ACLResourcePatternType, ResourcePattern, ResourceType

from sparkmirror.clusters import ClusterClient, append_records, committed_offsets, log, read_range, read_raw, read_to_end
from sparkmirror.clusters.log import RawRead
from sparkmirror.clusters.members import describe_groups
from sparkmirror.config import load
from sparkmirror.examination.plan_facts import gather
from sparkmirror.ledger import Owner, encode
from sparkmirror.local import LocalCluster, MirrorMaker
from sparkmirror.local.java import QUICK_START
from sparkmirror.model import TopicPartition
from sparkmirror.positions.stored import read_stored
from sparkmirror.state import FlowState, PositionTable, read_settled

WAIT_S = 300.0  # MirrorMaker 2 copies 10 s after its start on two idle cores, minutes later on busy ones
QUICK = {
    "refresh.topics.interval.seconds": "2",
    "emit.checkpoints.interval.seconds": "2",
    "refresh.groups.interval.seconds": "2",
    "offset.lag.max": "0",
    "sync.topic.acls.enabled": "false",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
    "tasks.max": "2",
}


def offsets(verb: str, file: Path, *words: str) -> Outcome:
    """`sparkmirror offsets …`, as an operator types it."""
    ended = hosted_command("offsets", verb, str(file), *words, seconds=180)
    return Outcome(ended.returncode, ended.stdout + ended.stderr)


def done(verb: str, file: Path, *words: str) -> str:
    """The output of a command that must go well."""
    outcome = offsets(verb, file, *words)
    assert outcome.status == 0, outcome.output
    return outcome.output


def told_json(verb: str, file: Path, *words: str) -> dict[str, Any]:
    """The JSON of a command that must go well."""
    found: dict[str, Any] = json.loads(done(verb, file, *words, "--json"))
    return found


def undo_file(output: str) -> str:
    """The file that a command named."""
    [line] = [line for line in output.splitlines() if "what was there before is in" in line]
    return line.split(" is in ")[1]


def java_positions(target: LocalCluster, topic: str) -> dict[tuple[int, bytes], bytes | None]:
    """The newest record of each key in each partition of an offsets topic, as Java's consumer reads it."""
    found: dict[tuple[int, bytes], bytes | None] = {}
    for partition, records in java_records(target.bootstrap, topic).items():
        for record in records:
            assert record.key is not None
            found[partition, record.key] = record.value
    return found


def of_topic(positions: Mapping[tuple[int, bytes], bytes | None], topic: str) -> dict[tuple[int, bytes], bytes | None]:
    """The records of the source connector for one topic."""
    mark = f'"topic":"{topic}"}}]'.encode()
    return {place: value for place, value in positions.items() if b"MirrorSource" in place[1] and place[1].endswith(mark)}


def key_of(alias: str, topic: str, partition: int = 0) -> bytes:
    """MirrorMaker 2's key, written out."""
    return f'["MirrorSourceConnector",{{"cluster":"{alias}","partition":{partition},"topic":"{topic}"}}]'.encode()


def count(cluster: LocalCluster, topic: str) -> int:
    """How many records a topic holds, 0 if there is none."""
    return sum(log_ends(cluster, topic).values()) if topic in topics_of(cluster) else 0


def committed(cluster: LocalCluster, group: str, topic: str) -> dict[int, int]:
    """What a group has committed in a topic: for waiting, which must not start a JVM each time."""
    with client_of(cluster) as client:
        found = committed_offsets(client, [group])[group].committed
    return {p.partition: c.offset for p, c in found.items() if p.topic == topic and c is not None}


def members(cluster: LocalCluster, group: str) -> int:
    """How many members a group has."""
    with client_of(cluster) as client:
        return len(describe_groups(client, [group])[group].members)


# --- a flow of MirrorMaker 2's, from its first start to its second --------------------------------------------


AGAIN, BACK, PART, LATE = "om-again", "om-back", "om-part", "om-late"  # of flow one: what is done to each is in `change`
WHOLE, MORE = "om-whole", "om-more"  # of flow two, which begins with empty copies
GROUP = "om-readers"


@dataclass
class Story:
    """What the commands said, and what Java read before and after them."""

    one: Path
    two: Path
    while_running: dict[str, Outcome] = field(default_factory=dict)
    listed: dict[str, Any] = field(default_factory=dict)
    before: dict[tuple[int, bytes], bytes | None] = field(default_factory=dict)
    preview: str = ""
    previewed: dict[str, Any] = field(default_factory=dict)
    after: dict[tuple[int, bytes], bytes | None] = field(default_factory=dict)
    reset: str = ""
    undone: str = ""
    whole: str = ""
    gone: set[str] = field(default_factory=set)
    groups_after: dict[int, int] = field(default_factory=dict)
    copied: dict[str, int] = field(default_factory=dict)
    syncs: list[str] = field(default_factory=list)


def mm2_files(folder: Path, source: LocalCluster, target: LocalCluster) -> tuple[Path, Path, Path]:
    """Flow om1->om1-to, flow om2->om2-to, and both in one file for one MirrorMaker 2."""
    flows = [
        flow_settings(source, target, alias="om1", topics="om-(again|back|part|late)", more=QUICK | {"groups": "none"}),
        flow_settings(source, target, alias="om2", topics="om-(whole|more)", more=QUICK | {"groups": GROUP}),
    ]
    for number, flow in enumerate(flows, 1):
        flow[f"om{number}-to.offset.flush.interval.ms"] = "1000"
        # How long the brokers think that a killed worker lives: its default, 10 s, is over before a busy machine has asked.
        flow[f"om{number}-to.session.timeout.ms"] = "40000"
    names = ("one", "two", "both")
    paths = [folder / f"{name}.properties" for name in names]
    return (
        write_settings(paths[0], flows[0]),
        write_settings(paths[1], flows[1]),
        write_settings(paths[2], *flows),
    )


def await_copied(target: LocalCluster, wanted: Mapping[str, int]) -> None:
    for topic, number in wanted.items():
        await_true(lambda t=topic, n=number: count(target, t) >= n, WAIT_S, f"{number} records in {topic}")


def is_stored(target: LocalCluster, alias: str, wanted: Mapping[str, int]) -> bool:
    """Whether MirrorMaker 2 has stored these last offsets of partition 0: for waiting."""
    topic, stored = f"mm2-offsets.{alias}.internal", dict[bytes | None, bytes | None]()
    with client_of(target) as client:
        for partition in range(25):
            stored |= {record.key: record.value for record in read_to_end(client, TopicPartition(topic, partition))}
    return all(stored.get(key_of(alias, name)) == b'{"offset":%d}' % last for name, last in wanted.items())


@contextmanager
def mirror_maker(file: Path, name: str) -> Iterator[MirrorMaker]:
    """MirrorMaker 2; what it logged last is shown if the block fails."""
    with MirrorMaker(file.read_text("latin-1"), name=name, jvm_options=QUICK_START) as mm2:
        try:
            yield mm2
        except AssertionError as error:
            error.add_note("\n".join(mm2.log_file.read_text(errors="replace").splitlines()[-40:]))
            raise


def change(story: Story, target: LocalCluster) -> None:
    """While nobody runs the flows: a topic reset, one reset and undone, one set, one skipped; a whole flow reset."""
    topic = "mm2-offsets.om1.internal"
    story.before = java_positions(target, topic)
    story.preview = done("reset", story.one, "--topic", AGAIN)
    story.previewed = told_json("reset", story.one, "--topic", AGAIN)
    assert java_positions(target, topic) == story.before, "a preview writes nothing"
    story.reset = done("reset", story.one, "--topic", AGAIN, "--yes")
    undone = done("reset", story.one, "--topic", BACK, "--yes")
    assert of_topic(java_positions(target, topic), BACK) != of_topic(story.before, BACK)
    story.undone = done("undo", story.one, undo_file(undone), "--yes")
    done("set", story.one, "--topic", PART, "--partition", "1", "--to", "15", "--yes")
    done("skip", story.one, "--topic", LATE, "--yes")
    story.after = java_positions(target, topic)
    story.whole = done("reset", story.two, "--all", "--with-target", "--yes")
    story.gone = topics_of(target)
    story.groups_after = java_offsets(target, GROUP, f"om2.{WHOLE}")


@pytest.fixture(scope="module")
def story(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Story:
    """One MirrorMaker 2 with two flows copies, is stopped, has its positions changed, and is started again."""
    source, target = source_cluster, target_cluster
    one, two, both = mm2_files(tmp_path_factory.mktemp("mm2"), source, target)
    told = Story(one, two)
    create_topics(source, {name: (2, {}) for name in (AGAIN, BACK, PART)} | {n: (1, {}) for n in (LATE, WHOLE, MORE)})
    for topic in (AGAIN, BACK, PART):
        for partition in (0, 1):
            produce(source, topic, partition, numbered(20))
    for topic in (LATE, WHOLE, MORE):
        produce(source, topic, 0, numbered(20))
    commit(source, GROUP, WHOLE, {0: 20})
    with mirror_maker(both, "offsets-1") as mm2:
        await_copied(target, {f"om1.{t}": 40 for t in (AGAIN, BACK, PART)} | {f"om1.{LATE}": 20, f"om2.{WHOLE}": 20})
        await_copied(target, {f"om2.{MORE}": 20})
        await_true(lambda: committed(target, GROUP, f"om2.{WHOLE}") == {0: 20}, WAIT_S, "the group on the target")
        await_true(lambda: is_stored(target, "om1", dict.fromkeys((AGAIN, BACK, PART, LATE), 19)), WAIT_S, "positions")
        told.while_running["reset"] = offsets("reset", one, "--topic", AGAIN, "--yes")
        told.while_running["all"] = offsets("reset", two, "--all", "--with-target", "--yes")
        told.listed = json.loads(offsets("list", one, "--json").output)
        assert mm2.is_running
        mm2.stop()
    produce(source, LATE, 0, numbered(10))
    move_log_start(source, LATE, 0, 25)
    change(told, target)
    produce(source, BACK, 0, numbered(3))
    with mirror_maker(both, "offsets-2") as mm2:
        wanted = {f"om1.{AGAIN}": 80, f"om1.{BACK}": 43, f"om1.{PART}": 45, f"om1.{LATE}": 25}
        wanted |= {f"om2.{WHOLE}": 20, f"om2.{MORE}": 20}
        await_copied(target, wanted)
        await_true(lambda: committed(target, GROUP, f"om2.{WHOLE}") == {0: 20}, WAIT_S, "the group, translated anew")
        mm2.kill()
        told.while_running["killed"] = offsets("reset", one, "--topic", AGAIN, "--yes")
    told.copied = {topic: sum(map(len, java_records(target.bootstrap, topic).values())) for topic in wanted}
    await_true(lambda: not members(target, "om1-mm2"), WAIT_S, "the brokers drop the killed worker")
    told.syncs = java_formatted(source, "mm2-offset-syncs.om2-to.internal", "OffsetSyncFormatter")
    return told


@pytest.mark.timeout(1800)
@pytest.mark.nightly
def test_a_flow_that_mm2_runs_is_not_touched(story: Story) -> None:
    """Nor one whose worker was killed just now: for all that the brokers know it lives."""
    for outcome in story.while_running.values():
        assert outcome.status == 5, outcome.output
        assert "is run by MirrorMaker 2: group om" in outcome.output
        assert "has 1 member (om" in outcome.output
        assert "stop it first" in outcome.output


@pytest.mark.nightly
def test_what_is_stored_is_listed_while_mm2_runs(story: Story) -> None:
    [flow] = story.listed["flows"]
    assert (story.listed["schema"], flow["workers"]["members"], flow["is_complete"]) == (1, 1, True)
    rows = {(row["topic"], row["partition"]): row for row in flow["positions"]}
    assert set(rows) == {(t, p) for t in (AGAIN, BACK, PART) for p in (0, 1)} | {(LATE, 0)}
    row = rows[AGAIN, 0]
    found = [row[name] for name in ("mm2_offset", "source_first", "source_end", "target_end", "lag", "ledger_next")]
    assert found == [19, 0, 20, 20, 0, None]


@pytest.mark.nightly
def test_a_preview_shows_every_record_to_the_byte(story: Story) -> None:
    [place] = [place for place, key in story.before if key == key_of("om1", AGAIN)]
    line = f'    mm2-offsets.om1.internal-{place} {key_of("om1", AGAIN).decode()}: {{"offset":19}} -> a tombstone'
    assert line in story.preview.splitlines()
    assert "20 copied offsets are copied again, after what the target holds" in story.preview
    assert "nothing was changed; --yes applies it" in story.preview
    [change] = [change for change in story.previewed["changes"] if change["partition"] == 0]
    assert (change["key"], change["value"], change["next_offset"]) == (key_of("om1", AGAIN).decode(), None, 0)


@pytest.mark.nightly
def test_a_reset_writes_tombstones_where_the_keys_lie_and_touches_nothing_else(story: Story) -> None:
    reset = of_topic(story.before, AGAIN)
    assert of_topic(story.after, AGAIN) == dict.fromkeys(reset)
    assert len(reset) == 2
    changed = {place for place, value in story.after.items() if story.before.get(place) != value}
    part = [place for place in of_topic(story.before, PART) if b'"partition":1' in place[1]]
    assert changed == {*reset, *part, *of_topic(story.before, LATE)}


@pytest.mark.nightly
def test_undo_brings_the_very_bytes_back(story: Story) -> None:
    assert of_topic(story.after, BACK) == of_topic(story.before, BACK)
    assert "before: sparkmirror offsets reset" in story.undone


@pytest.mark.nightly
def test_mm2_copies_a_topic_that_was_reset_from_its_start_and_goes_on_with_the_others(story: Story) -> None:
    wanted = {
        f"om1.{AGAIN}": 80,  # both partitions once more
        f"om1.{BACK}": 43,  # undone: only the three new ones
        f"om1.{PART}": 45,  # partition 1 from offset 15 on
        f"om1.{LATE}": 25,  # offsets 20 to 24 are gone, 25 to 29 come
    }
    assert {topic: story.copied[topic] for topic in wanted} == wanted


@pytest.mark.nightly
def test_a_whole_flow_begins_with_empty_copies(story: Story) -> None:
    assert "om2.om-whole was deleted on the target" in story.whole
    assert f"group {GROUP} at 20 in om2.{WHOLE}-0: its offset was deleted with the topic" in story.whole
    assert not {f"om2.{WHOLE}", f"om2.{MORE}", "om2.checkpoints.internal"} & story.gone
    assert story.groups_after == {}
    assert (story.copied[f"om2.{WHOLE}"], story.copied[f"om2.{MORE}"]) == (20, 20), "copied once, from the start"
    assert f"OffsetSync{{topicPartition={WHOLE}-0, upstreamOffset=0, downstreamOffset=0}}" in story.syncs, "a new topic"


@pytest.mark.nightly
def test_positions_can_be_exported_and_imported(story: Story, target_cluster: LocalCluster, tmp_path: Path) -> None:
    saved = tmp_path / "saved.json"
    done("export", story.one, str(saved))
    assert offsets("export", story.one, str(saved)).status == 2, "never over another file"
    before = java_positions(target_cluster, "mm2-offsets.om1.internal")
    exported = {(r["partition"], r["key"].encode()): r["value"] for r in json.loads(saved.read_text())["positions"]}
    assert exported == {place: None if value is None else value.decode() for place, value in before.items()}
    done("reset", story.one, "--all", "--yes")
    assert set(of_topic(java_positions(target_cluster, "mm2-offsets.om1.internal"), AGAIN).values()) == {None}
    done("import", story.one, str(saved), "--yes")
    assert java_positions(target_cluster, "mm2-offsets.om1.internal") == before
    wrong = tmp_path / "wrong.json"
    entry = {"partition": {"cluster": "om1", "topic": AGAIN, "partition": 0}, "offset": {"offset": -4}}
    wrong.write_text(json.dumps({"offsets": [entry]}))
    refused = offsets("import", story.one, str(wrong), "--yes")
    assert refused.status == 2
    assert "has an invalid value -4 for the 'offset' key, which cannot be negative" in refused.output


# --- records of every kind, written by hand --------------------------------------------------------------------


@dataclass
class Stage:
    """A flow whose offsets topic is written by the test."""

    source: LocalCluster
    target: LocalCluster
    file: Path
    alias: str
    topic: str

    @property
    def offsets_topic(self) -> str:
        return f"mm2-offsets.{self.alias}.internal"

    def write(self, partition: int, key: bytes, value: bytes | None) -> None:
        with client_of(self.target) as client:
            append_records(client, TopicPartition(self.offsets_topic, partition), [(key, value)], 1_700_000_000_000)

    def key(self, partition: int = 0) -> bytes:
        return key_of(self.alias, self.topic, partition)

    def read(self) -> dict[tuple[int, bytes], bytes | None]:
        return java_positions(self.target, self.offsets_topic)


@contextmanager
def stage(alias: str, source: LocalCluster, target: LocalCluster, folder: Path, policy: str = "compact") -> Iterator[Stage]:
    topic = f"{alias}-orders"
    create_topics(source, {topic: (2, {})})
    create_topics(target, {f"mm2-offsets.{alias}.internal": (25, {"cleanup.policy": policy})})
    produce(source, topic, 0, numbered(30))
    file = write_settings(folder / "f.properties", flow_settings(source, target, alias=alias, topics=topic))
    yield Stage(source, target, file, alias, topic)


def test_keys_in_wrong_and_several_partitions(source_cluster, target_cluster, tmp_path: Path) -> None:
    with stage("omk", source_cluster, target_cluster, tmp_path) as staged:
        for partition in (3, 24):  # the second one is where the topic's former size put it
            staged.write(partition, staged.key(), b'{"offset":%d}' % partition)
        stray = staged.key().replace(b",", b", ")
        staged.write(0, stray, b'{"offset":1}')
        listed = done("list", staged.file)
        places = "mm2-offsets.omk.internal-3, mm2-offsets.omk.internal-24"
        assert f"the key is in {places}: it is undefined which one MirrorMaker 2 uses" in listed
        assert f"no task reads the key {stray.decode()}" in listed
        refused = offsets("set", staged.file, "--topic", staged.topic, "--to", "10", "--partition", "1", "--yes")
        assert (refused.status, "holds no position of partition 1" in refused.output) == (2, True), refused.output
        unseen = ("--force-unseen", "--to", "0", "--partition", "1")
        assert "its partition is computed" in done("set", staged.file, "--topic", staged.topic, *unseen)
        done("set", staged.file, "--topic", staged.topic, "--partition", "0", "--to", "10", "--yes")
        assert staged.read() == {
            (3, staged.key()): b'{"offset":9}',
            (24, staged.key()): b'{"offset":9}',
            (0, stray): b'{"offset":1}',
        }
        assert offsets("set", staged.file, "--topic", staged.topic, "--to", "31", "--partition", "0").status == 2
        other = offsets("reset", staged.file, "--topic", staged.topic, "--connector", "mine", "--yes")
        assert (other.status, "it holds those of MirrorSourceConnector" in other.output) == (2, True), other.output


def test_records_of_aborted_transactions_are_no_positions(source_cluster, target_cluster, tmp_path: Path) -> None:
    with stage("oma", source_cluster, target_cluster, tmp_path) as staged:
        staged.write(3, staged.key(), b'{"offset":9}')
        with transactional(target_cluster, "oma-worker") as producer:
            producer.begin_transaction()
            producer.send(staged.offsets_topic, b'{"offset":29}', staged.key(), partition=3)
            producer.flush()
            producer.abort_transaction()
        [row] = [r for r in told_json("list", staged.file)["flows"][0]["positions"] if r["partition"] == 0]
        assert (row["mm2_offset"], row["lag"]) == (9, 20)
        assert '{"offset":9} -> a tombstone' in done("reset", staged.file, "--topic", staged.topic)


def test_what_cannot_be_trusted_is_refused(source_cluster, target_cluster, tmp_path: Path) -> None:
    with stage("omr", source_cluster, target_cluster, tmp_path, policy="delete") as staged:
        staged.write(3, staged.key(), b'{"offset":9}')
        refused = offsets("reset", staged.file, "--topic", staged.topic, "--yes")
        assert (refused.status, "has cleanup.policy=delete, expected compact" in refused.output) == (2, True), refused.output
        set_topic_config(target_cluster, staged.offsets_topic, {"cleanup.policy": "compact"})
        text = staged.file.read_text("latin-1")
        staged.file.write_text(text + f"{staged.alias}.consumer.auto.offset.reset = latest\n", "latin-1")
        refused = offsets("reset", staged.file, "--topic", staged.topic, "--yes")
        assert (refused.status, "auto.offset.reset=latest decides" in refused.output) == (2, True), refused.output
        staged.file.write_text(text, "latin-1")
        taken = tmp_path / "taken.json"
        taken.write_text("{}")
        refused = offsets("reset", staged.file, "--topic", staged.topic, "--yes", "--undo-file", str(taken))
        assert (refused.status, "taken.json cannot be written: File exists" in refused.output) == (2, True), refused.output
        assert staged.read() == {(3, staged.key()): b'{"offset":9}'}, "nothing was written before the undo file was"
        done("reset", staged.file, "--topic", staged.topic, "--yes")
        assert "there is nothing more to change" in done("reset", staged.file, "--topic", staged.topic, "--yes")
        with admin_of(target_cluster) as admin:
            admin.delete_topics([staged.offsets_topic])


def test_every_reader_takes_the_newest_record_of_a_key_that_lies_in_two_partitions(
    source_cluster, target_cluster, tmp_path: Path
) -> None:
    with stage("omn", source_cluster, target_cluster, tmp_path) as staged:
        [flow] = load(staged.file).enabled_flows(None)
        first, second = TopicPartition(staged.topic, 0), TopicPartition(staged.topic, 1)
        written = (
            (3, first, b'{"offset":20}', 2_000), (24, first, b'{"offset":10}', 1_000),
            (3, second, None, 2_000), (24, second, b'{"offset":10}', 1_000),
        )  # fmt: skip
        with client_of(target_cluster) as client:
            for index, partition, value, time_ms in written:
                place, key = TopicPartition(staged.offsets_topic, index), staged.key(partition.partition)
                append_records(client, place, [(key, value)], 1_700_000_000_000 + time_ms)
            taken_over = PositionTable("omn")
            read_settled(client, staged.offsets_topic, taken_over)
            stored = read_stored(client, [staged.offsets_topic], connector="MirrorSourceConnector", alias="omn")
        with closing(FlowState(flow)) as state:
            for table in (taken_over, stored, state.positions()):
                assert [table.last_offset(partition) for partition in (first, second)] == [20, None]


def test_a_log_that_is_cut_while_it_is_read_ends_the_reading(target_cluster) -> None:
    place = TopicPartition("cut-positions", 0)
    create_topics(target_cluster, {place.topic: (1, {})})
    produce(target_cluster, place.topic, 0, numbered(10), batch=1)
    move_log_start(target_cluster, place.topic, 0, 4)
    with client_of(target_cluster) as client:
        batches = partial(read_range, client, place, 0, read_committed=True, is_whole=False)
        assert [batch.base_offset for batch in batches(10)] == [4, 5, 6, 7, 8, 9]
        assert len(list(batches(12))) == 6, "the end was seen before the log was truncated"


# --- what may not be seen --------------------------------------------------------------------------------------


@contextmanager
def denied(cluster: LocalCluster, kind: ResourceType, name: str, operation: ACLOperation) -> Iterator[None]:
    """Everybody may do everything with a resource but this."""
    resource = ResourcePattern(kind, name, ACLResourcePatternType.LITERAL)
    rules = [
        ACL("User:*", "*", ACLOperation.ALL, ACLPermissionType.ALLOW, resource),
        ACL("User:*", "*", operation, ACLPermissionType.DENY, resource),
    ]
    with admin_of(cluster) as admin:
        assert not admin.create_acls(rules)["failed"]
        try:
            yield
        finally:
            admin.delete_acls([rule_filter(resource)])


def refused_with(words: str, *command: Any) -> None:
    """Waits until the broker knows a rule, then does it in earnest: it must be refused for the same reason."""
    await_true(lambda: words in offsets(*command).output, 60, words)
    outcome = offsets(*command, "--yes")
    assert (outcome.status, words in outcome.output) == (2, True), outcome.output


def test_what_may_exist_unseen_is_not_taken_for_absent(source_cluster, tmp_path: Path) -> None:
    with LocalCluster("hiding", overrides=AUTHORIZER) as hiding, stage("omh", source_cluster, hiding, tmp_path) as staged:
        ledger, copy = "mm2-ledger.omh.internal", f"omh.{staged.topic}"
        create_topics(hiding, {ledger: (1, {}), copy: (2, {})})
        staged.write(3, staged.key(), b'{"offset":9}')
        reset = ("reset", staged.file, "--topic", staged.topic)
        with denied(hiding, ResourceType.TOPIC, ledger, ACLOperation.DESCRIBE):
            refused_with(f"needs Describe on topic {ledger}", *reset)
        with admin_of(hiding) as admin:
            admin.delete_topics([ledger])
        await_true(lambda: ledger not in topics_of(hiding), 60, "the ledger is gone")
        with denied(hiding, ResourceType.CLUSTER, "kafka-cluster", ACLOperation.DESCRIBE):
            refused_with("needs Describe on the cluster", *reset, "--with-target")
        assert staged.read() == {(3, staged.key()): b'{"offset":9}'}
        assert copy in topics_of(hiding)


def test_a_plan_reads_the_ledger_once_while_it_waits_for_the_owner(
    source_cluster, target_cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stage("oml", source_cluster, target_cluster, tmp_path) as staged:
        ledger = TopicPartition("mm2-ledger.oml.internal", 0)
        create_topics(target_cluster, {ledger.topic: (1, {"cleanup.policy": "compact"})})
        owner = Owner(0, 1, 7, 1, "elsewhere/pid 1", 5, (7,))
        with client_of(target_cluster) as client:
            append_records(client, ledger, [encode(owner)], 1_700_000_000_000)
        reads: list[int] = []

        def counted(client: ClusterClient, partition: TopicPartition, offset: int, **more: Any) -> RawRead:
            if partition == ledger:
                reads.append(offset)
            return read_raw(client, partition, offset, **more)

        monkeypatch.setattr(log, "read_raw", counted)
        [flow] = load(staged.file).enabled_flows(None)
        assert gather(flow).owner.state == "silent"
        assert reads == [0]


# --- a flow of sparkmirror's -----------------------------------------------------------------------------------


def test_a_flow_of_ours_is_reset_undone_and_begun_with_empty_copies(source_cluster, target_cluster, tmp_path: Path) -> None:
    topics = ("omo-one", "omo-two")
    create_topics(source_cluster, {topic: (2, {}) for topic in topics})
    for topic in topics:
        for partition in (0, 1):
            produce(source_cluster, topic, partition, numbered(10))
    settings = flow_settings(source_cluster, target_cluster, alias="omo", topics="omo-.*")
    file = write_settings(tmp_path / "ours.properties", settings)
    run_cleanly(file)
    remotes = [f"omo.{topic}" for topic in topics]
    before = java_positions(target_cluster, "mm2-offsets.omo.internal")
    reset = done("reset", file, "--all", "--yes")
    assert set(java_positions(target_cluster, "mm2-offsets.omo.internal").values()) == {None}
    undone = done("undo", file, undo_file(reset), "--yes")
    assert "records of the ledger are restored" in undone
    assert java_positions(target_cluster, "mm2-offsets.omo.internal") == before
    rows = told_json("list", file)["flows"][0]["positions"]
    assert [(row["mm2_offset"], row["ledger_next"], row["lag"]) for row in rows] == [(9, 10, 0)] * 4
    done("set", file, "--topic", "omo-two", "--partition", "1", "--to", "7", "--yes")
    run_cleanly(file)
    assert [count(target_cluster, remote) for remote in remotes] == [20, 23], "undone: nothing comes again"
    assert offsets("undo", file, undo_file(reset), "--yes").status == 2, "the flow has gone on since"
    emptied = done("reset", file, "--topic", "omo-two", "--with-target", "--yes")
    assert "omo.omo-two was deleted on the target" in emptied
    run_cleanly(file)
    assert [sum(map(len, java_records(target_cluster.bootstrap, remote).values())) for remote in remotes] == [20, 20]
    assert offsets("undo", file, undo_file(emptied), "--yes").status == 2, "what was deleted does not come back"


def test_an_unreachable_cluster_is_told_with_what_is_known(target_cluster, tmp_path: Path) -> None:
    settings = flow_settings(target_cluster, target_cluster, alias="omu", topics="omu-.*")
    settings["omu.bootstrap.servers"] = "127.0.0.1:1"
    file = write_settings(tmp_path / "down.properties", settings)
    outcome = offsets("list", file)
    assert (outcome.status, "flow omu->omu-to" in outcome.output) == (2, True), outcome.output
    assert "cluster omu is unreachable" in outcome.output
    assert "group omu-mm2 has no members" in outcome.output

