"""Bodies of requests, refused in the words of Connect's JSON library where it refuses them. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

ENTITIES = "org.apache.kafka.connect.runtime.rest.entities"
OFFSETS, OFFSET = f"{ENTITIES}.ConnectorOffsets", f"{ENTITIES}.ConnectorOffset"
CREATION = f"{ENTITIES}.CreateConnectorRequest"
INITIAL_STATES = ("RUNNING", "PAUSED", "STOPPED")
_JAVA_TYPES = {dict: "Object", list: "Array", str: "String", bool: "Boolean", int: "Integer", float: "Floating-point"}
_TOKENS = {
    dict: "START_OBJECT", list: "START_ARRAY", str: "VALUE_STRING", int: "VALUE_NUMBER_INT", float: "VALUE_NUMBER_FLOAT",
}  # fmt: skip


class BadBody(Exception):
    """A body that Connect answers with 500."""


def parsed(text: bytes) -> Any:
    """The JSON of a body; None for an empty one."""
    if not text.strip():
        return None
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise BadBody(f"Invalid UTF-8 start byte 0x{text[error.start]:02x}") from error
    except RecursionError as error:
        raise BadBody("Document nesting depth exceeds the maximum allowed") from error
    except json.JSONDecodeError as error:
        raise BadBody(_jackson(error)) from error
    except ValueError as error:  # thousands of digits
        raise BadBody(f"Number value is too long: {error}") from error


def _refuse_constant(name: str) -> Any:
    raise BadBody(f"Non-standard token '{name}': enable `JsonReadFeature.ALLOW_NON_NUMERIC_NUMBERS` to allow")


def _jackson(error: json.JSONDecodeError) -> str:
    where = f"line: {error.lineno}, column: {error.colno}"
    if error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated"):
        return f"Unexpected end-of-input ({where})"
    sign = error.doc[error.pos]
    return f"Unexpected character ('{sign}' (code {ord(sign)})): {error.msg} ({where})"


def offset_entries(content: Any) -> list[tuple[Mapping[str, object] | None, Mapping[str, object] | None]]:
    """The entries of a PATCH of offsets, partition and offset of each; raises BadBody. Empty if there are none."""
    if content is None:
        raise BadBody(f'Cannot invoke "{OFFSETS}.offsets()" because "offsets" is null')
    fields = _object(content, OFFSETS, ("offsets",))
    entries = fields.get("offsets") or []
    if not isinstance(entries, list):
        wanted = f"java.util.ArrayList<{OFFSET}>"
        raise BadBody(f'{_cannot(wanted, entries)} (through reference chain: {OFFSETS}["offsets"])')
    found = []
    for entry in entries:
        parts = _object(entry, OFFSET, ("partition", "offset")) if entry is not None else {}
        found.append((_map(parts.get("partition")), _map(parts.get("offset"))))
    return found


def creation(content: Any) -> tuple[str, dict[str, str] | None, str]:
    """Name, settings and initial state of a POST of a connector."""
    if content is None:
        raise BadBody(f'Cannot invoke "{CREATION}.name()" because "createRequest" is null')
    fields = _object(content, CREATION, ("config", "name", "initial_state"))
    state = fields.get("initial_state")
    if state is not None and (not isinstance(state, str) or state.upper() not in INITIAL_STATES):
        raise BadBody(
            f"Cannot construct instance of `{CREATION}$InitialState`, problem: No enum constant "
            f"{CREATION}.InitialState.{state}"
        )
    config = fields.get("config")
    return _text(fields.get("name")) or "", None if config is None else settings(config), str(state or "RUNNING").upper()


def settings(content: Any) -> dict[str, str]:
    """A map from keys to texts, as Connect reads settings: numbers and truth values become texts."""
    if content is None:
        raise BadBody('Cannot invoke "java.util.Map.get(Object)" because "connectorConfig" is null')
    return {key: text for key, text in patch(content).items() if text is not None}


def patch(content: Any) -> dict[str, str | None]:
    """The same, where null removes a key."""
    if not isinstance(content, dict):
        raise BadBody(_cannot("java.util.LinkedHashMap<java.lang.String,java.lang.String>", content))
    return {key: _text(value) for key, value in content.items()}


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, dict | list):
        raise BadBody(_cannot("java.lang.String", value))
    return json.dumps(value)


def _map(value: Any) -> Mapping[str, object] | None:
    if value is not None and not isinstance(value, dict):
        raise BadBody(_cannot("java.util.LinkedHashMap<java.lang.String,java.lang.Object>", value))
    return value


def _object(content: Any, entity: str, known: Sequence[str]) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise BadBody(_cannot(entity, content))
    unknown = next((name for name in content if name not in known), None)
    if unknown is not None:
        names = ", ".join(f'"{name}"' for name in known)
        count = f"one known property: {names}" if len(known) == 1 else f"{len(known)} known properties: {names}"
        raise BadBody(f'Unrecognized field "{unknown}" (class {entity}), not marked as ignorable ({count})')
    return content


def _cannot(wanted: str, found: Any) -> str:
    kind = type(found)
    token = _TOKENS.get(kind, f"VALUE_{str(found).upper()}")
    where = f"{_JAVA_TYPES.get(kind, 'null')} value (token `JsonToken.{token}`)"
    where = f"{_JAVA_TYPES.get(kind, 'null')} value (token `JsonToken.{token}`)"
    return f"Cannot deserialize value of type `{wanted}` from {where}"
