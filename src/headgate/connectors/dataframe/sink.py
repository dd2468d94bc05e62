"""The sink of `to_dataframe()`: writes records as Parquet files, which the session reads as a DataFrame."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from headgate.api.sink import C, Sink, SinkCommitter, SinkWriter, SinkWriterContext, T
from headgate.api.source import Plain
from headgate.common.errors import UsageError
from headgate.common.files.permissions import make_folder
from headgate.common.registry import Kind, load
from headgate.connectors.dataframe.arrow_rows import TypedRows, check_schema, struct_of, typed_rows
from headgate.connectors.dataframe.column_types import check_types
from headgate.connectors.dataframe.connector import DataFrameConnector, first_line, unprepared

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_READ_AS_WRITTEN: Final = {"datetimeRebaseMode": "CORRECTED", "int96RebaseMode": "CORRECTED"}
"""Options to read dates before 1582 in today's calendar, however the session reads files of old Spark."""


def dataframe_sink(schema: StructType | str | None = None, verb: str = "to_dataframe") -> DataFrameSink:
    """Return the sink of `to_dataframe()`: its committed records are a DataFrame after the job, exactly once.
    Without a schema the columns are those of each subtask's first records, ``_1``, ``_2``, ... of tuples;
    with one, plain tuples are taken by position. `verb`: the method in messages. UsageError for a bad schema.
    """
    check_schema(schema, verb)
    if schema is not None and not isinstance(schema, str):
        check_types(schema, verb)
    return DataFrameSink(schema, verb)


class DataFrameSink(Sink, DataFrameConnector):
    """Sink that writes Parquet files and returns them as a DataFrame; made by :func:`dataframe_sink`."""

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
        if self._schema is not None:
            self._schema = struct_of(self._schema, self.verb)
            self._rows = typed_rows(self._schema, self.verb)
        make_folder(folder)
        self._spark, self._folder = spark, folder
        columns = None if self._rows is None else self._rows.schema
        # Usually written and read once: looking for repeated values costs more than it saves.
        files = load(Kind.CONNECTOR, "parquet_sink")(folder, schema=columns, dictionary=False)
        files.format.verb = self.verb
        self._files = files

    @property
    def dataframe(self) -> DataFrame:
        """The committed records, after the job; UsageError without Spark, or without records and schema."""
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

    def _columns_found(self) -> StructType:
        # Read from the files' footers, because Spark would run a job to find them.
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


class ForwardingWriter(SinkWriter[T, C]):
    """Writer that passes records, commits and `close` to an `inner` one; base of writers that add to that."""

    accepts_columns = True

    def __init__(self, inner: SinkWriter[T, C]) -> None:
        self._inner = inner

    @override
    def write(self, records: list[T] | pa.RecordBatch) -> None:
        self._inner.write(records)

    @override
    def prepare_commit_at(self, checkpoint: int) -> list[C]:
        return self._inner.prepare_commit_at(checkpoint)

    @override
    def prepare_commit(self) -> list[C]:
        return self._inner.prepare_commit()

    @override
    def close(self) -> None:
        self._inner.close()


class TypedWriter(ForwardingWriter[T, C]):
    """Writer that converts records by `rows` to Arrow batches of a schema, and passes those to `inner`."""

    def __init__(self, inner: SinkWriter[T, C], rows: TypedRows) -> None:
        super().__init__(inner)
        self._rows = rows

    @override
    def write(self, records: list[T] | pa.RecordBatch) -> None:
        if len(records):
            self._inner.write(self._rows.batch_of(records))
