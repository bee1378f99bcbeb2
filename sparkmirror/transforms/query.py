"""One run of a flow's Structured Streaming query, on a thread of its own."""

from __future__ import annotations

import logging
import shutil
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from sparkmirror.config import FlowSettings, TransformSettings
from sparkmirror.errors import ConfigError, SparkmirrorError
from sparkmirror.session.root_cause import OURS, root_cause
from sparkmirror.session.spark_slots import SparkSlots
from sparkmirror.transforms.orders import PoisonRecord, QueryEntry, QueryOrder, Suspect, write_entries

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from sparkmirror.transforms.untouched import Use

WATCH_S = 0.2
STOP_S = 15.0


class QueryRun:
    """One run from start to end; `ended` gets the reason, an empty one if the run was asked to stop.

    With `suspects` it first looks for records that the transforms cannot handle, and ends at once if there are some.
    """

    def __init__(
        self,
        spark: SparkSlots,
        flow: FlowSettings,
        order: QueryOrder,
        groups: Sequence[tuple[TransformSettings, ...]],
        suspects: Sequence[Suspect],
        ended: Callable[[QueryRun, str], None],
    ) -> None:
        self.order = order
        self.groups = tuple(groups)
        self.refusal: SparkmirrorError | None = None
        self.culprits: list[PoisonRecord] = []
        self.has_failed_in_spark = False
        self.is_started = False
        self._suspects = suspects
        self._spark, self._flow, self._ended = spark, flow, ended
        self._ours: dict[str, Any] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"{flow.name} records", daemon=True)

    def start(self, entries: Sequence[QueryEntry]) -> None:
        """Starts with these partitions."""
        write_entries(self.order.folder, entries, is_ending=False)
        self._thread.start()

    def list(self, entries: Sequence[QueryEntry], *, is_ending: bool = False) -> None:
        """The partitions that take part from the next batch on."""
        with suppress(FileNotFoundError):  # it has ended meanwhile, and its folder is gone with it
            write_entries(self.order.folder, entries, is_ending=is_ending)

    def stop(self) -> None:
        """Ends after the batch that is under way, if that ends soon; the entries must have been listed as ending."""
        self._stop.set()

    @property
    def is_alive(self) -> bool:
        """Whether its thread runs."""
        return self._thread.is_alive()

    def _run(self) -> None:
        outcome = ""
        try:
            self._run_query()
        except SparkmirrorError as error:
            self.refusal, outcome = error, str(error)
        except Exception as error:  # noqa: BLE001  border to Spark: a query that failed is restarted
            outcome = root_cause(error)
            self.has_failed_in_spark = not outcome.startswith(OURS)
        finally:
            self._ended(self, outcome)
            shutil.rmtree(self.order.folder, ignore_errors=True)

    def _run_query(self) -> None:
        from pyspark.sql import SparkSession

        from sparkmirror.datasource.functions import register_functions
        from sparkmirror.datasource.source import KafkaRecords
        from sparkmirror.transforms.poison_record import find_poison_record
        from sparkmirror.transforms.source import FORMAT, TransformSource

        logging.getLogger("SQLQueryContextLogger").disabled = True  # Spark's second, longer message about an error
        session = SparkSession(self._spark.wait())
        # Data sources are looked up in the session that is active in this thread, and a new thread has none.
        session._jvm.SparkSession.setActiveSession(session._jsparkSession)
        session.dataSource.register(TransformSource)
        self._ours = register_functions(session, self._words())
        if self._suspects:
            session.dataSource.register(KafkaRecords)
            found = (find_poison_record(session, self._flow, self.order, suspect) for suspect in self._suspects)
            self.culprits = [poison for poison in found if poison is not None]
            if self.culprits:
                return
        rows = self._rows(session, FORMAT)
        checkpoint = tempfile.mkdtemp(prefix="checkpoint-", dir=self.order.folder)
        writing = rows.writeStream.format(FORMAT).queryName(self.order.name).option("checkpointLocation", checkpoint)
        query = writing.option("order", self.order.text()).start()
        self.is_started = True
        try:
            while not self._stop.is_set():
                if query.awaitTermination(WATCH_S):  # raises what ended it
                    return
            waiting = threading.Thread(target=_drain, args=(query,), name="draining", daemon=True)
            waiting.start()
            waiting.join(STOP_S)
        finally:
            query.stop()

    def _words(self) -> str | None:
        """The SQL that may name our functions; None if a Python function may use any. Each one costs start time."""
        transforms = [transform for group in self.groups for transform in group]
        if any(transform.function for transform in transforms):
            return None
        return " ".join(transform.sql for transform in transforms)

    def _rows(self, session: SparkSession, source: str) -> DataFrame:
        """A branch for each group of topics that pass the same transforms; each partition is read by one of them."""
        from sparkmirror.datasource.arrow import SCHEMA
        from sparkmirror.transforms.shaping import as_written, filled_up, shaped
        from sparkmirror.transforms.untouched import use_of

        def changed(rows: DataFrame, number: int) -> DataFrame:
            return shaped(session, rows, self._flow, self.order, self.groups[number])

        table = session.createDataFrame([], SCHEMA)
        uses = [use_of(table, changed(table, number), self._ours) for number in range(len(self.groups))]
        # A record is known by its offset; and the writer has the same columns of every branch.
        spooled = reduce(frozenset.__and__, [use.left_to_writer for use in uses]) - {"offset"}
        if not all("offset" in use.kept for use in uses):
            spooled = frozenset()
        changes = tuple(tuple(change for change in use.changes if change.column in spooled) for use in uses)
        self.order = replace(self.order, spooled=tuple(sorted(spooled)), changes=changes)
        branches = []
        for number, use in enumerate(uses):
            rows = filled_up(session.readStream.format(source).option("order", self._branch(number, use).text()).load())
            out = changed(rows, number)
            if use_of(rows, out, self._ours) != use:
                where = f"{self.order.settings.path}: {self._flow.name}"
                raise ConfigError(f"{where}: a transform returns a different plan on each call")
            branches.append(as_written(out, spooled))
        return reduce(lambda left, right: left.unionByName(right), branches)

    def _branch(self, number: int, use: Use) -> QueryOrder:
        """Into Spark goes what anything looks at, and what one branch gives to the writer because another one must."""
        from sparkmirror.datasource.arrow import NAMES

        spooled = set(self.order.spooled)
        origins = {change.origin for change in use.changes if change.column not in spooled}
        carried = use.read | (use.kept - spooled) | origins | {"offset"}
        return replace(self.order, group=number, carried=tuple(name for name in NAMES if name in carried))


def _drain(query: StreamingQuery) -> None:
    """Until no batch is under way; what fails then is found out as after a crash."""
    from pyspark.errors import PySparkException

    with suppress(PySparkException):
        query.processAllAvailable()
