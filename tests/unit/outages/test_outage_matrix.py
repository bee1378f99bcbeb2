"""The matrix of issue 22: each state of the clusters, and what each verb then says and ends with.

A cell holds the exit status and words that the output holds. Beside the words of each cell, some things must hold in all
of them: nothing that could not be read is called 0, absent or in order, and only what is KNOWN ends with 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from unit.outages.worst_night import (
    ALL_IS_WELL,
    BOTH_GONE,
    LEADERLESS,
    LOGIN_REFUSED,
    SOURCE_GONE,
    STATES,
    TARGET_GONE,
    Ended,
    Night,
    worst_night,
)  # fmt: skip

from sparkmirror.clusters import probing
from sparkmirror.clusters.client import PATIENCE

Cell = tuple[int, *tuple[str, ...]]  # the exit status, then words
NOBODY = "Connection refused"
BY_LEDGER = "starts at ledger, 7 behind as of"
LOGIN = "PLAIN login of user ann was refused"

# A move of a position needs both clusters: which offsets there are, and where the positions lie.
MOVES: dict[str, Cell] = {
    SOURCE_GONE: (2, "cluster A is unreachable", NOBODY),
    TARGET_GONE: (2, "cluster B is unreachable", NOBODY),
    BOTH_GONE: (2, "is unreachable", NOBODY),
    LOGIN_REFUSED: (2, LOGIN),
    LEADERLESS: (2, "leader of orders-1: LEADER_NOT_AVAILABLE"),
}
MOVE = "offsets set FILE --topic orders --partition 1 --to 5 --yes --undo-file UNDO"
UNDO, GROUP = "offsets undo FILE UNDO --dry-run", "translate FILE --group billing"
AT, BACK = "translate FILE --at orders:1=8", "translate FILE --back --group billing"
# What is known exactly without the source: the ledger holds the map, the file of the move what was there before.
KNOWN_STATES = (SOURCE_GONE, LOGIN_REFUSED, LEADERLESS)
KNOWN = {(verb, state) for verb in (UNDO, GROUP, AT, BACK) for state in KNOWN_STATES}
ON_TARGET: dict[str, Cell] = dict.fromkeys((TARGET_GONE, BOTH_GONE), (2, "cluster B is unreachable", NOBODY))
READERS = ("records FILE checkpoints", "records FILE ledger", "records FILE positions", "history FILE")
KNOWN |= {(verb, state) for verb in READERS for state in KNOWN_STATES}
KNOWN |= {("records FILE offset-syncs", state) for state in (TARGET_GONE, LEADERLESS)}
# Elsewhere: a run starts then (test_outages_of_a_run.py), and a trial needs the source alone, and Spark.
TRY = "try FILE --topic orders --sql SQL"
ELSEWHERE = {("run FILE", LEADERLESS), ("run FILE --once", LEADERLESS), (TRY, LEADERLESS), (TRY, TARGET_GONE)}

CELLS: dict[str, dict[str, Cell]] = {
    "doctor FILE --wait 0": {
        SOURCE_GONE: (4, "A->B  sparkmirror source unreachable  lag ? (7 at", "ERROR    V1 cluster A does not answer",
                      NOBODY, "7 records in 1 partition of A were not copied at the last look", "orders-1 7 after offset 10",
                      "group billing: reads 6 records again", "group shipping: has no position on B in 2 partitions"),
        TARGET_GONE: (4, "A->B  target unreachable  lag ?", "1 topics, 2 partitions; 2 groups; A one broker",
                      "ERROR    V1 cluster B does not answer", NOBODY, "not answered"),
        BOTH_GONE: (4, "A->B  source unreachable, target unreachable  lag ?", "topics unknown; groups unknown",
                    "V1 cluster A does not answer", "V1 cluster B does not answer"),
        LOGIN_REFUSED: (4, "A->B  sparkmirror source refuses the login  lag ? (7 at", "V1 cluster A refuses the login",
                        LOGIN, "7 records in 1 partition of A were not copied at the last look"),
        LEADERLESS: (4, "A->B  sparkmirror running  lag ? (7 at", "V7 partitions on A without a leader",
                     "1 of 2 partitions on A have no leader and are not copied: orders-1"),
    },
    "doctor FILE --wait 0 --json": {
        SOURCE_GONE: (4, '"outage": "source unreachable"', '"lag": null', '"records": 7'),
        TARGET_GONE: (4, '"outage": "target unreachable"', '"lag": null', '"last_lag": null'),
        BOTH_GONE: (4, '"topics": null', '"partitions": null', '"groups": null', '"lag": null'),
        LOGIN_REFUSED: (4, '"outage": "source refuses the login"', '"lag": null', LOGIN),
        LEADERLESS: (4, '"outage": null', '"lag": null', '"lag_at_least": 0', '"records": 7', '"id": "V7"'),
    },
    "inspect FILE --include-inactive-groups": {
        SOURCE_GONE: (2, "copy lag ? (7 at", "2 groups inspected", "A does not answer: what it holds is unknown",
                      "billing  orders-0  target position 5, checkpoint of 8 at 8: reads 3 records again",
                      "shipping  orders-1  no position on the target, checkpoint of 8 at 8", "not complete"),
        TARGET_GONE: (2, "who runs it is unknown, copy lag ?, 2 groups inspected", "4 positions: 4 unknown", NOBODY),
        BOTH_GONE: (2, "who runs it is unknown, copy lag ?, groups unknown", "A does not answer, B does not answer"),
        LOGIN_REFUSED: (2, "A refuses the login: what it holds is unknown", "4 positions: 4 unknown", LOGIN),
        LEADERLESS: (4, "copy lag ? (1 partition unknown)", "billing  orders-1  source position 8, target position 5",
                     "ends of orders-1 on A are not known"),
    },
    "inspect FILE --include-inactive-groups --include-ok-groups --format csv": {
        SOURCE_GONE: (2, "A->B,orders,0,billing,-,-,Unknown,-,-,0,10,Empty,5,5,-,-,-,true,-,-,Unknown: the source could"),
        TARGET_GONE: (2, "A->B,orders,1,billing,0,17,Empty,8,9,-,-,Unknown,-,-,-,true,true,-,-,-,Unknown: the target could"),
        BOTH_GONE: (2, "CLUSTER PAIR,TOPIC", NOBODY),
        LOGIN_REFUSED: (2, "A->B,orders,0,shipping,-,-,Unknown,-,-,0,10,Dead,-,-,-,-,-,true,-,-,Unknown: the source", LOGIN),
        LEADERLESS: (4, "A->B,orders,1,billing,-,-,Empty,8,-,0,10,Empty,5,5,-,-,-,true,-,-,Unknown: the source could",
                     "A->B,orders,0,billing,0,10,Empty,8,2,0,10,Empty,5,5"),
    },
    "inspect FILE --include-inactive-groups --json": {
        SOURCE_GONE: (2, '"number": null, "ok": null', '"offset": null', '"last_copy_lag": 7', '"complete": false'),
        TARGET_GONE: (2, '"number": null, "ok": null', '"copy_lag": null', '"group_state": null', '"complete": false'),
        BOTH_GONE: (2, '"rows": [\n]', '"copy_lag": null', '"outages": ["A does not answer", "B does not answer"]'),
        LOGIN_REFUSED: (2, '"number": null, "ok": null', '"outages": ["A refuses the login"]', LOGIN),
        LEADERLESS: (4, '"unknown_lags": 1', '"copy_lag": null', '"complete": false'),
    },
    "why FILE orders --wait 0": {
        SOURCE_GONE: (4, "is it on A? not known: cluster A does not answer", "orders-1 copied to upstream offset 10",
                      "the source ended at 17", "(V1)"),
        TARGET_GONE: (4, "✗ do both clusters answer? no: cluster B does not answer (V1)", NOBODY),
        BOTH_GONE: (4, "not known, because cluster A does not answer; cluster B does not answer"),
        LOGIN_REFUSED: (4, "is it on A? not known: cluster A refuses the login; last known: orders-0 copied to", LOGIN),
        LEADERLESS: (4, "1 of 2 partitions on A have no leader and are not copied: orders-1 (V7)"),
    },
    "why FILE orders:1 --wait 0": {
        SOURCE_GONE: (4, "is it on A? not known", "orders-1 copied to upstream offset 10", "the source ended at 17"),
        TARGET_GONE: (4, "✗ do both clusters answer? no: cluster B does not answer (V1)"),
        BOTH_GONE: (4, "not known, because cluster A does not answer; cluster B does not answer"),
        LOGIN_REFUSED: (4, "is it on A? not known: cluster A refuses the login", "the source ended at 17", LOGIN),
        LEADERLESS: (4, "orders-1 (V7)"),
    },
    "why FILE billing --wait 0": {
        SOURCE_GONE: (4, "not known: cluster A does not answer; last known: in 2 partitions by its checkpoints",
                      "what would a failover now cost it? reads 6 records again"),
        TARGET_GONE: (4, "✓ has it positions to mirror? yes, in 2 partitions", "cluster B does not answer (V1)"),
        BOTH_GONE: (4, "not known, because cluster A does not answer; cluster B does not answer"),
        LOGIN_REFUSED: (4, "not known: cluster A refuses the login; last known: in 2 partitions by its checkpoints", LOGIN),
        LEADERLESS: (4, "are its topics copied? no", "1 of 2 partitions on A have no leader and are not copied: orders-1"),
    },
    "why FILE nosuch --wait 0": {
        SOURCE_GONE: (4, "not known, because cluster A does not answer; B knows nothing of it"),
        TARGET_GONE: (4, "not known, because cluster B does not answer; A knows nothing of it"),
        BOTH_GONE: (4, "not known, because cluster A does not answer; cluster B does not answer"),
        LOGIN_REFUSED: (4, "not known, because cluster A refuses the login; B knows nothing of it"),
        LEADERLESS: (4, "neither A nor B has a topic or a group called nosuch"),
    },
    GROUP: {
        SOURCE_GONE: (3, "billing orders-1 at 8: A.orders-1 at 8, ledger (as of ", "committed there at 5", NOBODY),
        TARGET_GONE: (2, "billing orders-0 at 8: unknown (cluster B does not answer: the ledger and the checkpoints"),
        BOTH_GONE: (2, "billing: unknown (cluster A does not answer, and its checkpoints are unknown"),
        LOGIN_REFUSED: (3, "billing orders-1 at 8: A.orders-1 at 8, ledger (as of ", LOGIN),
        LEADERLESS: (0, "billing orders-0 at 8: A.orders-0 at 8, proven", "billing orders-1 at 8: A.orders-1 at 8, ledger"),
    },
    AT: {
        SOURCE_GONE: (0, "orders-1 at 8: A.orders-1 at 8, ledger", NOBODY),
        TARGET_GONE: (2, "orders-1 at 8: unknown (cluster B does not answer: the ledger and the checkpoints are there)"),
        BOTH_GONE: (2, "orders-1 at 8: unknown (cluster B does not answer"),
        LOGIN_REFUSED: (0, "orders-1 at 8: A.orders-1 at 8, ledger", LOGIN),
        LEADERLESS: (0, "orders-1 at 8: A.orders-1 at 8, ledger (records not compared, ends of orders-1: LEADER_NOT_AV"),
    },
    BACK: {
        SOURCE_GONE: (0, "billing A.orders-1 at 5: orders-1 at 5, ledger", NOBODY),
        TARGET_GONE: (2, "billing: unknown (cluster B does not answer"),
        BOTH_GONE: (2, "billing: unknown (cluster B does not answer"),
        LOGIN_REFUSED: (0, "billing A.orders-1 at 5: orders-1 at 5, ledger", LOGIN),
        LEADERLESS: (0, "billing A.orders-1 at 5: orders-1 at 5, ledger"),
    },
    "offsets list FILE": {
        SOURCE_GONE: (2, "source: unknown: cluster A does not answer; last seen", "? (ended at 17)", "? (7)"),
        TARGET_GONE: (2, "ledger unknown: cluster B does not answer", "MirrorMaker 2: unknown whether it runs", "0 to 17"),
        BOTH_GONE: (2, "ledger unknown: cluster B does not answer", "source: unknown: cluster A does not answer"),
        LOGIN_REFUSED: (2, "? (ended at 17)", "? (7)", LOGIN),
        LEADERLESS: (2, "0 to 10", "? (ended at 17)", "? (7)"),
    },
    "plan FILE": {
        SOURCE_GONE: (2, "unknown: cluster A is unreachable", "released by another-host", "7 behind as of"),
        TARGET_GONE: (2, "unknown: cluster B is unreachable", "ledger: unknown; owner unknown", "unknown stored positions",
                      "starts at unknown, ? behind"),
        BOTH_GONE: (2, "cluster A is unreachable", "cluster B is unreachable", "ledger: unknown; owner unknown"),
        LOGIN_REFUSED: (2, LOGIN, "7 behind as of"),
        LEADERLESS: (4, "orders-1: its ends on A cannot be read: LEADER_NOT_AVAILABLE", "starts at ledger, ? behind"),
    },
    # What lies on one cluster is read without the other.
    **{
        f"records FILE {topic}": ON_TARGET | dict.fromkeys(KNOWN_STATES, (0, words))
        for topic, words in (("checkpoints", '"consumer_group": "shipping"'), ("ledger", '"kind": "ends"'),
                             ("positions", '"next_offset": 10'))
    },
    "records FILE offset-syncs": {
        SOURCE_GONE: (2, "cluster A is unreachable", NOBODY),
        TARGET_GONE: (0,),
        BOTH_GONE: (2, "cluster A is unreachable", NOBODY),
        LOGIN_REFUSED: (2, LOGIN),
        LEADERLESS: (0,),
    },
    "history FILE": ON_TARGET | dict.fromkeys(KNOWN_STATES, (0, "nothing was asked and nothing was given up")),
    "restart FILE": ON_TARGET | dict.fromkeys(KNOWN_STATES, (2, "no process runs A->B")),
    TRY: {
        SOURCE_GONE: (2, "cluster A is unreachable", NOBODY),
        BOTH_GONE: (2, "cluster A is unreachable", NOBODY),
        LOGIN_REFUSED: (2, LOGIN),
    },
    "run FILE": {
        SOURCE_GONE: (2, "cluster A is unreachable", NOBODY, "check A.bootstrap.servers"),
        TARGET_GONE: (2, "cluster B is unreachable", NOBODY, "check B.bootstrap.servers"),
        BOTH_GONE: (2, "is unreachable", NOBODY),
        LOGIN_REFUSED: (2, LOGIN, "check username and password in sasl.jaas.config"),
    },
    "run FILE --once": {
        SOURCE_GONE: (2, "cluster A is unreachable", NOBODY),
        TARGET_GONE: (2, "cluster B is unreachable", NOBODY),
        BOTH_GONE: (2, "is unreachable", NOBODY),
        LOGIN_REFUSED: (2, LOGIN),
    },
    "offsets skip FILE --topic orders --partition 1 --to 12 --dry-run": MOVES,
    "offsets reset FILE --topic orders --dry-run": MOVES,
    "offsets set FILE --topic orders --partition 1 --to 5 --dry-run": MOVES,
    UNDO: MOVES | dict.fromkeys(KNOWN_STATES, (0, "2 records of the ledger are restored", "nothing was changed")),
}  # fmt: skip

# What nobody may say of something that could not be read: that it is nothing, or not there.
FALSE_OF = {
    SOURCE_GONE: r"\b0 topics|\b0 groups|it is not on A|no flow of the file copies|has \d+ partitions? on the source"
                 r"|everything is copied|nothing is stored",
    TARGET_GONE: r"no ledger|no owner|nobody has run|no mirror has written|\b0 stored positions|starts at earliest"
                 r"|no flow of the file copies|nothing is stored|not on B|not synced\b",
    LEADERLESS: r"everything is copied|orders-1 does not exist",
}  # fmt: skip
FALSE_OF[BOTH_GONE] = f"{FALSE_OF[SOURCE_GONE]}|{FALSE_OF[TARGET_GONE]}"
FALSE_OF[LOGIN_REFUSED] = f"{FALSE_OF[SOURCE_GONE]}|does not answer|unreachable"
ALWAYS_FALSE = r"Traceback|\blag 0\b|\"lag\": 0\b|copy lag 0\b|, 0 errors"


@pytest.fixture(scope="module", params=STATES)
def nights(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[Night]]]:
    """The clusters of one state for all verbs, of which none changes anything: with an owner, with none, and moved."""
    with ExitStack() as opened:
        patch = opened.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(probing, "SETTLE_S", 0.1)  # nobody is waited for: they never come
        object.__setattr__(PATIENCE, "retry_s", 0.5)
        opened.callback(object.__setattr__, PATIENCE, "retry_s", PATIENCE.retry_s)
        def begin(name: str, before: str, *, is_released: bool) -> Night:
            made = worst_night(before, tmp_path_factory.mktemp(name), is_released=is_released)
            return opened.enter_context(made)

        moved = begin("moved", ALL_IS_WELL, is_released=True)
        ended = moved.call(*MOVE.split())
        assert ended.status == 0, ended.text
        moved.strike(request.param)
        owned, released = (begin("night", request.param, is_released=is_released) for is_released in (False, True))
        yield request.param, [owned, released, moved]


@pytest.mark.parametrize("verb", CELLS)
def test_each_verb_says_what_is_known_and_never_what_is_not(verb: str, nights: tuple[str, list[Night]]) -> None:
    state, made = nights
    if state not in CELLS[verb]:
        assert (verb, state) in ELSEWHERE
        return
    night = made[2 if "undo" in verb else verb.startswith(("offsets s", "offsets r", "plan", "restart", "run"))]
    ended = night.call(*verb.split())
    status, *words = CELLS[verb][state]
    missing = [word for word in words if word not in ended.text]
    assert (ended.status, missing) == (status, []), ended.text
    assert (status != 0 or (verb, state) in KNOWN) and false_words(state, ended) == [], ended.text


def false_words(state: str, ended: Ended) -> list[str]:
    return re.findall(f"{ALWAYS_FALSE}|{FALSE_OF[state]}", ended.text)


def test_every_state_has_a_cell_for_every_verb() -> None:
    lacking = {(verb, state) for verb, cells in CELLS.items() for state in STATES if state not in cells}
    assert lacking == ELSEWHERE


def test_without_an_outage_the_same_clusters_are_known_whole(tmp_path: Path) -> None:
    with worst_night(ALL_IS_WELL, tmp_path) as made:
        told = made.call("doctor", "FILE", "--wait", "0")
    assert "A->B  sparkmirror running  lag 7" in told.text and "V1" not in told.text and "not answered" not in told.text
