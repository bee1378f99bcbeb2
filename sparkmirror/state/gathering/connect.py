"""MirrorMaker 2's own topics of states and settings: what its connectors and tasks do, read without REST.

Keys of states: `status-connector-NAME`, `status-task-NAME-NUMBER`; of settings: `connector-NAME`, `task-NAME-NUMBER`, and
`commit-NAME` with the number of tasks. Values are JSON. Only settings that are compared are kept: others may hold secrets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from sparkmirror.model import TopicPartition
from sparkmirror.state.facts import COMPARED_KEYS, Connector, TaskState
from sparkmirror.wire import Record

_STATUS = re.compile(r"status-(?:connector-(?P<own>.+)|task-(?P<name>.+)-(?P<number>\d+))\Z", re.DOTALL)
_SETTING = re.compile(r"(?:connector-(?P<own>.+)|task-(?P<name>.+)-(?P<number>\d+)|commit-(?P<counted>.+))\Z", re.DOTALL)
ASSIGNED = "task.assigned.partitions"
KINDS = ("MirrorSourceConnector", "MirrorCheckpointConnector", "MirrorHeartbeatConnector")
GONE = "DESTROYED"
_KEPT = (*COMPARED_KEYS, "topics.blacklist", "groups.blacklist")


class Connectors:
    """The two topics folded record by record; the newest of each key counts."""

    def __init__(self) -> None:
        self._found: dict[str, Connector] = {}
        self._counts: dict[str, int] = {}
        self.malformed = 0

    def all(self) -> dict[str, Connector]:
        """Every connector of MirrorMaker 2; tasks that were given up when their number became less are not among theirs."""
        return {name: self._counted(connector) for name, connector in self._found.items()}

    def _counted(self, connector: Connector) -> Connector:
        count = self._counts.get(connector.name)
        if count is None:
            return connector
        tasks = {number: task for number, task in connector.tasks.items() if number < count}
        assigned = {number: share for number, share in connector.assigned.items() if number < count}
        return replace(connector, tasks=tasks, assigned=assigned)

    def take_states(self, records: Iterable[Record]) -> None:
        """The topic of states."""
        for record in records:
            match = _match(_STATUS, record.key)
            if match is None:
                continue
            content = self._content(record.value)
            state = None if content is None else _state(content, record.timestamp)
            name = match["own"] or match["name"]
            if not name.endswith(KINDS):
                continue
            known = self._found.get(name, Connector(name))
            if match["own"]:
                self._found[name] = replace(known, own=state)
            else:
                tasks = {number: task for number, task in known.tasks.items() if number != int(match["number"])}
                if state is not None and state.state != GONE:
                    tasks[int(match["number"])] = state
                self._found[name] = replace(known, tasks=tasks)

    def take_settings(self, records: Iterable[Record]) -> None:
        """The topic of settings."""
        for record in records:
            match = _match(_SETTING, record.key)
            content = self._content(record.value) if match is not None else None
            properties = content.get("properties") if content is not None else None
            if match is not None and match["counted"] and content is not None and isinstance(content.get("tasks"), int):
                self._counts[match["counted"]] = content["tasks"]
                continue
            name = (match["own"] or match["name"] or "") if match is not None else ""
            if match is None or not isinstance(properties, dict) or not name.endswith(KINDS):
                continue
            known = self._found.get(name, Connector(name))
            if match["own"]:
                kept = {key: str(properties[key]) for key in _KEPT if properties.get(key) is not None}
                self._found[name] = replace(known, settings=kept)
            elif isinstance(properties.get(ASSIGNED), str):
                share = frozenset(_partitions(properties[ASSIGNED]))
                self._found[name] = replace(known, assigned={**known.assigned, int(match["number"]): share})

    def _content(self, value: bytes | None) -> dict[str, Any] | None:
        if value is None:
            return None
        try:
            found = json.loads(value)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            self.malformed += 1
            return None
        return found


def _match(pattern: re.Pattern[str], key: bytes | None) -> re.Match[str] | None:
    return pattern.match(key.decode("utf-8", "replace")) if key is not None else None


def _state(content: dict[str, Any], time_ms: int) -> TaskState | None:
    state = content.get("state")
    if not isinstance(state, str):
        return None
    worker, trace, version = (str(content.get(key) or "") for key in ("worker_id", "trace", "version"))
    return TaskState(state, worker, trace, time_ms, version)


def _partitions(text: str) -> Iterable[TopicPartition]:
    """`topic-0,topic-1`: Java's own text of partitions, joined."""
    for word in text.split(","):
        topic, _, number = word.strip().rpartition("-")
        if topic and number.isdigit():
            yield TopicPartition(topic, int(number))
