"""The page docs/doctor.md, generated from the rules so that it cannot differ from them."""

from __future__ import annotations

from collections.abc import Iterator

from sparkmirror.diagnose.findings import Rule
from sparkmirror.diagnose.rules import RULES

_HEAD = """# The doctor

    sparkmirror doctor FILE [--flow 'A->B'] [--only IDS] [--skip IDS] [--json] [--baseline FILE] [--wait S]
                            [--no-record-reads] [--explain ID]
    sparkmirror why FILE TOPIC | TOPIC:PARTITION | GROUP [--flow 'A->B'] [--json]
    sparkmirror doctor --explain ID

Both read the clusters and change nothing. They need no Spark, and work while flows run: flows of sparkmirror and flows of
MirrorMaker 2. FILE is the `mm2.properties` of the flow.

![doctor on a terminal](pictures/doctor.svg)

`doctor` prints one line for each flow, then findings, worst first, one block for each cause. A finding has an id, a
severity (E error, W warning, I information), a certainty (*proven*, *likely*, *possible*), its evidence with the time at
which it was read, and a fix. `--explain ID` prints the rule. `why` runs the checks for one topic, partition or group in
order and stops at the first certain cause. A stopped partition is named with its code and the command that mends it. Where a
cluster cannot be read, `why` says what the other one remembers and of what time that is, and calls everything else unknown;
that a name does not exist is said (status 4) only when both clusters answered.

| status | |
|---|---|
| 0 | no problem found |
| 1 | usage or configuration |
| 2 | incomplete: some checks could not run; each is printed with the right or data that it needs |
| 3 | warnings |
| 4 | errors; `why`: neither cluster has a topic or group of this name |

Errors take precedence over incomplete, incomplete over warnings: what is unknown may be worse than a warning.

**Two reads.** A flow with lag is read twice, `--wait` seconds apart (3 by default, 0 for one read), to see whether it makes
progress. `--baseline FILE` stores topic ids, ends, positions and commits in a file and compares them the next time. Only
this shows that a topic was re-created between two runs, or that a problem lasts longer than the mirror's own intervals.

**Records.** Where offsets alone are not enough, a few records of both clusters are read (no group, nothing is committed):
C01, C02, C06, C09, C22, C24, D5, D6, D7, and the next record of each partition with lag. `--no-record-reads` disables these
reads.

**Rights.** Describe on topics, groups and clusters, DescribeConfigs on topics, Read on the internal topics, and Read on the
topics for checks that read records. A missing right makes its check incomplete, never wrong.

**A cluster that is gone.** A cluster that does not answer, or refuses the login, is the first finding (V1), and the status
is 4. What the flow copies, and its groups, are then those that the other cluster remembers: of a dead source by the ledger,
the stored positions and the checkpoints. The lag is `?`, with the last known value and its time; C27 says what a failover
now would lose, and what each group would read again. Checks that need the cluster stay unanswered.

**JSON.** `--json` has `"schema": 1`; fields may be added under the same number. `flows[]` hold `flow`, `runner`, `outage`,
`lag` (`null` if it is not known of every partition; then `lag_at_least`, and `last_lag{records,time_ms}` as last known),
`lag_seconds` (the age of the oldest record not copied; `null` if it is not known), `stopped_partitions`,
`source_seen_ms`, `partitions`, `groups`, `findings[]` and `open[]`; a finding has `id`, `severity`, `certainty`, `flow`,
`subject{topic,partition,group,cluster}`, `cause`, `message`, `facts[]{name,value,time_ms}`, `rule`, `mend` and `command`.

**MirrorMaker 2 on a Connect cluster** keeps its state in other topics: set `offset.storage.topic`, `status.storage.topic`,
`config.storage.topic` and `group.id` of that cluster in FILE (`B.offset.storage.topic` and so on).
"""

_SECTIONS = (
    ("D", "Why something is not copied (D1–D12)"),
    ("C", "What is wrong with a copy or a group (C01–C27)"),
    ("V", "The clusters (V1–V7)"),
)


def render() -> str:
    """The whole page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield _HEAD
    for letter, title in _SECTIONS:
        yield f"## {title}\n"
        for rule in RULES.values():
            if rule.id.startswith(letter):
                yield from _entry(rule)


def _entry(rule: Rule) -> Iterator[str]:
    yield f"### {rule.id}: {rule.title}{f' ({rule.severities})' if rule.severities else ''}\n"
    yield f"{rule.means}\n"
    if not rule.decides:
        return
    yield f"- *decided by:* {rule.decides}"
    yield f"- *needs:* {rule.needs}"
    yield f"- *what to do:* {rule.mend}\n"


def explain(rule: Rule) -> list[str]:
    """The same for one id, for a terminal."""
    lines = [f"{rule.id}  {rule.title}", "", f"  {rule.means}"]
    if not rule.decides:
        return lines
    return [*lines, "", f"  decided by: {rule.decides}", f"  needs:      {rule.needs}", f"  what to do: {rule.mend}"]
