"""The chores of one flow: which there are by its settings, with clients of their own so that they hold nobody up."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sparkmirror.clusters import ClusterClient
from sparkmirror.config import FlowSettings
from sparkmirror.control.acls import AclSync
from sparkmirror.control.certificates import LOOK_S, Certificates
from sparkmirror.control.chores import Chore, Chores
from sparkmirror.control.configs import ConfigSync
from sparkmirror.control.group_sync import GroupSync
from sparkmirror.control.lag_group import LagGroup
from sparkmirror.control.target_lag import CHORE, TargetLag
from sparkmirror.driver import FlowPlace
from sparkmirror.ledger import CHECKPOINT, SOURCE
from sparkmirror.status import FlowStatus
from sparkmirror.topology import policy_for

LAG_S = 5.0


class FlowChores:
    """Runs them until the flow is over."""

    def __init__(
        self, flow: FlowSettings, place: FlowPlace, status: FlowStatus, *, is_over: Callable[[], bool]
    ) -> None:
        self._flow, self._place, self._status = flow, place, status
        self._source, self._target = ClusterClient(flow.source), ClusterClient(flow.target)
        self._chores = Chores(status, list(self._wanted()), is_over=is_over)

    def renew(self, flow: FlowSettings, place: FlowPlace) -> None:
        """Goes on with other settings of the flow. Any thread may ask for it."""
        self._source.renew(flow.source)
        self._target.renew(flow.target)
        if flow != self._flow:
            self._flow, self._place = flow, place
            self._chores.replace(list(self._wanted()))

    def run(self) -> None:
        """Until the flow is over."""
        try:
            self._chores.run()
        finally:
            for client in (self._source, self._target):
                client.close()

    def _wanted(self) -> Iterator[Chore]:
        """In the order in which they are done when several are due."""
        flow, source, target = self._flow, self._source, self._target
        if flow.sync_topic_configs_enabled:
            configs = ConfigSync(flow, self._status, source, target)
            yield Chore("topic configs", flow.sync_topic_configs_interval_seconds, configs.run, connector=SOURCE)
        if flow.sync_topic_acls_enabled:
            acls = AclSync(flow)
            interval = flow.sync_topic_acls_interval_seconds
            yield Chore("topic ACLs", interval, lambda: acls.run(source, target), watched=self._topics, connector=SOURCE)
        if flow.emit_checkpoints_enabled:
            groups = GroupSync(flow, self._place, self._status, source, target)
            interval = flow.emit_checkpoints_interval_seconds
            yield Chore("checkpoints", interval, groups.emit, at_end=True, connector=CHECKPOINT)
            if flow.sync_group_offsets_enabled:
                interval = flow.sync_group_offsets_interval_seconds
                yield Chore("group offsets", interval, groups.commit, at_end=True, connector=CHECKPOINT)
        certificates = Certificates(self._status, ((flow.source, source), (flow.target, target)))
        if certificates.is_needed:
            yield Chore("certificates", LOOK_S, certificates.look)
        if flow.lag_group_enabled:
            yield Chore("lag group", LAG_S, LagGroup(self._status, source, policy_for(flow)).commit, at_end=True)
            if self._place.once:  # else a member of the group commits
                yield Chore(CHORE, LAG_S, TargetLag(flow, self._status, target).commit_alone, at_end=True)

    def _topics(self) -> frozenset[str]:
        """A new topic gets its rights soon after its creation, not an interval later."""
        return frozenset(self._status.remotes)
