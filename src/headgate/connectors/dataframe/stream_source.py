"""A streaming DataFrame as source: Spark plans and reads epochs, the gang's readers take them in whole.

The protocol is :mod:`stream_epochs`; the running query :mod:`stream_query`; what a checkpoint holds
:mod:`stream_position`.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from headgate.api.source import (
    Boundedness,
    Plain,
    Source,
    SourceReader,
    SourceReaderContext,
    SourceReport,
    Split,
    SplitEnumerator,
)
from headgate.common.errors import UsageError
from headgate.common.files.durable import clock
from headgate.common.files.permissions import make_folder
from headgate.connectors.dataframe.column_types import check_types
from headgate.connectors.dataframe.connector import DataFrameConnector, shown_columns, unprepared
from headgate.connectors.dataframe.source import DataFrameReader, dataframe_source, split_of
from headgate.connectors.dataframe.staged_files import StagedFile
from headgate.connectors.dataframe.stream_epochs import Epochs, Phase
from headgate.connectors.dataframe.stream_plan import Trigger, check_stateless, forgets_nothing, trigger_of
from headgate.connectors.dataframe.stream_position import Position
from headgate.connectors.dataframe.stream_query import StagedEpoch, StreamInput, StreamQuery

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOG: Final = logging.getLogger("headgate.sources")
_LOGS: Final = "logs"


def spark_source(frame: DataFrame, name: str, trigger: str | None) -> Source:
    """A source of the rows of a DataFrame, bounded or streaming; they stay columnar as long as they can.

    Args:
        frame: of a classic session; a streaming one with stateless SQL only.
        name: of the source, in logs and messages.
        trigger: see :func:`stream_plan.trigger_of`; with "available-now" a streaming source ends.

    Raises:
        UsageError: it is something else, or the trigger is none.
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


class StreamSource(Source, DataFrameConnector):
    """See :func:`spark_source`.

    Attributes:
        columns: names of the DataFrame's columns.
        name: for people.
    """

    produces_columns = True
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
    def create_enumerator(self, restored: Plain | None) -> SplitEnumerator:
        if self._input is None:
            raise unprepared("from_spark")
        position = None if restored is None else Position.from_plain(restored, self.name)
        return StreamEnumerator(self._query_behind(position, self._input), position, self)

    def _query_behind(self, position: Position | None, read: StreamInput) -> StreamQuery:
        """The living query if its next epoch is the one behind the position; else a new one."""
        living = self._query
        if living is not None and position is not None and living.holds_offered(position):
            living.acknowledge(position.mark.epoch)
        if living is not None and living.stands_behind(position):
            return living
        _LOG.info("source %r: the Spark query begins behind %s", self.name, _shown(position))
        self._query = StreamQuery(read, position)
        self._query.start(after=living)
        return self._query

    @override
    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return DataFrameReader()

    @override
    def describe(self) -> str:
        return f"streaming DataFrame ({shown_columns(self.columns)})"


class StreamEnumerator(SplitEnumerator):
    """The border in one attempt: asks the query for epochs and hands out their rows.

    Rows of one partition of Spark's go to one reader, in their order; the largest partitions go out first, so
    that readers end at about the same time.

    Args:
        query: stands behind `position`.
        position: restored.
        source: the description.
    """

    def __init__(self, query: StreamQuery, position: Position | None, source: StreamSource) -> None:
        self._query, self._position, self._name = query, position, source.name
        self._bounded = source.boundedness is Boundedness.BOUNDED
        self._epochs = Epochs[list[Split]](-1 if position is None else position.mark.epoch)
        self._newest: StagedEpoch | None = None
        self._latency_ms = 0.0

    @override
    def next_splits(self, subtask: int) -> list[Split] | None:
        self._look()
        share = self._epochs.take(subtask)
        if share is not None:
            return share
        over = self._bounded and self._query.ended and self._epochs.phase is Phase.BETWEEN
        return None if over else []

    @override
    def ready_to_snapshot(self) -> bool:
        return self._epochs.ready

    @override
    def wants_checkpoint(self) -> bool:
        self._look()
        return self._epochs.wants_checkpoint

    @override
    def snapshot(self) -> Plain:
        if self._epochs.phase is Phase.READ:
            assert self._newest is not None, "an epoch was read"
            return self._newest.position.to_plain()
        return (self._query.beginning if self._position is None else self._position).to_plain()

    @override
    def snapshot_for(self, checkpoint_id: int) -> Plain:
        self._epochs.draw(checkpoint_id)
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
        _LOG.info("source %r: %s", self._name, told(newest, self._latency_ms))

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
        """Take in what the query offers."""
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


def shares_of(epoch: StagedEpoch) -> list[list[Split]]:
    """The files of each partition with rows, as splits; the largest partition first.

    Example:
        >>> from headgate.connectors.dataframe.stream_position import Mark
        >>> files = [StagedFile(f"f{n}", rows, 8, 0, n, 0) for n, rows in enumerate((3, 9))]
        >>> begin = Position(Mark("l", "q", 0), {})
        >>> [[split.id for split in share] for share in shares_of(StagedEpoch(0, files, "/s", begin, 0, 1))]
        [['f1'], ['f0']]
    """
    files: dict[int, list[StagedFile]] = defaultdict(list)
    for file in epoch.files:
        files[file.partition].append(file)
    ordered = sorted(files.values(), key=lambda mine: -sum(file.rows for file in mine))
    return [[split_of(epoch.folder, file) for file in mine] for mine in ordered]


def told(epoch: StagedEpoch, latency_ms: float) -> str:
    """What the log says of an epoch.

    Example:
        >>> from headgate.connectors.dataframe.stream_position import Mark
        >>> files = [StagedFile("f", 50_000, 8, 0, 0, 0)]
        >>> told(StagedEpoch(12, files, "/folder", Position(Mark("l", "q", 12), {}), 0, 410), 912.0)
        "epoch 12, 50,000 rows in 0.41 s (122.0 k/s), 0.9 s from Spark's plan to the checkpoint"
    """
    return (
        f"epoch {epoch.number}, {epoch.rows:,} rows in {epoch.staging_ms / 1000:.2f} s "
        f"({_rate(epoch) / 1000:.1f} k/s), {latency_ms / 1000:.1f} s from Spark's plan to the checkpoint"
    )


def _rate(epoch: StagedEpoch) -> float:
    return epoch.rows * 1000 / max(1, epoch.staging_ms)


def _shown(position: Position | None) -> str:
    return "its beginning" if position is None else f"epoch {position.mark.epoch}"
