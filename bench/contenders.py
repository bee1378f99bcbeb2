"""Who copies: sparkmirror, MirrorMaker 2 as it comes and as fast as it goes, and bare sockets as the limit."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.bare import Plan, write_plan
from bench.data import SourceTopic, make_empty_topic
from bench.tree import ProcessTree
from sparkmirror.errors import EnvironmentUnfit
from sparkmirror.local import kafka_jars
from sparkmirror.local.java import JavaCall, log_settings, log_tail
from sparkmirror.local.mirror_maker import MAIN_CLASS
from sparkmirror.local.processes import Child, ScratchFolder

__all__ = ["CONTENDERS", "LATENCY_CONTENDERS", "Contender", "Copy", "Running", "running", "shown_settings"]

# What Kafka's own start script gives MM2: the heap of connect-mirror-maker.sh and the options of kafka-run-class.sh.
MM2_HEAP_MB = 2048
MM2_JVM = (
    "-Xms256m",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
JSON_MASK = Path(__file__).with_name("java") / "JsonMask.java"
JAVAC_S = 120.0
MASKED_FIELD = "session"
INSTALLED = Path(sys.executable).with_name("sparkmirror")
MM2_TUNED_JVM = ("-Xms2048m", "-server", "-XX:+UseParallelGC")


@dataclass(frozen=True, slots=True)
class Copy:
    """One copy of a topic; its number makes aliases and with them remote topic and positions its own."""

    number: int
    source: str
    target: str
    topic: SourceTopic
    codec: str
    once: bool = True

    @property
    def aliases(self) -> tuple[str, str]:
        """Of the source and of the target."""
        return f"s{self.number}", f"t{self.number}"

    @property
    def remote(self) -> str:
        """The topic on the target."""
        return f"{self.aliases[0]}.{self.topic.name}"


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to copy: `command` writes what it needs into a folder and returns a command line."""

    key: str
    title: str
    command: Callable[[Copy, Path], list[str]]
    settings: Callable[[Copy], Mapping[str, str]]
    only: frozenset[str] = frozenset()  # scenarios; none means all
    needs: str = ""  # a program that must be there


@dataclass(frozen=True, slots=True)
class Running:
    """A contender at work."""

    started_at: float
    child: Child
    tree: ProcessTree
    log_files: tuple[Path, ...]

    def cpu_seconds(self) -> float:
        """CPU time of all its processes so far."""
        return self.tree.cpu_seconds() if self.child.is_running else self.child.cpu_seconds()

    def log_tail(self) -> str:
        """The end of what it wrote, for a person."""
        return "\n".join(filter(None, map(log_tail, self.log_files)))


@contextlib.contextmanager
def running(contender: Contender, copy: Copy) -> Iterator[Running]:
    """Starts a contender; it is gone with all its processes and files at the end."""
    scratch = ScratchFolder(f"bench-{contender.key}")
    try:
        command = contender.command(copy, scratch.path)
        output = scratch.path / "output.log"
        started_at = time.monotonic()
        child = Child(f"bench {contender.key}", command, log_file=output)
        tree = ProcessTree(child.pid)
        try:
            yield Running(started_at, child, tree, (output, scratch.path / "mm2.log"))
        finally:
            tree.kill()
            child.kill()
    finally:
        scratch.remove()


def shown_settings(contender: Contender, copy: Copy) -> dict[str, str]:
    """The settings for the report: aliases as `source` and `target`, without addresses."""
    source, target = copy.aliases
    shown = {}
    for key, value in contender.settings(copy).items():
        first, dot, rest = key.partition(".")
        first = first.replace(source, "source").replace(target, "target") if dot else first
        if key != "clusters" and not rest.startswith("bootstrap.servers"):
            shown[f"{first}{dot}{rest}"] = value
    return shown


def _flow_settings(copy: Copy) -> dict[str, str]:
    """The file that sparkmirror and MM2 share: one flow on clusters of one broker, and no other work than copying."""
    source, target = copy.aliases
    once = [f"{name}.replication.factor" for name in ("config.storage", "offset.storage", "status.storage")]
    once += [f"{name}.topic.replication.factor" for name in ("offset-syncs", "checkpoints", "heartbeats")]
    return {
        "clusters": f"{source}, {target}",
        f"{source}.bootstrap.servers": copy.source,
        f"{target}.bootstrap.servers": copy.target,
        f"{source}->{target}.enabled": "true",
        f"{source}->{target}.topics": copy.topic.name,
        f"{target}->{source}.enabled": "false",
        "replication.factor": "1",
        **dict.fromkeys(once, "1"),
        "emit.heartbeats.enabled": "false",
        "sync.topic.acls.enabled": "false",
    }


def _tuned_settings(copy: Copy) -> dict[str, str]:
    """MM2 for throughput."""
    source, target = copy.aliases
    return _flow_settings(copy) | {
        "tasks.max": "4",
        f"{target}.plugin.discovery": "service_load",
        f"{target}.producer.batch.size": str(512 << 10),
        f"{target}.producer.linger.ms": "20",
        f"{target}.producer.buffer.memory": str(128 << 20),
        f"{target}.producer.max.request.size": str(8 << 20),
        f"{target}.producer.compression.type": copy.codec,
        f"{source}.consumer.max.poll.records": "50000",
        f"{source}.consumer.fetch.max.bytes": str(64 << 20),
        f"{source}.consumer.max.partition.fetch.bytes": str(16 << 20),
        f"{source}.consumer.receive.buffer.bytes": str(1 << 20),
    }


def _latency_settings(copy: Copy) -> dict[str, str]:
    """MM2 for latency: nothing waits for more to come."""
    source, target = copy.aliases
    return _flow_settings(copy) | {
        "tasks.max": "4",
        f"{target}.producer.linger.ms": "0",
        f"{source}.consumer.fetch.min.bytes": "1",
    }


def _write_settings(settings: Mapping[str, str], folder: Path) -> str:
    file = folder / "mm2.properties"
    file.write_text("".join(f"{key} = {value}\n" for key, value in settings.items()), encoding="utf-8")
    return str(file)


def _sparkmirror(
    settings: Callable[[Copy], Mapping[str, str]], program: Path = INSTALLED
) -> Callable[[Copy, Path], list[str]]:
    def command(copy: Copy, folder: Path) -> list[str]:
        if not program.is_file():
            raise EnvironmentUnfit(f"{program}: expected the sparkmirror command, found nothing", hint="make install")
        # Workers import from the folder they start in, which here holds this version.
        elsewhere = [] if program == INSTALLED else [shutil.which("env") or "/usr/bin/env", "-C", str(folder)]
        words = [*elsewhere, str(program), "run", _write_settings(settings(copy), folder)]
        return [*words, "--once"] if copy.once else words

    return command


def _transformed(sql: str) -> Callable[[Copy], Mapping[str, str]]:
    """The flow with a transform: its topic is copied by the transform query."""

    def settings(copy: Copy) -> Mapping[str, str]:
        source, target = copy.aliases
        keys = {"topics": copy.topic.name, "sql": sql}
        more = {f"{source}->{target}.transform.bench.{key}": value for key, value in keys.items()}
        return _flow_settings(copy) | {f"{target}.producer.compression.type": copy.codec} | more

    return settings


def _mirror_maker(
    settings: Callable[[Copy], Mapping[str, str]], jvm: tuple[str, ...]
) -> Callable[[Copy, Path], list[str]]:
    def command(copy: Copy, folder: Path) -> list[str]:
        log_option = log_settings(folder / "log4j2.properties", log_file=folder / "mm2.log", level="warn")
        arguments = [_write_settings(settings(copy), folder)]
        options = [*jvm, log_option]
        return JavaCall(kafka_jars(), MAIN_CLASS, arguments, heap_mb=MM2_HEAP_MB, options=options).command()

    return command


def _masking(settings: Callable[[Copy], Mapping[str, str]]) -> Callable[[Copy], Mapping[str, str]]:
    """MM2 with Kafka's MaskField, and Kafka's JsonConverter around it: by itself it does not take MM2's bytes."""

    def masked(copy: Copy) -> Mapping[str, str]:
        source, target = copy.aliases
        keys = {"transforms": "mask", "transforms.mask.type": "bench.JsonMask", "transforms.mask.fields": MASKED_FIELD}
        return {**settings(copy), **{f"{source}->{target}.{key}": value for key, value in keys.items()}}

    return masked


def _mirror_maker_with_mask(copy: Copy, folder: Path) -> list[str]:
    """Compiles the transform first; MM2 finds it as it finds Kafka's own."""
    classes = folder / "classes"
    services = classes / "META-INF" / "services"
    services.mkdir(parents=True)
    (services / "org.apache.kafka.connect.transforms.Transformation").write_text("bench.JsonMask\n", encoding="utf-8")
    jars = kafka_jars()
    subprocess.run(["javac", "-cp", f"{jars}/*", "-d", str(classes), str(JSON_MASK)], check=True, timeout=JAVAC_S)
    command = _mirror_maker(_masking(_tuned_settings), MM2_TUNED_JVM)(copy, folder)
    command[command.index("-cp") + 1] = f"{classes}:{jars}/*"
    return command


def _bare_plan(copy: Copy) -> Plan:
    processes = os.cpu_count() or 1
    return Plan(copy.source, copy.target, copy.topic.name, copy.remote, copy.topic.ends, processes)


def _bare(copy: Copy, folder: Path) -> list[str]:
    make_empty_topic(copy.target, copy.remote, len(copy.topic.ends))
    write_plan(_bare_plan(copy), folder / "plan.json")
    return [sys.executable, "-m", "bench.bare", str(folder / "plan.json")]


MM2_DEFAULT = Contender("mm2-default", "MM2, defaults", _mirror_maker(_flow_settings, MM2_JVM), _flow_settings)
MM2_TUNED = Contender("mm2-tuned", "MM2, tuned", _mirror_maker(_tuned_settings, MM2_TUNED_JVM), _tuned_settings)
MM2_QUICK = Contender("mm2-tuned", "MM2, tuned", _mirror_maker(_latency_settings, MM2_JVM), _latency_settings)
SPARKMIRROR = Contender("sparkmirror", "sparkmirror", _sparkmirror(_flow_settings), _flow_settings)
_PASSED = _transformed("select * from records")
_MASKED = _transformed(f"select * except (value), json_mask(value, '$.{MASKED_FIELD}') as value from records")
RECORDS = Contender("records", "sparkmirror, as records", _sparkmirror(_PASSED), _PASSED, frozenset({"plain", "json"}))
MASKED = Contender("masked", "sparkmirror, JSON masked", _sparkmirror(_MASKED), _MASKED, frozenset({"json"}))
MM2_MASKED = Contender(
    "mm2-masked",
    "MM2, tuned, JSON masked",
    _mirror_maker_with_mask,
    _masking(_tuned_settings),
    frozenset({"json"}),
    needs="javac",
)
BARE = Contender("bare", "bare sockets", _bare, lambda copy: {"processes": str(_bare_plan(copy).processes)})

# Another version of sparkmirror, such as the one before a change: the path of its command.
_FORMER = os.environ.get("SPARKMIRROR_FORMER")
_former = _sparkmirror(_flow_settings, Path(_FORMER or ""))
FORMER = Contender("former", "sparkmirror, former version", _former, _flow_settings)

_ALL = (MM2_DEFAULT, MM2_TUNED, MM2_MASKED, *([FORMER] if _FORMER else []), SPARKMIRROR, RECORDS, MASKED, BARE)
CONTENDERS = {contender.key: contender for contender in _ALL}
LATENCY_CONTENDERS = {contender.key: contender for contender in (MM2_DEFAULT, MM2_QUICK, SPARKMIRROR, RECORDS)}
