"""Verdicts on positions as plain text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sparkmirror.cli.text import amount, printable
from sparkmirror.ledger import Move
from sparkmirror.model import TopicPartition
from sparkmirror.positions import GroupCommit, MoveVerdict, PositionChange, TargetPlan, UndoVerdict

SCHEMA = 1  # of the JSON; raised when a field changes its meaning or goes away, not when one comes
COMMITS_SHOWN_MAX = 20
TOMBSTONE = "a tombstone"


def as_lines(verdict: MoveVerdict) -> list[str]:
    """The verdict as plain text: each partition, each record that is written, each group that is concerned."""
    lines = [_head(verdict)]
    lines += _owner_lines(verdict)
    done = "was" if verdict.is_applied else "would be"
    lines += [f"  {remote} {done} created on the target" for remote in verdict.created]
    lines += [f"  {move.partition}: {'; '.join(_move_facts(move))}" for move in verdict.moves]
    for change in verdict.changes:
        lines += _change_lines(verdict, change)
    lines += [f"  {partition}: stays as it is" for partition in verdict.unmoved]
    if verdict.target is not None:
        lines += _target_lines(verdict, verdict.target)
    lines += [f"  {line}" for line in _commit_lines(verdict)]
    lines += [f"  note: {note}" for note in verdict.notes]
    lines += _end_lines(verdict)
    return [printable(line) for line in lines]


def _head(verdict: MoveVerdict) -> str:
    if len(verdict.topics) == 1:
        [(topic, remote)] = verdict.topics
        return f"flow {verdict.flow}: {topic} -> {remote}"
    return f"flow {verdict.flow}: {amount(len(verdict.topics))} topics"


def _end_lines(verdict: MoveVerdict) -> Iterator[str]:
    if verdict.is_nothing:
        yield "there is nothing more to change" if verdict.is_applied else "there is nothing to change"
        return
    if verdict.undo_file:
        text = "what was there before is in" if verdict.is_applied else "what is there now would be saved to"
        yield f"  {text} {verdict.undo_file}"
    yield _last(verdict)


def _owner_lines(verdict: MoveVerdict | UndoVerdict) -> Iterator[str]:
    if verdict.owner:
        done = f"carried out by it, request {verdict.request_id}" if verdict.is_applied else "it would be asked"
        yield f"  owner: {verdict.owner} (running; {done})"
    elif verdict.proof:
        yield f"  owner: {verdict.run_by} (stopped; proof: {verdict.proof})"


def _last(verdict: MoveVerdict | UndoVerdict) -> str:
    if not verdict.is_applied:
        return "nothing was changed; --yes applies it"
    return "changed; the flow has resumed there" if verdict.owner else "changed; the next run resumes there"


def _move_facts(move: Move) -> list[str]:
    was = "nothing" if move.old is None else str(move.old.upstream)
    facts = [f"next upstream offset {was} -> {move.new.upstream}, written at {move.new.downstream} on the target"]
    if move.held is not None:
        first, until = move.held
        facts.append(f"offsets {first} to {until - 1} ({amount(until - first)}) are not copied again: the target holds them")
    if move.never_copied is not None:
        facts.append(_never_copied(*move.never_copied))
    if move.copied_again:
        facts.append(_copied_again(move.copied_again))
    if move.is_map_new:
        facts.append("a topic was deleted and created again: the offset map restarts")
    return facts


def _never_copied(first: int, until: int) -> str:
    return f"offsets {first} to {until - 1} ({amount(until - first)}) are never copied"


def _not_copied_now(first: int, until: int) -> str:
    count = amount(until - first)
    return f"offsets {first} to {until - 1} ({count}) are not copied now; the target holds what was copied before the reset"


def _copied_again(count: int) -> str:
    return f"{amount(count)} copied offsets are copied again, after what the target holds"


def _change_lines(verdict: MoveVerdict, change: PositionChange) -> list[str]:
    return [
        f"  {change.partition}: {'; '.join(_change_facts(verdict, change))}",
        *(f"    {place} {_text(change.key)}: {old} -> {_value(change.value)}" for place, old in _olds(change)),
    ]


def _change_facts(verdict: MoveVerdict, change: PositionChange) -> Iterator[str]:
    was = "nothing" if change.old_next_offset is None else str(change.old_next_offset)
    goes_on = "nowhere, the source does not have it" if change.next_offset is None else str(change.next_offset)
    yield f"next upstream offset {was} -> {goes_on}"
    if change.first is not None:
        end = verdict.target_ends.get(change.partition)
        yield f"the source has {change.first} to {change.end}, the target ends at {'?' if end is None else end}"
    if change.given_up and change.next_offset is not None:
        first, until = change.next_offset - change.given_up, change.next_offset
        # Behind a tombstone nobody says how far the copy came before the reset.
        is_reset = change.old_next_offset is None and bool(change.old) and verdict.target_ends.get(change.partition) != 0
        yield _not_copied_now(first, until) if is_reset else _never_copied(first, until)
    if change.copied_again and verdict.target is not None:
        yield f"{amount(change.copied_again)} copied offsets are copied again, into a new topic"
    elif change.copied_again:
        yield _copied_again(change.copied_again)
    if change.is_unseen:
        yield "nobody wrote this key before: its partition is computed"
    elif len(change.places) > 1:
        yield f"the key lies in {len(change.places)} partitions, all are written"


def _olds(change: PositionChange) -> Iterator[tuple[str, str]]:
    old = {record.place: record.value for record in change.old}
    for place in change.places:
        yield str(place), _value(old[place]) if place in old else "no record"


def _value(value: bytes | None) -> str:
    return TOMBSTONE if value is None else _text(value)


def _text(data: bytes) -> str:
    return data.decode(errors="backslashreplace")


def _target_lines(verdict: MoveVerdict, plan: TargetPlan) -> Iterator[str]:
    done = "was" if verdict.is_applied else "would be"
    for topic in plan.topics:
        own = "; it has the same name on both sides: whatever others wrote to it goes too" if topic in plan.namesakes else ""
        yield f"  {topic} {done} deleted on the target{own}"
    for internal in (plan.checkpoints_topic, plan.syncs_topic):
        if internal is not None:
            yield f"  {internal} {done} deleted"
    for partition in plan.restarted:
        yield f"  {partition}: an offset sync that restarts the offset map {done} written"
    for topic in plan.kept:
        yield f"  {topic} stays: the source does not have its topic any more"


def _commit_lines(verdict: MoveVerdict) -> Iterator[str]:
    """Groups that stand in the copies and for whom something changes."""
    text = [(commit, effect) for commit, effect in _effects(verdict) if effect]
    for commit, effect in text[:COMMITS_SHOWN_MAX]:
        yield f"group {commit.group} at {commit.offset} in {commit.partition}: {effect}"
    if len(text) > COMMITS_SHOWN_MAX:
        yield f"and {amount(len(text) - COMMITS_SHOWN_MAX)} more offsets of groups"


def _effects(verdict: MoveVerdict) -> Iterator[tuple[GroupCommit, str]]:
    """What follows for each group's offset in a copy; empty if nothing does."""
    deleted = set(verdict.target.topics) if verdict.target is not None else set()
    remotes = dict(verdict.topics)
    moves: list[Move | PositionChange] = [*verdict.moves, *verdict.changes]
    sizes = {TopicPartition(remotes[m.partition.topic], m.partition.partition): _sizes(m) for m in moves}
    for commit in verdict.commits:
        again, never = sizes.get(commit.partition, (0, 0))
        if commit.partition.topic in deleted:
            yield commit, f"its offset {'was' if verdict.is_applied else 'would be'} deleted with the topic"
        elif again:
            yield commit, f"the {amount(again)} offsets that come again lie behind it, it may read them twice"
        else:
            yield commit, "it never sees what is not copied" if never else ""


def _sizes(moved: Move | PositionChange) -> tuple[int, int]:
    """How many offsets come again, and how many never do."""
    if isinstance(moved, PositionChange):
        return moved.copied_again, moved.given_up
    return moved.copied_again, 0 if moved.never_copied is None else moved.never_copied[1] - moved.never_copied[0]


def undo_lines(verdict: UndoVerdict) -> list[str]:
    """What is written back, or was."""
    lines = [f"flow {verdict.flow}: as it was at {verdict.time}, before: {verdict.command}"]
    lines += _owner_lines(verdict)
    for back in verdict.records:
        place, key = back.record.place, _text(back.record.key)
        lines.append(f"    {place} {key}: {_value(back.value_now)} -> {_value(back.record.value)}")
    if verdict.ledger_records:
        lines.append(f"  {amount(verdict.ledger_records)} records of the ledger are restored")
    if verdict.commits:
        lines.append(f"  {amount(verdict.commits)} offsets of groups are set again")
    if verdict.undo_file:
        text = "what was there before is in" if verdict.is_applied else "what is there now would be saved to"
        lines.append(f"  {text} {verdict.undo_file}")
    lines.append(_last(verdict))
    return [printable(line) for line in lines]


# --- JSON ------------------------------------------------------------------------------------------------------


def as_json(verdict: MoveVerdict) -> dict[str, Any]:
    """The verdict as JSON values."""
    plan = verdict.target
    return {
        "schema": SCHEMA,
        "flow": verdict.flow,
        "run_by": verdict.run_by,
        "applied": verdict.is_applied,
        "proof": verdict.proof,
        "owner": verdict.owner,
        "request_id": verdict.request_id,
        "topics": [{"topic": topic, "remote": remote} for topic, remote in verdict.topics],
        "moves": [_move_json(move) for move in verdict.moves],
        "changes": [_change_json(verdict, change) for change in verdict.changes],
        "unmoved": [str(partition) for partition in verdict.unmoved],
        "created": list(verdict.created),
        "deleted": [] if plan is None else [t for t in (*plan.topics, plan.checkpoints_topic, plan.syncs_topic) if t],
        "syncs_anew": [] if plan is None else [str(partition) for partition in plan.restarted],
        "commits": [_commit_json(commit, effect) for commit, effect in _effects(verdict)],
        "notes": list(verdict.notes),
        "undo_file": verdict.undo_file if not verdict.is_nothing else "",
    }


def _move_json(move: Move) -> dict[str, Any]:
    return {
        "topic": move.partition.topic,
        "partition": move.partition.partition,
        "old_next_offset": None if move.old is None else move.old.upstream,
        "next_offset": move.new.upstream,
        "target_offset": move.new.downstream,
        "never_copied": None if move.never_copied is None else list(move.never_copied),
        "held_by_target": None if move.held is None else list(move.held),
        "copied_again": move.copied_again,
        "map_restarts": move.is_map_new,
    }


def _change_json(verdict: MoveVerdict, change: PositionChange) -> dict[str, Any]:
    old = {record.place: record.value for record in change.old}
    return {
        "topic": change.partition.topic,
        "partition": change.partition.partition,
        "old_next_offset": change.old_next_offset,
        "next_offset": change.next_offset,
        "source_first": change.first,
        "source_end": change.end,
        "target_end": verdict.target_ends.get(change.partition),
        "copied_again": change.copied_again,
        "given_up": change.given_up,
        "unseen": change.is_unseen,
        "key": _text(change.key),
        "value": None if change.value is None else _text(change.value),
        "places": [
            {"topic": p.topic, "partition": p.partition, "old": None if old.get(p) is None else _value(old[p])}
            for p in change.places
        ],
    }


def _commit_json(commit: GroupCommit, effect: str) -> dict[str, Any]:
    return {
        "group": commit.group,
        "topic": commit.partition.topic,
        "partition": commit.partition.partition,
        "offset": commit.offset,
        "effect": effect,
    }


def undo_json(verdict: UndoVerdict) -> dict[str, Any]:
    """What is written back, as JSON values."""
    return {
        "schema": SCHEMA,
        "flow": verdict.flow,
        "run_by": verdict.run_by,
        "applied": verdict.is_applied,
        "proof": verdict.proof,
        "owner": verdict.owner,
        "request_id": verdict.request_id,
        "command": verdict.command,
        "time": verdict.time,
        "records": [
            {
                "topic": back.record.place.topic,
                "partition": back.record.place.partition,
                "key": _text(back.record.key),
                "old": None if back.value_now is None else _text(back.value_now),
                "value": None if back.record.value is None else _text(back.record.value),
            }
            for back in verdict.records
        ],
        "ledger_records": verdict.ledger_records,
        "commits": verdict.commits,
        "undo_file": verdict.undo_file,
    }
