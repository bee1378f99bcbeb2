"""The data source that the transform query reads from and writes to; used only by that query."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from sparkmirror.datasource.arrow import NAMES, schema_of
from sparkmirror.transforms.orders import QueryOrder
from sparkmirror.transforms.reading import TransformReader
from sparkmirror.transforms.writing import TransformWriter

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

FORMAT = "sparkmirror-transforms"


class TransformSource(DataSource):
    """Both ends of a query; the option `order` selects one."""

    @classmethod
    def name(cls) -> str:
        """What `format` wants."""
        return FORMAT

    def schema(self) -> str:
        """The columns of a record that pass through Spark."""
        return schema_of(QueryOrder.of(self.options["order"]).carried or NAMES)

    def streamReader(self, schema: StructType) -> TransformReader:
        """One branch of the query."""
        return TransformReader(QueryOrder.of(self.options["order"]))

    def streamWriter(self, schema: StructType, overwrite: bool) -> TransformWriter:
        """The end of the query."""
        return TransformWriter(QueryOrder.of(self.options["order"]))
