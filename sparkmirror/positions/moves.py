"""`offsets set`, `reset`, `skip` and `import`: what would change, and changing it, by whoever runs the flow.

Without a ledger, or where MirrorMaker 2 has copied since sparkmirror released the flow, the flow is MirrorMaker 2's: its own
records count. Otherwise it is sparkmirror's, and the ledger counts.
"""

from __future__ import annotations

from dataclasses import replace

from sparkmirror import config
from sparkmirror.clusters import ClusterClient
from sparkmirror.config import FlowSettings, Settings
from sparkmirror.driver import Asking, FlowLedger
from sparkmirror.errors import MoveRefused
from sparkmirror.positions.ledger_moves import move_in_ledger, open_ledger_flow, preview_of_ledger
from sparkmirror.positions.mm2_moves import apply_to_mm2, open_mm2_flow, preview_of_mm2
from sparkmirror.positions.requests import CONNECTOR, MoveRequest, StoragePlace
from sparkmirror.positions.stored import present_topics, read_stored
from sparkmirror.positions.verdicts import MM2, SPARKMIRROR, MoveVerdict, RunBy
from sparkmirror.topology import ledger_topic, require_custom_classes

OLDER_LEDGER = (
    "sparkmirror's ledger is older than MirrorMaker 2's positions and stays as it is: only MirrorMaker 2 resumes there"
)


def preview(settings: Settings, request: MoveRequest) -> MoveVerdict:
    """What `apply` would do, by what can be seen now. Changes nothing; raises what `apply` would."""
    return _carry_out(settings, request, None)


def apply(settings: Settings, request: MoveRequest, asking: Asking | None = None) -> MoveVerdict:
    """Moves positions; a process of sparkmirror that runs the flow is asked to, and one of MirrorMaker 2 must be stopped.

    The command as it was typed is kept in the undo file.
    """
    return _carry_out(settings, request, asking or Asking())


def _carry_out(settings: Settings, request: MoveRequest, asking: Asking | None) -> MoveVerdict:
    _refuse_nonsense(request)
    flow = choose_flow(settings, request.flow)
    run_by, has_ledger = who_runs(flow, request.storage)
    if run_by == SPARKMIRROR:
        with open_ledger_flow(settings, flow) as ours:
            return preview_of_ledger(ours, request) if asking is None else move_in_ledger(ours, request, asking)
    with open_mm2_flow(flow, request.storage) as theirs:
        verdict = preview_of_mm2(theirs, request) if asking is None else apply_to_mm2(theirs, request, asking.command)
    return replace(verdict, notes=(*verdict.notes, OLDER_LEDGER)) if has_ledger else verdict


def choose_flow(settings: Settings, name: str | None) -> FlowSettings:
    """The flow that is meant: the only enabled one, or the one that is named."""
    require_custom_classes(settings, None)
    return config.choose_flow(settings, name)


def who_runs(flow: FlowSettings, storage: StoragePlace) -> tuple[RunBy, bool]:
    """Whether the ledger or MirrorMaker 2's positions count for the flow, and whether there is a ledger at all."""
    target = ClusterClient(flow.target)
    ledger = ledger_topic(flow.name.source)
    try:
        there = present_topics(target, [ledger, flow.offset_storage_topic])
        if ledger not in there:
            is_mm2 = not storage.is_dedicated or flow.offset_storage_topic in there
            return (MM2 if is_mm2 else SPARKMIRROR), False
        if not storage.is_dedicated:
            return MM2, True
        is_older = flow.offset_storage_topic in there and _is_ledger_older(target, flow, ledger)
        return (MM2 if is_older else SPARKMIRROR), is_older
    finally:
        target.close()


def _is_ledger_older(target: ClusterClient, flow: FlowSettings, ledger: str) -> bool:
    """Whether MirrorMaker 2 has copied past where the ledger ends, on any partition; it is never ahead otherwise."""
    stored = read_stored(target, [flow.offset_storage_topic], connector=CONNECTOR, alias=flow.name.source)
    view = FlowLedger(target, ledger).read_all()
    for partition in stored.partitions():
        last, history = stored.last_offset(partition), view.partitions.get(partition)
        position = history.position() if history is not None else None
        if last is not None and position is not None and last + 1 > position.upstream:
            return True
    return False


def _refuse_nonsense(request: MoveRequest) -> None:
    if request.partition is not None and request.topic is None:
        raise MoveRefused("a partition needs its topic", hint="give --topic")
    if request.with_target and request.partition is not None:
        raise MoveRefused("--with-target deletes whole topics on the target", hint="leave out --partition")
    if request.with_target and request.verb in ("skip", "import"):
        raise MoveRefused(f"`offsets {request.verb}` leaves the target as it is", hint="use `offsets reset --with-target`")
    is_plain = request.to is None or request.to.kind == "offset"
    if request.verb == "skip" and not is_plain:
        raise MoveRefused(f"`offsets skip` needs an offset, found {request.to}", hint="use `offsets set`")
