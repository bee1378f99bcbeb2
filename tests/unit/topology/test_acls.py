"""Which rights are copied: what MirrorMaker 2 copies, rights on patterns too, and never more than the source allows."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.config import FlowSettings, parse
from sparkmirror.model import Acl, FlowName
from sparkmirror.topology import DefaultReplicationPolicy, acls_for_target, policy_for, select_topics

HEAD = "clusters = A, C\nA.bootstrap.servers = a:1\nC.bootstrap.servers = c:1\nA->C.enabled = true\n"
IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
OPERATIONS = ("READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS")
USER = "User:ann"


def flow_of(lines: str = "") -> FlowSettings:
    return parse(HEAD + lines, "f", {}).flow(FlowName("A", "C"))


def copied(acls: list[Acl], topics: list[str], lines: str = "") -> list[Acl]:
    flow = flow_of(lines)
    return acls_for_target(flow, policy_for(flow), acls, topics)


def read(topic: str, **more: str) -> Acl:
    return replace(Acl(topic=topic, principal=USER, operation="READ"), **more)


# --- rights on one topic -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("right", "wanted"),
    [
        (read("t", operation="WRITE"), []),
        (read("t", operation="ALL"), [read("A.t")]),
        *((read("t", operation=verb), [read("A.t", operation=verb)]) for verb in OPERATIONS if verb != "WRITE"),
        *((read("t", operation=verb, permission="DENY"), [read("A.t", operation=verb, permission="DENY")])
          for verb in (*OPERATIONS, "ALL")),
        (read("t", principal="User:*", host="10.0.0.7"), [read("A.t", principal="User:*", host="10.0.0.7")]),
    ],
    ids=str,
)  # fmt: skip
def test_a_right_on_one_topic_is_copied_as_mirror_maker_copies_it(right: Acl, wanted: list[Acl]) -> None:
    """MirrorSourceConnectorTest testAclFiltering and testAclTransformation."""
    assert copied([right], ["t"]) == wanted


def test_a_right_on_one_topic_is_copied_before_the_topic_exists() -> None:
    assert copied([read("later")], []) == [read("A.later")]
    assert copied([read("later")], [], IDENTITY) == [read("later")]


@pytest.mark.parametrize("topic", ["__consumer_offsets", "mm2-x.internal", "C.t", "x.C.t", "t.replica", "t" * 249])
def test_a_right_on_a_topic_that_is_not_copied_is_not_copied(topic: str) -> None:
    assert copied([read(topic)], [topic]) == []


@pytest.mark.parametrize("name", ["t*", "t u", "t\n", ""])
def test_a_right_on_a_name_that_no_topic_can_have_is_not_copied(name: str) -> None:
    assert copied([read(name)], ["t"]) == []


def test_a_right_on_a_heartbeats_topic_goes_where_its_records_go() -> None:
    assert copied([read("heartbeats")], [], "topics = x\n") == [read("A.heartbeats")]
    assert copied([read("heartbeats")], [], IDENTITY) == [read("A.heartbeats")]


def test_rights_that_become_equal_are_one() -> None:
    assert copied([read("t", operation="ALL"), read("t"), read("t", pattern="PREFIXED")], ["t"]) == [read("A.t")]


def test_what_denies_comes_first() -> None:
    found = copied([read("a"), read("z", permission="DENY")], [])
    assert [acl.permission for acl in found] == ["DENY", "ALLOW"]


# --- rights on patterns: MirrorMaker 2 ignores PREFIXED ones and makes the useless `A.*` of `*` (limitation L30) ----


@pytest.mark.parametrize("lines", ["", IDENTITY], ids=["default", "identity"])
def test_a_right_on_a_prefix_becomes_one_on_each_copied_topic_that_has_it(lines: str) -> None:
    topics = ["orders", "orders-1", "orders.replica", "order", "C.orders", "ordersx"]
    remote = policy_for(flow_of(lines)).format_remote_topic
    wanted = [read(remote("A", topic)) for topic in ("orders", "orders-1", "ordersx")]
    assert copied([read("orders", pattern="PREFIXED", operation="ALL")], topics, lines) == wanted


@pytest.mark.parametrize(("lines", "wanted"), [("", ["A.a", "A.b"]), (IDENTITY, ["a", "b"])], ids=["default", "identity"])
def test_a_right_on_every_topic_becomes_one_on_each_copied_topic(lines: str, wanted: list[str]) -> None:
    found = copied([read("*")], ["a", "b", "__consumer_offsets", "b.replica"], lines)
    assert found == [read(topic) for topic in wanted]


def test_a_prefix_that_is_a_star_covers_nothing() -> None:
    assert copied([read("*", pattern="PREFIXED")], ["a", "b"]) == []


def test_a_denied_prefix_also_denies_what_is_allowed_on_a_topic_to_come() -> None:
    denied = read("pay", pattern="PREFIXED", permission="DENY")
    assert copied([read("payroll"), denied], []) == [read("A.payroll", permission="DENY"), read("A.payroll")]


@given(prefix=st.text("abmz_.-2AC", max_size=20), separator=st.sampled_from([".", "_", "-", "__"]))
def test_no_prefix_is_replicated_as_a_whole(prefix: str, separator: str) -> None:
    """Why a PREFIXED right is never copied as one: it would cover this name, which the flow does not write."""
    flow = flow_of(f"topics = .*\ntopics.exclude =\nreplication.policy.separator = {separator}\n")
    name = separator.join((prefix, "checkpoints", "internal"))
    assert [decision.reason for decision in select_topics(flow, policy_for(flow), [name])] == ["internal topic"]


class OneName(DefaultReplicationPolicy):
    """A policy of the user's own, by which every copy has the same name."""

    def __init__(self, name: str) -> None:
        super().__init__()
        object.__setattr__(self, "name", name)

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        return self.name  # type: ignore[attr-defined, no-any-return]


def test_a_policy_that_calls_a_copy_a_star_gives_no_right_on_every_topic() -> None:
    assert acls_for_target(flow_of(), OneName("*"), [read("a"), read("a", pattern="PREFIXED")], ["a"]) == []


def test_only_the_topic_that_is_really_copied_gives_rights_to_a_name_that_two_topics_share() -> None:
    acls = [read("a", operation="DELETE"), read("b")]
    assert acls_for_target(flow_of(), OneName("all"), acls, ["b"]) == [read("all")]


# --- never more than the source allows -----------------------------------------------------------------------------

NAMES = ("a", "ab", "abc", "b", "b.c", "C.a", "a.C.b", "A.a", "__a", "a.replica", "heartbeats", "a.heartbeats", "*a")
PREFIXES = ("a", "ab", "b", "C", "A.", "__", "heart", "zz")
PRINCIPALS = ("User:ann", "User:bob", "User:*")
HOSTS = ("10.0.0.1", "10.0.0.2", "*")
IMPLIED = {"DESCRIBE": {"READ", "WRITE", "DELETE", "ALTER"}, "DESCRIBE_CONFIGS": {"ALTER_CONFIGS"}}
LINES = ("", IDENTITY, "topics = a.*\n", "topics.exclude = a\n", IDENTITY + "topics = a.*,C.*\ntopics.exclude =\n")


def is_allowed(acls: list[Acl], topic: str, principal: str, host: str, operation: str) -> bool:
    """What Kafka's StandardAuthorizer says of a plain user: a DENY wins, and what nobody allows is denied."""

    def fits(acl: Acl) -> bool:
        covers = topic.startswith(acl.topic) if acl.pattern == "PREFIXED" else acl.topic in (topic, "*")
        return covers and acl.principal in (principal, "User:*") and acl.host in (host, "*")

    fitting = [acl for acl in acls if fits(acl)]
    if any(acl.permission == "DENY" and acl.operation in (operation, "ALL") for acl in fitting):
        return False
    enough = {operation, "ALL"} | IMPLIED.get(operation, set())
    return any(acl.permission == "ALLOW" and acl.operation in enough for acl in fitting)


def rights() -> st.SearchStrategy[list[Acl]]:
    return st.lists(
        st.builds(
            lambda where, **rest: Acl(topic=where[0], pattern=where[1], **rest),
            where=st.sampled_from(
                [(name, "LITERAL") for name in (*NAMES, "*")] + [(prefix, "PREFIXED") for prefix in (*PREFIXES, "*")]
            ),
            principal=st.sampled_from(PRINCIPALS),
            host=st.sampled_from(HOSTS),
            operation=st.sampled_from((*OPERATIONS, "ALL")),
            permission=st.sampled_from(("ALLOW", "ALLOW", "DENY")),
        ),
        max_size=8,
    )


REQUESTS = list(itertools.product(PRINCIPALS[:2], HOSTS[:2], OPERATIONS))


@given(acls=rights(), topics=st.sets(st.sampled_from(NAMES)), lines=st.sampled_from(LINES))
def test_the_target_never_allows_more_than_the_source(acls: list[Acl], topics: set[str], lines: str) -> None:
    flow = flow_of(lines)
    policy = policy_for(flow)
    found = acls_for_target(flow, policy, acls, topics)
    decisions = select_topics(flow, policy, NAMES)
    copies = {decision.remote for decision in decisions if decision.replicated}
    assert {acl.pattern for acl in found} <= {"LITERAL"}
    assert {acl.topic for acl in found} <= copies
    for decision, (who, host, operation) in itertools.product(decisions, REQUESTS):
        if is_allowed(found, decision.remote, who, host, operation):
            assert operation != "WRITE"
            assert is_allowed(acls, decision.topic, who, host, operation), (decision.topic, who, host, operation)


@given(acls=rights(), topics=st.sets(st.sampled_from(NAMES)), lines=st.sampled_from(LINES))
def test_whoever_may_read_a_copied_topic_may_read_its_copy(acls: list[Acl], topics: set[str], lines: str) -> None:
    flow = flow_of(lines)
    policy = policy_for(flow)
    found = acls_for_target(flow, policy, acls, topics)
    for decision, who, host in itertools.product(select_topics(flow, policy, topics), PRINCIPALS[:2], HOSTS[:2]):
        may_read = decision.replicated and is_allowed(acls, decision.topic, who, host, "READ")
        assert may_read <= is_allowed(found, decision.remote, who, host, "READ"), (decision, who, host)
