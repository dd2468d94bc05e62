"""Ways out of tables: as streams, as lists of rows, into files and DataFrames."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from typing import TYPE_CHECKING, Any, Generic

from typing_extensions import TypeVar

from headgate.api.showing import Preview
from headgate.api.site import user_site
from headgate.api.streams.steps import ProgramContext
from headgate.api.streams.stream_outputs import Outputs, StreamSink
from headgate.api.tables.checked_columns import check_partitions
from headgate.api.tables.lowering import lowered
from headgate.api.tables.updating import folded, refuse_updates
from headgate.common.errors import PlanError
from headgate.relational.relations import Relation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

S = TypeVar("S", bound=Outputs[Any], default=Any)
"""The class of streams that tables are turned into."""


class TableOutputs(Generic[S]):
    """Base class of tables: what their rows become."""

    _environment: ProgramContext
    _relation: Relation
    _stream: Callable[[ProgramContext, int], S]

    def to_stream(self, uid: str | None = None) -> S:
        """Return the rows as a stream, columnar until a function of rows reads it; `uid`: the operator's."""
        return self._rows("to_stream", uid)

    def _rows(self, verb: str, uid: str | None = None) -> S:
        refuse_updates(verb, self._relation)
        return self._changes(uid)

    def _changes(self, uid: str | None = None) -> S:
        return self._stream(self._environment, lowered(self._environment, self._relation, uid))

    def to_changes(self, uid: str | None = None) -> S:
        """Return the changes of a table whose rows are corrected as a stream of rows, which have the column
        ``__change`` last: 0 a row comes, 1 it leaves as 2 it comes back corrected, 3 it goes. Changes of a
        mark follow each other, and together they lead to an exact answer. `uid`: the operator's.

        Raises:
            PlanError: rows of this table are never corrected; call :meth:`to_stream`.
        """
        if not self._relation.schema.updating:
            raise PlanError(f"to_changes() ({user_site()}): no row of the table changes; write to_stream()")
        return self._changes(uid)

    def collect(self, job_name: str = "collect") -> list[dict[str, Any]]:
        """Return all rows of this bounded table as dicts, by a job of only what feeds it. UsageError: nothing
        was started; UserFunctionError: the program's code failed; JobFailedError: anything else failed.
        """
        if self._relation.schema.updating:
            return folded(self._changes().collect(job_name))
        return self._rows("collect").collect(job_name)

    def take(self, n: int, timeout_s: float | None = None) -> list[dict[str, Any]]:
        """Return the first `n` rows that come, as dicts; fewer if the table ends or `timeout_s` s pass."""
        return self._rows("take").take(n, timeout_s)

    def preview(self, n: int = 10, timeout_s: float | None = None) -> Preview[dict[str, Any]]:
        """Return the rows that :meth:`take` returns, in a sequence that shows itself as a table."""
        return self._rows("preview").preview(n, timeout_s)

    def write_parquet(self, path: str | PathLike[str], uid: str | None = None, **options: Any) -> StreamSink:
        """Write the rows as Parquet files into directory `path`, exactly once with checkpoints. `uid` names
        the sink's state (None: made of the path), `options` are as for ``DataStream.write_parquet``.
        UsageError: wrong options, or `partition_by` has an unknown column, or all.
        """
        check_partitions(self._relation, "write_parquet", options)
        return self._rows("write_parquet").write_parquet(path, uid, **options)

    def write_json(self, path: str | PathLike[str], uid: str | None = None, **options: Any) -> StreamSink:
        """Write the rows as JSON lines into directory `path`; all else is as for :meth:`write_parquet`."""
        check_partitions(self._relation, "write_json", options)
        return self._rows("write_json").write_json(path, uid, **options)

    def to_dataframe(self, job_name: str = "to_dataframe") -> DataFrame:
        """Return all rows of this bounded table as a Spark DataFrame; errors are those of :meth:`collect`."""
        return self._rows("to_dataframe").to_dataframe(job_name=job_name)

    def to_spark(self, write: Any, uid: str | None = None) -> StreamSink:
        """Add a sink that gives each checkpoint's rows to `write`, as a DataFrame: `DataStream.to_spark`."""
        return self._rows("to_spark").to_spark(write, uid)
