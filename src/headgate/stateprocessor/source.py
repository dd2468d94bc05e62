"""The data source `headgate-savepoint`: the state in a snapshot as a DataFrame of Spark.

Spark finds it by this name where Headgate is installed, also without :func:`register`. Spark does not report
to a Python data source which columns a query needs, so the read names them: by option `columns`, or a schema.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import datasource as spark_source
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType
from typing_extensions import override

from headgate.common.errors import UsageError
from headgate.stateprocessor.reading.reading_filters import Condition, kept, understood, wanted_groups
from headgate.stateprocessor.reading.reading_options import ReadRequest, read_request
from headgate.stateprocessor.reading.reading_plan import Piece, Reading, reading_of
from headgate.stateprocessor.reading.reading_shape import chosen, converter, spark_schema

NAME: Final = "headgate-savepoint"
_PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"
_PUSHING: Final = "pyspark.sql.worker.data_source_pushdown_filters"
"""The module that Spark runs where it pushes conditions down."""


def register(spark: SparkSession) -> None:
    """Make `spark.read.format("headgate-savepoint")` known to a session.

    It is known without this wherever Headgate is installed on the driver and on the workers. This call also
    switches `spark.sql.python.filterPushdown.enabled` on, which the option `pushdown` needs.

    Args:
        spark: the session.

    Raises:
        UsageError: `spark` is no session.
    """
    if not hasattr(spark, "dataSource"):
        raise UsageError(f"register() got {spark!r} of type {type(spark).__name__}; expected a SparkSession")
    spark.dataSource.register(SavepointSource)
    spark.conf.set(_PUSHDOWN, "true")


class SavepointSource(spark_source.DataSource):
    """Spark's data source for one read: a snapshot and a state of it; see `docs/state-as-dataframes.md`."""

    _found: Reading | None = None

    @classmethod
    @override
    def name(cls) -> str:
        return NAME

    @property
    def reading(self) -> Reading:
        """The plan of the read, made once from the options, or UsageError; pickled with the source."""
        if self._found is None:
            # Spark makes the keys of options lower-case, as all of ours are.
            self._found = reading_of(self._request)
        return self._found

    @property
    def _request(self) -> ReadRequest:
        return read_request(dict(self.options))

    @override
    def schema(self) -> StructType:
        """Return the DataFrame's schema: the columns of option `columns`, in the table's order, or all.

        Spark calls it unless the program gives a schema. UsageError: an option is wrong.
        """
        columns = self.reading.columns
        names = chosen(columns.names, self._request.columns)
        return _struct(pa.schema([columns.field(name) for name in names]))

    @override
    def reader(self, schema: StructType) -> SavepointReader:
        """Return the reader of the columns in `schema`; UsageError for an unknown column or another type."""
        names = schema.fieldNames()
        chosen(self.reading.columns.names, names)
        mine = _struct(pa.schema([self.reading.columns.field(name) for name in names]))
        for field, own in zip(schema.fields, mine.fields, strict=True):
            if field.dataType != own.dataType:
                raise UsageError(
                    f"column {field.name!r} is {own.dataType.simpleString()}, and the schema of the read "
                    f"says {field.dataType.simpleString()}; leave the schema out, or cast what was read"
                )
        # Spark refuses a reader that takes conditions where it may not push any down; and once it has, it
        # reads no more than these left for every later query of the same DataFrame: hence the option.
        pushing = _PUSHING in sys.modules and self._request.pushdown
        kind = FilteringReader if pushing else SavepointReader
        return kind(self.reading, names)


def _struct(columns: pa.Schema) -> StructType:
    made: StructType = from_arrow_schema(spark_schema(columns), prefer_timestamp_ntz=True)
    return made


class SavepointPartition(spark_source.InputPartition):
    """Spark's partition of a read: wraps the :class:`Piece` that one Spark task reads."""

    def __init__(self, piece: Piece) -> None:
        self.piece = piece


class SavepointReader(spark_source.DataSourceReader):
    """Reads the columns `names` of a planned read of a snapshot's state, by partitions, in Spark's tasks."""

    def __init__(self, reading: Reading, names: Sequence[str]) -> None:
        self._reading, self._names = reading, list(names)
        self._conditions: list[Condition] = []

    @override
    def partitions(self) -> list[spark_source.InputPartition]:
        columns = spark_schema(self._reading.columns)
        groups = wanted_groups(self._conditions, columns, self._reading.max_parallelism)
        return [SavepointPartition(piece) for piece in self._reading.pieces(groups)]

    @override
    def read(self, partition: spark_source.InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, SavepointPartition):
            return  # Spark's stand-in where there is nothing to read
        convert, made = None, None
        for batch in partition.piece.batches(self._reading.open(), self._names):
            if convert is None or batch.schema != made:
                convert, made = converter(batch.schema, self._names), batch.schema
            rows = kept(convert(batch), self._conditions)
            if len(rows):
                yield rows


class FilteringReader(SavepointReader):
    """Reads some columns, and only rows for which the conditions that Spark pushed down may hold."""

    @override
    def pushFilters(self, filters: list[spark_source.Filter]) -> Iterable[spark_source.Filter]:
        """Keep the filters that are understood, to read less; return all, as Spark evaluates them again."""
        columns = spark_schema(self._reading.columns)
        made = [condition for each in filters if (condition := _condition(each)) is not None]
        self._conditions = [
            each for each in made if each.column[0] in self._names and understood(each, columns)
        ]
        return filters


_TESTS: Final[dict[type, str]] = {
    spark_source.EqualTo: "=",
    spark_source.LessThan: "<",
    spark_source.LessThanOrEqual: "<=",
    spark_source.GreaterThan: ">",
    spark_source.GreaterThanOrEqual: ">=",
    spark_source.StringStartsWith: "begins",
}


def _condition(of_spark: spark_source.Filter) -> Condition | None:
    if isinstance(of_spark, spark_source.IsNull):
        return Condition(of_spark.attribute, "null")
    if isinstance(of_spark, spark_source.IsNotNull):
        return Condition(of_spark.attribute, "not null")
    if isinstance(of_spark, spark_source.In):
        return Condition(of_spark.attribute, "in", tuple(of_spark.value))
    test = _TESTS.get(type(of_spark))
    if test is None:
        return None
    return Condition(getattr(of_spark, "attribute"), test, (getattr(of_spark, "value"),))  # noqa: B009
