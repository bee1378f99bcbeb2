"""A failback, step by step: what was written on the target goes home, groups with it, and the flow may run again."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from sparkmirror import failpoints
from sparkmirror.clusters import EARLIEST, ClusterClient, committed_offsets
from sparkmirror.config import FlowSettings, Settings
from sparkmirror.control import RunOptions
from sparkmirror.driver import Asking, FlowLedger
from sparkmirror.errors import RequestRefused
from sparkmirror.failover.homecoming import WayHome
from sparkmirror.failover.looking import LOOK, recorded_failover
from sparkmirror.failover.placing import place_group, target_positions
from sparkmirror.failover.rest import await_no_consumers, await_quiet, ends_of
from sparkmirror.failover.stopping import remove_record, write_record
from sparkmirror.failover.values import GroupPlan, GroupPosition, Obstacle
from sparkmirror.ledger import Failover, LedgerView
from sparkmirror.model import TopicPartition
from sparkmirror.positions import Goal, MoveRequest, apply, present_topics
from sparkmirror.positions.translating import TranslateRequest, translate_positions
from sparkmirror.state import SyncTable
from sparkmirror.state.facts import Facts
from sparkmirror.state.gathering import gather
from sparkmirror.topology import ledger_topic, topic_filter

STEPS = ("check", "producers", "home", "consumers", "groups", "resume")
SEEDED = "home_begun"


@dataclass(frozen=True, slots=True, kw_only=True)
class Homecomer:
    """One partition: where the failover left both sides, and where they end now."""

    partition: TopicPartition
    remote: TopicPartition
    upstream: int  # next offset of the source that was not copied
    downstream: int  # where the copy ended on the target
    source_end: int
    target_end: int

    @property
    def diverged(self) -> int:
        """Offsets of the source that never reached the target."""
        return max(self.source_end - self.upstream, 0)

    @property
    def written(self) -> int:
        """Offsets of the target that were written since; markers among them."""
        return max(self.target_end - self.downstream, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailbackPlan:
    """What a failback would do, by what was seen when it was made."""

    flow: str
    source: str
    target: str
    source_bootstrap: str
    topics: dict[str, str]
    partitions: tuple[Homecomer, ...]
    groups: tuple[str, ...]
    obstacles: tuple[Obstacle, ...]
    recorded: Failover | None

    @property
    def diverged(self) -> list[Homecomer]:
        """Partitions of which the source holds what never reached the target."""
        return [home for home in self.partitions if home.diverged and not self.is_begun]

    @property
    def is_begun(self) -> bool:
        """Whether records were brought home already: then they lie behind what diverged."""
        return self.recorded is not None and bool(self.recorded.detail.get(SEEDED))


@dataclass(frozen=True, slots=True, kw_only=True)
class FailbackOptions:
    """How to fail back; `keep`: what diverged stays on the source, and groups read it first."""

    wait_s: float = 120.0
    quiet_s: float = 5.0
    leave_consumers: bool = False
    keep: bool = False
    skip: bool = False
    run: RunOptions = field(default_factory=RunOptions)


@dataclass(slots=True, kw_only=True)
class FailbackReport:
    """What was done."""

    plan: FailbackPlan
    began_ms: int
    ended_ms: int = 0
    records_home: int = 0
    groups: tuple[GroupPlan, ...] = ()
    placed: dict[str, int] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    steps: list[tuple[str, str, int]] = field(default_factory=list)

    @property
    def needs_attention(self) -> bool:
        """Whether a group is not where it should be, or something was left aside."""
        return bool(self.refused) or bool(self.plan.diverged) or any(g.left_alone or not g.is_proven for g in self.groups)


Say = Callable[[str, int, int, str], None]


def look_back(settings: Settings, flow: FlowSettings, options: FailbackOptions) -> FailbackPlan:
    """The plan. Reads only; both clusters must answer."""
    facts, _ = gather(settings, flow, LOOK)
    with closing(ClusterClient(flow.source)) as source, closing(ClusterClient(flow.target)) as target:
        source.view(()), target.view(())
        recorded = recorded_failover(target, flow)
        view = FlowLedger(target, ledger_topic(flow.name.source)).read_all() if recorded is not None else None
        partitions = () if view is None else tuple(_homecomers(facts, view, source, target))
        gone = () if view is None else tuple(_gone(flow, facts, view))
    topics = {d.remote: d.topic for d in facts.decisions if d.replicated and not facts.policy.is_heartbeats_topic(d.topic)}
    plan = FailbackPlan(
        flow=facts.name,
        source=flow.name.source,
        target=flow.name.target,
        source_bootstrap=facts.source.bootstrap,
        topics=topics,
        partitions=partitions,
        groups=tuple(sorted(g.name for g in facts.groups.values() if g.target)),
        obstacles=(),
        recorded=recorded,
    )
    return replace(plan, obstacles=(*_obstacles(plan, facts, options), *gone))


def _gone(flow: FlowSettings, facts: Facts, view: LedgerView) -> Iterator[Obstacle]:
    """Topics that the flow copied and the source does not have any more: what came since has no place to go."""
    wanted = topic_filter(flow)
    copied = {place.topic for place, history in view.partitions.items() if history.newest is not None}
    for topic in sorted(name for name in copied if wanted.wants(name) and not facts.source.has(name)):
        yield Obstacle(
            "check",
            f"topic {topic} of {flow.name.source} was deleted since the failover: what the target holds has no place to go",
            f"copy what is to be kept by hand; then exclude it (topics.exclude = …,{topic}) and give the command again",
        )


def _homecomers(
    facts: Facts, view: LedgerView, source: ClusterClient, target: ClusterClient
) -> Iterator[Homecomer]:
    remotes = {
        place: copy.remote
        for place, copy in facts.copies.items()
        if copy.source_ends is not None and copy.target_ends is not None
        if not facts.policy.is_heartbeats_topic(place.topic)
    }
    positions = {place: view.of(place).position() for place in remotes}
    # Nothing was ever copied there, so everything that the target holds was written by applications.
    empty = [place for place, position in positions.items() if position is None]
    firsts = ends_of(source, empty, EARLIEST), ends_of(target, [remotes[place] for place in empty], EARLIEST)
    ends = ends_of(source, remotes), ends_of(target, remotes.values())
    for place, remote in sorted(remotes.items()):
        position = positions[place]
        yield Homecomer(
            partition=place, remote=remote,
            upstream=firsts[0][place] if position is None else position.upstream,
            downstream=firsts[1][remote] if position is None else position.downstream,
            source_end=ends[0][place], target_end=ends[1][remote],
        )  # fmt: skip


def _obstacles(plan: FailbackPlan, facts: Facts, options: FailbackOptions) -> Iterator[Obstacle]:
    if plan.recorded is None:
        yield Obstacle("check", f"{plan.flow} was not failed over: there is nothing to bring home",
                       "for the other direction: sparkmirror run a file with the flow turned round")  # fmt: skip
        return
    if not plan.recorded.is_done:
        yield Obstacle("check", f"the failover of {plan.flow} by {plan.recorded.who} is not finished",
                       "give that command again, or take it back with sparkmirror failover … --abandon")  # fmt: skip
    for copy in facts.copies.values():
        newest = (facts.source.topic_id(copy.partition.topic), facts.target.topic_id(copy.remote.topic))
        if copy.source_topic_id and (copy.source_topic_id, copy.target_topic_id) != newest:
            yield Obstacle("check", f"{copy.partition.topic} or {copy.remote.topic} was created again since the failover",
                           "copy what is to be kept by hand; then sparkmirror failover … --abandon")  # fmt: skip
            break
    diverged = plan.diverged
    if diverged and not options.keep and not options.skip:
        total = sum(home.diverged for home in diverged)
        named = ", ".join(f"{h.partition} {h.upstream:,} to {h.source_end - 1:,}" for h in diverged[:3])
        yield Obstacle("check", f"{total:,} offsets of {plan.source} never reached {plan.target}: {named}",
                       "--keep: groups read them before what comes home; --skip: groups continue behind them. "
                       "Neither removes them, and neither copies them")  # fmt: skip


class FailbackRun:
    """One failback that is being carried out. Begun again after a kill it goes on."""

    def __init__(
        self, settings: Settings, flow: FlowSettings, options: FailbackOptions, asking: Asking, say: Say
    ) -> None:
        self._settings, self._flow, self._options, self._asking, self._say = settings, flow, options, asking, say

    def run(self) -> FailbackReport:
        """All steps; raises RequestRefused before anything is changed, FailoverUnfinished where one could not end."""
        plan = look_back(self._settings, self._flow, self._options)
        refuse(plan)
        report = FailbackReport(plan=plan, began_ms=int(time.time() * 1000))
        with (
            closing(ClusterClient(self._flow.source)) as source,
            closing(ClusterClient(self._flow.target)) as target,
            tempfile.TemporaryDirectory(prefix="sparkmirror-failback-") as folder,
        ):
            way = WayHome(self._settings, self._flow, plan.topics, Path(folder))
            remotes = [home.remote for home in plan.partitions]
            opts = self._options
            actions: Mapping[str, Callable[[], str]] = {
                "check": lambda: f"{len(plan.partitions)} partitions, {len(plan.groups)} groups",
                "producers": lambda: await_quiet(target, remotes, opts.quiet_s, opts.wait_s, self._waiting("producers")),
                "home": lambda: self._bring_home(way, target, report),
                "consumers": lambda: await_no_consumers(
                    target, plan.groups, opts.wait_s, self._waiting("consumers"), leave=opts.leave_consumers
                ),
                "groups": lambda: self._place_groups(way, source, target, report),
                "resume": lambda: self._resume(target, Path(folder)),
            }
            for number, name in enumerate(STEPS, 1):
                words = actions[name]()
                report.steps.append((name, words, int(time.time() * 1000)))
                self._say(name, number, len(STEPS), words)
                if failpoints.ARMED:
                    failpoints.point("failback.step")
        report.ended_ms = int(time.time() * 1000)
        return report

    def _waiting(self, name: str) -> Callable[[str], None]:
        return lambda words: self._say(name, STEPS.index(name) + 1, len(STEPS), f"… {words}")

    def _bring_home(self, way: WayHome, target: ClusterClient, report: FailbackReport) -> str:
        """Everything behind where the copies ended, appended to the source's topics."""
        plan = report.plan = look_back(self._settings, self._flow, self._options)  # now that nobody writes
        refuse(plan)
        held = plan.recorded
        assert held is not None
        if not plan.is_begun:
            way.begin_at({home.remote: home.downstream for home in plan.partitions})
            write_record(self._flow, target, replace(held, detail={**held.detail, SEEDED: True}))
        if not any(home.written for home in plan.partitions) and not plan.is_begun:
            return f"nothing was written on {plan.target} since"
        status = way.copy(self._options.run)
        report.records_home = status.records
        return f"{status.records:,} records are in {plan.source} again"

    # --- groups ------------------------------------------------------------------------------------------------------

    def _place_groups(self, way: WayHome, source: ClusterClient, target: ClusterClient, report: FailbackReport) -> str:
        groups = tuple(self._groups(way, source, target, report.plan))
        report.groups = groups
        for group in groups:
            wanted = {} if group.left_alone else target_positions(group)
            reason = place_group(source, group.name, wanted) if wanted else ""
            if reason:
                report.refused[group.name] = reason
            elif wanted:
                report.placed[group.name] = len(wanted)
        count = sum(report.placed.values())
        return f"{count} positions of {len(report.placed)} groups written on {report.plan.source}"

    def _groups(
        self, way: WayHome, source: ClusterClient, target: ClusterClient, plan: FailbackPlan
    ) -> Iterator[GroupPlan]:
        """Where each group of the target continues on the source: by the way home, else by the flow's own map."""
        facts, _ = gather(self._settings, self._flow, LOOK)
        homes = {home.remote: home for home in plan.partitions}
        names = [name for name in plan.groups if name in facts.groups]
        topic = ledger_topic(way.alias)
        ledger = FlowLedger(source, topic) if present_topics(source, [topic]) else None
        if ledger is not None:
            ledger.read_all()
        there, here = committed_offsets(target, names), committed_offsets(source, names)
        ends = ends_of(source, [home.partition for home in plan.partitions])
        back = self._translated_back(names)
        for name in names:
            positions = []
            for remote, commit in there[name].committed.items():
                home = homes.get(remote)
                if commit is None or home is None:
                    continue
                at, sureness, reason = self._find(home, commit.offset, ledger, back.get((name, remote)), ends)
                held = here[name].committed.get(home.partition)
                positions.append(
                    GroupPosition(
                        origin=remote, offset=commit.offset, remote=home.partition, downstream=at,
                        committed=None if held is None else held.offset, target_end=ends[home.partition],
                        sureness=sureness, again=0 if sureness != "unknown" else None, reason=reason,
                    )
                )  # fmt: skip
            state = facts.groups[name].source_state
            reads = "it has members on {}: their own commits count".format(plan.source)  # noqa: UP032
            is_read = state not in ("", "Empty", "Dead", "Unknown")
            yield GroupPlan(name=name, positions=tuple(positions), source_state=facts.groups[name].target_state,
                            target_state=state, left_alone=reads if is_read else "")  # fmt: skip

    def _translated_back(self, names: Collection[str]) -> dict[tuple[str, TopicPartition], tuple[int | None, str]]:
        if not names:
            return {}
        name = self._flow.name
        found = translate_positions(
            self._settings, TranslateRequest(origin=name.target, destination=name.source, groups=tuple(names))
        )
        return {(p.group, p.origin): (p.destination_offset, p.sureness) for p in found.positions}

    def _find(
        self,
        home: Homecomer,
        offset: int,
        ledger: FlowLedger | None,
        back: tuple[int | None, str] | None,
        ends: Mapping[TopicPartition, int],
    ) -> tuple[int | None, str, str]:
        """The offset on the source, how sure it is, and why not, if it is unknown."""
        if offset > home.downstream and offset >= home.target_end:
            return ends[home.partition], "ledger", ""  # everything was read
        found = ledger.table.translate(home.remote, offset, SyncTable()) if ledger is not None else None
        if offset > home.downstream and found is not None:
            return found.downstream, "ledger", ""
        if offset == home.downstream and self._options.skip and found is not None:
            return found.downstream, "ledger", ""
        if offset == home.downstream:
            return home.upstream, "ledger", ""
        return (*back, "") if back is not None and back[0] is not None else (None, "unknown", "no map reaches it")

    # --- the flow again ------------------------------------------------------------------------------------------------

    def _resume(self, target: ClusterClient, folder: Path) -> str:
        """The flow goes on behind everything that both clusters hold now, and may run again."""
        request = MoveRequest(
            "set", None, to=Goal("latest"), flow=str(self._flow.name), undo_file=str(folder / "undo-resume.json"),
            reason="sparkmirror failback",
        )
        apply(self._settings, request, replace(self._asking, command=self._asking.command or "sparkmirror failback"))
        if failpoints.ARMED:
            failpoints.point("failback.resumed")
        remove_record(self._flow, target)
        return f"{self._flow.name} may run again: sparkmirror run"


def refuse(plan: FailbackPlan) -> None:
    """Raises RequestRefused if something is in the way."""
    if not plan.obstacles:
        return
    first = plan.obstacles[0]
    more = "".join(f"\n{o.text}{f' ({o.hint})' if o.hint else ''}" for o in plan.obstacles[1:])
    raise RequestRefused(f"{plan.flow} cannot be failed back: {first.text}{more}", hint=first.hint)
