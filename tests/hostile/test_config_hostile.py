"""Bad configuration files: an answer in words and in time for each, never a traceback of another kind."""

import pickle
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkmirror.config import load, parse, require_enabled_flow
from sparkmirror.errors import ConfigError, ConfigFileUnreadable, ConfigInvalid

HEAD = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"
CANARY = "canary-c0ffee"


def problems_of(text):
    with pytest.raises(ConfigInvalid) as invalid:
        parse(text, "mm2.properties", {})
    return invalid.value.problems


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n", "\x00", "clusters", "clusters =", "clusters = ,", "x"])
def test_file_without_clusters_says_so(text):
    assert any("clusters: expected" in problem for problem in problems_of(text))


BAD_ALIASES = ["a b", "x" * 201, "a\x1bb", "a->b", "a\\\\b", "a=b", ""]
NOT_IN_TOPIC_NAMES = ["a/b", "..", ".", "a..b", "ü", "a%2fb", "|B$?&#%+", "a{b}"]


@pytest.mark.parametrize("alias", BAD_ALIASES)
def test_alias_that_cannot_begin_a_key_is_refused(alias):
    assert any("clusters: expected" in problem for problem in problems_of(f"clusters = ok, {alias}, z\n"))


def file_of(alias, more=""):
    servers = f"ok.bootstrap.servers = x:1\n{alias}.bootstrap.servers = x:1\n"
    return f"clusters = ok, {alias}\n{servers}emit.heartbeats.enabled = false\n{more}"


@pytest.mark.parametrize("alias", NOT_IN_TOPIC_NAMES)
def test_alias_that_cannot_stand_in_a_topic_name_is_refused_where_it_would_have_to(alias):
    [problem] = problems_of(file_of(alias, f"{alias}->ok.enabled = true\n"))
    assert "named after their source: expected an alias of letters" in problem
    [problem] = problems_of(file_of(alias, f"ok->{alias}.enabled = true\n"))
    assert "write offset-syncs.topic.location = target" in problem


@pytest.mark.parametrize("alias", NOT_IN_TOPIC_NAMES)
def test_alias_of_a_target_may_hold_anything_where_no_topic_is_named_after_it(alias):
    """Dedicated testMultiNodeCluster: the target's alias is full of characters that mean something in URLs."""
    text = file_of(alias, f"ok->{alias}.enabled = true\noffset-syncs.topic.location = target\n")
    [flow] = parse(text, "f", {}).enabled_flows(None)
    assert flow.name.target == alias


@pytest.mark.parametrize("alias", ["a-b", "a_b", "a.b", "A1", "x" * 200])
def test_alias_that_can_stand_in_a_topic_name_is_accepted(alias):
    text = f"clusters = ok, {alias}\nok.bootstrap.servers = x:1\n{alias}.bootstrap.servers = x:1\n"
    assert alias in parse(text, "f", {}).clusters


def test_single_cluster_has_no_flow():
    with pytest.raises(ConfigError, match="no flow is enabled"):
        require_enabled_flow(parse("clusters = A\n", "f", {}), None)


def test_crlf_file_is_read_like_any_other():
    assert parse(HEAD.replace("\n", "\r\n"), "f", {}).flows == parse(HEAD, "f", {}).flows


def test_byte_order_mark_before_clusters_is_named():
    found = problems_of("\xef\xbb\xbf" + HEAD)
    assert any("byte order mark" in problem for problem in found)


def test_byte_order_mark_before_a_comment_is_a_warning():
    assert any("byte order mark" in warning for warning in parse("\xef\xbb\xbf# hello\n" + HEAD, "f", {}).warnings)


def test_control_characters_never_reach_a_message():
    found = problems_of(HEAD + "A->B.tasks.max = \\u001b[31m1\n\\u001b[31m->B.enabled = true\n")
    assert len(found) == 2
    assert all(problem.isprintable() for problem in found)
    warnings = parse(HEAD + "we\\u001b[31mird = 1\n", "f", {}).warnings
    assert warnings
    assert all(warning.isprintable() for warning in warnings)


def test_long_values_are_cut_in_messages():
    (problem,) = problems_of(HEAD + "tasks.max = " + "9" * 100_000 + "\n")
    assert len(problem) < 300


@pytest.mark.parametrize(
    "line",
    [
        f"A.sasl.jaas.config = {CANARY}",
        f"A.ssl.keystore.key = {CANARY}",
        f"A.consumer.ssl.key.password = {CANARY} # {CANARY}",
        f"A->B.source.consumer.sasl.oauthbearer.client.credentials.client.secret = {CANARY}",
        f"A.producer.some.unknown.password = {CANARY}",
        f"A.ssl.truststore.password = {CANARY} \nA.ssl.truststore.password = {CANARY}",
    ],
)
def test_secret_is_in_no_text_of_the_settings(line):
    found = parse(HEAD + line + "\n", "f", {})
    assert CANARY not in repr(found)
    for flow in found.flows:
        mappings = (flow.consumer, flow.producer, flow.source_admin, flow.source.security)
        assert CANARY not in "".join(repr(dict(mapping)) for mapping in mappings)


def test_secret_is_in_no_problem():
    found = problems_of(HEAD + f"A.sasl.jaas.config = {CANARY}\\u00zz\ntasks.max = x\nssl.key.password = ${{{CANARY}\n")
    assert not any(CANARY in problem for problem in found)


def test_settings_refuse_to_be_pickled():
    with pytest.raises(TypeError):
        pickle.dumps(parse(HEAD + "A.ssl.key.password = x\n", "f", {}))


def test_ten_thousand_unknown_keys_are_answered_in_time():
    text = HEAD + "".join(f"replication.factr{number} = 1\n" for number in range(10_000))
    start = time.monotonic()
    assert len(parse(text, "f", {}, allow_unknown_keys=True).warnings) == 10_000
    assert time.monotonic() - start < 30


def test_too_many_clusters_are_refused():
    aliases = ",".join(f"c{number}" for number in range(101))
    assert any("at most 100" in problem for problem in problems_of(f"clusters = {aliases}\n"))


def test_huge_file_is_refused(tmp_path):
    path = tmp_path / "mm2.properties"
    path.write_bytes(b"#" * ((1 << 20) + 1))
    with pytest.raises(ConfigFileUnreadable, match="larger than"):
        load(str(path))


def test_endless_file_is_refused():
    with pytest.raises(ConfigFileUnreadable, match="larger than"):
        load("/dev/zero")


_PIECES = st.sampled_from([
    "A", "B", "->", ".", "enabled", "topics", "=", " ", "\n", "\\", "true", "${", "}", ":", "env", "consumer", "(", "[",
    "*", "clusters", ",", "bootstrap.servers", "9", "\u0000", "é", "#", "config.providers", "producer.override", "-1",
])  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(_PIECES, max_size=40).map("".join))
def test_any_text_gives_settings_or_a_config_error(noise):
    for text in (noise, HEAD + noise):
        try:
            parse(text, "f", {})
        except ConfigError as error:
            assert str(error)
