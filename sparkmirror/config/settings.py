"""Reads MirrorMaker 2's properties file into `Settings`: every mistake at once, every oddity as a warning."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

import msgspec

from sparkmirror.config import layers
from sparkmirror.config.checks import alias_problem, flow_problems, flow_warnings, value_problem, value_warnings
from sparkmirror.config.client_keys import SECURITY_KEYS
from sparkmirror.config.connect_transforms import ConnectTransform, connect_warnings, read_connect_transforms
from sparkmirror.config.custom_classes import CUSTOM_METHODS, is_class_reference
from sparkmirror.config.keys import CONNECTOR_KEYS, FLOW_KEYS, WORKER_KEYS, Key
from sparkmirror.config.nearest import RENAMED, key_named, nearest_key
from sparkmirror.config.parsing import ValueRefused, is_exactly_true, parse_servers, parse_value, shown, split_list
from sparkmirror.config.placement import METRIC_LABELS, UNKNOWN_KEY, Place, client_keys_warning, place_of
from sparkmirror.config.properties import Entry, PropertiesFile, parse_properties
from sparkmirror.config.providers import declare
from sparkmirror.config.transforms import read_transforms, transform_key_problem
from sparkmirror.config.values import ClusterSettings, FlowSettings, Settings
from sparkmirror.errors import ConfigFileUnreadable, ConfigInvalid, FlowUnknown, NoFlowEnabled
from sparkmirror.model import FlowName

# The largest real files have a few thousand lines; a larger one is a wrong path.
FILE_BYTES_MAX = 1 << 20
CLUSTERS_MAX = 100
# Topics whose replication factors the ledger and stored positions follow.
INTERNAL_TOPICS = ("checkpoints", "heartbeats", "offset_syncs")
INTERNAL_FACTOR_MAX = 3
ALLOW_HINT = "correct the keys; for keys that are meant as they are: --allow-unknown-keys"

# Labels that figures have themselves.
OWN_LABELS = frozenset({"source", "target", "topic", "partition", "group", "cluster", "whose", "clientid", "client_id"})


@dataclass(slots=True)
class _Reading:
    """One file while it is read: what was written, what it resolves to, what was found wrong."""

    file: PropertiesFile
    entries: dict[str, Entry]
    allows_unknown_keys: bool
    has_resembling_keys: bool = False
    texts: dict[str, str] = field(default_factory=dict)
    problems: list[tuple[int, str]] = field(default_factory=list)
    warnings: list[tuple[int, str]] = field(default_factory=list)

    def problem(self, key: str, sentence: str) -> None:
        self.problems.append(self._located(key, sentence))

    def warn(self, key: str, sentence: str) -> None:
        self.warnings.append(self._located(key, sentence))

    def _located(self, key: str, sentence: str) -> tuple[int, str]:
        entry = self.entries.get(key)
        where = "" if entry is None or not entry.line else f"line {entry.line}: "
        return (0 if entry is None else entry.line), f"{where}{shown(key)[1:-1]}: {sentence}"


def load(path: str, *, allow_unknown_keys: bool = False) -> Settings:
    """The settings of the file at `path`; raises `ConfigFileUnreadable` or `ConfigInvalid`.

    An unknown key that resembles a known one is a mistake, with `allow_unknown_keys` a warning like other unknown keys.
    """
    content = read_content(path)
    reading = _read(content.decode("iso-8859-1"), allow_unknown_keys=allow_unknown_keys)
    return _settings(reading, path, hashlib.sha256(content).hexdigest(), os.environ)


def read_content(path: str) -> bytes:
    """The bytes of the file; raises `ConfigFileUnreadable`."""
    try:
        with open(path, "rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigFileUnreadable(f"{path} cannot be read: {reason}", hint="give a readable file") from error
    if len(content) > FILE_BYTES_MAX:
        raise ConfigFileUnreadable(f"{path} is larger than {FILE_BYTES_MAX} bytes")
    return content


def settings_of(texts: Mapping[str, str], path: str) -> Settings:
    """The settings of keys and texts that need not be what the file says; unknown keys are allowed."""
    entries = tuple(Entry(key, text, 0) for key, text in texts.items())
    digest = hashlib.sha256(repr(sorted(texts.items())).encode()).hexdigest()
    file = PropertiesFile(entries, (), has_byte_order_mark=False)
    return _settings(_Reading(file, file.last(), allows_unknown_keys=True), path, digest, os.environ)


def resolved_texts(written: Mapping[str, str]) -> dict[str, str]:
    """Texts with their references to config providers replaced as far as that is possible now."""
    providers, _ = declare(written, os.environ)
    referring = {key: text for key, text in written.items() if "${" in text and not key.startswith("config.providers")}
    return dict(written) | {key: providers.resolve(text).text for key, text in referring.items()}


@dataclass(frozen=True)
class SentSettings:
    """What one flow runs with, as tasks are given it: keys and texts as written, and the keys whose values are secret.

    A task reads the secrets from the file where it runs. So no secret goes through Spark, and a task can be started while
    the file has an error, or says what the flow does not run with.
    """

    path: str
    texts: tuple[tuple[str, str], ...]
    secrets: tuple[str, ...] = ()
    revision: int = 0  # which reload they are of: the texts may be the same, and what providers make of them not

    @classmethod
    def of(cls, settings: Settings, flow: FlowName, path: str, revision: int = 0) -> SentSettings:
        """Of one flow: the keys of other flows and clusters are left out."""
        mine = {key: text for key, text in settings.written.items() if _concerns(key, settings.clusters, flow)}
        mine["clusters"] = f"{flow.source}, {flow.target}"
        texts = tuple((key, text) for key, text in mine.items() if not layers.may_be_secret(key))
        return cls(path, texts, tuple(key for key in mine if layers.may_be_secret(key)), revision)

    def text(self) -> str:
        """As the `config` option of a data source, in the place of a path."""
        return msgspec.json.encode(self).decode()

    def load(self) -> Settings:
        """The settings with the secrets of the file as it is now; raises `ConfigError`."""
        texts = dict(self.texts)
        if self.secrets:
            found = parse_properties(read_content(self.path).decode("iso-8859-1")).last()
            missing = [key for key in self.secrets if key not in found]
            if missing:
                raise ConfigInvalid(self.path, [f"{key}: expected the secret that the flow runs with" for key in missing])
            texts |= {key: found[key].value for key in self.secrets}
        return settings_of(texts, self.path)


def load_option(text: str) -> Settings:
    """The settings that the `config` option of a data source means: a path, or what `SentSettings.text` returns."""
    if text.startswith("{"):
        return msgspec.json.decode(text, type=SentSettings).load()
    return load(text, allow_unknown_keys=True)


def parse(
    text: str, path: str, variables: Mapping[str, str] | None = None, *, allow_unknown_keys: bool = False
) -> Settings:
    """The settings of `text`; `path` is only named in messages, `variables` stand for the environment's."""
    digest = hashlib.sha256(text.encode("iso-8859-1", "backslashreplace")).hexdigest()
    reading = _read(text, allow_unknown_keys=allow_unknown_keys)
    return _settings(reading, path, digest, os.environ if variables is None else variables)


def shown_connector_texts(settings: Settings) -> dict[FlowName, dict[str, str]]:
    """The settings of each flow's connectors as the file writes them now, without secrets."""
    with open(settings.path, encoding="iso-8859-1") as file:
        written = {key: entry.value for key, entry in parse_properties(file.read()).last().items()}
    return {flow.name: layers.shown_texts(written, flow.name) for flow in settings.flows}


def require_enabled_flow(settings: Settings, targets: Collection[str] | None) -> None:
    """Raises `NoFlowEnabled` unless some flow into `targets` copies."""
    if settings.enabled_flows(targets):
        return
    names = " -> ".join(settings.clusters[:2]).replace(" ", "") if len(settings.clusters) > 1 else "A->B"
    among = "" if targets is None else f" into {', '.join(sorted(targets))}"
    raise NoFlowEnabled(f"{settings.path}: no flow{among} is enabled", hint=f"write {names}.enabled = true")


def choose_flows(settings: Settings, names: Collection[str] | None) -> list[FlowSettings]:
    """The enabled flows of these names, None: all. Raises `NoFlowEnabled`, and `FlowUnknown` for a wrong name."""
    require_enabled_flow(settings, None)
    flows = {str(flow.name): flow for flow in settings.enabled_flows(None)}
    for name in names or ():
        if name not in flows:
            raise _unknown(settings, flows, name)
    return [flow for name, flow in flows.items() if not names or name in names]


def choose_flow(settings: Settings, name: str | None) -> FlowSettings:
    """The enabled flow of this name, or the only one; raises as `choose_flows` does."""
    found = choose_flows(settings, None if name is None else [name])
    if len(found) > 1:
        raise _unknown(settings, [str(flow.name) for flow in found], f"{len(found)} flows")
    return found[0]


def _unknown(settings: Settings, flows: Collection[str], found: str) -> FlowUnknown:
    hint = "give " + " or ".join(f"--flow '{flow}'" for flow in flows)
    return FlowUnknown(f"{settings.path}: expected one of its enabled flows, found {found}", hint=hint)


def _read(text: str, *, allow_unknown_keys: bool) -> _Reading:
    file = parse_properties(text)
    return _Reading(file, file.last(), allow_unknown_keys, problems=list(file.problems))


def _settings(reading: _Reading, path: str, digest: str, variables: Mapping[str, str]) -> Settings:
    _warn_of_repeats(reading, reading.file)
    _resolve(reading, variables)
    clusters = _clusters(reading, reading.file)
    _check_entries(reading, clusters)
    labels = _metric_labels(reading)
    flows = _flows(reading, clusters, os.path.dirname(path))
    if not reading.problems:
        reading.problems.extend((0, sentence) for sentence in flow_problems(flows))
    reading.warnings.extend((0, sentence) for sentence in flow_warnings(flows))
    if reading.problems:
        hint = ALLOW_HINT if reading.has_resembling_keys else ""
        raise ConfigInvalid(path, [sentence for _, sentence in sorted(reading.problems)], hint=hint)
    return Settings(
        path=path,
        digest=digest,
        clusters=clusters,
        flows=flows,
        warnings=tuple(sentence for _, sentence in sorted(reading.warnings)),
        metric_labels=labels,
        written=MappingProxyType({key: entry.value for key, entry in reading.entries.items()}),
        resolved=MappingProxyType(reading.texts),
        allows_unknown_keys=reading.allows_unknown_keys,
    )


def _warn_of_repeats(reading: _Reading, file: PropertiesFile) -> None:
    for entry in file.entries:
        last = reading.entries[entry.key]
        if entry is not last:
            reading.warn(entry.key, f"also written on line {entry.line}; the last one counts")
    if file.has_byte_order_mark:
        reading.warnings.append((1, "line 1: the byte order mark at the start is part of the first key"))


def _resolve(reading: _Reading, variables: Mapping[str, str]) -> None:
    written = {key: entry.value for key, entry in reading.entries.items()}
    providers, problems = declare(written, variables)
    for key, sentence in problems.items():
        reading.problem(key, sentence)
    for key, text in written.items():
        if key.startswith("config.providers"):
            reading.texts[key] = text
            continue
        resolved = providers.resolve(text)
        reading.texts[key] = resolved.text
        for sentence in resolved.problems:
            reading.problem(key, sentence)
        for sentence in resolved.warnings:
            reading.warn(key, sentence)


def _metric_labels(reading: _Reading) -> tuple[tuple[str, str], ...]:
    """`metrics.labels.NAME = value`: labels that boards ask for, such as those of Strimzi's variables."""
    found = []
    for key, text in reading.texts.items():
        name = key.removeprefix(METRIC_LABELS)
        if name == key:
            continue
        if not re.fullmatch("[a-zA-Z_][a-zA-Z0-9_]*", name) or name.startswith("__"):
            reading.problem(key, f"expected the name of a Prometheus label after {METRIC_LABELS}, found {shown(name)}")
        elif name in OWN_LABELS:
            reading.problem(key, f"expected a label that figures do not have, found {shown(name)}, one of their own")
        else:
            found.append((name, text.strip()))
    return tuple(sorted(found))


def _clusters(reading: _Reading, file: PropertiesFile) -> tuple[str, ...]:
    written = split_list(reading.texts.get("clusters", ""))
    if not written:
        mark = " (the byte order mark at the start of the file hides the first key)" if file.has_byte_order_mark else ""
        reading.problem("clusters", f"expected the aliases of the clusters, found nothing{mark}")
    if len(written) > CLUSTERS_MAX:
        reading.problem("clusters", f"expected at most {CLUSTERS_MAX} clusters, found {len(written)}")
        return ()
    found: list[str] = []
    for alias in written:
        problem = alias_problem(alias)
        if problem:
            reading.problem("clusters", problem)
        elif alias in found:
            reading.warn("clusters", f"{shown(alias)} is named twice")
        else:
            found.append(alias)
    return tuple(found)


def _check_entries(reading: _Reading, clusters: tuple[str, ...]) -> None:
    policies = [text for written, text in reading.texts.items() if written.endswith("replication.policy.class")]
    has_policy = any(is_class_reference(text.strip()) for text in policies)
    misplaced: dict[str, Place] = {}
    for written, entry in reading.entries.items():
        if written in clusters and entry.value.startswith("->"):
            reading.problem(written, f"a blank ends a key; write {shown(written + '->…')[1:-1]} without blanks")
            continue
        place = place_of(written, clusters)
        problem = transform_key_problem(place.name, reading.texts[written]) if place.level == "transform" else place.problem
        if problem and clusters:
            reading.problem(written, problem)
        if place.right_place:
            misplaced[written] = place
        elif place.warning == UNKNOWN_KEY:
            _check_unknown(reading, written, place, clusters, has_policy=has_policy)
        elif place.warning:
            reading.warn(written, place.warning)
        if place.key is not None and place.counts:
            _check_value(reading, written, place, place.key)
    if misplaced:
        first = next(iter(misplaced))
        reading.warnings.append((reading.entries[first].line, client_keys_warning(reading.entries, misplaced)))
    _warn_of_precedence(reading, clusters)


def _check_unknown(
    reading: _Reading, written: str, place: Place, clusters: tuple[str, ...], *, has_policy: bool
) -> None:
    """A key that nobody knows: a mistake if it resembles one that we know, else without an effect."""
    is_for_class = _is_for_custom_class(reading.texts, place, has_policy=has_policy)
    near = nearest_key(place.level, place.name, has_own_keys=is_for_class)
    right = written.removesuffix(place.name) + near
    is_for_older = place.name in RENAMED and right in reading.entries  # written beside it for an older Kafka
    # Without aliases the keys of clusters look like others at top level.
    is_mistake = not reading.allows_unknown_keys and not is_for_older and (bool(clusters) or near == "clusters")
    if near and is_mistake:
        reading.has_resembling_keys = True
        reading.problem(written, f"unknown key, expected {shown(right)}; {_without(reading, place, right, near)}")
    elif near or not is_for_class:
        reading.warn(written, UNKNOWN_KEY + (f"; nearest known: {shown(right)}" if near else ""))


def _without(reading: _Reading, place: Place, right: str, near: str) -> str:
    """What would happen if an unknown key had no effect."""
    written = right if right in reading.entries else near
    key, default = key_named(near), None
    if key is not None and not key.secret:
        default = key.effective_default
    if written in reading.entries and (place.level == "flow" or near in SECURITY_KEYS or written == right):
        return f"without an effect it would leave {shown(written)} on line {reading.entries[written].line}"
    if default is None:
        return f"without an effect it would leave {shown(near)} unset"
    return f"without an effect it would leave {shown(near)} at its default {shown(default) if default else '(empty)'}"


def _is_for_custom_class(texts: Mapping[str, str], place: Place, *, has_policy: bool) -> bool:
    """Whether a key that we do not know may be one that a class of the user's reads."""
    if place.flow is None:
        return has_policy and place.level == "top" and place.name.startswith("replication.policy.")
    return _has_custom_class({key: texts.get(f"{place.flow}.{key}", texts.get(key, "")) for key in CUSTOM_METHODS})


def _check_value(reading: _Reading, written: str, place: Place, key: Key) -> None:
    entry, text = reading.entries[written], reading.texts[written]
    problem = value_problem(key, text, entry.value)
    if problem:
        reading.problem(written, problem)
        return
    for sentence in value_warnings(key, text, entry.value):
        reading.warn(written, sentence)
    if key.name not in ("source.cluster.alias", "target.cluster.alias"):
        return
    if place.flow is None:
        reading.problem(written, "the aliases of a flow are those of its name and cannot be set for all flows")
        return
    alias = place.flow.source if key.name.startswith("source") else place.flow.target
    if text.strip() != alias:
        reading.problem(written, f"expected {shown(alias)}, the alias of the flow, found {shown(entry.value)}")


def _warn_of_precedence(reading: _Reading, clusters: tuple[str, ...]) -> None:
    """`A.consumer.x` wins over `A->B.consumer.x`, which looks more particular."""
    for written in reading.entries:
        flow, _, rest = written.partition(".consumer.")
        source, arrow, _ = flow.partition("->")
        winner = f"{source}.consumer.{rest}"
        if arrow and rest and source in clusters and winner in reading.entries:
            line = reading.entries[winner].line
            reading.warn(written, f"`{winner}` on line {line} wins over it; write `{flow}.source.consumer.{rest}`")


def _flows(reading: _Reading, clusters: tuple[str, ...], folder: str) -> tuple[FlowSettings, ...]:
    pairs = [FlowName(s, t) for s in clusters for t in clusters if s != t]
    present = [flow for flow in pairs if _exists(reading.texts, flow)]
    used = {alias for flow in present for alias in (flow.source, flow.target)}
    known = {alias: _cluster(reading, alias) for alias in clusters if alias in used}
    steps = {flow: _connect_transforms(reading, flow) for flow in present}
    return tuple(_flow(reading.texts, folder, known[flow.source], known[flow.target], steps[flow]) for flow in present)


def _connect_transforms(reading: _Reading, flow: FlowName) -> tuple[ConnectTransform, ...]:
    """The chain of a flow; problems are reported at their lines. A flow that copies nothing needs none to be right."""
    if not any("transforms" in key or "predicates" in key for key in reading.entries):
        return ()
    connector = layers.connector_texts(reading.texts, flow)
    if not is_exactly_true(connector["enabled"].strip()):
        return ()
    written = layers.connector_texts({key: entry.value for key, entry in reading.entries.items()}, flow)
    found, problems = read_connect_transforms(connector, written)
    for key, sentence in problems:
        own = f"{flow}.{key}"
        # What is missing is reported with the line of the list that asks for it.
        lists = [name for name in (f"{flow}.{key.partition('.')[0]}", key.partition(".")[0]) if name in reading.entries]
        missing = own not in reading.entries and lists
        reading.problem(lists[0] if missing else own, f"{own}: {sentence}" if missing else sentence)
    for key, sentence in connect_warnings(connector):
        reading.warn(f"{flow}.{key}", sentence)
    return found


def _exists(texts: Mapping[str, str], flow: FlowName) -> bool:
    """Whether MirrorMaker 2 runs anything for the flow: it copies, or it writes heartbeats, which is the default."""
    if is_exactly_true(texts.get(f"{flow}.enabled")):
        return True
    beats = texts.get(f"{flow}.emit.heartbeats.enabled", texts.get("emit.heartbeats.enabled", "true"))
    return is_exactly_true(beats)


def _cluster(reading: _Reading, alias: str) -> ClusterSettings:
    texts = layers.cluster_texts(reading.texts, alias)
    servers: tuple[tuple[str, int], ...] = ()
    if not texts.get("bootstrap.servers", "").strip():
        reading.problem(f"{alias}.bootstrap.servers", "expected at least one host:port, found nothing")
    else:
        # A wrong address is reported with its line by the check of the entry.
        with suppress(ValueRefused):
            servers = parse_servers(texts["bootstrap.servers"])
    security = {name: layers.hidden_if_secret(name, texts[name].strip()) for name in SECURITY_KEYS if name in texts}
    security.pop("bootstrap.servers", None)
    return ClusterSettings(alias, servers, MappingProxyType({"security.protocol": "PLAINTEXT"} | security))


def _flow(
    texts: Mapping[str, str],
    folder: str,
    source: ClusterSettings,
    target: ClusterSettings,
    connect_transforms: tuple[ConnectTransform, ...],
) -> FlowSettings:
    name = FlowName(source.alias, target.alias)
    worker = layers.worker_texts(texts, name)
    connector = layers.connector_texts(texts, name)
    values = _typed(connector, {**CONNECTOR_KEYS, **FLOW_KEYS}) | _typed(worker, WORKER_KEYS)
    # The policy reads these two from the text itself: blanks stay, and the second counts only with the first.
    written_separator = connector.get("replication.policy.separator")
    internal = connector.get("replication.policy.internal.topic.separator.enabled", "true")
    values["replication_policy_separator"] = "." if written_separator is None else written_separator
    in_internal = written_separator is None or is_exactly_true(internal)
    values["replication_policy_internal_topic_separator_enabled"] = in_internal
    if "offset.storage.replication.factor" not in worker:
        values["offset_storage_replication_factor"] = internal_factor(values)
    side = "target" if values["offset_syncs_topic_location"] == "target" else "source"
    wanted = {found.name for found in fields(FlowSettings)} - {"name"}
    return FlowSettings(
        **{attribute: value for attribute, value in values.items() if attribute in wanted},
        name=name,
        folder=folder,
        record_transforms=read_transforms(connector),
        connect_transforms=connect_transforms,
        custom_texts=layers.custom_texts(connector) if _has_custom_class(connector) else MappingProxyType({}),
        emits_heartbeats=values["emit_heartbeats_enabled"],
        source=source,
        target=target,
        consumer=layers.finished(layers.client_texts(connector, "source", "consumer"), "consumer"),
        consumer_written=frozenset(layers.written_client_texts(connector, "source", "consumer")),
        producer=layers.finished(layers.data_producer_texts(worker, connector), "producer"),
        producer_written=frozenset(layers.written_data_producer_texts(worker, connector)),
        offset_syncs_producer=layers.finished(layers.client_texts(connector, side, "producer"), "producer"),
        offset_syncs_consumer=layers.finished(layers.client_texts(connector, side, "consumer"), "consumer"),
        checkpoints_consumer=layers.finished(layers.client_texts(connector, "target", "consumer"), "consumer"),
        source_admin=layers.finished(layers.client_texts(connector, "source", "admin"), "admin"),
        target_admin=layers.finished(layers.client_texts(connector, "target", "admin"), "admin"),
        offset_syncs_admin=layers.finished(layers.client_texts(connector, side, "admin"), "admin"),
    )


def internal_factor(values: Mapping[str, Any]) -> int:
    """Replicas of the ledger and of stored positions where the file does not say.

    As many as it gives MirrorMaker 2's other internal topics, and at most Connect's default.
    """
    factors = [int(values[f"{name}_topic_replication_factor"]) for name in INTERNAL_TOPICS]
    return min(INTERNAL_FACTOR_MAX, max(factors))


def _has_custom_class(connector: Mapping[str, str]) -> bool:
    return any(is_class_reference(connector.get(key, "").strip()) for key in CUSTOM_METHODS)


def _typed(texts: Mapping[str, str], keys: Mapping[str, Key]) -> dict[str, Any]:
    """Attribute to value for every key; a text already reported as wrong counts as not written."""
    found: dict[str, Any] = {}
    for key in keys.values():
        text = texts.get(key.name, key.effective_default)
        try:
            found[key.attribute] = None if text is None else parse_value(key, text)
        except ValueRefused:
            found[key.attribute] = None if key.default is None else parse_value(key, key.default)
    return found


def _concerns(key: str, clusters: tuple[str, ...], flow: FlowName) -> bool:
    place = place_of(key, clusters)
    return place.flow in (None, flow) and place.alias in (None, flow.source, flow.target)
