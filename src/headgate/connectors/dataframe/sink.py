"""A stream's output as a DataFrame: written by the Parquet files sink, read back by the session."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from headgate.api.sink import Sink, SinkCommitter, SinkWriter, SinkWriterContext
from headgate.api.source import Plain, T
from headgate.common.errors import UsageError
from headgate.common.files.permissions import make_folder
from headgate.common.registry import Kind, load
from headgate.connectors.dataframe.arrow_rows import TypedRows
from headgate.connectors.dataframe.column_types import arrow_schema, check_types
from headgate.connectors.dataframe.connector import DataFrameConnector, first_line, unprepared

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_READ_AS_WRITTEN: Final = {"datetimeRebaseMode": "CORRECTED", "int96RebaseMode": "CORRECTED"}
"""Dates before 1582 are those of today's calendar, whatever the session says of files by old Spark."""


def dataframe_sink(schema: StructType | str | None = None, verb: str = "to_dataframe") -> DataFrameSink:
    """A sink whose committed records are a DataFrame after the job, exactly once.

    Args:
        schema: a ``StructType`` or its text, such as ``"author string, commits long"``; records must
            fit it. None takes the columns of the first records. Tuples without names are taken by
            position; without a schema their columns are ``_1``, ``_2``, ...
        verb: what the program called, for messages.

    Raises:
        UsageError: `schema` is something else, or has a column of a type that would not come through
            unchanged.
    """
    if schema is not None and not isinstance(schema, str):
        if type(schema).__name__ != "StructType":
            raise UsageError(
                f"{verb}() got a schema of type {type(schema).__name__}; expected a StructType or text "
                "such as 'author string, commits long'"
            )
        check_types(schema, verb)
    return DataFrameSink(schema, verb)


class DataFrameSink(Sink, DataFrameConnector):
    """See :func:`dataframe_sink`."""

    accepts_columns = True
    driver_only = ("_spark", "_schema")

    def __init__(self, schema: StructType | str | None, verb: str) -> None:
        self._schema, self.verb = schema, verb
        self._spark: SparkSession | None = None
        self._folder = ""
        self._rows: TypedRows | None = None
        self._files: Sink | None = None

    @override
    def prepare(self, spark: SparkSession, folder: str) -> None:
        self._rows = None if self._schema is None else self._typed_rows(self._schema)
        make_folder(folder)
        self._spark, self._folder = spark, folder
        columns = None if self._rows is None else self._rows.schema
        # Written and read once, as a rule: looking for repeated values costs more than it saves.
        files = load(Kind.CONNECTOR, "parquet_sink")(folder, schema=columns, dictionary=False)
        files.format.verb = self.verb
        self._files = files

    @property
    def dataframe(self) -> DataFrame:
        """What was committed; only in the driver and after the job. Its files live as long as the process.

        Raises:
            UsageError: no record came and no schema was given, or the writers met different columns.
        """
        if self._spark is None:
            raise unprepared(self.verb)
        schema = self._schema if self._schema is not None else self._columns_found()
        return self._spark.read.options(**_READ_AS_WRITTEN).schema(schema).parquet(self._folder)

    @override
    def create_writer(self, context: SinkWriterContext, restored: Sequence[Plain]) -> SinkWriter:
        inner = self._parquet().create_writer(context, restored)
        return inner if self._rows is None else TypedWriter(inner, self._rows)

    @override
    def create_committer(self) -> SinkCommitter:
        committer = self._parquet().create_committer()
        assert committer is not None, "files are published by a committer"
        return committer

    @override
    def describe(self) -> str:
        return "DataFrame"

    def _typed_rows(self, schema: StructType | str) -> TypedRows:
        from pyspark.sql.types import StructType

        if isinstance(schema, str):
            try:
                found = StructType.fromDDL(schema)
            except Exception as error:
                raise UsageError(f"the schema of {self.verb}() is wrong: {first_line(error)}") from error
            assert isinstance(found, StructType), "a list of columns is a struct"
            self._schema = schema = found
        check_types(schema, self.verb)
        shown = {field.name: field.dataType.simpleString() for field in schema}
        required = frozenset(field.name for field in schema if not field.nullable)
        return TypedRows(arrow_schema(schema), shown, required, self.verb)

    def _columns_found(self) -> StructType:
        """The columns of all files, which Spark would look for with a job of its own."""
        import pyarrow as pa
        import pyarrow.parquet as pq
        from pyspark.sql.pandas.types import from_arrow_schema

        schemas: list[pa.Schema] = [
            pq.read_schema(file) for file in sorted(Path(self._folder).glob("*.parquet"))
        ]
        if not schemas:
            raise UsageError(
                f"the stream of {self.verb}() gave no records, so its columns are not known; give schema=..."
            )
        try:
            return from_arrow_schema(pa.unify_schemas(schemas), prefer_timestamp_ntz=True)
        except Exception as error:
            raise UsageError(
                f"the records of {self.verb}() have different columns ({first_line(error)}), "
                "so its own are not known; give schema=..."
            ) from error

    def _parquet(self) -> Sink:
        if self._files is None:
            raise unprepared(self.verb)
        return self._files


class TypedWriter(SinkWriter[T]):
    """Makes batches of the schema of the records, for a writer of batches."""

    accepts_columns = True

    def __init__(self, inner: SinkWriter[T], rows: TypedRows) -> None:
        self._inner, self._rows = inner, rows

    @override
    def write(self, records: list[T] | pa.RecordBatch) -> None:
        if len(records):
            self._inner.write(self._rows.batch_of(records))

    @override
    def prepare_commit_at(self, checkpoint: int) -> list[Plain]:
        return self._inner.prepare_commit_at(checkpoint)

    @override
    def prepare_commit(self) -> list[Plain]:
        return self._inner.prepare_commit()

    @override
    def close(self) -> None:
        self._inner.close()
