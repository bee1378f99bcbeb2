"""The way home: what applications wrote on the target since a failover is copied to the topics where it belongs.

A flow of its own does it, with its own ledger on the source, so it is exact over kills like any other. Its file is
made of the user's: the same clusters, the target under another alias, names as the failover found them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import javaproperties

from sparkmirror.config import FlowSettings, Settings, load
from sparkmirror.config.properties import parse_properties
from sparkmirror.control import RunOptions, run_flows
from sparkmirror.driver import Asking
from sparkmirror.errors import FailoverUnfinished
from sparkmirror.model import TopicPartition
from sparkmirror.positions import MoveRequest, apply
from sparkmirror.status import FlowStatus

SUFFIX = "-failback"
NAMES_KEY = "failback.topics"
# Of the user's file: what chooses, names and does things beside the copying. The way home has its own.
LEFT_OUT = re.compile(
    r"clusters|.*->.*|(topics|groups)(\..*)?|replication\.policy\..*|topic\.filter\..*|group\.filter\..*|enabled"
    r"|(emit|sync|refresh)\..*|transforms(\..*)?|predicates(\..*)?|offset-syncs\..*|lag\.group\..*|on\..*|errors\..*"
)


class OriginalNames:
    """A replication policy: each topic goes to where it came from before the failover."""

    def __init__(self, config: Mapping[str, str]) -> None:
        self._names: dict[str, str] = json.loads(config[NAMES_KEY])

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        """The name that it had; other topics are not copied."""
        return self._names.get(topic, f"{source_alias}.{topic}")

    def topic_source(self, topic: str) -> str | None:
        """None: no name says where it comes from."""
        return None

    def upstream_topic(self, topic: str) -> str | None:
        """None, likewise."""
        return None


class WayHome:
    """The flow from the target back to the source, for the topics that have something to bring home."""

    def __init__(self, settings: Settings, flow: FlowSettings, names: Mapping[str, str], folder: Path) -> None:
        self.alias = f"{flow.name.target}{SUFFIX}"
        path = folder / "failback.properties"
        path.write_text("".join(_lines(settings, flow, names, self.alias)), "latin-1")
        self._settings, self._folder = load(str(path)), folder
        [self._flow] = self._settings.enabled_flows(None)

    @property
    def name(self) -> str:
        """The flow's name."""
        return str(self._flow.name)

    def begin_at(self, entries: Mapping[TopicPartition, int]) -> None:
        """Copying begins there, behind what the source holds."""
        request = MoveRequest("import", None, entries=dict(entries), undo_file=str(self._folder / "undo.json"))
        apply(self._settings, request, Asking(command="sparkmirror failback"))

    def copy(self, options: RunOptions) -> FlowStatus:
        """Copies up to the ends seen now; raises FailoverUnfinished if a partition stopped."""
        [status] = run_flows(self._settings, options)
        stopped = [p for p in status.partitions.values() if p.state == "stopped"]
        if stopped or status.stopped_topics:
            named = [f"{p.partition}: {p.code}: {p.reason}" for p in stopped] or list(status.stopped_topics.values())
            hint = "mend it, then give the same command again"
            raise FailoverUnfinished(f"not everything was brought home: {named[0]}", hint=hint)
        return status


def _lines(settings: Settings, flow: FlowSettings, names: Mapping[str, str], alias: str) -> Iterator[str]:
    source, target, way = flow.name.source, flow.name.target, f"{alias}->{flow.name.source}"
    text = Path(settings.path).read_text("latin-1")
    for key, entry in parse_properties(text).last().items():
        if LEFT_OUT.fullmatch(key):
            continue
        if key.startswith(f"{target}."):
            yield _line(f"{alias}.{key.removeprefix(f'{target}.')}", entry.value)
        elif key.startswith(f"{source}.") or not _is_of_other(key, settings, {source, target}):
            yield _line(key, entry.value)
    yield from (
        _line(key, value)
        for key, value in {
            "clusters": f"{alias}, {source}",
            f"{way}.enabled": "true",
            f"{way}.topics": ",".join(re.escape(topic).replace("\\-", "-") for topic in names),
            f"{way}.topics.exclude": "",
            f"{way}.replication.policy.class": f"{__name__}:{OriginalNames.__name__}",
            f"{way}.{NAMES_KEY}": json.dumps(dict(names)),
            f"{way}.replication.loops.allowed": "true",
            f"{way}.consumer.isolation.level": "read_committed",
            "emit.heartbeats.enabled": "false",
            "emit.checkpoints.enabled": "false",
            "emit.offset-syncs.enabled": "false",
            "heartbeats.replication.enabled": "false",
            "sync.topic.configs.enabled": "false",
            "sync.topic.acls.enabled": "false",
            "lag.group.enabled": "false",
        }.items()
    )


def _line(key: str, value: str) -> str:
    return f"{javaproperties.join_key_value(key, value, separator=' = ')}\n"


def _is_of_other(key: str, settings: Settings, used: Collection[str]) -> bool:
    """Whether a key belongs to a cluster that has no part in this."""
    others = {alias for flow in settings.flows for alias in (flow.name.source, flow.name.target)} - set(used)
    return any(key.startswith(f"{alias}.") for alias in others)
