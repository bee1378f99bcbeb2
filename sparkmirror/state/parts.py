"""Names of the parts of a flow's state, and what is kept of a part that is unknown."""

from __future__ import annotations

from dataclasses import dataclass

from sparkmirror.model import Side


@dataclass(frozen=True, slots=True)
class Unknown:
    """Why a part was not read, and the right or fact that it takes."""

    reason: str
    needs: str = ""


@dataclass(frozen=True, slots=True)
class Outage:
    """A cluster that is not asked any more: in full what it answered, or that it did not, and what it takes."""

    alias: str
    message: str
    needs: str = ""
    is_login: bool = False  # it answers, and refuses the login

    @property
    def words(self) -> str:
        """The same in a few words."""
        return f"cluster {self.alias} {'refuses the login' if self.is_login else 'does not answer'}"


class Part:
    """Names of what may be unknown; a rule names those that it cannot do without."""

    SOURCE, TARGET = "source topics", "target topics"
    SOURCE_ENDS, TARGET_ENDS = "source ends", "target ends"
    SOURCE_CONFIGS, TARGET_CONFIGS = "source settings", "target settings"
    SOURCE_GROUPS, TARGET_GROUPS = "source groups", "target groups"
    SOURCE_COMMITS, TARGET_COMMITS = "source commits", "target commits"
    SOURCE_ACLS, TARGET_ACLS = "source rights of topics", "target rights of topics"
    SOURCE_CLOCK, TARGET_CLOCK = "source clock", "target clock"
    SOURCE_BROKERS, TARGET_BROKERS = "source brokers", "target brokers"
    SOURCE_RIGHTS, TARGET_RIGHTS = "our rights on the source", "our rights on the target"
    POSITIONS, LEDGER, SYNCS, CHECKPOINTS = "positions", "ledger", "offset syncs", "checkpoints"
    CONNECT = "MirrorMaker 2's states"
    CONNECT_SETTINGS = "MirrorMaker 2's settings"
    HEARTBEATS = "heartbeats"
    RETENTION = "retention of commits"

    @staticmethod
    def topics(side: Side) -> str:
        """The list of topics of one cluster."""
        return f"{side} topics"

    @staticmethod
    def ends(side: Side) -> str:
        """The ends of partitions on one cluster."""
        return f"{side} ends"

    @staticmethod
    def groups(side: Side) -> str:
        """The list of groups of one cluster."""
        return f"{side} groups"

    @staticmethod
    def commits(side: Side) -> str:
        """The committed offsets of groups on one cluster."""
        return f"{side} commits"
