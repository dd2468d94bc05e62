"""A stream's output as a DataFrame: written by the Parquet files sink, read back by the session."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from headgate.api.sink import Sink, SinkCommitter, SinkWriter, SinkWriterContext
from headgate.api.source import Plain
from headgate.common.errors import UsageError
from headgate.common.registry import Kind, load
from headgate.connectors.dataframe.connector import DataFrameConnector, first_line, unprepared

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def dataframe_sink(schema: StructType | str | None = None) -> DataFrameSink:
    """A sink whose committed records are a DataFrame after the job, exactly once.

    Args:
        schema: a ``StructType`` or its text, such as ``"author string, commits long"``; None takes
            the columns of the first records. Tuples without names get the columns ``_1``, ``_2``, ...

    Raises:
        UsageError: `schema` is something else.
    """
    if schema is not None and not isinstance(schema, str) and type(schema).__name__ != "StructType":
        raise UsageError(
            f"to_dataframe() got a schema of type {type(schema).__name__}; expected a StructType or text "
            "such as 'author string, commits long'"
        )
    return DataFrameSink(schema)


class DataFrameSink(Sink[Any], DataFrameConnector):
    """See :func:`dataframe_sink`."""

    accepts_columns = True

    def __init__(self, schema: StructType | str | None) -> None:
        self._schema = schema
        self._spark: SparkSession | None = None
        self._folder = ""
        self._files: Sink[Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_spark": None, "_schema": None}

    @override
    def prepare(self, spark: SparkSession, folder: str) -> None:
        arrow = None if self._schema is None else self._arrow_schema(self._schema)
        Path(folder).mkdir(parents=True)
        self._spark, self._folder = spark, folder
        self._files = load(Kind.CONNECTOR, "parquet_sink")(folder, schema=arrow)

    @property
    def dataframe(self) -> DataFrame:
        """What was committed; only in the driver and after the job. Its files live as long as the process.

        Raises:
            UsageError: no record came and no schema was given.
        """
        if self._spark is None:
            raise unprepared("to_dataframe")
        reader = self._spark.read
        if self._schema is not None:
            return reader.schema(self._schema).parquet(self._folder)
        if not any(Path(self._folder).glob("*.parquet")):
            raise UsageError(
                "the stream of to_dataframe() gave no records, so its columns are not known; give schema=..."
            )
        return reader.option("mergeSchema", "true").parquet(self._folder)

    @override
    def create_writer(self, context: SinkWriterContext, restored: Sequence[Plain]) -> SinkWriter[Any]:
        return self._parquet().create_writer(context, restored)

    @override
    def create_committer(self) -> SinkCommitter:
        committer = self._parquet().create_committer()
        assert committer is not None, "files are published by a committer"
        return committer

    @override
    def describe(self) -> str:
        return "DataFrame"

    def _arrow_schema(self, schema: StructType | str) -> Any:
        from pyspark.sql.pandas.types import to_arrow_schema
        from pyspark.sql.types import StructType

        try:
            if isinstance(schema, str):
                found = StructType.fromDDL(schema)
                assert isinstance(found, StructType), "a list of columns is a struct"
                self._schema = schema = found
            return to_arrow_schema(schema, timezone="UTC")
        except Exception as error:
            raise UsageError(f"the schema of to_dataframe() is wrong: {first_line(error)}") from error

    def _parquet(self) -> Sink[Any]:
        if self._files is None:
            raise unprepared("to_dataframe")
        return self._files
