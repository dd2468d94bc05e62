"""Writes what a completed checkpoint holds as epochs: in order, each recorded, repeated until it was.

For each epoch: the journal says that it begins, which settles its number and its rows; the writer gets the
rows; the journal says that it is written; then the staged rows go. Whatever breaks off in between is
repeated with the same number and the same rows.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Sequence
from typing import Final

from typing_extensions import override

from headgate.api.sink import Fork, SinkCommitter, SinkCommitterContext
from headgate.api.source import Plain
from headgate.common.errors import FencedError, HeadgateError, OperatingError, StorageError, UsageError
from headgate.connectors.dataframe import to_spark_journal as j
from headgate.connectors.dataframe.connector import unprepared
from headgate.connectors.dataframe.to_spark_frames import Frames, cause, same_columns
from headgate.connectors.dataframe.to_spark_log import Log
from headgate.connectors.dataframe.to_spark_staging import Staging, verified_paths
from headgate.connectors.dataframe.writers.writer_contract import EpochWriter, SparkEpoch

_CHOICE: Final = "execution.sinks.older-snapshot"


class SparkCommitter(SinkCommitter):
    """The committer of `to_spark()`.

    Args:
        staging: where rows are staged.
        writer: writes them.
        frames: makes DataFrames of them; None where the sink was not prepared, so that only what a
            savepoint holds can be released.
    """

    tells_commits = True

    def __init__(self, staging: Staging, writer: EpochWriter, frames: Frames | None) -> None:
        self._staging, self._writer, self._frames = staging, writer, frames
        self.takes_back = writer.takes_back
        self._context: SinkCommitterContext | None = None
        self._logs: dict[str, Log] = {}
        self._tidied = False

    @override
    def begin(self, context: SinkCommitterContext) -> None:
        self._context = context
        self._staging.begin(context)

    @override
    def commit(self, committables: Sequence[Plain]) -> None:
        ordered = sorted(committables, key=lambda ready: (not self._is_foreign(ready), *_origin(ready)))
        for origin, group in itertools.groupby(ordered, _origin):
            self._commit(j.Origin(*origin), {ready["pending"]: ready for ready in group})

    @override
    def committed_after(self, context: SinkCommitterContext) -> str | None:
        line = self._log(context, context.lineage.id).refresh()
        gone = j.missing(line, context.lineage)
        if gone:
            raise UsageError(
                f"sink {context.uid!r} does not hold all that the snapshot builds on: {j.described(gone)}, "
                f"was taken back; begin with {_CHOICE}=take-back, which puts it back and takes back what "
                "came instead, or from another snapshot"
            )
        newer = j.beyond(line, context.job, context.lineage)
        unfinished = j.unfinished_beyond(line, context.job, context.lineage)
        if unfinished and not newer:
            return f"{j.described(unfinished)}, may be written"
        return j.described(newer) if newer else None

    @override
    def check_restore(self, context: SinkCommitterContext, committables: Sequence[Plain], own: bool) -> None:
        if not self._staging.known:
            return  # where no job runs nobody has settled where rows are staged
        for origin, group in itertools.groupby(sorted(committables, key=_origin), _origin):
            ready = {each["pending"]: each for each in group}
            todo = self._not_written(context, j.Origin(*origin), list(ready))
            try:
                verified_paths(
                    self._staging.root, [ready[name] for name in todo], j.Origin(*origin).checkpoint
                )
            except StorageError:
                raise
            except OperatingError as problem:
                raise UsageError(
                    f"sink {context.uid!r} cannot go on from the snapshot: {problem}"
                ) from problem

    @override
    def take_back(self, context: SinkCommitterContext) -> None:
        log, line_id = self._log(context, context.lineage.id), context.lineage.id
        if not _to_mend(log.refresh(), context):
            return
        # From here on nobody else of the line writes, so that looking again sees everything.
        while (line := log.refresh()).jobs[-1:] != [context.job] or line.generation != context.generation:
            log.append(_goes_on(context))
        newer, gone = j.beyond(line, context.job, context.lineage), j.missing(line, context.lineage)
        perhaps = j.unfinished_beyond(line, context.job, context.lineage)
        unfinished = [number for run in perhaps for number in run.epochs]
        self._writer.take_back(line_id, context.uid, _numbers(newer), unfinished)
        self._writer.put_back(line_id, context.uid, _numbers(gone))
        for entry in (j.TakenBack(newer, unfinished), j.PutBack(gone)):
            if not log.append(entry):
                raise FencedError(f"another job goes on line {line_id!r} of sink {context.uid!r}")

    @override
    def hold(self, committables: Sequence[Plain], savepoint: Fork) -> None:
        self._staging.hold(committables, savepoint)

    @override
    def release(self, committables: Sequence[Plain], savepoint: Fork) -> None:
        self._staging.release(committables, savepoint)

    @override
    def abandon(self, committed_through: Sequence[Plain]) -> None:
        self._staging.abandon(committed_through)

    @override
    def interrupt(self) -> None:
        if self._frames is not None:
            self._frames.cancel()

    # -- one epoch

    def _commit(self, origin: j.Origin, ready: dict[str, Plain]) -> None:
        todo = self._not_written(self._begun(), origin, list(ready))
        if todo:
            self._require()
            wanted = [ready[name] for name in todo]
            paths = dict(
                zip(todo, verified_paths(self._staging.root, wanted, origin.checkpoint), strict=True)
            )
            while paths:
                begun = self._begin_epoch(origin, paths)
                self._write(begun, [paths.pop(name) for name in begun.files])
                self._record(begun.epoch)
        self._staging.remove(ready.values())

    def _not_written(self, context: SinkCommitterContext, origin: j.Origin, names: list[str]) -> list[str]:
        """Also not on the lines that the job descends from and has left."""
        lines = [context.lineage.id]
        if origin.job != context.job:
            lines += [fork.job for fork in context.lineage.forks]
        for line in dict.fromkeys(lines):
            names = j.not_written(self._log(context, line).refresh(), origin, names)
        return names

    def _begin_epoch(self, origin: j.Origin, paths: dict[str, str]) -> j.Begun:
        """Settle the number and the rows of an epoch, or find what a driver that broke off has settled."""
        context, names = self._begun(), sorted(paths)
        while True:
            line = self._require()
            if line.begun is not None and line.begun.origin == origin and set(line.begun.files) <= set(names):
                return line.begun
            number = j.next_epoch(line, origin.checkpoint)
            columns = self._opened_frames().columns([paths[name] for name in names])
            if line.columns:
                columns = same_columns(line.columns, columns, f"epoch {number} of sink {context.uid!r}")
            begun = j.Begun(number, origin, names, columns)
            if self._own_log().append(begun):
                return begun

    def _write(self, begun: j.Begun, paths: list[str]) -> None:
        context, line = self._begun(), self._own_log().line
        epoch = SparkEpoch(
            context.lineage.id,
            context.uid,
            begun.epoch,
            context.job,
            context.generation,
            begun.origin.checkpoint,
            secrets.token_hex(4),
        )
        try:
            with self._opened_frames().opened(paths, line.columns, epoch, self._writer) as frame:
                if not self._tidied:
                    self._writer.begin(frame.sparkSession, epoch)
                    self._tidied = True
                self._writer.write(frame, epoch)
        except HeadgateError:
            raise
        except Exception as error:
            raise OperatingError(
                f"sink {context.uid!r} could not write epoch {epoch.epoch} ({self._writer.describe()}): "
                f"{cause(error)}; the rows stay staged and are written again"
            ) from error

    def _record(self, epoch: int) -> None:
        log = self._own_log()
        while not log.append(j.Written(epoch)):
            line = self._require()
            if line.begun is None or line.begun.epoch != epoch:
                return

    # -- whose line

    def _require(self) -> j.Line:
        """Make sure that this driver may add epochs; the first time that makes it the last of the line."""
        context, log = self._begun(), self._own_log()
        while True:
            line = log.refresh()
            why = j.why_fenced(line, context.job, context.generation, context.lineage)
            if why is not None:
                raise FencedError(
                    f"job {context.job!r} must not write epochs of sink {context.uid!r}: another one goes on "
                    f"from a snapshot that both descend from ({why}); let one of the two write elsewhere, or "
                    f"begin this one again with {_CHOICE}=new-lineage"
                )
            if (line.jobs[-1:], line.generation) == ([context.job], context.generation):
                return line
            log.append(_goes_on(context))

    def _is_foreign(self, ready: Plain) -> bool:
        return bool(ready["job"] != self._begun().job)

    def _begun(self) -> SinkCommitterContext:
        if self._context is None:
            raise OperatingError(f"the committer of {self._writer.describe()} is used before it has begun")
        return self._context

    def _own_log(self) -> Log:
        context = self._begun()
        return self._log(context, context.lineage.id)

    def _log(self, context: SinkCommitterContext, line: str) -> Log:
        if line not in self._logs:
            self._logs[line] = Log(self._staging.journal(line, context.uid))
        return self._logs[line]

    def _opened_frames(self) -> Frames:
        if self._frames is None:
            raise unprepared("to_spark")
        return self._frames


def _origin(ready: Plain) -> tuple[str, int, int, int]:
    return ready["job"], ready["generation"], ready["attempt"], ready["checkpoint"]


def _goes_on(context: SinkCommitterContext) -> j.GoesOn:
    forks = [(f.job, f.generation, f.attempt, f.checkpoint) for f in context.lineage.forks]
    return j.GoesOn(context.job, context.generation, forks)


def _to_mend(line: j.Line, context: SinkCommitterContext) -> bool:
    job, lineage = context.job, context.lineage
    return bool(
        j.beyond(line, job, lineage) or j.unfinished_beyond(line, job, lineage) or j.missing(line, lineage)
    )


def _numbers(runs: Sequence[j.Run]) -> list[int]:
    return [number for run in runs for number in run.epochs]
