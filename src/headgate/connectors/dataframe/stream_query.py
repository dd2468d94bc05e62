"""One run of a Structured Streaming query that feeds a dataflow: a thin shell around Spark's threads.

Spark calls :meth:`StreamQuery.feed` for each epoch, in the query's own thread. It stages the rows, offers
them, and does not return before they are acknowledged, so Spark never plans an epoch while an older one is in
no checkpoint. Where the sources forget nothing (:func:`stream_plan.forgets_nothing`) it returns one epoch
earlier: Spark stages the next epoch while readers read this one. It does not matter what Spark has committed
by then, because a query that begins anew is given the log of the position. The job master's loop polls for an
offered epoch and acknowledges it; it never waits here.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headgate.common.errors import HeadgateError, InternalError, OperatingError, UsageError
from headgate.common.files.durable import clock
from headgate.common.files.permissions import make_folder, permissions_in_use, permissions_of_job
from headgate.connectors.dataframe import stream_log as logs
from headgate.connectors.dataframe.source import BYTES_PER_FILE
from headgate.connectors.dataframe.staged_files import StagedFile, stage
from headgate.connectors.dataframe.stream_plan import Trigger, reason_of
from headgate.connectors.dataframe.stream_position import Position, QueryEpoch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

POOL: Final = "headgate-feeders"  # FAIR pool of the feeding tasks, next to the gangs'

_LOOK_MS: Final = 10
_LEAVE_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class StreamInput:
    """Input of a streaming source's queries: DataFrame, trigger, folders, number of epochs to stage ahead."""

    name: str  # of the source, for people
    frame: DataFrame  # the streaming DataFrame
    trigger: Trigger  # what ``DataStreamWriter.trigger`` takes; empty for as fast as possible
    staging: Path  # folder for rows, shared with the workers
    logs: Path  # folder for logs, shared with later drivers if they are to notice that data is gone
    ahead: int = 0  # how many epochs may be staged beyond the one that waits to be acknowledged


@dataclass(frozen=True, slots=True)
class StagedEpoch:
    """An epoch with rows staged for readers, the position after it, when it was planned, and staging time."""

    number: int  # Spark's
    files: Sequence[StagedFile]  # with its rows
    folder: str  # where they are
    position: Position  # of a checkpoint that holds the epoch
    planned_ms: int  # when Spark planned it (wall clock)
    staging_ms: int  # how long it took from there to the last staged row

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)


class StreamQuery:
    """A query that resumes after a position, in a folder of its own, and offers each epoch with staged rows.
    `read` has input and folders; `begin` is that position, None the beginning of the source. `ended` is True
    once its input came to its end in order and every epoch was acknowledged, or it was stopped without error.
    """

    def __init__(self, read: StreamInput, begin: Position | None) -> None:
        self.ended = False
        self._staged: deque[StagedEpoch] = deque()
        self._read_through: deque[str] = deque()
        self._read, self._begin = read, begin
        self._before = QueryEpoch.of_new_query(begin)
        self._folder = read.logs / self._before.line / self._before.query
        self._acknowledged = self._newest = self._before.epoch
        self._failure: HeadgateError | None = None
        self._cause: str | None = None
        self._query: StreamingQuery | None = None
        self._after: StreamQuery | None = None
        self._stopped, self._interrupted = threading.Event(), False
        self._permissions = permissions_in_use()  # of the job; Spark's threads do not have them
        self._thread = threading.Thread(target=self._run, name=f"headgate-stream-{read.name}", daemon=True)

    def start(self, after: StreamQuery | None = None) -> None:
        """Start the query in a thread, once, and return; the query `after`, if any, is stopped first."""
        self._after = after
        self._thread.start()

    def check(self) -> None:
        """Raise the error with which the query failed, a HeadgateError, if it failed; else do nothing."""
        if self._failure is not None:
            raise self._failure

    @property
    def offered(self) -> StagedEpoch | None:
        """The oldest staged epoch that is not yet acknowledged; None if there is none."""
        return self._staged[0] if self._staged else None

    @property
    def failed(self) -> bool:
        return self._failure is not None

    @property
    def running(self) -> bool:
        """Whether Spark has started the query; True also after its end."""
        return self._query is not None

    @property
    def beginning(self) -> Position:
        """The position before this query's first epoch, for checkpoints taken before that epoch is read."""
        if self._begin is not None:
            return self._begin
        # The sources may have stored where they begin, such as the newest offsets when the query started.
        return Position(self._before, logs.picture(self._folder, -1))

    def continues(self, position: Position | None) -> bool:
        """Return whether this query goes on with the epoch after `position`; False if failed or stopped."""
        if self.failed or self._stopped.is_set():
            return False
        last = None if position is None else position.last
        if self._acknowledged == self._before.epoch and last == (self._begin and self._begin.last):
            return True
        return last == self._before.at(self._acknowledged)

    def holds_offered(self, position: Position | None) -> bool:
        """Return whether `position` holds the offered epoch already, so that it must not be read again."""
        offered = self.offered
        return offered is not None and position is not None and position.last == offered.position.last

    def acknowledge(self, epoch: int) -> None:
        """Note that a complete checkpoint holds `epoch`: Spark may go on, rows up to it may be removed."""
        while self._staged and self._staged[0].number <= epoch:
            self._read_through.append(self._staged.popleft().folder)
        self._acknowledged = epoch

    def stop(self) -> None:
        """Stop the query, wait up to 20 s for its end; epochs not acknowledged count as never planned."""
        self._stopped.set()
        if self._query is not None:
            with contextlib.suppress(Exception):  # a JVM that has exited runs no query
                self._query.stop()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(_LEAVE_S)

    # -- in the query's own threads --------------------------------------------------------------

    def feed(self, frame: DataFrame, epoch: int) -> None:
        """Stage the rows of `epoch` and offer them; Spark calls it for each epoch, in the query's own thread.
        Blocks until that epoch is acknowledged, or the one before it where one is staged ahead. An epoch that
        was staged before is skipped; InternalError if Spark leaves one out.
        """
        if epoch <= self._newest:
            return
        if epoch != self._newest + 1:
            raise InternalError(f"Spark planned epoch {epoch} after epoch {self._newest}")
        self._remove_read()
        self._offer(frame, epoch, self._read.staging / f"{self._before.query}-{epoch}")
        self._await_acknowledgement(frame, epoch - self._read.ahead)

    def _offer(self, frame: DataFrame, epoch: int, folder: Path) -> None:
        try:
            with permissions_of_job(self._permissions):
                files = stage(frame, str(folder), max_bytes_per_file=BYTES_PER_FILE, durable=False)
            self._staged.append(self._described(epoch, files, folder))
        except Exception as error:
            shutil.rmtree(folder, ignore_errors=True)
            self._cause, self._interrupted = reason_of(error), True
            raise
        self._newest = epoch

    def _remove_read(self) -> None:
        while self._read_through:
            shutil.rmtree(self._read_through.popleft(), ignore_errors=True)

    def _described(self, epoch: int, files: Sequence[StagedFile], folder: Path) -> StagedEpoch:
        now_ms = int(clock.time() * 1000)
        planned_ms = logs.planned_ms(self._folder, epoch) or now_ms
        position = Position(self._before.at(epoch), logs.picture(self._folder, epoch))
        return StagedEpoch(epoch, files, str(folder), position, planned_ms, max(0, now_ms - planned_ms))

    def _await_acknowledgement(self, frame: DataFrame, epoch: int) -> None:
        # It waits in the JVM, where Spark can interrupt it to stop the query.
        from py4j.protocol import Py4JJavaError

        spark = frame.sparkSession.sparkContext
        jvm, gateway = spark._jvm, spark._gateway
        assert jvm is not None, "the query runs in it"
        assert gateway is not None, "the query was started through it"
        try:
            while self._acknowledged < epoch:
                jvm.java.lang.Thread.sleep(_LOOK_MS)
        except Py4JJavaError as interrupted:
            # Spark knows an interruption by its text, with an expression that overflows the stack when the
            # text is as long as a trace of the JVM.
            none = gateway.new_array(jvm.java.lang.StackTraceElement, 0)
            interrupted.java_exception.setStackTrace(none)
            self._interrupted = True
            logging.getLogger("py4j.clientserver").addFilter(_not_of_interruptions)
            raise interrupted from None

    def _run(self) -> None:
        try:
            if self._after is not None:
                self._after.stop()
                self._after = None
            with permissions_of_job(self._permissions):
                self._lay_out()
            self._query = self._started()
            if self._stopped.is_set():
                self._query.stop()
            self._query.awaitTermination()
            self._check_end()
            while self._acknowledged < self._newest and not self._stopped.wait(_LOOK_MS / 1000):
                pass
            self.ended = True
        except HeadgateError as error:
            self._failure = error
        except Exception as error:  # Spark and Py4J raise what they like
            reason = self._cause or reason_of(error)
            self._failure = OperatingError(
                f"the Spark query of source {self._read.name!r} failed after epoch {self._acknowledged}: "
                f"{reason}; Spark's own log has more"
            )
        finally:
            # What was not acknowledged is staged anew by the next query.
            self._read_through.extend(epoch.folder for epoch in self._staged)
            self._remove_read()

    def _check_end(self) -> None:
        # A query may end by itself at the end of its input, or when its job stops it.
        planned = (self._folder / "offsets" / str(self._newest + 1)).exists()
        in_order = "availableNow" in self._read.trigger and not self._interrupted and not planned
        if not self._stopped.is_set() and not in_order:
            raise OperatingError(
                f"the Spark query of source {self._read.name!r} was stopped after epoch {self._acknowledged}"
                ", and not by its job; does the program stop the queries of its session?"
            )

    def _started(self) -> StreamingQuery:
        spark = self._read.frame.sparkSession.sparkContext
        spark.setLocalProperty("spark.scheduler.pool", POOL)  # the query's own thread inherits it
        writer = self._read.frame.writeStream.foreachBatch(self.feed)
        if self._read.trigger:
            writer = writer.trigger(**self._read.trigger)
        # Its job group is Spark's own, because stopping the query cancels by it.
        name = f"headgate {self._read.name} {self._before.query}"
        return writer.queryName(name).option("checkpointLocation", self._folder.absolute().as_uri()).start()

    def _lay_out(self) -> None:
        if self._begin is None:
            make_folder(self._folder)
            return
        lineage = self._folder.parent
        missing = logs.missing_locally(logs.files_of_later_epochs(lineage, self._begin.log))
        if missing:
            shown = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
            epoch = self._before.epoch
            raise UsageError(
                f"source {self._read.name!r} cannot resume after epoch {epoch} (offsets "
                f"{logs.offsets_text(self._begin.log, epoch)}): Spark has read files after it that are "
                f"gone: {shown}; put them back, begin from a newer checkpoint, or delete {str(lineage)!r} to "
                "go on without them"
            )
        logs.lay_out(self._folder, self._begin.log)
        make_folder(self._folder)


def _not_of_interruptions(record: logging.LogRecord) -> bool:
    # Py4J logs as an error whatever is raised to the JVM; a query that was stopped is none.
    raised = record.exc_info[1] if record.exc_info else None
    return "java.lang.InterruptedException" not in str(raised)
