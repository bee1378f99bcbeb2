"""Connect's own transforms and predicates (`transforms`, `predicates`) of a flow: which run here, and what is wrong.

Names are Kafka's classes; a transform of fields says with `$Key` or `$Value` which of the two it changes. Where Kafka
ignores an option that it does not know, the option is refused here: a mask with a misspelt list would mask nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from sparkmirror.config.connect_options import (
    OptionRefused,
    check_replacement,
    date_parts,
    field_path,
    header_value,
    rename_pairs,
)
from sparkmirror.config.java_regex import compile_java
from sparkmirror.config.java_regex_parser import RegexRefused
from sparkmirror.config.parsing import shown, split_list

TRANSFORMS, PREDICATES = "transforms", "predicates"
PACKAGE = "org.apache.kafka.connect.transforms."
PREDICATE_PACKAGE = PACKAGE + "predicates."
SIDES = ("$Key", "$Value")
# Each step becomes a part of one Spark plan; people write a handful.
ALIASES_MAX = 50


@dataclass(frozen=True, slots=True)
class ConnectPredicate:
    """A condition; `type` is the class without its package, such as `TopicNameMatches`."""

    name: str
    type: str
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ConnectTransform:
    """One step; `type` is the class without its package, such as `MaskField$Value`. Options have Kafka's defaults filled in.

    It is applied to records for which `predicate` is true, or with `negate` for which it is not.
    """

    name: str
    type: str
    options: Mapping[str, str]
    predicate: ConnectPredicate | None
    negate: bool


def _no_check(text: str) -> None:
    """Any text will do."""


def _regex(text: str) -> None:
    compile_java(text)


def _some(text: str) -> None:
    if not text:
        raise OptionRefused("a value")


def _some_regex(text: str) -> None:
    _some(text)
    _regex(text)


def _names(text: str) -> None:
    if not text or "" in split_list(text):
        raise OptionRefused("one or more names, separated by commas")


def _maybe_names(text: str) -> None:
    if text:
        _names(text)


def _pairs(text: str) -> None:
    rename_pairs(split_list(text))


def _true_or_false(text: str) -> None:
    if text.lower() not in ("true", "false"):
        raise OptionRefused("true or false")


def _version(text: str) -> None:
    if text.upper() not in ("V1", "V2"):
        raise OptionRefused("V1 or V2")


def _dates(text: str) -> None:
    date_parts(text)


def _literal(text: str) -> None:
    header_value(text)


@dataclass(frozen=True, slots=True)
class _Option:
    """One option; without a default it may be left out, unless it is required."""

    check: Callable[[str], None] = _no_check
    default: str | None = None
    required: bool = False


_FIELDS = _Option(_names, required=True)
# Schemaless JSON has no defaults in its schema that could take the place of a null: any value has the same effect.
_SCHEMA_DEFAULTS = {"replace.null.with.default": _Option(_true_or_false, "true")}
_INSERTED = ("topic.field", "partition.field", "offset.field", "timestamp.field", "static.field")

# The options of each transform; whatever is in SIDED changes the fields of a key or of a value.
OPTIONS: dict[str, dict[str, _Option]] = {
    "DropHeaders": {"headers": _FIELDS},
    "ExtractField": {"field": _Option(required=True), "field.syntax.version": _Option(_version, "V1")} | _SCHEMA_DEFAULTS,
    "Filter": {},
    "HoistField": {"field": _Option(required=True)},
    "InsertField": dict.fromkeys((*_INSERTED, "static.value"), _Option()) | _SCHEMA_DEFAULTS,
    "InsertHeader": {"header": _Option(required=True), "value.literal": _Option(_literal, required=True)},
    "MaskField": {"fields": _FIELDS, "replacement": _Option(_some)} | _SCHEMA_DEFAULTS,
    "RegexRouter": {"regex": _Option(_regex, required=True), "replacement": _Option(required=True)},
    "ReplaceField": {
        "exclude": _Option(_maybe_names, ""), "include": _Option(_maybe_names, ""), "renames": _Option(_pairs, ""),
    } | _SCHEMA_DEFAULTS,
    "TimestampRouter": {
        "topic.format": _Option(default="${topic}-${timestamp}"), "timestamp.format": _Option(_dates, "yyyyMMdd"),
    },
    "ValueToKey": {"fields": _FIELDS} | _SCHEMA_DEFAULTS,
}  # fmt: skip
SIDED = ("ExtractField", "HoistField", "InsertField", "MaskField", "ReplaceField")
PREDICATE_OPTIONS: dict[str, dict[str, _Option]] = {
    "HasHeaderKey": {"name": _Option(_some, required=True)},
    "RecordIsTombstone": {},
    "TopicNameMatches": {"pattern": _Option(_some_regex, required=True)},
}
# Known to Kafka, and of no meaning without its plug-ins.
_VERSION_OF_CLASS = "plugin.version"
_OWN = ("type", "predicate", "negate", _VERSION_OF_CLASS)

Problems = list[tuple[str, str]]


@dataclass(slots=True)
class _TransformReading:
    """The keys of one flow: resolved, as the file has them (which is what messages may show), and what is wrong."""

    texts: Mapping[str, str]
    written: Mapping[str, str]
    problems: Problems = field(default_factory=list)

    def expected(self, key: str, what: str) -> None:
        found = shown(self.written[key]) if self.written.get(key, "").strip() else "nothing"
        self.problems.append((key, f"expected {what}, found {found}"))

    def parts(self, family: str, alias: str) -> dict[str, str]:
        """The keys of one alias without their beginning, those of a longer alias with the same beginning left out."""
        prefix = f"{family}.{alias}."
        longer = tuple(f"{family}.{other}." for other in _aliases(self.texts, family) if f"{other}.".startswith(f"{alias}."))
        others = tuple(other for other in longer if other != prefix)
        return {
            key.removeprefix(prefix): text.strip()
            for key, text in self.texts.items()
            if key.startswith(prefix) and not key.startswith(others)
        }


def read_connect_transforms(
    texts: Mapping[str, str], written: Mapping[str, str]
) -> tuple[tuple[ConnectTransform, ...], Problems]:
    """The chain of a flow in its order, and what is wrong as key and sentence; a wrong step is left out of the chain.

    `texts` are the keys of the flow without its name; `written` are the same as they stand in the file.
    """
    reading = _TransformReading(texts, written)
    predicates = {alias: _predicate(reading, alias) for alias in _aliases(texts, PREDICATES)}
    steps = [_transform(reading, alias, predicates) for alias in _aliases(texts, TRANSFORMS)]
    return tuple(step for step in steps if step is not None), reading.problems


def connect_warnings(texts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Keys of transforms and predicates that have no effect."""
    for family in (TRANSFORMS, PREDICATES):
        known = tuple(f"{family}.{alias}." for alias in _aliases(texts, family))
        for key in texts:
            if key.startswith(f"{family}.") and not key.startswith(known):
                yield key, f"has no effect: `{family}` does not name it"
            elif key.startswith(f"{family}.") and key.endswith(f".{_VERSION_OF_CLASS}"):
                yield key, "has no effect: Java plug-ins cannot be loaded"


def _aliases(texts: Mapping[str, str], family: str) -> tuple[str, ...]:
    # An empty item, one named twice and too many are reported where the list itself is checked.
    return tuple(dict.fromkeys(alias for alias in split_list(texts.get(family, "")) if alias))[:ALIASES_MAX]


def _transform(
    reading: _TransformReading, alias: str, predicates: Mapping[str, ConnectPredicate | None]
) -> ConnectTransform | None:
    before = len(reading.problems)
    key = f"{TRANSFORMS}.{alias}"
    parts = reading.parts(TRANSFORMS, alias)
    kind = _class_name(parts.get("type", ""), PACKAGE)
    family, _, side = kind.partition("$")
    if family not in OPTIONS:
        reading.expected(f"{key}.type", f"one that runs here: {_classes()}")
        return None
    if family in SIDED and f"${side}" not in SIDES:
        reading.expected(f"{key}.type", f"{PACKAGE}{family}$Key or {PACKAGE}{family}$Value")
    elif side and family not in SIDED:
        reading.expected(f"{key}.type", PACKAGE + family)
    options = _options(reading, key, {name: text for name, text in parts.items() if name not in _OWN}, OPTIONS[family])
    _check_together(reading, key, family, options)
    negate = _negate(reading, key, parts)
    predicate = _predicate_of(reading, key, parts, predicates)
    if len(reading.problems) > before or (predicate is None and "predicate" in parts):
        return None
    return ConnectTransform(alias, kind, options, predicate, negate)


def _predicate(reading: _TransformReading, alias: str) -> ConnectPredicate | None:
    before = len(reading.problems)
    key = f"{PREDICATES}.{alias}"
    parts = reading.parts(PREDICATES, alias)
    kind = _class_name(parts.get("type", ""), PREDICATE_PACKAGE)
    if kind not in PREDICATE_OPTIONS:
        reading.expected(f"{key}.type", f"one that runs here: {', '.join(PREDICATE_PACKAGE + k for k in PREDICATE_OPTIONS)}")
        return None
    given = {name: text for name, text in parts.items() if name not in ("type", _VERSION_OF_CLASS)}
    options = _options(reading, key, given, PREDICATE_OPTIONS[kind])
    return ConnectPredicate(alias, kind, options) if len(reading.problems) == before else None


def _class_name(text: str, package: str) -> str:
    """The class without its package. Connect knows its own classes by their bare names too."""
    return text.removeprefix(package)


def _classes() -> str:
    sided = "$Key or $Value"
    return ", ".join(PACKAGE + family + (sided if family in SIDED else "") for family in OPTIONS)


def _options(
    reading: _TransformReading, key: str, given: Mapping[str, str], known: Mapping[str, _Option]
) -> Mapping[str, str]:
    for name in given.keys() - known.keys():
        takes = f"one of {', '.join(known)}" if known else "no option"
        reading.problems.append((f"{key}.{name}", f"expected {takes} after {key}., found {shown(name)}"))
    found: dict[str, str] = {}
    for name, option in known.items():
        text = given.get(name, option.default)
        if text is not None:
            _check(reading, f"{key}.{name}", option, text)
            found[name] = text
        elif option.required:
            reading.expected(f"{key}.{name}", "a value")
    return MappingProxyType(found)


def _check(reading: _TransformReading, key: str, option: _Option, text: str) -> None:
    try:
        option.check(text)
    except OptionRefused as refusal:
        reading.expected(key, str(refusal))
    except RegexRefused as refusal:
        reading.problems.append((key, f"{shown(reading.written.get(key, text))} cannot be used: {refusal.reason}"))


def _check_together(reading: _TransformReading, key: str, family: str, options: Mapping[str, str]) -> None:
    """What is wrong with options that are each right alone."""
    if family == "RegexRouter" and {"regex", "replacement"} <= options.keys():
        together = _Option(lambda replacement: check_replacement(replacement, options["regex"]))
        _check(reading, f"{key}.replacement", together, options["replacement"])
    if family == "ExtractField" and {"field", "field.syntax.version"} <= options.keys():
        path = _Option(lambda text: _path(text, options["field.syntax.version"]))
        _check(reading, f"{key}.field", path, options["field"])
    if family == "InsertField":
        if not any(name in options for name in _INSERTED):
            reading.problems.append((key, f"expected at least one of {', '.join(_INSERTED)}, found none"))
        if "static.field" in options and "static.value" not in options:
            reading.expected(f"{key}.static.value", f"the value of {key}.static.field")


def _path(text: str, version: str) -> None:
    field_path(text, version)


def _negate(reading: _TransformReading, key: str, parts: Mapping[str, str]) -> bool:
    if "negate" not in parts:
        return False
    _check(reading, f"{key}.negate", _Option(_true_or_false), parts["negate"])
    if "predicate" not in parts:
        reading.problems.append((f"{key}.negate", f"expected {key}.predicate, the predicate to be negated, found nothing"))
    return parts["negate"].lower() == "true"


def _predicate_of(
    reading: _TransformReading, key: str, parts: Mapping[str, str], predicates: Mapping[str, ConnectPredicate | None]
) -> ConnectPredicate | None:
    alias = parts.get("predicate")
    if alias is not None and alias not in predicates:
        known = f"one of {', '.join(predicates)}" if predicates else "a name that stands in `predicates`, which is empty"
        reading.expected(f"{key}.predicate", known)
    return predicates.get(alias) if alias is not None else None
