"""The two questions of whoever runs a mirror, answered apart: is it copying, and could I fail over now. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from sparkmirror.diagnose import Severity
from sparkmirror.rest.page.readings import FlowReading
from sparkmirror.rest.page.tones import tone_of
from sparkmirror.status import FlowLag, FlowStatus, counted_states, flow_lag, flow_reason, flow_state, stopped_partitions
from sparkmirror.status.words import amount, duration

BEHIND_S = 10.0  # what a flow that copies is behind is younger
STALE_MS = 300_000  # an inspection that is older says nothing of now


@dataclass(frozen=True, slots=True)
class AxisFigure:
    """A figure with its name; `is_known` False: as of a while ago, or not at all."""

    name: str
    value: str
    note: str = ""
    is_known: bool = True


@dataclass(frozen=True, slots=True)
class Axis:
    """One question: the answer in a word, in a sentence, and the figures behind it. `read_ms` is when it was read."""

    question: str
    word: str
    text: str
    figures: tuple[AxisFigure, ...]
    read_ms: int = 0

    @property
    def tone(self) -> str:
        """How it is shown."""
        return tone_of(self.word)


_COPYING = {
    "running": ("yes", "Every partition copies."), "degraded": ("partly", ""), "stopped": ("no", "No partition copies."),
    "closed": ("closed", "It copied everything there was, and ended."),
    "standby": ("standby", "Another process owns the flow; this one takes over if that one ends."),
    "failed": ("no", "The flow ended with an error."), "failed over": ("failed over", "Applications are on the target."),
    "paused": ("paused", "Somebody paused it."),
    "starting": ("starting", "It is about to start."), "opening": ("opening", "Its partitions are being opened."),
    "taking ownership": ("taking ownership", "It waits until former writers are fenced."),
    "recovering": ("recovering", "It finds out how far a lost task came."), "stopping": ("stopping", "It is draining."),
    "waiting": ("waiting", "It waits for a cluster."),
    "unknown": ("unknown", "The clusters do not answer: whether it copies cannot be known."),
}  # fmt: skip


def copying(flow: FlowStatus, records_per_s: float | None) -> Axis:
    """Is it copying?"""
    state, lag, stopped = flow_state(flow), flow_lag(flow), stopped_partitions(flow)
    word, text = _COPYING.get(state, (state, ""))
    count = len(flow.partitions)
    if state == "degraded":
        text = f"{amount(stopped)} of {amount(max(count, stopped))} {_noun(count, 'partition')} stopped."
    elif state == "running":
        rest = [(number, name) for name, number in counted_states(flow) if name not in ("copying", "closed")]
        text = f"All {amount(count)} {_noun(count, 'partition')} copy." if count else "There is nothing to copy yet."
        if rest:
            others = ", ".join(f"{amount(number)} {name}" for number, name in rest)
            text = f"{amount(count - sum(number for number, _ in rest))} of {amount(count)} partitions copy; {others}."
            word = "partly"
    if flow_reason(flow) and state not in ("running", "degraded"):
        text = flow_reason(flow)
    rate = "?" if records_per_s is None else f"{amount(records_per_s)}/s"
    parts = ", ".join(f"{amount(number)} {name}" for name, number in counted_states(flow))
    return Axis(
        "Is it copying?", word, text,
        (
            AxisFigure("lag", _lag_words(lag), "records not copied yet", lag.records is not None),
            AxisFigure("oldest not copied", "?" if lag.seconds is None else _age(lag.seconds), "", lag.seconds is not None),
            AxisFigure("now", rate, "records", records_per_s is not None),
            AxisFigure("partitions", amount(count), parts),
        ),
    )  # fmt: skip


def failover(flow: FlowStatus, reading: FlowReading) -> Axis:
    """Could I fail over now? What would be lost, and what would be read again."""
    lag, found = flow_lag(flow), reading.readiness
    lost = AxisFigure("would be lost", _lag_words(lag), "records not copied yet, if the source were gone now",
                      lag.records is not None)  # fmt: skip
    question = "Could I fail over now?"
    if found is None or reading.trouble or flow.taken_ms - reading.read_ms > STALE_MS:
        text = "Being read from both clusters." if found is None else "The last reading is too old to say."
        unknown = tuple(AxisFigure(name, "?", "", False) for name in ("groups ready", "read again", "skipped"))
        return Axis(question, "unknown", reading.trouble or text, (unknown[0], lost, *unknown[1:]), reading.read_ms)
    tally = found.tally
    more = f", {amount(tally.unknown)} not proven" if tally.unknown else ""
    figures = (
        AxisFigure("groups ready", f"{amount(found.ready)} of {amount(found.groups)}", "", True),
        lost,
        AxisFigure("read again", amount(tally.again), f"records, in {_count(tally.groups_again, 'group')}{more}"),
        AxisFigure("skipped", amount(tally.skipped), f"records, in {_count(tally.groups_skipping, 'group')}{more}"),
    )
    word, text = _verdict(flow, reading)
    return Axis(question, word, text, figures, reading.read_ms)


def _verdict(flow: FlowStatus, reading: FlowReading) -> tuple[str, str]:
    found, stopped = reading.readiness, stopped_partitions(flow)
    assert found is not None
    worst, bad = found.tally.worst, found.groups - found.ready
    if reading.outages:
        return "unknown", f"{', '.join(reading.outages)}."
    if worst >= Severity.ERROR:
        first = found.tally.causes[0].cause.title if found.tally.causes else "positions are missing on the target"
        return "no", f"{_count(bad, 'group')} would not go on where {'it is' if bad == 1 else 'they are'}: {first}."
    if stopped:
        return "at risk", f"{_count(stopped, 'partition')} stopped: what came there since is only on the source."
    if worst >= Severity.WARNING:
        return "at risk", f"{_count(bad, 'group')} with a warning: {found.tally.causes[0].cause.title}."
    if flow_state(flow) == "unknown" or flow_lag(flow).records is None:
        return "unknown", "Groups are ready; how much is not copied cannot be known now."
    lag = flow_lag(flow)
    if lag.records and (lag.seconds is None or lag.seconds >= BEHIND_S):
        age = "" if lag.seconds is None else f", the oldest for {_age(lag.seconds)}"
        return "at risk", f"Groups are ready; {_count(lag.records, 'record')} {_are(lag.records)} not copied{age}."
    if found.tally.unknown:
        return "unknown", f"{_count(found.tally.unknown, 'position')} could not be proven."
    if not found.groups:
        return "yes", "No group reads these topics; their records are there."
    cost = "reads nothing again and skips nothing" if not found.tally.again else "skips nothing"
    return "yes", f"Every group would go on where it is; a failover now {cost}."


def _lag_words(lag: FlowLag) -> str:
    if lag.records is not None:
        return amount(lag.records)
    return f"? (at least {amount(lag.known)})" if lag.is_current and lag.known else "?"


def _age(seconds: float) -> str:
    return "none" if seconds == 0 else f"{seconds:.1f} s" if seconds < 10 else duration(seconds)


def _count(number: int, noun: str) -> str:
    return f"{amount(number)} {_noun(number, noun)}"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _noun(number: int, noun: str) -> str:
    return noun if number == 1 else f"{noun}s"
