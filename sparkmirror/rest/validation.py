"""Settings of a connector, judged in Kafka's own sentences: types, ranges, choices, what is missing. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sparkmirror.config import CONNECTOR_KEYS, FLOW_KEYS, SECURITY_KEYS, Key, Kind
from sparkmirror.config.parsing import split_list
from sparkmirror.rest.connectors import PACKAGE, Document, MirrorRole

KEYS: Mapping[str, Key] = {**CONNECTOR_KEYS, **FLOW_KEYS, **SECURITY_KEYS}
BITS = {Kind.SHORT: 16, Kind.INT: 32, Kind.LONG: 64}
WHERE = "You can also find the above list of errors at the endpoint `/connector-plugins/{connectorType}/config/validate`"
SYNCS = "emit.offset-syncs.enabled"
ENABLED_BY = {
    MirrorRole.SOURCE: "",
    MirrorRole.CHECKPOINT: "emit.checkpoints.enabled",
    MirrorRole.HEARTBEAT: "emit.heartbeats.enabled",
}


def role_of(name: str) -> MirrorRole | None:
    """A connector's class by its full name, its short name or its alias."""
    names = {f"{PACKAGE}.{role.value}": role for role in MirrorRole}
    names |= {role.value: role for role in MirrorRole} | {role.value.removesuffix("Connector"): role for role in MirrorRole}
    return names.get(name)


def unknown_class(name: str) -> str:
    """The sentence for a class that is none of ours."""
    roles = (MirrorRole.CHECKPOINT, MirrorRole.HEARTBEAT, MirrorRole.SOURCE)
    found = ", ".join(f"{PACKAGE}.{role.value}" for role in roles)
    why = f"Failed to find any class that implements Connector and which name matches {name}"
    return f"{why}, available connectors are: {found}"


def key_errors(key: Key, text: str | None) -> list[str]:
    """What is wrong with the value of one key; None: it is not written."""
    if text is None:
        is_missing = key.required and key.default is None
        return [f'Missing required configuration "{key.name}" which has no default value.'] if is_missing else []
    check = _TYPES.get(key.kind)
    problem = (check(text) if check is not None else "") or _choice(key, text) or _range(key, text)
    shown = "[hidden]" if key.secret else text
    return [f"Invalid value {shown} for configuration {key.name}: {problem}"] if problem else []


def errors_of(role: MirrorRole, config: Mapping[str, str]) -> list[str]:
    """All sentences about a connector's settings, in the order of the keys."""
    found = [] if config.get("name", "-") else ["Invalid value  for configuration name: String may not be empty"]
    for key in KEYS.values():
        if key.name != "name":
            found += key_errors(key, config.get(key.name))
    if role is MirrorRole.SOURCE and _is_off(config, SYNCS) and any(name.startswith("offset-syncs") for name in config):
        found.append(f"{role.value} can't setup offset-syncs feature while {SYNCS} set to false")
    switch = ENABLED_BY[role]
    if switch and _is_off(config, switch):
        found.append(f"{role.value} can't run with {switch} set to false")
    return found


def _is_off(config: Mapping[str, str], switch: str) -> bool:
    return config.get(switch, "true").strip().lower() == "false"


def invalid(errors: list[str]) -> str:
    """The sentence with which settings are refused."""
    listed = "\n".join(errors)
    return f"Connector configuration is invalid and contains the following {len(errors)} error(s):\n{listed}\n{WHERE}"


def key_document(key: Key) -> Document:
    """`/connector-plugins/{class}/config`, one key."""
    return {
        "name": key.name,
        "type": key.kind.value,
        "required": key.required,
        "default_value": key.default,
        "importance": "HIGH" if key.required else "LOW",
        "documentation": f"{key.doc[:1].upper()}{key.doc[1:]}.",
        "group": None,
        "order_in_group": -1,
        "width": "NONE",
        "display_name": key.name,
        "dependents": [],
    }


def validation_document(role: MirrorRole, config: Mapping[str, str]) -> Document:
    """`/connector-plugins/{class}/config/validate`."""
    configs: list[Document] = []
    count = 0
    for key in KEYS.values():
        text = config.get(key.name)
        errors = key_errors(key, text)
        count += bool(errors)
        value = "[hidden]" if key.secret and text else text if text is not None else key.default
        shown = {"name": key.name, "value": value, "recommended_values": [], "errors": errors, "visible": True}
        configs.append({"definition": key_document(key), "value": shown})
    return {"name": role.value, "error_count": count, "groups": [], "configs": configs}


def _choice(key: Key, text: str) -> str:
    if not key.choices:
        return ""
    items = split_list(text) if key.kind is Kind.LIST else [text.strip()]
    known = [choice.lower() for choice in key.choices] if key.any_case else key.choices
    if all((item.lower() if key.any_case else item) in known for item in items):
        return ""
    return f"String must be one of{' (case insensitive)' if key.any_case else ''}: {', '.join(key.choices)}"


def _range(key: Key, text: str) -> str:
    if key.kind not in (*BITS, Kind.DOUBLE):
        return ""
    number = float(text)
    if key.low is not None and number < key.low:
        return f"Value must be at least {key.low:g}"
    return f"Value must be no more than {key.high:g}" if key.high is not None and number > key.high else ""


def _boolean(text: str) -> str:
    return "" if text.strip().lower() in ("true", "false") else "Expected value to be either true or false"


def _whole(kind: Kind) -> Callable[[str], str]:
    def problem(text: str) -> str:
        try:
            number = int(text.strip())
        except ValueError:
            return f"Not a number of type {kind.value}"
        limit = 1 << (BITS[kind] - 1)
        return "" if -limit <= number < limit else f"Not a number of type {kind.value}"

    return problem


def _double(text: str) -> str:
    try:
        float(text)
    except ValueError:
        return "Not a number of type DOUBLE"
    return ""


_TYPES: Mapping[Kind, Callable[[str], str]] = {
    Kind.BOOLEAN: _boolean,
    Kind.DOUBLE: _double,
    **{kind: _whole(kind) for kind in BITS},
}
