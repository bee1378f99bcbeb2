"""The connectors as the last look at the flows shows them, without those that were deleted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sparkmirror.config import Settings
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.rest.answers import FlowAnswers
from sparkmirror.rest.connectors import MirrorConnector, MirrorRole, Named, connectors_of
from sparkmirror.status import FlowStatus


class ShownConnectors:
    """Made once for each look at the flows, when somebody asks."""

    def __init__(self, answers: FlowAnswers, settings: Settings | None, texts: Mapping[FlowName, Mapping[str, str]]) -> None:
        self._answers, self._settings, self._texts = answers, settings, texts
        self._made: tuple[Sequence[FlowStatus], list[MirrorConnector]] = ((), [])
        self._forgotten: dict[FlowName, dict[TopicPartition, int]] = {}
        self.deleted: set[str] = set()

    def listed(self) -> list[MirrorConnector]:
        """Those that are there for clients."""
        return [connector for connector in self.all() if connector.name not in self.deleted]

    def all(self) -> list[MirrorConnector]:
        """Those of the file."""
        flows = self._answers.flows
        if self._made[0] is not flows:
            self._made = flows, self._make(flows)
        return self._made[1]

    def forget_topics(self, named: Named) -> None:
        """What was written up to now no longer counts as a connector's topic."""
        for status in self._answers.flows:
            if any(part.flow == status.name and part.kind is MirrorRole.SOURCE for part in named.parts):
                self._forgotten[status.name] = {place: partition.records for place, partition in status.partitions.items()}
        self._made = ((), [])

    def _make(self, flows: Sequence[FlowStatus]) -> list[MirrorConnector]:
        statuses = {status.name: status for status in flows}
        found: list[MirrorConnector] = []
        for flow in self._settings.flows if self._settings is not None else ():
            if (status := statuses.get(flow.name)) is not None:
                connectors = connectors_of(flow, status, self._texts[flow.name])
                found += [self._with_topics(connector, status) for connector in connectors]
        return found

    def _with_topics(self, connector: MirrorConnector, status: FlowStatus) -> MirrorConnector:
        before = self._forgotten.get(status.name)
        if before is None or connector.kind is not MirrorRole.SOURCE:
            return connector
        written = {
            status.remote(place.topic)
            for place, partition in status.partitions.items()
            if partition.records > before.get(place, 0)
        }
        return replace(connector, topics=tuple(sorted(written)))
