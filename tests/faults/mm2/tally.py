"""How many records a copy has lost, doubled, made up or put out of order, by what Java read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from judge import JudgeRecord


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts over all partitions; `strange` records are on the target and ought not to be."""

    records: int
    lost: int = 0
    doubled: int = 0
    strange: int = 0
    disordered: int = 0

    def __str__(self) -> str:
        words = {"lost": self.lost, "twice": self.doubled, "strange": self.strange, "out of order": self.disordered}
        reported = [f"{count:,} {word}" for word, count in words.items() if count]
        return f"{' and '.join(reported) or 'nothing lost, nothing twice'} of {self.records:,} records"


def contents(topic: Mapping[int, Sequence[JudgeRecord]]) -> dict[int, list[Hashable]]:
    """Each partition's records without their offsets."""
    return {
        partition: [(record.key, record.value, record.headers, record.timestamp) for record in records]
        for partition, records in topic.items()
    }


def tally(wanted: Mapping[int, Sequence[Hashable]], found: Mapping[int, Sequence[Hashable]]) -> Tally:
    """What became of the contents that ought to be there, in this order."""
    sums = Counter[str]()
    for partition in wanted.keys() | found.keys():
        ought, there = wanted.get(partition, ()), found.get(partition, ())
        lacking, surplus = Counter(ought), Counter(there)
        lacking.subtract(surplus)
        known = set(ought)
        sums["records"] += len(ought)
        sums["lost"] += sum(count for count in lacking.values() if count > 0)
        sums["doubled"] += -sum(count for content, count in lacking.items() if count < 0 and content in known)
        sums["strange"] += sum(count for content, count in surplus.items() if content not in known)
        sums["disordered"] += _descents(ought, there)
    return Tally(**{name: sums[name] for name in ("records", "lost", "doubled", "strange", "disordered")})


def _descents(ought: Sequence[Hashable], there: Sequence[Hashable]) -> int:
    """How often a record that comes for the first time stood before its forerunner on the source."""
    places = {content: at for at, content in reversed(list(enumerate(ought)))}
    firsts = [places[content] for content in dict.fromkeys(there) if content in places]
    return sum(after < before for before, after in pairwise(firsts))
