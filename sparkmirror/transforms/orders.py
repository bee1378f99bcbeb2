"""What the driver sends to the tasks of the transform query, as text only: secrets stay in the configuration file."""

from __future__ import annotations

import functools
import shutil
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from sparkmirror.config import FlowSettings, SentSettings, TransformSettings
from sparkmirror.datasource.options import ClusterOptions
from sparkmirror.ledger import Attempt
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.process import Process

FOLDER = "sparkmirror-transforms-"
LEFT_S = 3600.0  # a batch takes seconds; the next range file creates the folder again
# The columns that are the record itself, whatever place it has.
PARTS = frozenset({"timestamp", "key", "value", "headers"})


@dataclass(frozen=True, slots=True)
class Change:
    """One column made of another by our own functions, each a name and the texts it is given beside the column."""

    column: str
    origin: str
    steps: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class QueryOrder:
    """One query: the flow it serves, and the producer epoch that shows whether it is still the newest query.

    `group` numbers the topics that pass the same transforms, each a branch of the query; −1 is the writer, for all of them.
    `carried` are the columns that go into Spark, `spooled` those that do not come out of it: the writer reads them from the
    task's spool and applies the remaining changes of each group.
    """

    settings: SentSettings
    source: str
    target: str
    ledger_topic: str
    folder: str
    name: str
    query_id: str
    producer_id: int
    producer_epoch: int
    names_are_final: bool = False
    group: int = -1
    carried: tuple[str, ...] = ()
    spooled: tuple[str, ...] = ()
    changes: tuple[tuple[Change, ...], ...] = ()
    file_words: str = ""  # how a command line names the configuration file

    @property
    def has_spool(self) -> bool:
        """Whether anything of a record but its place waits there."""
        return not PARTS.isdisjoint(self.spooled)

    def text(self) -> str:
        """As the option of a data source."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def of(cls, text: str) -> QueryOrder:
        """The same back."""
        return msgspec.json.decode(text, type=cls)

    @classmethod
    def of_trial(cls, settings: SentSettings, flow: FlowName) -> QueryOrder:
        """For transforms that are only tried: nothing is written by it."""
        return cls(settings, flow.source, flow.target, "", "", "trial", "", -1, -1)

    def cluster(self, alias: str) -> ClusterOptions:
        """How tasks reach a cluster."""
        return ClusterOptions((("config", self.settings.text()), ("cluster", alias)))


@dataclass(frozen=True)
class QueryEntry:
    """One source partition of the query: its start offset, its attempt and its remote topic."""

    topic: str
    partition: int
    attempt: Attempt
    start: int
    until: int | None
    remote: str
    partitions: int
    source_topic_id: str
    done: tuple[tuple[int, int], ...] = ()  # ranges from `start` on that an earlier attempt appended
    group: int = 0
    end: int = -1  # of one batch

    @property
    def place(self) -> TopicPartition:
        """The source partition."""
        return TopicPartition(self.topic, self.partition)

    @property
    def home(self) -> TopicPartition:
        """Where its records go unless a transform names another place."""
        return TopicPartition(self.remote, self.partition)

    def text(self) -> str:
        """As a line of a file."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def of(cls, text: str) -> QueryEntry:
        """The same back."""
        return msgspec.json.decode(text, type=cls)


@dataclass(frozen=True, slots=True)
class Suspect:
    """A range in which the query may have failed, and how many partitions its topic has."""

    partition: TopicPartition
    partitions: int
    start: int
    end: int
    transforms: tuple[TransformSettings, ...]


@dataclass(frozen=True, slots=True)
class PoisonRecord:
    """The first record of its partition that the transforms cannot handle, and their error."""

    partition: TopicPartition
    offset: int
    reason: str


@functools.lru_cache(maxsize=8)
def flow_of(order: QueryOrder) -> FlowSettings:
    """The flow as the order says, with the secrets of the file where it is used."""
    return order.settings.load().flow(FlowName(order.source, order.target))


# --- the list of partitions: written by the driver, read by Spark's planner on the same machine ----------------------


def write_entries(folder: str, entries: Iterable[QueryEntry], *, is_ending: bool) -> None:
    """Lists the partitions that take part; with `is_ending` no further batch starts."""
    path = Path(folder, "partitions")
    lines = ["ending" if is_ending else "running", *(entry.text() for entry in entries)]
    new = path.with_suffix(".new")
    new.write_text("\n".join(lines), encoding="utf-8")
    new.replace(path)


def read_entries(folder: str) -> tuple[dict[TopicPartition, QueryEntry], bool]:
    """The partitions, and whether no further batch may start."""
    first, *lines = Path(folder, "partitions").read_text(encoding="utf-8").split("\n")
    entries = [QueryEntry.of(line) for line in lines if line]
    return {entry.place: entry for entry in entries}, first == "ending"


# --- range_files: a task's reader passes the range to its writer, in another process of the same task ---------------------


def write_range_file(order: QueryOrder, task: int, entry: QueryEntry) -> None:
    """Before the first row."""
    folder = range_files_folder(order)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / str(task)
    path.with_suffix(".new").write_text(entry.text(), encoding="utf-8")
    path.with_suffix(".new").replace(path)


def take_range_file(order: QueryOrder, task: int) -> QueryEntry | None:
    """After the first row, or after none came; none if the task reads nothing."""
    path = range_files_folder(order) / str(task)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    path.unlink()
    return QueryEntry.of(text)


def range_files_folder(order: QueryOrder) -> Path:
    """In the temporary folder of whatever machine the task runs on; on the driver's that is the query's own."""
    return Path(tempfile.gettempdir(), f"{FOLDER}{order.name}", "range_files")


def make_folder(name: str) -> str:
    """The folder of a query on the driver's machine; it names its owner."""
    path = Path(tempfile.gettempdir(), f"{FOLDER}{name}")
    path.mkdir(mode=0o700)
    (path / "owner").write_text(Process.this().name, encoding="utf-8")
    return str(path)


def remove_left_folders() -> None:
    """Folders of drivers that are seen to be dead; on a machine that only runs tasks, folders unused for long."""
    this, now = Process.this(), time.time()
    for path in Path(tempfile.gettempdir()).glob(f"{FOLDER}*"):
        owner, range_files = path / "owner", path / "range_files"
        with suppress(OSError):  # another one removes it too, or it is another user's
            is_left = this.is_dead(owner.read_text(encoding="utf-8")) if owner.exists() else _is_old(range_files, now)
            if is_left:
                shutil.rmtree(path)


def _is_old(folder: Path, now: float) -> bool:
    return now - folder.stat().st_mtime > LEFT_S
