"""What stands behind each console block: clusters, records and MirrorMaker 2, set up before its commands run."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from integration.damage import damage, flip_bit
from integration.mirroring import (
    await_true,
    create_topics,
    log_ends,
    move_log_start,
    numbered,
    produce,
    topics_of,
    transaction,
    transactional,
)
from integration.scenario import client_of, commit

from papers.pages import PROMPT, ROOT
from sparkmirror.clusters import committed_offsets, read_to_end
from sparkmirror.local import LocalCluster, MirrorMaker, open_clusters
from sparkmirror.local.java import QUICK_START
from sparkmirror.model import TopicPartition

__all__ = ["BLOCKS", "STAGES", "Block", "Shell", "run_stages"]

COLUMNS = 118
SECONDS_MAX = 300.0
MM2_SECONDS_MAX = 300.0
ONE_REPLICA = {
    f"{name}replication.factor": "1"
    for name in ("", "offset-syncs.topic.", "checkpoints.topic.", "heartbeats.topic.", "offset.storage.")
}
# Of MirrorMaker 2's Connect worker alone.
WORKER = {
    "B.offset.flush.interval.ms": "1000",
    "B.status.storage.replication.factor": "1",
    "B.config.storage.replication.factor": "1",
}


def _all(lines: list[str]) -> list[str]:
    return lines


def _ends(head: int, tail: int) -> Callable[[list[str]], list[str]]:
    """The first and last lines, with a dash of dots for what lies between."""
    return lambda lines: lines if len(lines) <= head + tail + 1 else [*lines[:head], "…", *lines[-tail:]]


def _since(words: str) -> Callable[[list[str]], list[str]]:
    """From the first line that holds these words on, and dots for what lies before."""

    def kept(lines: list[str]) -> list[str]:
        [at, *_] = [number for number, line in enumerate(lines) if words in line]
        return ["…", *lines[at:]] if at else lines

    return kept


def _until(words: str) -> Callable[[list[str]], list[str]]:
    """Up to the first line that holds these words, and dots for the rest."""

    def kept(lines: list[str]) -> list[str]:
        [at, *_] = [number for number, line in enumerate(lines, 1) if words in line]
        return [*lines[:at], "…"] if at < len(lines) else lines

    return kept


@dataclass(frozen=True, slots=True)
class Block:
    """How a block is run: the exit status that its last command must have, and the lines that the page shows."""

    status: int = 0
    shown: Callable[[list[str]], list[str]] = _all


BLOCKS: Mapping[str, Block] = {
    "demo": Block(shown=_ends(9, 10)),
    "plan": Block(),
    "run-once": Block(),
    "stop": Block(status=4, shown=_since("ERROR")),
    "skip": Block(),
    "translate": Block(),
    "offsets-list": Block(),
    "offsets-running": Block(status=5),
    "offsets-preview": Block(),
    "offsets-with-target": Block(),
    "offsets-set": Block(),
    "offsets-undo": Block(),
    "offsets-import": Block(status=2),
    "verify": Block(),
    "verify-differs": Block(status=4),
    "try": Block(shown=_until("Nothing was written")),
}


@dataclass
class Shell:
    """Runs the commands of named blocks in a folder, and keeps what they print."""

    commands: Mapping[str, list[str]]
    folder: Path
    printed: dict[str, list[str]] = field(default_factory=dict)

    def run(self, name: str) -> None:
        """Every command of the block; raises if the last one ends with another status than the block says."""
        lines: list[str] = []
        status = 0
        for command in self.commands[name]:
            status, output = self._run(command)
            lines += [PROMPT + command, *BLOCKS[name].shown(output)]
        if status != BLOCKS[name].status:
            raise AssertionError(f"{name}: status {status}, expected {BLOCKS[name].status}\n" + "\n".join(lines))
        self.printed[name] = lines

    def _run(self, command: str) -> tuple[int, list[str]]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = os.environ | {"PATH": path, "COLUMNS": str(COLUMNS), "LC_ALL": "C.UTF-8"}
        ended = subprocess.run(["bash", "-c", command], cwd=self.folder, env=environment, text=True, check=False,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               timeout=SECONDS_MAX)  # fmt: skip
        output = ended.stdout.replace(f"{self.folder}/", "")  # the only thing that is not as it was printed
        return ended.returncode, [line.rstrip() for line in output.splitlines()]


@contextmanager
def _clusters(shell: Shell, source: str, target: str, keys: Mapping[str, str]) -> Iterator[tuple[LocalCluster, ...]]:
    """Two clusters, and an mm2.properties for them in the shell's folder."""
    with open_clusters(LocalCluster(source), LocalCluster(target)) as (first, second):
        addresses = {f"{source}.bootstrap.servers": first.bootstrap, f"{target}.bootstrap.servers": second.bootstrap}
        text = {"clusters": f"{source}, {target}", f"{source}->{target}.enabled": "true"} | addresses | ONE_REPLICA | keys
        (shell.folder / "mm2.properties").write_text(_lines(text))
        yield first, second


def _lines(keys: Mapping[str, str]) -> str:
    return "".join(f"{key} = {value}\n" for key, value in keys.items())


def demo(shell: Shell) -> None:
    """The demo starts its own clusters."""
    shell.run("demo")


def quick_start(shell: Shell) -> None:
    """A new flow: planned, copied, and then stopped by a source that deleted records before they were copied."""
    keys = {"primary->dr.topics": "orders, customers", "sync.group.offsets.enabled": "true", "tasks.max": "2"}
    with _clusters(shell, "primary", "dr", keys) as (primary, _):
        create_topics(primary, {"orders": (3, {}), "customers": (1, {"cleanup.policy": "compact"}), "audit": (1, {})})
        for partition in range(3):
            produce(primary, "orders", partition, numbered(2000, size=200))
        commit(primary, "billing", "orders", {0: 1200, 1: 2000, 2: 1731})
        shell.run("plan")
        shell.run("run-once")
        shell.run("translate")
        produce(primary, "orders", 1, numbered(300, size=200))
        move_log_start(primary, "orders", 1, 2100)
        shell.run("stop")
        shell.run("skip")


def offsets(shell: Shell) -> None:
    """A flow that MirrorMaker 2 runs. Then it is stopped, and its positions are changed."""
    keys = {
        "A->B.topics": "orders",
        "A->B.sync.group.offsets.enabled": "true",
        "A->B.tasks.max": "2",
        **{f"A->B.{name}.interval.seconds": "1" for name in ("emit.checkpoints", "sync.group.offsets", "refresh.groups")},
    }
    with _clusters(shell, "A", "B", keys) as (source, target):
        create_topics(source, {"orders": (2, {})})
        for partition in range(2):
            produce(source, "orders", partition, numbered(500))
        commit(source, "billing", "orders", {0: 500, 1: 500})
        text = (shell.folder / "mm2.properties").read_text() + _lines(WORKER)
        with MirrorMaker(text, name="papers", jvm_options=QUICK_START) as mm2:
            await_true(lambda: _is_copied(target), MM2_SECONDS_MAX, "MirrorMaker 2 copies and stores its positions")
            shell.run("offsets-list")
            shell.run("offsets-running")
            mm2.stop()
        for name in ("offsets-preview", "offsets-with-target", "offsets-set", "offsets-undo"):
            shell.run(name)
        wrong = '{"offsets":[{"partition":{"cluster":"C","partition":0,"topic":"orders"},"offset":{"offset":499}}]}\n'
        (shell.folder / "positions.json").write_text(wrong)
        shell.run("offsets-import")


def _is_copied(target: LocalCluster) -> bool:
    """Whether both partitions are on the target, their positions are stored and the group is synced."""
    if "A.orders" not in topics_of(target) or log_ends(target, "A.orders") != {0: 500, 1: 500}:
        return False
    stored = set()
    with client_of(target) as client:
        for partition in range(25):
            found = read_to_end(client, TopicPartition("mm2-offsets.A.internal", partition))
            stored |= {record.key for record in found if record.value == b'{"offset":499}'}
        if len(stored) < 2:
            return False
        committed = committed_offsets(client, ["billing"])["billing"].committed
    return sum(found is not None for found in committed.values()) == 2


def transforms(shell: Shell) -> None:
    """Three records that two transforms treat in three ways."""
    keys = {
        "eu->world.topics": "orders",
        "eu->world.transform.pii.topics": "orders",
        "eu->world.transform.pii.sql": (
            "select * except (value), json_mask(value, '$.card') as value from records "
            "where get_json_object(string(value), '$.country') <> 'us'"
        ),
        "eu->world.transform.route.topics": "orders",
        "eu->world.transform.route.order": "1",
        "eu->world.transform.route.sql": (
            "select * except (topic), if(value like '%\"fr\"%', 'orders-fr', topic) as topic from records"
        ),
    }
    with _clusters(shell, "eu", "world", keys) as (eu, _):
        create_topics(eu, {"orders": (2, {})})
        produce(eu, "orders", 0, [b'{"id":1,"name":"Ada","card":"4711 0815","country":"de","amount":12.50}',
                                  b'{"id":3,"name":"Bob","card":"5555 1234","country":"us","amount":7}'])  # fmt: skip
        produce(eu, "orders", 1, [b'{"id":2,"name":"Eve","card":"9999 0000","country":"fr","amount":1e3}'])
        shell.run("try")


def verify(shell: Shell) -> None:
    """A copy that is the same, and then is not any more."""
    with _clusters(shell, "A", "B", {"A->B.topics": "orders, payments"}) as (source, target):
        create_topics(source, {"orders": (3, {}), "payments": (1, {})})
        for partition in range(3):
            produce(source, "orders", partition, numbered(4000, size=200))
        with transactional(source, "shop") as producer:
            for number in range(4):
                transaction(producer, "payments", numbered(25), commit=number != 2)
        program = str(Path(sys.executable).with_name("sparkmirror"))
        copying = [program, "run", "mm2.properties", "--once"]
        subprocess.run(copying, cwd=shell.folder, check=True, stdout=subprocess.DEVNULL)
        shell.run("verify")
        damage(target, "A.orders", 1234, flip_bit)
        produce(target, "A.payments", 0, numbered(1))
        shell.run("verify-differs")


def pictures(_: Shell) -> None:
    """doctor and inspect on a terminal, and the death of a source, drawn by their own scripts."""
    for script in ("stage.py", "dead_source.py"):
        subprocess.run([sys.executable, str(ROOT / "docs" / "pictures" / script)], check=True)


STAGES: Mapping[str, Callable[[Shell], None]] = {
    "demo": demo,
    "quick_start": quick_start,
    "offsets": offsets,
    "transforms": transforms,
    "verify": verify,
    "pictures": pictures,
}


def run_stages(names: list[str], commands: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """The lines of every block of these stages."""
    printed: dict[str, list[str]] = {}
    for name in names:
        with tempfile.TemporaryDirectory(prefix="sparkmirror-papers-") as folder:
            shell = Shell(commands, Path(folder))
            STAGES[name](shell)
        printed |= shell.printed
    return printed
