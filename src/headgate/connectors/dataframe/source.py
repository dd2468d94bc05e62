"""A DataFrame as bounded source: staged once as Parquet, then read by the Parquet files source.

A DataFrame cannot be read at a position: computed again, its rows may come in another order. The
staged files can, so a job that restarts goes on exactly where its checkpoint stands.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from headgate.api.source import Plain, Source, SourceReader, SourceReaderContext, Split, SplitEnumerator
from headgate.common.errors import UsageError
from headgate.common.registry import Kind, load
from headgate.connectors.dataframe.connector import (
    DataFrameConnector,
    first_line,
    shown_columns,
    unprepared,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORDS_PER_FILE: Final = 500_000
"""A file is a split, so one long partition still gives work to several readers."""

_TIMESTAMPS: Final = "spark.sql.parquet.outputTimestampType"


def dataframe_source(frame: DataFrame) -> DataFrameSource:
    """A bounded source of the rows of a DataFrame; they stay columnar up to the first per-record function.

    Args:
        frame: any bounded DataFrame of a classic session. Its rows are computed once, when the job
            is executed; each of its partitions becomes at least one split.

    Raises:
        UsageError: it is no DataFrame, a streaming one, or one of Spark Connect.
    """
    kind = type(frame)
    if not (kind.__module__.startswith("pyspark.sql.") and kind.__name__ == "DataFrame"):
        raise UsageError(f"from_spark() got {kind.__name__}; expected a DataFrame of PySpark")
    if kind.__module__.startswith("pyspark.sql.connect"):
        raise UsageError(
            "from_spark() got a DataFrame of Spark Connect; expected one of a classic session, which "
            "SparkSession.builder.master(...) opens"
        )
    if frame.isStreaming:
        raise UsageError(
            "from_spark() got a streaming DataFrame; expected a bounded one: read it with spark.read"
        )
    if not frame.columns:
        raise UsageError("from_spark() got a DataFrame without columns; expected at least one")
    return DataFrameSource(frame)


class DataFrameSource(Source[Any], DataFrameConnector):
    """See :func:`dataframe_source`.

    Attributes:
        columns: names of the DataFrame's columns.
    """

    produces_columns = True

    def __init__(self, frame: DataFrame) -> None:
        self.columns = list(frame.columns)
        self._frame: DataFrame | None = frame
        self._token = ""
        self._files: Source[Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_frame": None}

    @override
    def prepare(self, spark: SparkSession, folder: str) -> None:
        assert self._frame is not None, "only the program's own object is prepared"
        session = self._frame.sparkSession
        before = session.conf.get(_TIMESTAMPS) or "INT96"
        # The default is a form of 96 bits, whose values would be read as nanoseconds.
        session.conf.set(_TIMESTAMPS, "TIMESTAMP_MICROS")
        try:
            self._frame.write.option("maxRecordsPerFile", RECORDS_PER_FILE).parquet(folder)
        except Exception as error:
            raise UsageError(
                f"the DataFrame given to from_spark() ({shown_columns(self.columns)}) cannot be computed: "
                f"{first_line(error)}"
            ) from error
        finally:
            session.conf.set(_TIMESTAMPS, before)
        self._token = secrets.token_hex(8)
        self._files = load(Kind.CONNECTOR, "parquet_source")(folder)

    @override
    def create_enumerator(self, restored: Plain | None) -> SplitEnumerator:
        if self._files is None:
            raise unprepared("from_spark")
        if restored is not None and restored["staged"] != self._token:
            raise UsageError(
                "the checkpoint has a position in a DataFrame that another run has staged; write the "
                "DataFrame to Parquet and use read_parquet(), or start without the checkpoint"
            )
        inner = self._files.create_enumerator(None if restored is None else restored["files"])
        return DataFrameEnumerator(self._token, inner)

    @override
    def create_reader(self, context: SourceReaderContext) -> SourceReader[Any]:
        if self._files is None:
            raise unprepared("from_spark")
        return self._files.create_reader(context)

    @override
    def describe(self) -> str:
        return f"DataFrame ({shown_columns(self.columns)})"


class DataFrameEnumerator(SplitEnumerator):
    """The enumerator of the staged files, with the mark of the staging in its state."""

    def __init__(self, token: str, files: SplitEnumerator) -> None:
        self._token, self._files = token, files

    @override
    def next_splits(self, subtask: int) -> list[Split] | None:
        return self._files.next_splits(subtask)

    @override
    def snapshot(self) -> Plain:
        return {"staged": self._token, "files": self._files.snapshot()}

    @override
    def checkpoint_complete(self, checkpoint_id: int) -> None:
        self._files.checkpoint_complete(checkpoint_id)

    @override
    def close(self) -> None:
        self._files.close()
