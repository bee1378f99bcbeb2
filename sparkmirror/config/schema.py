"""A JSON Schema of all keys, made from the tables that the program itself reads, for editors and checks before a deployment.

It describes a file as one object: each written key with its value, as YAML and JSON files of operators hold them. What lies
between keys (an alias that no cluster has, a flow without a target) is for `plan`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from sparkmirror.config.client_keys import CLIENT_KEYS, SECURITY_KEYS
from sparkmirror.config.keys import (
    CONNECTOR_KEYS,
    DRIVER_KEYS,
    FLOW_KEYS,
    WORKER_KEYS,
    WORKER_TOP_PREFIXES,
    Key,
    Kind,
)

DIALECT = "https://json-schema.org/draft/2020-12/schema"
ALIAS = r"[^\s=:>]+"
FLOW = f"{ALIAS}->{ALIAS}"
ROLE = r"(?:consumer|producer|admin)"
# A value that a config provider resolves can be anything.
PROVIDED = r"\$\{[^}]+\}"
_NUMBERS = (Kind.SHORT, Kind.INT, Kind.LONG)
# Families whose names the user chooses, and keys of others that the program accepts with a warning.
_FAMILIES = (
    r"config\.providers\..+", r"metrics\.labels\.[a-zA-Z_][a-zA-Z0-9_]*", rf"{FLOW}\.transform\..+",
    rf"(?:{FLOW}\.)?(?:transforms|predicates)(?:\..+)?", rf"{FLOW}\.(?:source|target)\.cluster\..+",
)  # fmt: skip


def json_schema() -> dict[str, Any]:
    """The whole schema."""
    top = [*DRIVER_KEYS.values(), *CONNECTOR_KEYS.values(), *SECURITY_KEYS.values()]
    top += [key for key in WORKER_KEYS.values() if key.name.startswith(WORKER_TOP_PREFIXES)]
    patterns = _patterns(rf"{FLOW}\.", [*CONNECTOR_KEYS.values(), *FLOW_KEYS.values()])
    patterns |= _patterns(rf"{ALIAS}\.", [*SECURITY_KEYS.values(), *WORKER_KEYS.values()])
    for role, keys in CLIENT_KEYS.items():
        places = rf"(?:{ALIAS}\.{role}\.|{FLOW}\.(?:(?:source|target)\.)?{role}\.(?:override\.)?)"
        patterns |= _patterns(places, keys.values())
    patterns |= _patterns(rf"{ALIAS}\.{ROLE}\.", SECURITY_KEYS.values())
    patterns |= {f"^{family}$": {} for family in _FAMILIES}
    return {
        "$schema": DIALECT,
        "title": "mm2.properties",
        "description": "Every key of MirrorMaker 2 and of sparkmirror, written as KEY, ALIAS.KEY or SOURCE->TARGET.KEY",
        "type": "object",
        "properties": {key.name: _value(key) for key in top},
        "patternProperties": patterns,
        "required": [key.name for key in DRIVER_KEYS.values() if key.required],
        "additionalProperties": False,
    }


def schema_text() -> str:
    """The schema for a file or a pipe."""
    return json.dumps(json_schema(), indent=2)


def _patterns(place: str, keys: Iterable[Key]) -> dict[str, Any]:
    """Each key behind that place; the first of those that an entry fits are all applied, so places do not overlap."""
    return {f"^{place}{re.escape(key.name)}$": _value(key) for key in keys}


def _value(key: Key) -> Mapping[str, Any]:
    found: dict[str, Any] = {"description": "; ".join(part for part in (key.doc, key.ignored or key.unused) if part)}
    default = key.effective_default
    if default is not None and not key.secret:
        found["default"] = default
    if key.ignored:
        return found
    return found | _constraint(key)


def _constraint(key: Key) -> dict[str, Any]:
    if key.kind is Kind.BOOLEAN:
        return {"type": ["string", "boolean"], "pattern": rf"^\s*(?:[Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee]|{PROVIDED})\s*$"}
    if key.kind in _NUMBERS:
        number: dict[str, Any] = {"type": ["string", "integer"], "pattern": rf"^\s*(?:[+-]?[0-9]+|{PROVIDED})\s*$"}
        limits = {"minimum": key.low, "maximum": key.high}
        return number | {name: limit for name, limit in limits.items() if limit is not None}
    if key.kind is Kind.DOUBLE:
        return {"type": ["string", "number"]}
    if key.choices and key.kind is Kind.STRING:
        choices = "|".join(_in_any_case(choice) if key.any_case else re.escape(choice) for choice in key.choices)
        return {"type": "string", "pattern": rf"^\s*(?:{choices}|{PROVIDED})\s*$"}
    return {"type": "string"}


def _in_any_case(word: str) -> str:
    """A pattern of the word; JSON Schema's patterns have no flags."""
    return "".join(f"[{sign.lower()}{sign.upper()}]" if sign.isalpha() else re.escape(sign) for sign in word)
