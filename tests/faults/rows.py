"""The rows of docs/faults.md: which fault, and what is expected of the mirror. Which tests stage a row, their marks say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Run = Literal["P", "N", "W"]


@dataclass(frozen=True, slots=True)
class FaultRow:
    """One row; `run` is P for `make faults` and `make test`, N and W for `make faults-all` only.

    `left_out` says which part of it is not staged, or where it is.
    """

    id: str
    fault: str
    expected: str
    run: Run
    left_out: str = ""


ROWS = (
    FaultRow(
        "F01",
        "the driver is killed (−9) at each named point of an attempt",
        "a restart continues; nothing lost, nothing twice, not even in a partition's first second",
        "P",
    ),
    FaultRow("F02", "an executor is killed (−9) in mid-flight", "another one continues; nothing lost, nothing twice", "N"),
    FaultRow(
        "F03",
        "a Python worker is killed (−9) at each named point",
        "another one continues; nothing lost, nothing twice; the log names the flow",
        "P",
    ),
    FaultRow(
        "F04",
        "the driver is killed (−9) while it records positions and syncs",
        "recording again gives the same positions; the map stays true",
        "N",
    ),
    FaultRow(
        "F05",
        "SIGTERM, SIGINT, a second SIGINT, under load",
        "drains and ends with 0 within 10 s, nothing twice; a second signal ends it at once",
        "P",
    ),
    FaultRow("F06", "the driver is frozen for 60 s", "continues, or ends fenced; never two owners", "N"),
    FaultRow("F07", "a Python worker is frozen, replaced, and wakes up", "its late writes are refused", "N"),
    FaultRow("F08", "a worker reaches its memory limit", "the error names slot and limit; continues or exits cleanly", "N"),
    FaultRow(
        "F09",
        "the flow is started twice on one machine",
        "the second names the owner and ends within 10 s; the first is unharmed",
        "P",
    ),
    FaultRow(
        "F10",
        "the flow is started twice on two machines; MirrorMaker 2 runs the same flow",
        "one of two is fenced; beside MirrorMaker 2 the flow is not started, or ends and names it",
        "N",
    ),
    FaultRow("F11", "MirrorMaker 2, then sparkmirror, then MirrorMaker 2", "no gap, nothing twice", "N"),
    FaultRow("F12", "a source broker restarts; is killed (−9)", "continues; no gap", "P"),
    FaultRow(
        "F13",
        "a target broker restarts; is killed (−9) while it is written to",
        "sends in doubt are found out, not repeated",
        "P",
    ),
    FaultRow(
        "F14",
        "leaders change on both sides",
        "as F13; no error is shown within 30 s",
        "N",
        left_out="leaders of the source; reassignments",
    ),
    FaultRow(
        "F15",
        "the coordinator of groups and transactions moves",
        "groups are synced late, never wrongly; every transaction ends decided",
        "N",
    ),
    FaultRow(
        "F16",
        "too few in-sync replicas on the target",
        "waits; what was appended all the same is found out, not repeated",
        "N",
    ),
    FaultRow(
        "F17",
        "the connection is cut after a Produce was forwarded and before its answer: 1st, 5th, 6th batch in flight",
        "nothing twice; order kept (the 6th is past the broker's memory of 5)",
        "P",
    ),
    FaultRow(
        "F18", "an answer is cut inside its frame: Fetch, Produce, Metadata", "asked again; not reported as corruption", "N"
    ),
    FaultRow(
        "F19",
        "a slow network: 200 ms more; 1 Mbit/s; links stopped one by one",
        "the lag grows and returns; memory stays flat",
        "N",
    ),
    FaultRow("F20", "a late Produce of the old owner lands while the new one takes over", "refused; nothing twice", "N"),
    FaultRow("F21", "the source or the target is unreachable for minutes", "reported within 30 s; continues by itself", "N"),
    FaultRow("F22", "a target broker is frozen for 40 s", "reported within 30 s; continues by itself; nothing twice", "N"),
    FaultRow("F23", "the target's disk is full", "the error names the cluster; continues when there is space", "W"),
    FaultRow(
        "F24",
        "the target refuses writes: rights, quota, `max.message.bytes` lowered",
        "only these partitions wait or stop, with the reason",
        "N",
    ),
    FaultRow(
        "F25",
        "retention overtakes the reader, running and stopped",
        "`SOURCE_OFFSET_LOST` with the count; if the gap is accepted, continues, and the gap is kept",
        "P",
    ),
    FaultRow("F26", "the source topic is deleted", "reported; the copy stays; the others continue", "P"),
    FaultRow(
        "F27",
        "the source topic is deleted and created again: (a) shorter, (b) longer than the position",
        "`SOURCE_TOPIC_RECREATED` in both; two incarnations of a topic are never joined",
        "P",
    ),
    FaultRow(
        "F28",
        "the target topic is deleted, or created again",
        "`TARGET_TOPIC_RECREATED`; nothing is copied again unasked",
        "N",
    ),
    FaultRow("F29", "a stranger writes to the target topic", "`TARGET_HAS_STRANGER`; the map stays true", "N"),
    FaultRow("F30", "the source loses copied records (unclean election)", "`SOURCE_TRUNCATED` with the range", "W"),
    FaultRow(
        "F31",
        "the target loses copied records (unclean election)",
        "receipts past the new end are void; copied again exactly once, or stopped with the reason",
        "W",
    ),
    FaultRow(
        "F32",
        "partitions are added: to the source; to the target",
        "new ones are copied from 0; numbers kept; a difference is reported",
        "N",
    ),
    FaultRow(
        "F33",
        "compaction gaps, control records, aborted and open transactions",
        "gaps are mapped; aborted records are not copied under read_committed; an open one holds up what is behind it",
        "P",
    ),
    FaultRow(
        "F34",
        "a record larger than the target allows; a batch larger though its records fit; larger than a fetch",
        "the batch is split; the record stops its partition with offset, size and limit; never skipped",
        "P",
    ),
    FaultRow(
        "F35",
        "timestamps: −1, 1970, more than 1 h ahead; a target with LogAppendTime",
        "copied equal, or stopped with the target's setting named",
        "N",
    ),
    FaultRow(
        "F36",
        "rights are taken away, a password is changed, while copying",
        "reported within 30 s with operation and resource; continues when restored",
        "P",
    ),
    FaultRow(
        "F37",
        "TLS: expired, not yet valid, wrong host, unknown CA, refused client; files replaced while running",
        "the error names the file or the date; replaced files are used by the next connection",
        "N",
    ),
    FaultRow(
        "F38",
        "OAuth: endpoint down or slow, wrong token, expiry within a session; a Kerberos ticket ends",
        "logs in again; else as F37",
        "N",
        left_out="Kerberos, for want of a KDC",
    ),
    FaultRow("F39", "this machine's clock jumps by ±1 h", "no effect on order, progress or ownership", "N"),
    FaultRow(
        "F40",
        "corrupt internal records: bad JSON, short bytes, unknown version, negative offset, tombstone",
        "passed over alone, counted, located; their neighbours are used",
        "P",
    ),
    FaultRow(
        "F41",
        "an internal topic is missing, not compacted, has 2 partitions, is truncated",
        "refuses to start with what to do, or creates it again where nothing is lost",
        "N",
    ),
    FaultRow(
        "F42",
        "the ledger is lost, truncated, or behind MirrorMaker 2's positions",
        "rebuilt from positions, syncs and both logs; else refuses; never starts at the beginning by itself",
        "P",
    ),
    FaultRow(
        "F43",
        "a malformed configuration at the start; a file broken while running",
        "all errors at once, status 2; while running the old one stays in force",
        "P",
    ),
    FaultRow(
        "F44",
        "a group gets members before the commit; is of the new protocol; is deleted; has offset −1; is ahead of the copy",
        "left alone, with the reason; never set back; never past the copy's end",
        "P",
    ),
    FaultRow(
        "F45",
        "failover while copying, killed at every step, failback, run twice",
        "consumers on the target read each record behind their last commit once",
        "N",
    ),
    FaultRow(
        "F46",
        "HTTP: 1,000 requests/s, a slow sender, 100 MB body, 10,000 headers",
        "copying is unaffected; 413, 408, 429",
        "N",
    ),
    FaultRow("F47", "no file descriptors left; the log's disk is full", "reported; copying continues without logs", "W"),
    FaultRow(
        "F48",
        "hours of random rows, by seed",
        "nothing lost, nothing twice; memory, descriptors and threads stay flat",
        "W",
        left_out="the hours, which are [here](soak.md); more [seeds](seeds.md)",
    ),
    FaultRow(
        "F49",
        "F13 and F17 with records two days old, which make the broker forget producers",
        "nothing twice: nothing is sent again on the broker's memory",
        "P",
    ),
    FaultRow("F50", "the first batch of a new producer is refused while more are in flight", "no hole", "P"),
    FaultRow("F51", "the transactional id expires under a running owner; its epochs run out", "noticed; nothing twice", "N"),
    FaultRow("F52", "Spark starts a task again by itself", "the second attempt refuses itself; another one continues", "N"),
    FaultRow(
        "F53",
        "a late receipt or `closed` of an old owner; the ledger is compacted in between",
        "ignored; the map stays true",
        "N",
    ),
    FaultRow(
        "F54",
        "taking over after MirrorMaker 2 was killed (−9) under load",
        "its tail is found by reading: nothing twice",
        "P",
    ),
    FaultRow(
        "F55",
        "the target is compacted, or has too few replicas, while it is read to find out",
        "waits until it is settled; offsets and sequences decide, not counts",
        "N",
    ),
)

# What MirrorMaker 2 is put through too. To it a kill of the driver, an executor or a worker is one thing.
MM2_ROWS = ("F01", "F02", "F03", "F12", "F13", "F17", "F25", "F26", "F27", "F34", "F40", "F44")
