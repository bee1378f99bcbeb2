"""sparkmirror records FILE KIND: the records of a flow's internal topics as JSON lines."""

from __future__ import annotations

import json
import sys
import time
from typing import Annotated

import typer

from sparkmirror.cli.run import FILE_HELP
from sparkmirror.cli.signals import Interrupted, Signals
from sparkmirror.cli.text import printable
from sparkmirror.cli.usage import load
from sparkmirror.clusters import ClusterClient, is_retriable
from sparkmirror.config import ClusterSettings, FlowSettings, choose_flow
from sparkmirror.diagnose.exit_status import FINE, INCOMPLETE
from sparkmirror.errors import BrokerRefused, ClusterError
from sparkmirror.state import KINDS, TopicTail, shown_record
from sparkmirror.topology import ledger_topic, offset_syncs_topic, policy_for, require_custom_classes

FOLLOW_S = 0.5
KIND_HELP = f"{', '.join(KINDS[:-1])} or {KINDS[-1]}."


def records(
    file: Annotated[str, typer.Argument(help=FILE_HELP, metavar="FILE")],
    kind: Annotated[str, typer.Argument(help=KIND_HELP, metavar="KIND")],
    flow: Annotated[str | None, typer.Option(help="Which flow, if FILE has several.", metavar="A->B")] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Then print new records until Ctrl-C or SIGTERM.")] = False,
    first: Annotated[int, typer.Option("--from", help="Begin at this offset.", min=0, metavar="OFFSET")] = 0,
    limit: Annotated[int | None, typer.Option(help="Stop after so many records.", min=1, metavar="COUNT")] = None,
) -> None:
    """Print the records of a flow's internal topics, each as one line of JSON. Read-only.

    KIND is checkpoints, offset-syncs, heartbeats, positions (MirrorMaker 2's stored offsets) or ledger (sparkmirror's own).
    Only the cluster that holds the topic is asked.

    Exit status: 0 read to the end, or --follow ended by Ctrl-C; 1 wrong options or configuration; 2 not read, or not there.
    """
    if kind not in KINDS:
        raise typer.BadParameter(f"expected {KIND_HELP[:-1]}, found {printable(kind)}", param_hint="KIND")
    settings = load(file)
    require_custom_classes(settings, None)
    chosen = choose_flow(settings, flow)
    cluster, topic = place_of_kind(chosen, kind)
    client = ClusterClient(cluster, any_release=True)
    try:
        with Signals():
            status = _print(TopicTail(client, topic, first), kind, limit, alias=cluster.alias, topic=topic, follow=follow)
    except Interrupted:
        status = FINE
    finally:
        client.close()
    sys.exit(status)


def place_of_kind(flow: FlowSettings, kind: str) -> tuple[ClusterSettings, str]:
    """The cluster and the topic that hold such records."""
    policy = policy_for(flow)
    topics = {
        "checkpoints": policy.checkpoints_topic(flow.name.source),
        "offset-syncs": offset_syncs_topic(flow, policy),
        "heartbeats": policy.heartbeats_topic,
        "positions": flow.offset_storage_topic,
        "ledger": ledger_topic(flow.name.source),
    }
    is_on_source = kind == "offset-syncs" and flow.syncs_side == "source"
    return flow.source if is_on_source else flow.target, topics[kind]


def _print(tail: TopicTail, kind: str, limit: int | None, *, alias: str, topic: str, follow: bool) -> int:
    trouble, count = "", 0
    while True:
        try:
            for place, record in tail.read():
                sys.stdout.write(json.dumps(shown_record(kind, place, record)) + "\n")
                count += 1
                if count == limit:
                    sys.stdout.flush()
                    return FINE
        except ClusterError as error:
            if not follow or (isinstance(error, BrokerRefused) and not is_retriable(error.error_code)):
                raise
            now = error.message
        else:
            now = f"topic {topic} does not exist on {alias}" if tail.is_missing else ""
            if tail.was_recreated:
                _say(f"topic {topic} was created again on {alias}; it is read from its start")
        sys.stdout.flush()
        if now != trouble:
            _say(now or f"cluster {alias} answers again")
            trouble = now
        if not follow:
            return INCOMPLETE if tail.is_missing else FINE
        time.sleep(FOLLOW_S)


def _say(text: str) -> None:
    print(f"sparkmirror: {printable(text)}", file=sys.stderr, flush=True)
