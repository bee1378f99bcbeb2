"""What of a flow is compared, and how: by its ledger, by what the records hold, or not at all and why.

What says how far the copy is, is read in such an order that a live copy is never taken for a damaged one: positions of
MirrorMaker 2, then the target's ends, the ledger, and the source's ends.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sparkmirror.clusters import LATEST, ClusterView, describe_topic_configs, list_offsets
from sparkmirror.clusters.probing import PartitionEnds, probe_ends, probe_times
from sparkmirror.driver.topic_transforms import TopicTransforms
from sparkmirror.errors import ClusterError, ConfigInvalid, NothingCopied
from sparkmirror.model import Side, TopicPartition
from sparkmirror.state import FlowState, LedgerTable, Part, has_topic
from sparkmirror.topology import TopicDecision, compile_list, select_topics
from sparkmirror.verification.anchors import Log
from sparkmirror.verification.memory import VerifiedTable, verified_topic
from sparkmirror.verification.ranges import cut_by_contents, cut_exact
from sparkmirror.verification.spans import PartitionFacts, PartitionPlan, SpanPlanner
from sparkmirror.wire.error_codes import UNKNOWN_TOPIC_OR_PARTITION

RANGE_RECORDS_MIN, RANGE_RECORDS_MAX = 50_000, 1_000_000
RANGES_PER_SLOT = 8  # so that no slot is left with a long one at the end
SAMPLED_RANGES, SAMPLED_RECORDS_MIN = 200, 1000
VERIFIED_PART = "verified ranges"
NO_ENDS = PartitionEnds(-1, -1, -1, UNKNOWN_TOPIC_OR_PARTITION)
Logs = Callable[[], tuple[Log, Log]]


@dataclass(frozen=True, slots=True)
class VerifyScope:
    """What the caller asks for; `sample` is a share of the ranges, 1 for all."""

    topics: tuple[str, ...] = ()
    since_ms: int | None = None
    sample: float = 1.0
    is_full: bool = False
    slots: int = 1


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A topic that is not compared, and why."""

    topic: str
    reason: str
    is_expected: bool = False  # nothing of it was copied yet
    is_lost: bool = False  # it was copied, and the copy is not there


@dataclass(slots=True)
class VerifyPlan:
    """All of a flow."""

    partitions: list[PartitionPlan]
    left_out: list[LeftOut]


class Planner:
    """One flow, once."""

    def __init__(self, state: FlowState, wanted: VerifyScope) -> None:
        self._state, self._flow, self._wanted = state, state.flow, wanted
        self._transforms = TopicTransforms(state.flow)
        self._left_out: list[LeftOut] = []

    def plan(self) -> VerifyPlan:
        """Reads what both clusters say of the flow; raises if one of them does not answer or nothing was ever copied."""
        state = self._state
        views = {side: client.view(None) for side, client in state.clients.items()}
        state.positions(), state.syncs()
        verified = state.reader.table(
            VERIFIED_PART, "target", verified_topic(self._flow.name.source), VerifiedTable(), may_be_absent=True
        )
        places = self._places(views["source"], views["target"])
        target_ends = self._ends("target", list(places.values()))
        ledger = state.ledger()
        # Where a ledger says where records lie, offset syncs are only a help.
        self._require(Part.LEDGER, Part.POSITIONS, VERIFIED_PART, *([] if ledger is not None else [Part.SYNCS]))
        self._require_copied(ledger)
        source_ends = self._ends("source", list(places))
        since = self._since(list(places))
        source_compacted = self._compacted("source", {place.topic for place in places})
        target_compacted = self._compacted("target", {remote.topic for remote in places.values()})
        found = []
        for place, remote in places.items():
            if since is not None and place not in since:
                continue  # no record is that new
            ids = views["source"].topics[place.topic].topic_id.hex(), views["target"].topics[remote.topic].topic_id.hex()
            stored = state.positions().of(place)
            facts = PartitionFacts(
                place, remote, ids,
                source_ends.get(place, NO_ENDS), target_ends.get(remote, NO_ENDS),
                ledger.history(place) if ledger is not None else None,
                ledger.offset_map(place, remote.topic) if ledger is not None else None,
                None if stored is None or stored.last_offset is None else stored.last_offset + 1,
                state.syncs().firsts.get(place),
                place.topic in source_compacted, remote.topic in target_compacted,
            )  # fmt: skip
            known = verified.partitions.get(place) if verified is not None and not self._wanted.is_full else None
            is_same = known is not None and (known.source_topic_id, known.target_topic_id) == ids
            logs = self._logs(facts)
            planner = SpanPlanner(facts, logs)
            made = planner.plan(None if since is None else since[place], known.ranges if known and is_same else ())
            found.append((made, logs))
        self._cut(found)
        return VerifyPlan([made for made, _ in found], self._left_out)

    # --- which ---------------------------------------------------------------------------------------------------

    def _places(self, source: ClusterView, target: ClusterView) -> dict[TopicPartition, TopicPartition]:
        """Every partition that is compared, and its copy; what is not is listed as left out."""
        names = [topic.name for topic in source.topics.values() if not topic.is_internal and not topic.error]
        found: dict[TopicPartition, TopicPartition] = {}
        wanted = compile_list(self._wanted.topics) if self._wanted.topics else None
        copied = [d for d in select_topics(self._flow, self._state.policy, names) if d.replicated]
        chosen = [d for d in copied if wanted is None or wanted.fullmatch(d.topic)]
        if wanted is not None and not chosen:
            text = f"--topics: no topic that {self._flow.name} copies matches {', '.join(self._wanted.topics)}"
            raise ConfigInvalid(str(self._flow.name), [text])
        for decision in chosen:
            left_out = self._left_out_of(decision, source, target)
            if left_out is not None:
                self._left_out.append(left_out)
                continue
            for index in sorted(source.topics[decision.topic].leaders):
                found[TopicPartition(decision.topic, index)] = TopicPartition(decision.remote, index)
        return found

    def _left_out_of(self, decision: TopicDecision, source: ClusterView, target: ClusterView) -> LeftOut | None:
        """Why a topic is not compared; None if it is."""
        topic, remote = decision.topic, decision.remote
        if self._transforms.are_for(topic):
            names = ", ".join(self._transforms.names(topic)) or "the header converter"
            return LeftOut(topic, f"its records pass transforms ({names}), so the copy is not to be equal")
        if has_topic(target, remote):
            is_short = source.topics[topic].partitions > target.topics[remote].partitions
            return LeftOut(topic, "the copy has fewer partitions than the source") if is_short else None
        positions, ledger = self._state.positions(), self._state.ledger()
        told = {p.topic for p in positions.partitions() if positions.of(p) is not None}
        told |= {p.topic for p, h in ledger.view.partitions.items() if h.newest is not None} if ledger is not None else set()
        if topic in told:
            return LeftOut(topic, f"{remote} is missing on {self._flow.name.target}, though it was copied", is_lost=True)
        return LeftOut(topic, "nothing of it was copied yet", is_expected=True)

    # --- what the clusters say -----------------------------------------------------------------------------------

    def _require(self, *parts: str) -> None:
        for part in parts:
            unknown = self._state.unknown.get(part)
            if unknown is not None:
                needs = f"needs {unknown.needs}" if unknown.needs else ""
                raise ClusterError(f"{self._flow.name}: {part} cannot be read: {unknown.reason}", hint=needs)

    def _require_copied(self, ledger: LedgerTable | None) -> None:
        positions, syncs = self._state.positions(), self._state.syncs()
        has_ledger = ledger is not None and any(h.newest is not None for h in ledger.view.partitions.values())
        if not has_ledger and not syncs.newest and not any(positions.of(p) for p in positions.partitions()):
            raise NothingCopied(
                f"{self._flow.name}: nothing says that anything was copied: neither a ledger nor a position or an offset "
                "sync of MirrorMaker 2 exists",
                hint=f"sparkmirror doctor, or check the target {self._flow.name.target} of the file",
            )

    def _ends(self, side: Side, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, PartitionEnds]:
        """Ends as a reader of the flow's isolation gets them."""
        client = self._state.clients[side]
        found = probe_ends(client, partitions)
        committed = self._flow.reads_committed if side == "source" else self._flow.writes_transactions
        if committed:
            known = [partition for partition, ends in found.items() if ends.is_known]
            for partition, (offset, _) in list_offsets(client, known, timestamp=LATEST, read_committed=True).items():
                found[partition] = replace(found[partition], end=offset)
        return found

    def _since(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int] | None:
        """The first upstream offsets that are compared; without partitions that have no record so new."""
        since = self._wanted.since_ms
        return None if since is None else probe_times(self._state.clients["source"], dict.fromkeys(partitions, since))

    def _compacted(self, side: Side, topics: set[str]) -> set[str]:
        configs = describe_topic_configs(self._state.clients[side], topics)
        return {
            topic
            for topic, entries in configs.items()
            if any(entry.name == "cleanup.policy" and "compact" in (entry.value or "") for entry in entries)
        }

    def _logs(self, facts: PartitionFacts) -> Logs:
        clients, flow = self._state.clients, self._flow
        ends, there = facts.source_ends, facts.target_ends
        return lambda: (
            Log(clients["source"], facts.source, ends.first, ends.end, flow.reads_committed),
            Log(clients["target"], facts.target, there.first, there.end, flow.writes_transactions),
        )

    # --- ranges --------------------------------------------------------------------------------------------------

    def _cut(self, plans: Sequence[tuple[PartitionPlan, Logs]]) -> None:
        """Cuts all spans into ranges that are spread evenly, and takes the sample."""
        pieces = [piece for plan, _ in plans for _, _, found in plan.pieces for piece in found]
        total = sum(max(end.upstream - start.upstream, end.downstream - start.downstream) for start, end in pieces)
        step = total // max(self._wanted.slots * RANGES_PER_SLOT, 1) + 1
        step = min(max(step, RANGE_RECORDS_MIN), RANGE_RECORDS_MAX)
        if self._wanted.sample < 1:
            step = max(min(step, total // SAMPLED_RANGES), SAMPLED_RECORDS_MIN)
        for plan, logs in plans:
            for span, places, found in plan.pieces:
                if places is not None:
                    plan.ranges += cut_exact(span, places, found, step)
                else:
                    plan.ranges += cut_by_contents(span, found, step, *logs())
            plan.spans = []
        self._sample([plan for plan, _ in plans])

    def _sample(self, plans: Sequence[PartitionPlan]) -> None:
        if self._wanted.sample >= 1:
            return
        drawn = random.SystemRandom()
        everything = [(plan, one) for plan in plans for one in plan.ranges]
        count = max(round(len(everything) * self._wanted.sample), 1)
        taken = drawn.sample(everything, min(count, len(everything)))
        for plan in plans:
            kept = [one for owner, one in taken if owner is plan]
            plan.sampled_out = len(plan.ranges) - len(kept)
            plan.ranges = sorted(kept, key=lambda one: one.start)
