"""sparkmirror pause, resume and stop FILE: end the copying of a flow, a topic or a partition, and go on with it."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated, Any

import typer

from sparkmirror.cli.offsets.words import Flow, IsJson, Partition, RequestId, Topic, Wait, asking_of
from sparkmirror.cli.run import FILE_HELP
from sparkmirror.cli.text import json_text, printable
from sparkmirror.cli.usage import load
from sparkmirror.driver import WAIT_S
from sparkmirror.positions import Wished, WishRequest, ask_for, choose_flow

SCHEMA = 1  # of the JSON; raised when a field changes its meaning or goes away, not when one comes
CONNECTOR_HELP = "Which of MirrorMaker 2's connectors: copying, checkpoints and group offsets, or heartbeats."


class ConnectorName(StrEnum):
    """MirrorMaker 2's three connectors."""

    SOURCE = "source"
    CHECKPOINT = "checkpoint"
    HEARTBEAT = "heartbeat"


File = Annotated[str, typer.Argument(help=FILE_HELP, metavar="FILE")]
Connector = Annotated[ConnectorName, typer.Option(help=CONNECTOR_HELP)]


def pause(
    file: File,
    topic: Topic = None,
    partition: Partition = None,
    flow: Flow = None,
    connector: Connector = ConnectorName.SOURCE,
    request_id: RequestId = None,
    wait: Wait = WAIT_S,
    is_json: IsJson = False,
) -> None:
    """Pause a flow, a topic or a partition until `sparkmirror resume`, also across restarts and changes of the owner.

    With no running owner, the next start is paused. Positions stay as they are: nothing is lost or copied twice.

    Exit status: 0 done; 2 refused; 5 no answer, or MirrorMaker 2 runs the flow.
    """
    _ask("pause", file, flow, topic, partition, connector, request_id, wait, is_json=is_json)


def stop(
    file: File,
    topic: Topic = None,
    partition: Partition = None,
    flow: Flow = None,
    connector: Connector = ConnectorName.SOURCE,
    request_id: RequestId = None,
    wait: Wait = WAIT_S,
    is_json: IsJson = False,
) -> None:
    """Stop a flow, a topic or a partition until `sparkmirror resume`; the process goes on.

    As `pause`, but the partitions are also taken from their tasks: Connect's state STOPPED, in which REST changes offsets.

    Exit status: 0 done; 2 refused; 5 no answer, or MirrorMaker 2 runs the flow.
    """
    _ask("stop", file, flow, topic, partition, connector, request_id, wait, is_json=is_json)


def resume(
    file: File,
    topic: Topic = None,
    partition: Partition = None,
    flow: Flow = None,
    connector: Connector = ConnectorName.SOURCE,
    request_id: RequestId = None,
    wait: Wait = WAIT_S,
    is_json: IsJson = False,
) -> None:
    """Resume what `pause` or `stop` ended, and everything paused within it; copying goes on where it ended.

    A topic of a flow that is paused as a whole cannot be resumed alone.

    Exit status: 0 done, or nothing was paused; 2 refused, or nobody ever ran the flow; 5 no answer, or MirrorMaker 2
    runs the flow.
    """
    _ask("resume", file, flow, topic, partition, connector, request_id, wait, is_json=is_json)


def _ask(
    verb: str,
    file: str,
    flow: str | None,
    topic: str | None,
    partition: int | None,
    connector: ConnectorName,
    request_id: str | None,
    wait: float,
    *,
    is_json: bool,
) -> None:
    if partition is not None and topic is None:
        raise typer.BadParameter("needs --topic", param_hint="--partition")
    if topic is not None and connector is not ConnectorName.SOURCE:
        raise typer.BadParameter(f"cannot be combined with --connector {connector}", param_hint="--topic")
    settings = load(file)
    wanted = WishRequest(verb, topic, partition, connector.value)
    found = ask_for(settings, choose_flow(settings, flow), wanted, asking_of(request_id, wait))
    print(json_text(as_json(found)) if is_json else "\n".join(as_lines(found)))
    sys.stdout.flush()


def as_lines(found: Wished) -> list[str]:
    """What was done, by whom, and what is paused now."""
    if found.is_running:
        by = f"  owner: {found.owner} (request {found.request_id})"
    else:
        by = f"  no process runs the flow: the next start keeps to it (request {found.request_id})"
    lines = [f"flow {found.flow}: {found.text}", by]
    lines += [f"  {wish['text']} (to resume: {wish['resume']})" for wish in found.wishes]
    return [printable(line) for line in lines]


def as_json(found: Wished) -> dict[str, Any]:
    """The same as JSON values."""
    return {
        "schema": SCHEMA,
        "flow": found.flow,
        "owner": found.owner,
        "owner_runs": found.is_running,
        "request_id": found.request_id,
        "text": found.text,
        "wishes": list(found.wishes),
        "changed": list(found.changed),
        "open_partitions": found.open_partitions,
    }
