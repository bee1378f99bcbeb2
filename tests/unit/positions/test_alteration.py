"""MM2's rules for new positions: its own unit tests by name, and every answer that Connect 4.3.1 gave when it was asked.

MirrorSourceConnectorTest, MirrorCheckpointConnectorTest and MirrorHeartBeatConnectorTest have the same tests for their
connectors; here each runs for all three.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sparkmirror.positions import Alteration, ConnectorKind, alteration_problem

GOLDEN = Path(__file__).parents[2] / "golden" / "data" / "connect-alter-offsets-4.3.1.json"
SOURCE, CHECKPOINT, HEARTBEAT = ConnectorKind
PARTITIONS: dict[ConnectorKind, dict[str, object]] = {
    SOURCE: {"cluster": "us-east-2", "topic": "t", "partition": 3},
    CHECKPOINT: {"group": "consumer-app-1", "topic": "t", "partition": 3},
    HEARTBEAT: {"sourceClusterAlias": "primary", "targetClusterAlias": "backup"},
}
every_kind = pytest.mark.parametrize("kind", list(ConnectorKind), ids=lambda kind: kind.value)
ZERO = {"offset": 0}
WRONG = {"unused_partition_key": "unused_partition_value"}


def exchanges() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(GOLDEN.read_text())
    return found


@pytest.mark.parametrize("exchange", exchanges(), ids=lambda exchange: exchange["label"])
def test_the_answer_is_that_of_connect(exchange: dict[str, Any]) -> None:
    entries: list[Alteration] = [(entry.get("partition"), entry.get("offset")) for entry in exchange["offsets"]]
    problem = alteration_problem(ConnectorKind(exchange["connector"]), entries)
    assert problem == (None if exchange["status"] == 200 else exchange["message"])


@every_kind
def test_a_partition_with_other_keys_or_none_is_refused(kind: ConnectorKind) -> None:
    """testAlterOffsetsIncorrectPartitionKey."""
    first = {SOURCE: "cluster", CHECKPOINT: "group", HEARTBEAT: "sourceClusterAlias"}[kind]
    wanted = (
        "Source partition {unused_partition_key=unused_partition_value} "
        f"is missing the '{first}' key, which is required"
    )
    assert alteration_problem(kind, [(WRONG, ZERO)]) == wanted
    assert alteration_problem(kind, [(None, ZERO)]) == "Source partitions may not be null"


@every_kind
def test_every_key_of_a_partition_is_required(kind: ConnectorKind) -> None:
    """testAlterOffsetsMissingPartitionKey."""
    valid = PARTITIONS[kind]
    assert alteration_problem(kind, [(valid, ZERO)]) is None
    for missing in valid:
        rest = {name: value for name, value in valid.items() if name != missing}
        problem = alteration_problem(kind, [(rest, ZERO)])
        assert problem is not None and problem.endswith(f" is missing the '{missing}' key, which is required")


@pytest.mark.parametrize("kind", [SOURCE, CHECKPOINT])
@pytest.mark.parametrize(
    ("number", "rule"),
    [
        ("a string", "which must be an integer"),
        (None, "which must be an integer"),
        (True, "which must be an integer"),
        (3.0, "which must be an integer"),
        (1 << 31, "which must be an integer"),
        (-1, "which cannot be negative"),
        ((1 << 31) - 1, None),
        (-3_000_000_000, None),
    ],
)
def test_a_partition_number_is_one_of_32_bits(kind: ConnectorKind, number: object, rule: str | None) -> None:
    """testAlterOffsetsInvalidPartitionPartition; the last one passes MM2, which cuts it to 32 bits first."""
    problem = alteration_problem(kind, [(PARTITIONS[kind] | {"partition": number}, ZERO)])
    assert problem is None if rule is None else problem is not None and problem.endswith(f"for the 'partition' key, {rule}")


@every_kind
def test_several_partitions_may_be_named_and_one_wrong_entry_refuses_all(kind: ConnectorKind) -> None:
    """testAlterOffsetsMultiplePartitions."""
    first, second = PARTITIONS[kind], dict.fromkeys(PARTITIONS[kind], "other") | {"partition": 1}
    assert alteration_problem(kind, [(first, ZERO), (second, ZERO)]) is None
    assert alteration_problem(kind, [(first, ZERO), (second, {"offset": -1})]) is not None


@every_kind
def test_an_offset_under_another_key_is_refused(kind: ConnectorKind) -> None:
    """testAlterOffsetsIncorrectOffsetKey."""
    problem = alteration_problem(kind, [(PARTITIONS[kind], {"unused_offset_key": 0})])
    assert problem is not None
    assert problem.startswith("Source offset {unused_offset_key=0} for source partition {")
    assert problem.endswith("} is missing the 'offset' key, which is required")


@every_kind
@pytest.mark.parametrize("value", ["nan", None, 3.14, "-420", "10", True])
def test_an_offset_that_is_no_integer_is_refused(kind: ConnectorKind, value: object) -> None:
    """testAlterOffsetsOffsetValues."""
    problem = alteration_problem(kind, [(PARTITIONS[kind], {"offset": value})])
    assert problem is not None and problem.endswith("for the 'offset' key, which must be an integer")


@every_kind
@pytest.mark.parametrize("value", [-420, 0, 10, 1 << 31])
def test_only_the_source_connector_has_offsets_other_than_0(kind: ConnectorKind, value: int) -> None:
    """testAlterOffsetsOffsetValues."""
    problem = alteration_problem(kind, [(PARTITIONS[kind], {"offset": value})])
    if value == 0 or (kind is SOURCE and value > 0):
        assert problem is None
    else:
        rule = ", which cannot be negative" if kind is SOURCE else "; the only accepted value is 0"
        assert problem is not None and problem.endswith(f"has an invalid value {value} for the 'offset' key{rule}")


@every_kind
def test_valid_entries_and_no_entries_are_accepted(kind: ConnectorKind) -> None:
    """testSuccessfulAlterOffsets."""
    assert alteration_problem(kind, [(PARTITIONS[kind], ZERO)]) is None
    assert alteration_problem(kind, []) is None


@every_kind
def test_anything_may_be_forgotten(kind: ConnectorKind) -> None:
    """testAlterOffsetsTombstones."""
    valid = PARTITIONS[kind]
    some: list[dict[str, object] | None] = [valid, valid | {"partition": "a string", "topic": 618}, {}, WRONG, None]
    assert alteration_problem(kind, [(partition, None) for partition in some]) is None


def test_the_form_of_every_entry_is_looked_at_before_the_meaning_of_any() -> None:
    """Connect's own check comes before the connector's, also where a position is to be forgotten."""
    entries: list[Alteration] = [(None, ZERO), ({"topic": ["t"]}, None)]
    wanted = "Offsets may only contain primitive types as values, but field topic contains ARRAY"
    assert alteration_problem(SOURCE, entries) == wanted
