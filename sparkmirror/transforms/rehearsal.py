"""One record through a query like the transform query, without a cluster: it loads every class for the class archive."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)

from sparkmirror.datasource.arrow import SCHEMA, to_arrow
from sparkmirror.datasource.functions import register_functions
from sparkmirror.transforms.shaping import as_written, filled_up
from sparkmirror.transforms.untouched import use_of
from sparkmirror.wire import Columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

FORMAT = "sparkmirror-rehearsal"
SQL = (
    "select * except (value), json_mask(value, '$.a') as value from records "
    "where length(key) > 0 and header(headers, 'h') is null"
)


def rehearse(session: SparkSession) -> None:
    """Returns when the record came through."""
    session.dataSource.register(Rehearsal)
    register_functions(session, SQL)
    session.createDataFrame([], SCHEMA).schema  # noqa: B018  a table without rows, as the transform query asks for its plans
    rows = filled_up(session.readStream.format(FORMAT).load())
    rows.createOrReplaceTempView("records")
    out = session.sql(SQL)
    use_of(rows, out)
    written = as_written(out, ()).unionByName(as_written(rows, ()))
    with tempfile.TemporaryDirectory() as folder:
        query = written.writeStream.format(FORMAT).queryName(FORMAT).option("checkpointLocation", folder).start()
        try:
            query.processAllAvailable()
        finally:
            query.stop()


class Rehearsal(DataSource):
    """Both ends."""

    @classmethod
    def name(cls) -> str:
        """What `format` wants."""
        return FORMAT

    def schema(self) -> str:
        """The columns of a record."""
        return SCHEMA

    def streamReader(self, schema: StructType) -> Reader:
        """One record."""
        return Reader()

    def streamWriter(self, schema: StructType, overwrite: bool) -> Writer:
        """Nothing is kept."""
        return Writer()


class Reader(DataSourceStreamReader):
    """One record at offset 0."""

    def initialOffset(self) -> dict[str, Any]:
        """Before it."""
        return {"at": 0}

    def latestOffset(self) -> dict[str, Any]:
        """Behind it."""
        return {"at": 1}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """One."""
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Its row."""
        yield to_arrow(Columns([0], [0], [b"k"], [b'{"a": 1}'], [()]), "rehearsal", 0, 0)


class Writer(DataSourceStreamArrowWriter):
    """Takes rows and forgets them."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task."""
        for _ in iterator:
            pass
        return WriterCommitMessage()
