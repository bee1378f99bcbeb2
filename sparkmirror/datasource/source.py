"""The data source `kafka-records`: topics as tables and streams of rows, and rows as records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from sparkmirror.datasource.arrow import SCHEMA, unfit_columns
from sparkmirror.datasource.options import ReadOptions, WriteOptions
from sparkmirror.datasource.reader import BatchReader, StreamReader
from sparkmirror.datasource.writer import BatchWriter, StreamWriter
from sparkmirror.errors import ConfigInvalid

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

class KafkaRecords(DataSource):
    """`spark.read.format("kafka-records")` and the other three; the options are those of Spark's own connector."""

    @classmethod
    def name(cls) -> str:
        """What `format` wants."""
        return "kafka-records"

    def schema(self) -> str:
        """The columns of a record."""
        return SCHEMA

    def reader(self, schema: StructType) -> BatchReader:
        """A table."""
        return BatchReader(ReadOptions.of(self.options, streaming=False))

    def streamReader(self, schema: StructType) -> StreamReader:
        """A stream."""
        return StreamReader(ReadOptions.of(self.options, streaming=True))

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """Appends a table."""
        if overwrite:
            raise ConfigInvalid("kafka-records", ["mode: a topic is only appended to; expected append, found overwrite"])
        return BatchWriter(_fitting(schema, WriteOptions.of(self.options)))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        """Appends a stream."""
        if overwrite:
            raise ConfigInvalid("kafka-records", ["outputMode: a topic is only appended to; expected append"])
        return StreamWriter(_fitting(schema, WriteOptions.of(self.options)))


def _fitting(schema: StructType, options: WriteOptions) -> WriteOptions:
    problems = list(unfit_columns([(field.name, field.dataType.simpleString()) for field in schema.fields]))
    if problems:
        raise ConfigInvalid("kafka-records", problems)
    return options
