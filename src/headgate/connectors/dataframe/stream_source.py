"""A streaming DataFrame as source: Spark plans and stages epochs, readers in the workers read the rows.

The protocol is :mod:`stream_epochs`; the running query :mod:`stream_query`; the position in a checkpoint
:mod:`stream_position`.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from headgate.api.source import (
    Boundedness,
    Source,
    SourceReader,
    SourceReaderContext,
    SourceReport,
    Split,
    SplitEnumerator,
    T,
)
from headgate.common.errors import UsageError
from headgate.common.files.durable import clock
from headgate.common.files.permissions import make_folder
from headgate.common.plain_data import Plain
from headgate.connectors.dataframe.column_types import arrow_schema, check_types
from headgate.connectors.dataframe.connector import DataFrameConnector, shown_columns, unprepared
from headgate.connectors.dataframe.source import RowPosition, StreamReader, dataframe_source, split_of
from headgate.connectors.dataframe.staged_files import StagedFile
from headgate.connectors.dataframe.stream_epochs import Epochs, Phase
from headgate.connectors.dataframe.stream_plan import Trigger, check_stateless, forgets_nothing, trigger_of
from headgate.connectors.dataframe.stream_position import Position
from headgate.connectors.dataframe.stream_query import StagedEpoch, StreamInput, StreamQuery

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_LOG: Final = logging.getLogger("headgate.sources")
_LOGS: Final = "logs"


def spark_source(frame: DataFrame, name: str, trigger: str | None) -> Source:
    """Return the source of `from_spark()`: the rows of a DataFrame, bounded or streaming, as Arrow batches.
    A streaming one is of a classic session (not Spark Connect), with stateless SQL only, else UsageError.
    `name` is for messages; `trigger`, None for a bounded one, is as :func:`trigger_of` takes it; with
    "available-now" the source ends.
    """
    classic = type(frame).__module__.startswith("pyspark.sql.classic")
    if not (classic and frame.isStreaming):
        if trigger is not None:
            raise UsageError(
                f"from_spark() got trigger={trigger!r} with what is no streaming DataFrame; leave it out, or "
                "read with spark.readStream"
            )
        return dataframe_source(frame)
    chosen = trigger_of(trigger)
    check_stateless(frame)
    check_types(frame.schema, "from_spark")
    return StreamSource(frame, name, chosen)


class StreamSource(Source[T, RowPosition, Mapping[str, Plain]], DataFrameConnector):
    """Source of a streaming DataFrame, staged by a Structured Streaming query; see :func:`spark_source`.
    The query, in the driver, goes on over a restart of the job if that resumes where the query is.
    """

    produces_columns = True
    rereadable = False
    leaves_output = False

    driver_only = ("_frame", "_input", "_query")

    def __init__(self, frame: DataFrame, name: str, trigger: Trigger) -> None:
        self.columns, self.name = list(frame.columns), name
        ends = "availableNow" in trigger
        self.boundedness = Boundedness.BOUNDED if ends else Boundedness.UNBOUNDED
        self._frame: DataFrame | None = frame
        self._trigger = trigger
        self._input: StreamInput | None = None
        self._query: StreamQuery | None = None

    @override
    def arrow_schema(self) -> pa.Schema | None:
        return None if self._frame is None else arrow_schema(self._frame.schema)

    @override
    def prepare(self, spark: SparkSession, folder: str) -> None:
        assert self._frame is not None, "only the program's own object is prepared"
        staging = Path(folder)
        make_folder(staging)
        logs = staging / _LOGS if self.lasting_folder is None else Path(self.lasting_folder)
        ahead = int(forgets_nothing(self._frame))
        self._input = StreamInput(self.name, self._frame, self._trigger, staging, logs, ahead)

    @override
    def finish(self) -> None:
        query, self._query = self._query, None
        if query is not None:
            query.stop()

    @override
    def create_enumerator(
        self, restored: Mapping[str, Plain] | None
    ) -> SplitEnumerator[RowPosition, Mapping[str, Plain]]:
        if self._input is None:
            raise unprepared("from_spark")
        position = None if restored is None else Position.from_plain(restored, self.name)
        return StreamEnumerator(self._query_after(position, self._input), position, self)

    def _query_after(self, position: Position | None, read: StreamInput) -> StreamQuery:
        running = self._query
        if running is not None and position is not None and running.holds_offered(position):
            running.acknowledge(position.last.epoch)
        if running is not None and running.continues(position):
            return running
        after = "its beginning" if position is None else f"epoch {position.last.epoch}"
        _LOG.info("source %r: the Spark query begins after %s", self.name, after)
        self._query = StreamQuery(read, position)
        self._query.start(after=running)
        return self._query

    @override
    def create_reader(self, context: SourceReaderContext) -> SourceReader[T, RowPosition]:
        return StreamReader()

    @override
    def describe(self) -> str:
        return f"streaming DataFrame ({shown_columns(self.columns)})"


class StreamEnumerator(SplitEnumerator[RowPosition, Mapping[str, Plain]]):
    """Takes staged epochs from the query during one attempt, and assigns their rows to readers.
    Rows of one Spark partition go to one reader, in their order; the largest partitions are assigned first,
    so that readers end at about the same time.
    """

    def __init__(self, query: StreamQuery, position: Position | None, source: StreamSource[T]) -> None:
        self._query, self._position, self._name = query, position, source.name
        self._bounded = source.boundedness is Boundedness.BOUNDED
        self._epochs = Epochs[list[Split[RowPosition]]](-1 if position is None else position.last.epoch)
        self._newest: StagedEpoch | None = None
        self._latency_ms = 0.0

    @override
    def next_splits(self, subtask: int) -> list[Split[RowPosition]] | None:
        self._look()
        share = self._epochs.take(subtask)
        if share is not None:
            return share
        ended = self._bounded and self._query.ended and self._epochs.phase is Phase.BETWEEN
        return None if ended else []

    @override
    def ready_to_snapshot(self) -> bool:
        return self._epochs.ready

    @override
    def wants_checkpoint(self) -> bool:
        self._look()
        return self._epochs.wants_checkpoint

    @override
    def snapshot(self) -> Mapping[str, Plain]:
        if self._epochs.phase is Phase.READ:
            assert self._newest is not None, "an epoch was read"
            return self._newest.position.to_plain()
        return (self._query.beginning if self._position is None else self._position).to_plain()

    @override
    def snapshot_for(self, checkpoint_id: int) -> Mapping[str, Plain]:
        self._epochs.snapshot(checkpoint_id)
        return self.snapshot()

    @override
    def checkpoint_complete(self, checkpoint_id: int) -> None:
        epoch = self._epochs.complete(checkpoint_id)
        if epoch is None:
            return
        newest = self._newest
        assert newest is not None, "an epoch was read"
        assert newest.number == epoch, "one at a time"
        self._position = newest.position
        self._query.acknowledge(epoch)
        self._latency_ms = max(0.0, clock.time() * 1000 - newest.planned_ms)
        _LOG.info("source %r: %s", self._name, epoch_text(newest, self._latency_ms))

    @override
    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        self._epochs.abort(checkpoint_id)

    @override
    def report(self) -> SourceReport:
        newest = self._newest
        if newest is None:
            return SourceReport(waiting=self._waiting())
        return SourceReport(newest.number, newest.rows, _rate(newest), self._latency_ms, self._waiting())

    def _look(self) -> None:
        self._query.check()
        offered = self._query.offered
        if offered is not None and self._epochs.phase is Phase.BETWEEN:
            self._newest = offered
            self._epochs.admit(offered.number, shares_of(offered))

    def _waiting(self) -> str:
        if self._epochs.phase is Phase.READING:
            return f"readers of {self._epochs.unread} partitions"
        if self._epochs.phase is Phase.READ:
            return f"a checkpoint with epoch {self._epochs.held}"
        if self._query.ended:
            return "nothing: the query has ended"
        return "Spark's next epoch" if self._query.running else "Spark to start the query"


def shares_of(epoch: StagedEpoch) -> list[list[Split[RowPosition]]]:
    """Return a staged epoch's splits grouped by Spark partition, the partition with most rows first.

    Example:
        >>> from headgate.connectors.dataframe.stream_position import QueryEpoch
        >>> files = [StagedFile(f"f{n}", rows, 8, 0, n, 0) for n, rows in enumerate((3, 9))]
        >>> begin = Position(QueryEpoch("l", "q", 0), {})
        >>> [[split.id for split in share] for share in shares_of(StagedEpoch(0, files, "/s", begin, 0, 1))]
        [['f1'], ['f0']]
    """
    files: dict[int, list[StagedFile]] = defaultdict(list)
    for file in epoch.files:
        files[file.partition].append(file)
    ordered = sorted(files.values(), key=lambda mine: -sum(file.rows for file in mine))
    return [[split_of(epoch.folder, file) for file in mine] for mine in ordered]


def epoch_text(epoch: StagedEpoch, latency_ms: float) -> str:
    """Return the log line about a completed epoch: rows, staging rate, and `latency_ms` since Spark's plan.

    Example:
        >>> from headgate.connectors.dataframe.stream_position import QueryEpoch
        >>> files = [StagedFile("f", 50_000, 8, 0, 0, 0)]
        >>> position = Position(QueryEpoch("l", "q", 12), {})
        >>> epoch_text(StagedEpoch(12, files, "/folder", position, 0, 410), 912.0)
        "epoch 12, 50,000 rows in 0.41 s (122.0 k/s), 0.9 s from Spark's plan to the checkpoint"
    """
    return (
        f"epoch {epoch.number}, {epoch.rows:,} rows in {epoch.staging_ms / 1000:.2f} s "
        f"({_rate(epoch) / 1000:.1f} k/s), {latency_ms / 1000:.1f} s from Spark's plan to the checkpoint"
    )


def _rate(epoch: StagedEpoch) -> float:
    return epoch.rows * 1000 / max(1, epoch.staging_ms)
