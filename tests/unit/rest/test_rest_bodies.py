"""Bodies and settings, refused in Connect's and Kafka's words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.rest.bodies import BadBody, creation, offset_entries, parsed, patch, settings
from sparkmirror.rest.connectors import MirrorRole
from sparkmirror.rest.loggers import LogLevels
from sparkmirror.rest.validation import errors_of, role_of, validation_document

ALIASES = {"connector.class": "x", "source.cluster.alias": "S", "target.cluster.alias": "T"}


@given(st.binary(max_size=200))
def test_any_bytes_are_json_or_a_bad_body(content: bytes) -> None:
    try:
        parsed(content)
    except BadBody as error:
        assert str(error)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, '.offsets()" because "offsets" is null'),
        ([], "from Array value (token `JsonToken.START_ARRAY`)"),
        ({"offsets": "x"}, "from String value (token `JsonToken.VALUE_STRING`)"),
        ({"offsets": [], "foo": 1}, 'Unrecognized field "foo"'),
        ({"offsets": [7]}, "from Integer value"),
        ({"offsets": [{"partition": True}]}, "from Boolean value (token `JsonToken.VALUE_TRUE`)"),
        ({"offsets": [{"where": {}}]}, '2 known properties: "partition", "offset"'),
    ],
)
def test_offsets_of_another_form_are_refused(content: object, words: str) -> None:
    with pytest.raises(BadBody) as refused:
        offset_entries(content)
    assert words in str(refused.value)


def test_offsets_may_be_missing_and_entries_empty() -> None:
    assert offset_entries({}) == offset_entries({"offsets": None}) == []
    assert offset_entries({"offsets": [{}, None]}) == [(None, None)] * 2


def test_settings_are_texts_as_connect_reads_them() -> None:
    assert settings({"a": 1, "b": True, "c": "x", "d": None, "e": 1.5}) == {"a": "1", "b": "true", "c": "x", "e": "1.5"}
    assert patch({"a": None}) == {"a": None}
    for content in (None, [], "x"):
        with pytest.raises(BadBody):
            settings(content)


def test_a_creation_has_a_name_settings_and_a_state() -> None:
    assert creation({"name": "x", "config": {}, "initial_state": "stopped"}) == ("x", {}, "STOPPED")
    assert creation({"name": "x"}) == ("x", None, "RUNNING")
    with pytest.raises(BadBody, match=r"No enum constant .*WRONG"):
        creation({"initial_state": "WRONG"})


@pytest.mark.parametrize(
    ("key", "text", "problem"),
    [
        ("tasks.max", "0", "Value must be at least 1"),
        ("tasks.max", "x", "Not a number of type INT"),
        ("tasks.max", str(1 << 31), "Not a number of type INT"),
        ("offset.lag.max", "abc", "Not a number of type LONG"),
        ("emit.checkpoints.enabled", "maybe", "Expected value to be either true or false"),
        ("offset-syncs.topic.location", "nowhere", "String must be one of: source, target"),
    ],
)
def test_a_wrong_value_is_told_as_kafka_tells_it(key: str, text: str, problem: str) -> None:
    wanted = f"Invalid value {text} for configuration {key}: {problem}"
    assert errors_of(MirrorRole.SOURCE, ALIASES | {key: text}) == [wanted]
    found = validation_document(MirrorRole.SOURCE, ALIASES | {"name": "x", key: text})
    assert found["error_count"] == 1


def test_a_secret_is_not_shown() -> None:
    document = validation_document(MirrorRole.SOURCE, {"ssl.key.password": "canary-4711"})
    assert "canary-4711" not in str(document)


def test_a_connector_that_is_switched_off_cannot_be_made() -> None:
    switches = {MirrorRole.CHECKPOINT: "emit.checkpoints.enabled", MirrorRole.HEARTBEAT: "emit.heartbeats.enabled"}
    for role, switch in switches.items():
        assert errors_of(role, ALIASES | {switch: "false"}) == [
            f"{role.value} can't run with {switch} set to false"
        ]


def test_a_class_is_known_by_its_three_names() -> None:
    for name in ("org.apache.kafka.connect.mirror.MirrorSourceConnector", "MirrorSourceConnector", "MirrorSource"):
        assert role_of(name) is MirrorRole.SOURCE
    assert role_of("Nope") is None


def test_a_logger_has_the_level_of_the_nearest_one_above_it() -> None:
    levels = LogLevels(["A->B", "B->A"])
    assert levels.allows("INFO", "A->B") and not levels.allows("DEBUG", "-")
    assert levels.set("sparkmirror.A->B", "ERROR") == ["sparkmirror.A->B"]
    assert not levels.allows("WARN", "A->B")
    assert levels.allows("ERROR", "A->B") and levels.allows("WARN", "B->A")
    assert "sparkmirror.B->A" in levels.set("sparkmirror", "WARN")
    assert (levels.allows("WARN", "A->B"), levels.allows("INFO", "-")) == (True, False)
    levels.set("org.apache.kafka.connect.mirror", "DEBUG")
    assert levels.allows("DEBUG", "-")
    levels.set("root", "OFF")
    assert not levels.allows("ERROR", "B->A")
