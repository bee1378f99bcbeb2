"""What is wrong or odd with one written value, or with the flows taken together. Everything returns sentences."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence

from sparkmirror.config.connect_transforms import ALIASES_MAX
from sparkmirror.config.custom_classes import CUSTOM_METHODS, is_class_reference, signatures
from sparkmirror.config.java_regex import compile_list
from sparkmirror.config.java_regex_parser import RegexRefused
from sparkmirror.config.keys import BYTE_ARRAY_CONVERTER, MIRROR, SIMPLE_HEADER_CONVERTER, Key, Kind
from sparkmirror.config.parsing import Value, ValueRefused, parse_reset, parse_servers, parse_value, shown, split_list
from sparkmirror.config.transforms import transform_problems
from sparkmirror.config.values import FlowSettings

ALIAS_CHARACTERS_MAX = 200
SPOKEN_TLS = ("TLSv1.2", "TLSv1.3")
_KEY_CHARACTERS = re.compile(r"[^\s=:#!\\][^\s=:\\]*\Z")
_NAME_CHARACTERS = re.compile(r"[a-zA-Z0-9._-]+\Z")
_TRAILING_COMMENT = re.compile(r"\s#")
_GLOB = re.compile(r"[A-Za-z0-9_-]\*\Z")
_IDENTITY = MIRROR + "IdentityReplicationPolicy"

KNOWN_CLASSES = {
    "replication.policy.class": (MIRROR + "DefaultReplicationPolicy", _IDENTITY),
    "topic.filter.class": (MIRROR + "DefaultTopicFilter",),
    "group.filter.class": (MIRROR + "DefaultGroupFilter",),
    "config.property.filter.class": (MIRROR + "DefaultConfigPropertyFilter",),
    "forwarding.admin.class": ("org.apache.kafka.clients.admin.ForwardingAdmin",),
    "key.converter": (BYTE_ARRAY_CONVERTER,),
    "value.converter": (BYTE_ARRAY_CONVERTER,),
    "header.converter": (BYTE_ARRAY_CONVERTER, SIMPLE_HEADER_CONVERTER),
}
REGEX_LISTS = (
    "topics",
    "topics.exclude",
    "groups",
    "groups.exclude",
    "config.properties.exclude",
    "on.source.gap.skip.topics",
)
# Blanks behind these change what they mean: MirrorMaker 2 reads them without dropping blanks.
UNTRIMMED = (
    "enabled",
    "emit.heartbeats.enabled",
    "replication.policy.separator",
    "replication.policy.internal.topic.separator.enabled",
)


def alias_problem(alias: str) -> str:
    """Why `alias` cannot name a cluster, or nothing. Whether it can be a part of topic names is a matter of the flows."""
    if not alias:
        return "expected aliases separated by commas, found an empty one"
    if len(alias) > ALIAS_CHARACTERS_MAX:
        return f"expected an alias of at most {ALIAS_CHARACTERS_MAX} characters, found {len(alias)}"
    if not _KEY_CHARACTERS.match(alias) or "->" in alias or not alias.isprintable():
        return f"expected an alias that can begin a key, without blanks, `=`, `:` and `->`, found {shown(alias)}"
    return ""


def _is_topic_text(alias: str) -> bool:
    return bool(_NAME_CHARACTERS.match(alias)) and alias not in (".", "..") and ".." not in alias


def _alias_problems(flow: FlowSettings) -> Iterator[str]:
    """Aliases that would make topic names which no broker accepts."""
    legal = "expected an alias of letters, digits, `.`, `_` and `-`, without `..`, found"
    if not _is_topic_text(flow.name.source):
        yield f"{flow.name}: topics on the target are named after their source: {legal} {shown(flow.name.source)}"
    is_on_source = flow.offset_syncs_topic_location == "source" and flow.emit_offset_syncs_enabled
    if is_on_source and not _is_topic_text(flow.name.target):
        yield (
            f"{flow.name}: the topic of offset syncs on the source is named after the target: {legal} "
            f"{shown(flow.name.target)}; or write offset-syncs.topic.location = target"
        )


def value_problem(key: Key, text: str, written: str) -> str:
    """Why `text` is no value of `key`, or nothing; `written` is what the file holds, with its `${…}` in place."""
    try:
        value = parse_value(key, text)
        check = _CHECKS.get(key.name) or (_refuse_zero if key.name.endswith(".interval.seconds") else None)
        if check is None and key.name.endswith(".replication.factor"):
            check = _refuse_no_copies
        if check is not None:
            check(key, value, text)
    except ValueRefused as refusal:
        found = "[hidden]" if key.secret else shown(written)
        return f"expected {refusal.expected}, found {found}"
    except RegexRefused as refusal:
        culprit = refusal.pattern if text == written else written
        return f"{shown(culprit)} cannot be used: {refusal.reason}{_comma_hint(culprit)}"
    return ""


def value_warnings(key: Key, text: str, written: str) -> Iterator[str]:
    """What is odd about a value that can be used; `written` is what the file holds, with its `${…}` in place."""
    if key.unused and (key.default is None or parse_value(key, text) != parse_value(key, key.default)):
        yield f"has no effect: {key.unused}"
    if written != written.rstrip() and key.name in UNTRIMMED:
        yield "blanks after the value are part of it" + (
            "; MirrorMaker 2 takes it for false when it decides which flows exist" if key.kind is Kind.BOOLEAN else ""
        )
    if not key.secret and _TRAILING_COMMENT.search(written):
        yield "a `#` inside a line starts no comment; it is part of the value"
    if key.name in REGEX_LISTS:
        yield from _list_warnings(split_list(written))
    if key.name.startswith("emit.") and key.name.endswith(".interval.seconds") and written.strip() == "0":
        yield "0 means without a pause"
    yield from _security_warnings(key, text)


def flow_problems(flows: Sequence[FlowSettings]) -> Iterator[str]:
    """What is wrong with flows that are each right alone."""
    enabled = [flow for flow in flows if flow.enabled]
    for flow in enabled:
        yield from _alias_problems(flow)
        yield from transform_problems(str(flow.name), flow.record_transforms)
        if flow.has_simple_headers and not flow.connect_transforms:
            yield (
                f"{flow.name}.header.converter: expected {BYTE_ARRAY_CONVERTER}, found SimpleHeaderConverter, which is for "
                "flows with `transforms` that insert headers: without them records are copied byte for byte"
            )
        back = _reverse(flow, enabled)
        if back is None:
            continue
        if _is_loop(flow, back) and not _is_allowed_loop(flow, back):
            yield (
                f"{_loop(flow, back)}: every record would go round for ever; give them different `topics`, or write "
                "replication.loops.allowed = true if something else keeps the records apart"
            )
        if flow.offset_syncs_topic_location == "target" and back.offset_syncs_topic_location == "source":
            yield (
                f"{flow.name} keeps offset syncs on the target and {back.name} on the source: both would write "
                f"mm2-offset-syncs.{flow.name.source}.internal on {flow.name.target}; use one "
                "offset-syncs.topic.location for both"
            )


def flow_warnings(flows: Sequence[FlowSettings]) -> Iterator[str]:
    """What is odd about flows that are each right alone."""
    enabled = [flow for flow in flows if flow.enabled]
    for flow in enabled:
        if not _is_identity(flow) and flow.replication_policy_separator in flow.name.source:
            yield (
                f"{flow.name}: alias {shown(flow.name.source)} holds the separator "
                f"{shown(flow.replication_policy_separator)}: remote topics cannot be distinguished from local ones"
            )
        if not flow.emit_offset_syncs_enabled and (flow.emit_checkpoints_enabled or flow.sync_group_offsets_enabled):
            yield f"{flow.name}: emit.offset-syncs.enabled is false: MirrorMaker 2 then writes no checkpoints"
        back = _reverse(flow, enabled)
        if back is not None and _is_loop(flow, back) and _is_allowed_loop(flow, back):
            yield f"{_loop(flow, back)}: allowed by replication.loops.allowed, every record in both goes round for ever"
    for flow in enabled:
        for other in enabled:
            meet = flow.name.target == other.name.target and flow.name < other.name
            if meet and _both_identity(flow, other):
                yield f"{flow.name} and {other.name} keep topic names: equal names meet in one topic on the target"


def _reverse(flow: FlowSettings, flows: Iterable[FlowSettings]) -> FlowSettings | None:
    for other in flows:
        if (other.name.source, other.name.target) == (flow.name.target, flow.name.source):
            return other
    return None


def _is_identity(flow: FlowSettings) -> bool:
    return flow.replication_policy_class == _IDENTITY


def _both_identity(one: FlowSettings, other: FlowSettings) -> bool:
    return _is_identity(one) and _is_identity(other)


def _is_loop(flow: FlowSettings, back: FlowSettings) -> bool:
    """Whether both keep names and share topics; reported once for each pair."""
    return flow.name < back.name and _both_identity(flow, back) and _may_overlap(flow.topics, back.topics)


def _is_allowed_loop(flow: FlowSettings, back: FlowSettings) -> bool:
    return flow.replication_loops_allowed and back.replication_loops_allowed


def _loop(flow: FlowSettings, back: FlowSettings) -> str:
    return f"{flow.name} and {back.name} both keep topic names (IdentityReplicationPolicy) and their `topics` overlap"


def _may_overlap(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    return bool(one and other) and (".*" in one or ".*" in other or bool(set(one) & set(other)))


def _list_warnings(items: tuple[str, ...]) -> Iterator[str]:
    if not items:
        yield "an empty list matches nothing"
    if len(set(items)) < len(items):
        yield "an item is written twice"
    for item in items:
        if _GLOB.search(item):
            yield f"in the regex {shown(item)} the `*` repeats the character before it; any text is `.*`"


def _comma_hint(pattern: str) -> str:
    broken = any(pattern.count(a) != pattern.count(b) for a, b in ("{}", "[]", "()"))
    return "; a comma ends a list item, a regex cannot hold one" if broken else ""


def _check_class(key: Key, value: Value, text: str) -> None:
    known = " or ".join(KNOWN_CLASSES[key.name])
    if value in KNOWN_CLASSES[key.name]:
        return
    if key.name not in CUSTOM_METHODS:
        raise ValueRefused(f"{known}, since Java classes cannot be loaded")
    if not is_class_reference(str(value)):
        raise ValueRefused(
            f"{known}, or a Python class written as module:Class with {signatures(key.name)} (Java classes cannot be "
            "loaded; see docs/policies.md)"
        )


def _check_regexes(key: Key, value: Value, text: str) -> None:
    assert isinstance(value, tuple)
    try:
        compile_list(value)
    except RegexRefused:
        # Items are joined before they are read, so `(a,b)` is right as a list; to name the culprit, read each alone.
        for item in value:
            compile_list((item,))
        raise


def _check_aliases(key: Key, value: Value, text: str) -> None:
    items = split_list(text)
    if len(set(items)) < len(items):
        raise ValueRefused("each name once")
    if len(items) > ALIASES_MAX:
        raise ValueRefused(f"at most {ALIASES_MAX} names")


def _check_separator(key: Key, value: Value, text: str) -> None:
    if not _NAME_CHARACTERS.match(text):
        raise ValueRefused("letters, digits, `.`, `_` and `-` without blanks, as in topic names")


def _check_servers(key: Key, value: Value, text: str) -> None:
    parse_servers(text)


def _refuse_zero(key: Key, value: Value, text: str) -> None:
    if value == 0 and not key.name.startswith("emit."):
        raise ValueRefused("a number of seconds other than 0 (less than 0 means never)")


def _refuse_no_copies(key: Key, value: Value, text: str) -> None:
    assert isinstance(value, int)
    if value != -1 and not 1 <= value <= 32767:
        raise ValueRefused("a number from 1 to 32767, or -1 for the broker's default")


def _check_offset_reset(key: Key, value: Value, text: str) -> None:
    parse_reset(str(value))


_Check = Callable[[Key, Value, str], None]
_CHECKS: dict[str, _Check] = {
    "transforms": _check_aliases,
    "predicates": _check_aliases,
    "bootstrap.servers": _check_servers,
    "replication.policy.separator": _check_separator,
    "replication.factor": _refuse_no_copies,
    "offset.storage.partitions": _refuse_no_copies,
    "status.storage.partitions": _refuse_no_copies,
    "auto.offset.reset": _check_offset_reset,
}
_CHECKS |= dict.fromkeys(KNOWN_CLASSES, _check_class) | dict.fromkeys(REGEX_LISTS, _check_regexes)


def _security_warnings(key: Key, text: str) -> Iterator[str]:
    """Sentences about a key file that others may read, and about versions of TLS that are not spoken."""
    if key.name == "ssl.keystore.location":
        yield from _readable_by_others(text.strip())
    elif key.name == "ssl.enabled.protocols":
        others = [version for version in split_list(text) if version not in SPOKEN_TLS]
        if others:
            yield f"{', '.join(map(shown, others))} is not spoken; only {' and '.join(SPOKEN_TLS)} are"


def _readable_by_others(path: str) -> Iterator[str]:
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return  # reported when the file is read, and it may be another machine's
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        yield f"others on this machine may read the private key in {shown(path)}; chmod 600 keeps it to its owner"
