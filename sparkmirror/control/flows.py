"""All flows of one process: one conductor each, one Spark for all."""

from __future__ import annotations

import os
import queue
import shlex
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from sparkmirror.clusters import ClusterClient
from sparkmirror.config import ClusterSettings, FlowSettings, SentSettings, Settings, require_enabled_flow
from sparkmirror.control.flow_chores import FlowChores
from sparkmirror.control.heartbeats import Heartbeats
from sparkmirror.control.loops import KnownFlows, report_loops
from sparkmirror.control.reloads import Reloads
from sparkmirror.control.target_lag import TargetLagMember
from sparkmirror.control.topics import TopicControl
from sparkmirror.driver import Conductor, FlowPlace, NewSettings, Verb
from sparkmirror.errors import ClusterUnreachable, ConfigInvalid, EnvironmentUnfit, SparkmirrorError
from sparkmirror.ledger import HEARTBEAT, flow_wish
from sparkmirror.model import FlowName
from sparkmirror.session import SparkSlots, require_classic
from sparkmirror.status import FlowStatus, ReloadResult
from sparkmirror.topology import ledger_topic, offset_syncs_topic, policy_for, require_custom_classes

# A broker that is there answers in milliseconds; dialling one that is not takes 5 s. Nobody waits longer than 30 s.
REACH_S = 25.0
JOIN_S = 0.5
STARTING_S = 0.1


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How to run, as given on the command line."""

    once: bool = False
    targets: Collection[str] | None = None
    take_over: bool = False
    standby: bool = False
    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict)
    verbs: Mapping[str, Verb] = field(default_factory=dict)  # what the owner of a flow can be asked for while it runs
    session: Any = None  # a SparkSession to run in, which goes on afterwards


class Mirror:
    """Every enabled flow of one file."""

    def __init__(self, settings: Settings, options: RunOptions) -> None:
        require_enabled_flow(settings, options.targets)
        require_custom_classes(settings, options.targets)
        require_classic(options.session)
        self._settings, self._options = settings, options
        self._reloads = Reloads(settings, self._take)
        self._topics: dict[FlowName, TopicControl] = {}
        self._chores: dict[FlowName, FlowChores] = {}
        self._lag_members: dict[FlowName, TargetLagMember] = {}
        self._flows = settings.enabled_flows(options.targets)
        self._known = KnownFlows(settings.enabled_flows(None))
        self._threads: list[threading.Thread] = []
        self._conductors: list[Conductor] = []
        self._heartbeats: dict[str, Heartbeats] = {}
        self._spark: SparkSlots | None = None
        self._unfit: EnvironmentUnfit | None = None
        self._is_stopping = False
        self.url = ""  # where this process answers over HTTP: to be set before the start

    @property
    def statuses(self) -> list[FlowStatus]:
        """One per flow, copied: the flows' own threads go on changing theirs."""
        written_ms = {name: ms for beats in list(self._heartbeats.values()) for name, ms in list(beats.written_ms.items())}
        return [_copy(conductor, written_ms.get(conductor.status.name, -1)) for conductor in self._conductors]

    def check(self) -> None:
        """Raises unless some flow can run (all with `--once`). Changes nothing, so it may be interrupted anywhere."""
        reached = check_reachable(self._flows, all_of_them=self._options.once)
        whole = [flow for flow in self._flows if {flow.name.source, flow.name.target} <= reached]
        for refusal in report_loops(whole, self._known).refused.values():
            raise refusal

    def start(self) -> None:
        """Starts Spark and the flows, and returns while they start."""
        slots = slots_per_flow(self._flows)
        queries = sum(flow.has_transforms for flow in self._flows)
        self._spark = SparkSlots(
            master=self._options.master,
            conf=self._options.conf,
            slots=sum(slots.values()),
            queries=queries,
            session=self._options.session,
        )
        for flow in self._flows:
            place = place_of(self._settings, flow, self._options, slots=slots[str(flow.name)], url=self.url)
            topics = self._topics[flow.name] = TopicControl(flow, known=self._known)
            conductor = Conductor(flow, place, self._spark, topics.discover, self._options.verbs)
            conductor.status.settings = self._reloads.result
            self._conductors.append(conductor)
            thread = self._begin(str(flow.name), conductor.run)
            chores = FlowChores(flow, place, conductor.status, is_over=lambda thread=thread: not thread.is_alive())  # type: ignore[misc]
            self._chores[flow.name] = chores
            self._begin(f"{flow.name} chores", chores.run)
            if flow.lag_group_enabled and not self._options.once:
                lag = TargetLagMember(flow, conductor.status, is_over=lambda thread=thread: not thread.is_alive())  # type: ignore[misc]
                self._lag_members[flow.name] = lag
                self._begin(f"{flow.name} lag", lag.run)
        if not self._options.once:
            self._start_heartbeats()
            watch = partial(self._reloads.watch, lambda: self._is_stopping)
            threading.Thread(target=watch, name="configuration file", daemon=True).start()
        threading.Thread(target=self._await_spark, args=(self._spark,), name="await spark", daemon=True).start()

    @property
    def spark_log(self) -> str:
        """Where Spark's own log is; empty before the start, and if the JVM is not ours."""
        return "" if self._spark is None else self._spark.log_path

    def _begin(self, name: str, run: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=run, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    # --- the file changes ------------------------------------------------------------------------------------------

    def reload(self) -> ReloadResult:
        """Reads the file again and takes what can be taken while the flows run; says what was not, and why.

        A file with an error changes nothing. The flows have begun to take what is said to be taken. Any thread may ask.
        """
        return self._reloads.reload()

    def reload_soon(self) -> None:
        """The same, on the thread that watches the file; returns at once."""
        self._reloads.soon()

    def _take(self, settings: Settings, result: ReloadResult) -> None:
        """Lets every flow go on with these settings; raises `SparkmirrorError` if one cannot, and then none does."""
        before = {flow.name: flow for flow in self._settings.selected_flows(self._options.targets)}
        require_custom_classes(settings, self._options.targets)
        after = {flow.name: flow for flow in settings.selected_flows(self._options.targets)}
        self._require_logins([(flow, after[name]) for name, flow in before.items() if name in after])
        self._settings, self._flows = settings, settings.enabled_flows(self._options.targets)
        self._known.renew(settings.enabled_flows(None))
        slots = slots_per_flow(self._flows)
        for conductor in self._conductors:
            flow = after[conductor.status.name]
            count = slots[str(flow.name)]
            place = place_of(settings, flow, self._options, slots=count, url=self.url, revision=result.applied_ms)
            renew_topics = partial(self._topics[flow.name].renew, flow)
            conductor.renew(NewSettings(flow, place, result, renew_topics))
            self._chores[flow.name].renew(flow, place)
            if flow.name in self._lag_members:
                self._lag_members[flow.name].renew(flow)
        if not self._options.once and not self._is_stopping:
            self._start_heartbeats()

    def _require_logins(self, flows: Sequence[tuple[FlowSettings, FlowSettings]]) -> None:
        """Raises unless clusters whose settings changed take the new login, and are the clusters that they were."""
        pairs = [pair for old, new in flows for pair in ((old.source, new.source), (old.target, new.target))]
        changed = {new.alias: new for old, new in pairs if old != new}
        known = {alias: found for c in self._conductors for alias, found in c.cluster_ids.items() if found}
        for alias, settings in changed.items():
            found = cluster_id_of(settings)
            if found != known.get(alias, found):
                servers = ", ".join(f"{host}:{port}" for host, port in settings.bootstrap_servers)
                words = f"{servers} lead to cluster {found}, expected {known[alias]}; restart sparkmirror to take it"
                raise ConfigInvalid(self._settings.path, [f"{alias}.bootstrap.servers: {words}"])

    def _start_heartbeats(self) -> None:
        """One writer for each cluster that flows lead into, also those that only write heartbeats (spec §1.2)."""
        into: dict[str, list[FlowSettings]] = {target: [] for target in self._heartbeats}
        for flow in self._settings.selected_flows(self._options.targets):
            into.setdefault(flow.name.target, []).append(flow)
        for target, flows in into.items():
            if target in self._heartbeats:
                self._heartbeats[target].renew(flows)
                continue
            heartbeats = self._heartbeats[target] = Heartbeats(flows, self._teller(target), self._are_heartbeats_paused)
            threading.Thread(target=self._beat, args=(heartbeats,), name=f"heartbeats into {target}", daemon=True).start()

    def _beat(self, heartbeats: Heartbeats) -> None:
        """Not before it is known that no MirrorMaker 2 runs a flow into the cluster: it writes them, too."""
        into = [conductor.status for conductor in self._conductors if conductor.status.name.target == heartbeats.target]
        while any(status.state == "starting" for status in into) and not self._is_stopping:
            time.sleep(STARTING_S)
        if not into or any(status.state != "failed" for status in into):
            heartbeats.run()

    def _are_heartbeats_paused(self, name: FlowName) -> bool:
        """Also until it is known whether they are; a flow that only writes heartbeats has no ledger to say so."""
        status = next((c.status for c in self._conductors if c.status.name == name), None)
        if status is None or status.state == "failed":
            return False
        return not status.are_wishes_known or flow_wish(status.wishes, HEARTBEAT) is not None

    def _teller(self, target: str) -> Callable[[str], None]:
        """Shows the trouble of heartbeats at a flow that touches their cluster."""
        near = [c for c in self._conductors if target in (c.status.name.source, c.status.name.target)]
        chores = (near or self._conductors)[0].status.chores
        return lambda trouble: chores.__setitem__(f"heartbeats into {target}", trouble)

    def _await_spark(self, spark: SparkSlots) -> None:
        """Ends the flows if Spark does not start: without it they would wait for their slots for ever."""
        try:
            spark.wait()
        except EnvironmentUnfit as error:
            if not self._is_stopping:
                self._unfit = error
                self.stop()

    @property
    def is_running(self) -> bool:
        """Whether any flow still runs."""
        return any(thread.is_alive() for thread in self._threads)

    def stop(self) -> None:
        """Asks every flow to drain and end."""
        self._is_stopping = True
        for heartbeats in list(self._heartbeats.values()):
            heartbeats.stop()
        for conductor in self._conductors:
            conductor.stop()

    def join(self, seconds: float) -> None:
        """Waits a while for the flows to end."""
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(deadline - time.monotonic(), 0.0))

    def close(self) -> None:
        """Ends Spark."""
        if self._spark is not None:
            self._spark.stop()
            self._spark = None

    def failures(self) -> list[SparkmirrorError]:
        """What ended flows before their time."""
        found: list[SparkmirrorError] = [] if self._unfit is None else [self._unfit]
        return found + [conductor.failure for conductor in self._conductors if conductor.failure is not None]


def place_of(
    settings: Settings, flow: FlowSettings, options: RunOptions, *, slots: int, url: str = "", revision: int = 0
) -> FlowPlace:
    """Where the flow's state lies."""
    path = os.path.abspath(settings.path)
    words = [shlex.quote(path)]
    if len(settings.enabled_flows(None)) > 1:
        words.append(f"--flow {shlex.quote(str(flow.name))}")
    return FlowPlace(
        settings=SentSettings.of(settings, flow.name, path, revision),
        ledger_topic=ledger_topic(flow.name.source),
        offsets_topic=flow.offset_storage_topic,
        syncs_topic=offset_syncs_topic(flow, policy_for(flow)),
        slots=slots,
        once=options.once,
        take_over=options.take_over,
        standby=options.standby,
        file_words=" ".join(words),
        url=url,
    )


def run_flows(settings: Settings, options: RunOptions) -> list[FlowStatus]:
    """Runs every flow to its end and returns how they stood; raises the first thing that ended one before its time."""
    mirror = Mirror(settings, options)
    mirror.check()
    mirror.start()
    try:
        while mirror.is_running:
            mirror.join(JOIN_S)
    finally:
        mirror.stop()
        while mirror.is_running:
            mirror.join(JOIN_S)
        mirror.close()
    for failure in mirror.failures():
        raise failure
    return mirror.statuses


def _copy(conductor: Conductor, heartbeat_ms: int = -1) -> FlowStatus:
    status, silence = conductor.status, conductor.silence
    is_unknown = status.state == "running" and bool(silence)
    # list(dict.values()) runs without giving up the interpreter lock, so no other thread changes the dict meanwhile.
    partitions = {p.partition: replace(p) for p in list(status.partitions.values())}
    return replace(
        status,
        state="unknown" if is_unknown else status.state,
        reason=silence if is_unknown else status.reason,
        taken_ms=int(time.time() * 1000),
        heartbeat_ms=heartbeat_ms,
        partitions=partitions,
        stopped_topics=dict(status.stopped_topics),
        notes=status.notes.copy(),
        chores=dict(status.chores),
        checkpoints=dict(status.checkpoints),
    )


def check_reachable(flows: Collection[FlowSettings], *, all_of_them: bool = True) -> set[str]:
    """The aliases of clusters that answer; raises for one of which no broker does; asks all of them at the same time.

    Unless `all_of_them` must run, one flow that can is enough: the others wait for their clusters (L48).
    """
    clusters = {f.alias: f for flow in flows for f in (flow.source, flow.target)}
    answers: queue.SimpleQueue[tuple[str, SparkmirrorError | None]] = queue.SimpleQueue()
    for settings in clusters.values():
        threading.Thread(target=_look, args=(settings, answers), name=f"look {settings.alias}", daemon=True).start()
    deadline = time.monotonic() + REACH_S
    silent, down = dict(clusters), dict[str, SparkmirrorError]()
    while silent:
        try:
            alias, error = answers.get(timeout=max(deadline - time.monotonic(), 0.0))
        except queue.Empty:
            down |= {a: _unreachable(settings, f"no answer within {REACH_S:g} s") for a, settings in silent.items()}
            break
        if error is not None:
            if all_of_them or not isinstance(error, ClusterUnreachable):
                raise error
            down[alias] = error
        del silent[alias]
    if down and (all_of_them or all({flow.name.source, flow.name.target} & down.keys() for flow in flows)):
        raise next(iter(down.values()))
    return clusters.keys() - down.keys()


def cluster_id_of(settings: ClusterSettings) -> str:
    """The id of the cluster that is reached with these settings; raises if none is."""
    with closing(ClusterClient(settings)) as client:
        client.view(())
        return client.cluster_id


def _look(settings: ClusterSettings, answers: queue.SimpleQueue[tuple[str, SparkmirrorError | None]]) -> None:
    client = ClusterClient(settings)
    error: SparkmirrorError | None = None
    try:
        client.view(())
    except SparkmirrorError as found:
        error = found
    except Exception as found:  # noqa: BLE001  border of a thread: a host name that cannot be encoded, for one
        error = _unreachable(settings, str(found) or type(found).__name__)
    finally:
        client.close()
    answers.put((settings.alias, error))


def _unreachable(settings: ClusterSettings, reason: str) -> ClusterUnreachable:
    addresses = ", ".join(f"{host}:{port}" for host, port in settings.bootstrap_servers)
    return ClusterUnreachable(
        f"cluster {settings.alias} is unreachable at {addresses}: {reason}",
        hint=f"check {settings.alias}.bootstrap.servers and that a broker listens there",
    )


def slots_per_flow(flows: Collection[FlowSettings]) -> dict[str, int]:
    """`tasks.max` where it is set, else the machine's cores shared by the flows."""
    cores = os.cpu_count() or 1
    share = max(cores // max(len(flows), 1), 1)
    return {str(flow.name): flow.tasks_max if flow.tasks_max is not None else share for flow in flows}
