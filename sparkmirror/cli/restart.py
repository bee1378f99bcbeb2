"""sparkmirror restart FILE: take stopped partitions up again at once."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from sparkmirror.cli.offsets.words import Flow, IsJson, Partition, RequestId, Topic, Wait, asking_of
from sparkmirror.cli.run import FILE_HELP
from sparkmirror.cli.text import json_text, printable
from sparkmirror.cli.usage import load
from sparkmirror.driver import WAIT_S
from sparkmirror.positions import Restarted, RestartScope, choose_flow
from sparkmirror.positions import restart as ask_to_restart

SCHEMA = 1  # of the JSON; raised when a field changes its meaning or goes away, not when one comes
STILL_STOPPED = 4


def restart(
    file: Annotated[str, typer.Argument(help=FILE_HELP, metavar="FILE")],
    topic: Topic = None,
    partition: Partition = None,
    flow: Flow = None,
    request_id: RequestId = None,
    wait: Wait = WAIT_S,
    is_json: IsJson = False,
) -> None:
    """Ask the running owner of a flow to take its stopped and waiting partitions up again, without a restart of the process.

    What stopped them must be mended before: else they stop again for the same reason.

    Exit status: 0 none of them is stopped; 2 refused, or no process runs the flow; 4 some are stopped again; 5 no answer.
    """
    if partition is not None and topic is None:
        raise typer.BadParameter("needs --topic", param_hint="--partition")
    found = ask_to_restart(choose_flow(load(file), flow), RestartScope(topic, partition), asking_of(request_id, wait))
    print(json_text(as_json(found)) if is_json else "\n".join(as_lines(found)))
    sys.stdout.flush()
    sys.exit(STILL_STOPPED if found.stopped else 0)


def as_lines(found: Restarted) -> list[str]:
    """What became of each partition that was tried."""
    lines = [f"flow {found.flow}: {found.text}", f"  owner: {found.owner} (request {found.request_id})"]
    lines += [f"  {p.topic}-{p.partition}: {p.state}{f': {p.reason}' if p.reason else ''}" for p in found.partitions]
    return [printable(line) for line in lines]


def as_json(found: Restarted) -> dict[str, Any]:
    """The same as JSON values."""
    return {
        "schema": SCHEMA,
        "flow": found.flow,
        "owner": found.owner,
        "request_id": found.request_id,
        "partitions": [
            {"topic": p.topic, "partition": p.partition, "state": p.state, "reason": p.reason} for p in found.partitions
        ],
    }
