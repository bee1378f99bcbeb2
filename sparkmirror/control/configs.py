"""Topic settings of one flow, kept in step with the source's. One bad topic or setting never stops the rest (L31)."""

from __future__ import annotations

from collections.abc import Mapping

from sparkmirror.clusters import ClusterClient, alter_topic_configs, describe_topic_configs, refusal
from sparkmirror.config import FlowSettings
from sparkmirror.status import FlowStatus
from sparkmirror.topology import ConfigRules, config_changes
from sparkmirror.wire.error_codes import INVALID_CONFIG

NAMED_MAX = 3


class ConfigSync:
    """One round compares all mirrored topics and changes only what differs."""

    def __init__(self, flow: FlowSettings, status: FlowStatus, source: ClusterClient, target: ClusterClient) -> None:
        self._rules = ConfigRules.of(flow)
        self._status, self._source, self._target = status, source, target

    def run(self) -> list[str]:
        """Brings every remote topic in step; returns what the target refuses."""
        remotes = dict(self._status.remotes)
        ours = describe_topic_configs(self._source, list(remotes))
        theirs = describe_topic_configs(self._target, list(remotes.values()))
        wanted: dict[str, dict[str, str | None]] = {}
        for topic, remote in remotes.items():
            if topic in ours and remote in theirs:
                changes = config_changes(self._rules, ours[topic], {entry.name: entry for entry in theirs[remote]})
                if changes:
                    wanted[remote] = changes
        refused = self._alter(wanted)
        for client, unseen in (
            (self._source, [topic for topic in remotes if topic not in ours]),
            (self._target, [remote for remote in remotes.values() if remote not in theirs]),
        ):
            if unseen:
                needs = f"DescribeConfigs on topic {_some(unseen)}"
                refused.append(f"settings cannot be read on {client.alias}: {client.who} needs {needs}")
        return refused

    def _alter(self, wanted: Mapping[str, Mapping[str, str | None]]) -> list[str]:
        refused = []
        for remote, (code, reason) in alter_topic_configs(self._target, wanted).items():
            if code != INVALID_CONFIG or len(wanted[remote]) == 1:
                refused += [self._sentence(remote, ", ".join(wanted[remote]), code, reason)] if code else []
                continue
            for name, value in wanted[remote].items():  # one of them is wrong: the others are set alone
                code, reason = alter_topic_configs(self._target, {remote: {name: value}})[remote]
                refused += [self._sentence(remote, name, code, reason)] if code else []
        return refused if len(refused) <= NAMED_MAX else [*refused[:NAMED_MAX], f"and {len(refused) - NAMED_MAX} more"]

    def _sentence(self, remote: str, names: str, code: int, reason: str) -> str:
        text = refusal(code, self._target.who, f"AlterConfigs on topic {remote}")
        return f"{self._target.alias} refuses {names} of topic {remote}: {text} {reason}".rstrip()


def _some(names: list[str]) -> str:
    rest = len(names) - NAMED_MAX
    return ", ".join(sorted(names)[:NAMED_MAX]) + (f" and {rest} more" if rest > 0 else "")
