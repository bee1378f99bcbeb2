"""Ledger records survive their own bytes; what is not ours is refused, not used."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.errors import TargetRefusedTimestamp
from sparkmirror.ledger import (
    Attempt,
    Closed,
    CopiedTopic,
    Failover,
    Gap,
    Intent,
    IntentTarget,
    LedgerRecord,
    LedgerView,
    Open,
    Owner,
    OwnerAnswer,
    OwnerRequest,
    PartitionEnd,
    Position,
    Receipt,
    Release,
    Routed,
    Run,
    RunSettings,
    SlotBeat,
    SlotStop,
    SourceEnds,
    Started,
    State,
    StoredPositions,
    Void,
    Wish,
    WishKey,
    decode,
    encode,
    removed,
    tombstone,
    wider_wish,
    wish_on,
    wish_removed,
    wishes_within,
)
from sparkmirror.ledger.records import decode_key
from sparkmirror.model import TopicPartition

offsets = st.integers(0, 2**62)
small = st.integers(0, 2**31 - 1)
texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)
odd_topics = st.sampled_from(['a"b', "[1,2]", "ü ", "null", "\\"])
topics = st.from_regex(r"[a-zA-Z0-9._-]{1,40}", fullmatch=True) | odd_topics
partitions = st.builds(TopicPartition, topics, small)
attempts = st.builds(Attempt, small, st.integers(0, 32767), small)
positions = st.builds(Position, offsets, offsets, small)
runs = st.lists(st.builds(Run, offsets, offsets, st.integers(1, 10**6)), max_size=5).map(tuple)
flags = st.booleans()

RECORDS = {
    Owner: st.builds(Owner, small, small, offsets, small, texts, small, st.lists(offsets, max_size=3).map(tuple), flags),
    Open: st.builds(
        Open,
        partitions,
        attempts,
        st.none() | attempts,
        small,
        small,
        topics,
        offsets,
        small,
        positions,
        texts,
        texts,
        flags,
        flags,
        flags,
        flags,
        st.integers(-1, 100),
        st.none() | offsets,
    ),
    Started: st.builds(Started, partitions, attempts, texts),
    Receipt: st.builds(Receipt, partitions, attempts, positions, small, small, offsets, runs, offsets, offsets, flags),
    Closed: st.builds(Closed, partitions, attempts, positions),
    State: st.builds(State, partitions, attempts, texts, texts, texts, texts, texts),
    Release: st.builds(Release, partitions, attempts),
    Void: st.builds(Void, partitions, attempts, offsets),
    Gap: st.builds(Gap, partitions, attempts, offsets, offsets, texts, offsets, texts),
    Intent: st.builds(
        Intent,
        partitions,
        attempts,
        offsets,
        offsets,
        texts,
        offsets,
        small,
        st.lists(
            st.builds(
                IntentTarget,
                partitions,
                offsets,
                small,
                st.lists(st.tuples(offsets, st.integers(1, 10**6)), max_size=3).map(tuple),
            ),
            max_size=3,
        ).map(tuple),
    ),
    Routed: st.builds(Routed, partitions, attempts, partitions, texts, runs.filter(len)),
    SlotBeat: st.builds(SlotBeat, small, small, small, texts, offsets),
    SlotStop: st.builds(SlotStop, small, small),
    OwnerRequest: st.builds(
        OwnerRequest, texts, texts, texts, offsets, offsets, texts, small | st.just(-1),
        st.dictionaries(texts, texts | small), texts,
    ),
    OwnerAnswer: st.builds(
        OwnerAnswer, texts, texts, texts, small, small, offsets, texts, st.dictionaries(texts, texts | small)
    ),
    SourceEnds: st.builds(
        SourceEnds, texts, small, offsets, texts,
        st.lists(st.builds(PartitionEnd, small, offsets, offsets | st.just(-1)), max_size=3).map(tuple),
    ),
    StoredPositions: st.builds(StoredPositions, texts, small, texts, st.lists(small, max_size=3).map(tuple)),
    CopiedTopic: st.builds(CopiedTopic, texts, texts),
    Wish: st.builds(Wish, texts, texts, texts, small, texts, topics, st.integers(-1, 100)),
    RunSettings: st.builds(
        RunSettings, texts, offsets, st.lists(st.tuples(texts, texts), max_size=2).map(tuple),
        st.lists(texts, max_size=2).map(tuple), offsets | st.just(-1), texts,
        st.lists(st.tuples(texts, texts, texts, texts), max_size=2).map(tuple),
    ),
    Failover: st.builds(Failover, texts, texts, texts, texts, small, texts),
}  # fmt: skip

HERE, FIRST, AT = TopicPartition("ü.t", 3), Attempt(1, 2, 3), Position(10, 20, 30)
TWO_RUNS = (Run(5, 6, 2), Run(9, 8, 1))
WRITTEN = [
    (Owner(1, 2, 3, 4, "host:1", 5, (3, 7), True),
     '["owner",1,2]',
     '{"id":3,"epoch":4,"name":"host:1","beat":5,"ids":[3,7],"released":true}'),
    (Owner(1, 2, 3, 4, "host:1", 5, (3, 7), False, "idA", "idB", 6),
     '["owner",1,2]',
     '{"id":3,"epoch":4,"name":"host:1","beat":5,"ids":[3,7],"released":false,'
     '"source cluster":"idA","target cluster":"idB","source seen":6}'),
    (OwnerRequest("r1", "skip", "ann", 7, 8, "t", 0, {"to": 5}, "sparkmirror offsets skip"),
     '["request","r1"]',
     '{"verb":"skip","who":"ann","time":7,"expires":8,"topic":"t","partition":0,"arguments":{"to":5},'
     '"command":"sparkmirror offsets skip"}'),
    (OwnerRequest("r2", "restart", "ann", 7, 8), '["request","r2"]', '{"verb":"restart","who":"ann","time":7,"expires":8}'),
    (OwnerAnswer("r1", "done", "host:1", 1, 2, 9, "moved", {"moves": 1}),
     '["answer","r1",1,2]',
     '{"state":"done","owner":"host:1","time":9,"text":"moved","detail":{"moves":1}}'),
    (SourceEnds("t", 0, 5, "s", (PartitionEnd(0, 10, 4), PartitionEnd(2, 0, -1))),
     '["ends","t",0]',
     '{"time":5,"source id":"s","ends":[[0,10,4],[2,0,-1]]}'),
    (CopiedTopic("t", "A.t"), '["topic","t"]', '{"target":"A.t"}'),
    (
        Wish("source", "paused", "ann", 5, "r1"),
        '["wish","source",null,null]',
        '{"state":"paused","who":"ann","time":5,"request":"r1"}',
    ),
    (
        Wish("source", "stopped", "ann", 5, "r1", "t", 3),
        '["wish","source","t",3]',
        '{"state":"stopped","who":"ann","time":5,"request":"r1"}',
    ),
    (RunSettings("host:1", 5, (("a->b.topics", "x"),), ("a.sasl.jaas.config",), 9, "", (("tasks.max", "1", "2", "why"),)),
     '["settings"]',
     '{"owner":"host:1","time":5,"texts":[["a->b.topics","x"]],"secrets":["a.sasl.jaas.config"],"changed":9,'
     '"refused":[["tasks.max","1","2","why"]]}'),
    (Failover("r", "planned", "begun", "ann", 5),
     '["failover"]',
     '{"request":"r","kind":"planned","state":"begun","who":"ann","time":5}'),
    (StoredPositions("t", 1, "o", (100, 101)), '["stored","t",1]', '{"offsets topic id":"o","partitions":[100,101]}'),
    (Open(HERE, FIRST, None, -2, -1, "A.t", 4, 5, AT, "s", "t", True, False, True, False, -1, None),
     '["open","ü.t",3,[1,2,3]]',
     '{"previous":null,"slot":-2,"incarnation":-1,"target":"A.t","id":4,"epoch":5,"at":[10,20,30],'
     '"source id":"s","target id":"t","read committed":true,"shared":false,"fenced":true,'
     '"source compacts":false,"source leader epoch":-1,"until":null}'),
    (Open(HERE, FIRST, Attempt(1, 2, 2), 0, 1, "A.t", 4, 5, AT, "s", "t", False, True, False, True, 6, 7, "on"),
     '["open","ü.t",3,[1,2,3]]',
     '{"previous":[1,2,2],"slot":0,"incarnation":1,"target":"A.t","id":4,"epoch":5,"at":[10,20,30],'
     '"source id":"s","target id":"t","read committed":false,"shared":true,"fenced":false,'
     '"source compacts":true,"source leader epoch":6,"until":7,"move":"on"}'),
    (Started(HERE, FIRST, "host:1"),
     '["started","ü.t",3,[1,2,3]]',
     '{"process":"host:1"}'),
    (Receipt(HERE, FIRST, AT, -1, 3, 400, TWO_RUNS, 50, 60),
     '["receipt","ü.t",3,[1,2,3],5]',
     '{"at":[10,20,30],"source leader epoch":-1,"records":3,"bytes":400,"runs":[5,6,2,2,0,1],"source end":50,"newest":60}'),
    (Receipt(HERE, FIRST, AT, 1, 0, 0, (), is_final=True),
     '["receipt","ü.t",3,[1,2,3],-1,1]',
     '{"at":[10,20,30],"source leader epoch":1,"records":0,"bytes":0,"runs":[],"source end":-1,"newest":-1}'),
    (Closed(HERE, FIRST, AT),
     '["closed","ü.t",3,[1,2,3]]',
     '{"at":[10,20,30]}'),
    (State(HERE, FIRST, "stopped", "X", 'a "b"\n'),
     '["state","ü.t",3,[1,2,3]]',
     '{"state":"stopped","code":"X","reason":"a \\"b\\"\\n"}'),
    (Release(HERE, FIRST),
     '["release","ü.t",3,[1,2,3]]',
     '{}'),
    (Void(HERE, FIRST, 9),
     '["void","ü.t",3,[1,2,3]]',
     '{"downstream":9}'),
    (Gap(HERE, FIRST, 4, 8, "why", 99, "s"),
     '["gap","ü.t",3,[1,2,3],4]',
     '{"until":8,"reason":"why","time":99,"source id":"s"}'),
    (Intent(HERE, FIRST, 4, 8, "id", 1, 2, (IntentTarget(TopicPartition("o", 1), 7, 0, ((4, 2), (7, 1))),)),
     '["intent","ü.t",3,[1,2,3]]',
     '{"from":4,"until":8,"by":["id",1,2],"targets":[["o",1,7,0,[4,2,7,1]]]}'),
    (Routed(HERE, FIRST, TopicPartition("o", 1), "s", TWO_RUNS),
     '["routed","ü.t",3,[1,2,3],5,"o",1]',
     '{"source id":"s","runs":[5,6,2,2,0,1]}'),
    (SlotBeat(1, 2, 3, "host:1", 4096),
     '["slot",1,2]',
     '{"beat":3,"process":"host:1","rss":4096}'),
    (SlotStop(1, 2),
     '["stop",1,2]',
     '{}'),
]  # fmt: skip


@pytest.mark.parametrize(("record", "key", "value"), WRITTEN)
def test_the_bytes_of_a_record_are_those_of_every_version_before(record: LedgerRecord, key: str, value: str) -> None:
    assert encode(record) == (key.encode(), value.encode())
    assert decode(key.encode(), value.encode()) == record


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
def test_a_record_is_what_its_bytes_say(kind: type) -> None:
    @given(RECORDS[kind])
    def survives(record: object) -> None:
        assert decode(*encode(record)) == record

    survives()


@given(st.one_of(*RECORDS.values()), st.one_of(*RECORDS.values()))
def test_records_that_supersede_each_other_and_only_those_have_the_same_key(left: object, right: object) -> None:
    same = type(left) is type(right) and _identity(left) == _identity(right)
    assert (encode(left)[0] == encode(right)[0]) == same


def _identity(record: object) -> object:
    match record:
        case Owner():
            return record.generation, record.first_epoch
        case SlotBeat() | SlotStop():
            return record.slot, record.incarnation
        case OwnerRequest():
            return record.id
        case OwnerAnswer():
            return record.id, record.generation, record.producer_epoch
        case SourceEnds() | StoredPositions():
            return record.topic, record.chunk
        case CopiedTopic():
            return record.topic
        case Wish():
            return record.key
        case RunSettings():
            return None
        case Failover():
            return "the flow"
        case Receipt():
            start = record.runs[0].upstream if record.runs else -1
            return record.partition, record.attempt, start, record.is_final
        case Gap():
            return record.partition, record.attempt, record.upstream
        case Routed():
            return record.partition, record.attempt, record.runs[0].upstream, record.target
        case _:
            return record.partition, record.attempt


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_bytes_that_are_no_record_are_counted_and_change_nothing(key: bytes, value: bytes) -> None:
    view = LedgerView()
    assert view.read(key, value) is None
    assert (view.malformed, view.partitions, view.owners) == (1, {}, {})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"[]", b"{}"),
        (b"5", b"{}"),
        (b'["open"]', b"{}"),
        (b'["nothing","t",0,[0,0,1]]', b"{}"),
        (b'["closed","t",0,[0,0]]', b'{"at":[1,1,1]}'),
        (b'["closed","t",0,[0,0,1]]', b'{"at":[1,1]}'),
        (b'["closed","t",0,[0,0,1]]', b"null"),
        (b'["receipt","t",0,[0,0,1],0]', b'{"at":[1,1,1],"runs":[1,2]}'),
        (b'["gap","t",0,[0,0,1]]', b'{"until":5,"reason":"","time":0,"source id":""}'),
        (b'["gap","t",0,[0,0,1],3]', b'{"until":5}'),
        (b'[["owner"],0,0]', b"{}"),
        (b"\xff", b"{}"),
        (b'["closed","t",0,[0,0,1]]', b'{"at":"abc"}'),
        (b'["closed","t",0,[0,0,1]]', b'{"at":[5,-7,0]}'),
        (b'["closed","t","0",[0,0,1]]', b'{"at":[1,1,1]}'),
        (b'["closed","t",0,[0,true,1]]', b'{"at":[1,1,1]}'),
        (b'["state",7,0,[0,0,1]]', b'{"state":"copying","code":"","reason":""}'),
        (b'["state","t",0,[0,0,1]]', b'{"state":"copying","code":null,"reason":""}'),
        (b'["slot",0,"1"]', b'{"beat":1,"process":"p","rss":1}'),
        (b"[" * 100_000, b"{}"),
    ],
)
def test_a_damaged_record_is_a_value_error(key: bytes, value: bytes) -> None:
    with pytest.raises(ValueError):
        decode(key, value)


@given(st.sampled_from(["receipt", "gap", "routed"]), partitions, attempts, offsets)
def test_a_tombstone_names_what_it_removes(kind: str, partition: TopicPartition, attempt: Attempt, start: int) -> None:
    key, value = tombstone(kind, partition, attempt, start)
    assert value is None
    assert decode_key(key) == (kind, partition, attempt, start)


@given(RECORDS[Gap])
def test_a_gap_is_removed_by_its_own_tombstone_and_by_no_other(gap: Gap) -> None:
    view = LedgerView()
    view.apply(gap)
    view.read(*tombstone("gap", gap.partition, gap.attempt, gap.upstream + 1))
    view.read(*tombstone("void", gap.partition, gap.attempt))
    assert list(view.of(gap.partition).gaps.values()) == [gap]
    view.read(*tombstone("gap", gap.partition, gap.attempt, gap.upstream))
    assert view.of(gap.partition).gaps == {}


def test_a_state_without_a_hint_has_the_bytes_that_it_always_had() -> None:
    place = (TopicPartition("t", 0), Attempt(0, 0, 1))
    written = (b'["state","t",0,[0,0,1]]', b'{"state":"stopped","code":"C","reason":"why (do this)"}')
    assert encode(State(*place, "stopped", "C", "why (do this)")) == written
    assert decode(*written) == State(*place, "stopped", "C", "why (do this)")


def test_a_stop_keeps_message_hint_and_detail_apart_and_shows_them_together() -> None:
    error = TargetRefusedTimestamp("too old", hint="raise the limit")
    state = State.stopped(TopicPartition("t", 0), Attempt(0, 0, 1), error)
    assert (state.code, state.reason, state.hint, state.detail) == (
        "TARGET_REFUSED_RECORDS", "too old", "raise the limit", "timestamp",
    )  # fmt: skip
    assert state.text == str(error)
    assert b'"hint":"raise the limit","detail":"timestamp"' in encode(state)[1]


def test_a_request_is_taken_once_and_answered_by_the_newest_owner() -> None:
    view = LedgerView()
    first, again = OwnerRequest("r", "skip", "ann", 1, 9, "t"), OwnerRequest("r", "reset", "bob", 2, 9, "u")
    for record in (first, again):
        view.read(*encode(record))
    assert view.unanswered() == [first]
    newer, late = OwnerAnswer("r", "done", "b", 0, 2, 5, "moved"), OwnerAnswer("r", "refused", "a", 0, 1, 6, "no")
    for answer in (newer, late):
        view.read(*encode(answer))
    assert (view.unanswered(), view.answers) == ([], {"r": newer})
    for key in (removed("request", "r"), removed("answer", "r", 0, 1), removed("answer", "r", 0, 2)):
        view.read(*key)
    assert (view.requests, view.answers, view.malformed) == ({}, {}, 0)


def test_ends_and_stored_positions_are_replaced_chunk_by_chunk_and_removed_by_their_keys() -> None:
    view = LedgerView()
    for record in (
        SourceEnds("t", 0, 5, "s", (PartitionEnd(0, 10, 4), PartitionEnd(1, 20, -1))),
        SourceEnds("t", 0, 6, "s", (PartitionEnd(0, 11, 5), PartitionEnd(1, 20, -1))),
        SourceEnds("t", 1, 7, "s", (PartitionEnd(100, 1, 1),)),
        StoredPositions("t", 0, "o", (0, 1)),
        StoredPositions("t", 0, "o", (1,)),
    ):
        view.read(*encode(record))
    assert {p.partition: (e.end, e.time_ms) for p, e in view.source_ends.items()} == {0: (11, 6), 1: (20, 6), 100: (1, 7)}
    assert view.stored_in() == {TopicPartition("t", 1): "o"}
    view.read(*removed("ends", "t", 0))
    view.read(*removed("stored", "t", 0))
    assert (list(view.source_ends), view.stored_in(), view.malformed) == ([TopicPartition("t", 100)], {}, 0)


def test_a_topic_is_copied_until_its_record_is_removed() -> None:
    view = LedgerView()
    for record in (CopiedTopic("t", "A.t"), CopiedTopic("u", "u"), CopiedTopic("t", "t")):
        view.read(*encode(record))
    assert view.copied_topics == {"t": "t", "u": "u"}
    view.read(*removed("topic", "t"))
    assert (view.copied_topics, view.malformed) == ({"u": "u"}, 0)


def test_a_wish_holds_until_its_record_is_removed_and_the_stopped_one_counts_first() -> None:
    view = LedgerView()
    flow, topic = Wish("source", "paused", "ann", 1, "r1"), Wish("source", "stopped", "bob", 2, "r2", "t")
    one = Wish("source", "paused", "cid", 3, "r3", "u", 1)
    for wish in (topic, one, flow, Wish("heartbeat", "stopped", "dan", 4, "r4")):
        view.read(*encode(wish))
    assert [wish_on(view.wishes, TopicPartition(*place)) for place in (("t", 0), ("u", 1), ("v", 0))] == [topic, flow, flow]
    view.read(*wish_removed(flow))
    assert [wish_on(view.wishes, TopicPartition(*place)) for place in (("u", 0), ("u", 1))] == [None, one]
    assert wider_wish(view.wishes, WishKey("source", "t", 5)) == topic
    assert wishes_within(view.wishes, WishKey("source")) == [topic, one]
    view.read(*wish_removed(topic))
    view.read(*wish_removed(one))
    assert ([wish.connector for wish in view.wishes.values()], view.malformed) == (["heartbeat"], 0)
