"""What both verbs take, and how their verdict is told."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from sparkmirror.cli.text import amount, printable
from sparkmirror.config import load
from sparkmirror.ledger import Move
from sparkmirror.tools import MoveRequest, MoveVerdict, apply, preview

__all__ = ["Flow", "Partition", "Topic", "Yes", "as_lines", "carry_out"]

Topic = Annotated[str, typer.Option(help="The topic, by its name on the source.", metavar="NAME")]
Partition = Annotated[int | None, typer.Option(help="Only this partition.", metavar="NUMBER")]
Flow = Annotated[str | None, typer.Option(help="Which flow, if FILE has several.", metavar="A->B")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it; without this only told what would change.")]


def carry_out(file: str, request: MoveRequest, *, yes: bool) -> None:
    """Shows what would change, or changes it."""
    settings = load(file)
    verdict = (apply if yes else preview)(settings, request)
    print("\n".join(as_lines(verdict)))
    sys.stdout.flush()


def as_lines(verdict: MoveVerdict) -> list[str]:
    """The verdict as plain text, one line for each partition."""
    lines = [f"flow {verdict.flow}: {verdict.topic} -> {verdict.remote}"]
    if verdict.creates_remote:
        lines.append(f"  {verdict.remote} {'was' if verdict.is_applied else 'would be'} created on the target")
    lines += [f"  {move.partition}: {'; '.join(_facts(move))}" for move in verdict.moves]
    lines += [f"  {partition}: stays as it is" for partition in verdict.unmoved]
    if not verdict.moves:
        lines.append("there is nothing more to change" if verdict.is_applied else "there is nothing to change")
    elif verdict.is_applied:
        lines.append("changed; the next run goes on there")
    else:
        lines.append("nothing was changed; --yes does it")
    return [printable(line) for line in lines]


def _facts(move: Move) -> list[str]:
    was = "nothing" if move.old is None else str(move.old.upstream)
    facts = [f"next upstream offset {was} -> {move.new.upstream}, written at {move.new.downstream} on the target"]
    if move.gap is not None:
        first, until = move.gap
        facts.append(f"offsets {first} to {until - 1} ({amount(until - first)}) are never copied")
    if move.copied_again:
        facts.append(f"{amount(move.copied_again)} offsets that were copied come again, behind what the target holds")
    if move.is_map_new:
        facts.append("a topic was deleted and created again: the offset map begins anew")
    return facts
