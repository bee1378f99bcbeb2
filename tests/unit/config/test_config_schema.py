"""The JSON Schema of all keys, by a validator that was not written here, on the files of the reference document."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sparkmirror.config import parse
from sparkmirror.config.properties import parse_properties
from sparkmirror.config.schema import json_schema
from sparkmirror.errors import ConfigInvalid

jsonschema: Any = pytest.importorskip("jsonschema")
FOLDER = Path(__file__).parents[2] / "fixtures" / "seed003"
WHOLE = sorted(path.name for path in FOLDER.glob("*.properties") if "clusters" in path.read_text("latin-1"))
GOOD = {"clusters": "A, B", "A.bootstrap.servers": "a:1", "B.bootstrap.servers": "b:1", "A->B.enabled": "true"}


def faults(entries: dict[str, Any]) -> list[str]:
    return [fault.message for fault in jsonschema.Draft202012Validator(json_schema()).iter_errors(entries)]


def test_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())
    assert faults(GOOD) == []


@pytest.mark.parametrize("name", WHOLE)
def test_files_of_the_document_are_valid(name: str) -> None:
    text = (FOLDER / name).read_text("latin-1")
    entries = {key: entry.value for key, entry in parse_properties(text).last().items()}
    assert [fault for fault in faults(entries) if "'clusters' is a required" not in fault] == []


@pytest.mark.parametrize(
    "entry",
    [
        {"A->B.topics": "orders.*"}, {"A->B.tasks.max": 4}, {"A->B.enabled": True}, {"tasks.max": "${file:/x:y}"},
        {"A.security.protocol": "SASL_SSL"}, {"A.consumer.isolation.level": "read_committed"},
        {"A->B.source.consumer.isolation.level": "read_committed"}, {"B.offset.storage.topic": "connect-offsets"},
        {"metrics.labels.env": "prod"}, {"config.providers.file.class": "x"}, {"A->B.transform.orders": "select 1"},
    ],
)  # fmt: skip
def test_key_in_its_place_is_valid(entry: dict[str, Any]) -> None:
    assert faults(GOOD | entry) == []


@pytest.mark.parametrize(
    "entry",
    [
        {"A->B.topic": "orders"}, {"A->B.tasks.max": "many"}, {"A->B.enabled": "yes"}, {"bootstrap.server": "x:1"},
        {"A->B.offset-syncs.topic.location": "middle"}, {"A->B.tasks.max": 0},
    ],
)  # fmt: skip
def test_wrong_key_or_value_is_found_as_the_program_finds_it(entry: dict[str, Any]) -> None:
    assert len(faults(GOOD | entry)) == 1
    text = "".join(f"{key} = {value}\n" for key, value in (GOOD | entry).items())
    with pytest.raises(ConfigInvalid):
        parse(text, "mm2.properties", {})


def test_clusters_are_required() -> None:
    assert faults({}) == ["'clusters' is a required property"]
