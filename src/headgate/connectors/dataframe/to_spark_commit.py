"""The committer of `to_spark()`: writes the rows of completed checkpoints as epochs, in order.

For each epoch: an entry of the journal fixes its number and its rows; the writer gets the rows; another entry
records that it is written; then the staged rows are removed. After a failure in between, it is repeated with
the same number and the same rows.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Sequence
from typing import Final

from typing_extensions import override

from headgate.api.sink import Fork, SinkCommitter, SinkCommitterContext
from headgate.common.errors import FencedError, HeadgateError, OperatingError, StorageError, UsageError
from headgate.connectors.dataframe import to_spark_journal as j
from headgate.connectors.dataframe.connector import unprepared
from headgate.connectors.dataframe.to_spark_frames import Frames, cause, same_columns
from headgate.connectors.dataframe.to_spark_log import Log
from headgate.connectors.dataframe.to_spark_staging import StagedRows, Staging, verified_paths
from headgate.connectors.dataframe.writers.writer_contract import EpochWriter, SparkEpoch

_CHOICE: Final = "execution.sinks.older-snapshot"


class SparkCommitter(SinkCommitter[StagedRows]):
    """Commits staged rows by passing them to an epoch writer; each epoch is recorded in a journal.

    Without `frames`, where the sink was not prepared, it can only release rows that a savepoint holds.
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
    def commit(self, committables: Sequence[StagedRows]) -> None:
        own = self._begun().job
        ordered = sorted(committables, key=lambda ready: (ready["job"] == own, *_origin(ready)))
        for origin, group in itertools.groupby(ordered, _origin):
            self._commit(j.Origin(*origin), {ready["pending"]: ready for ready in group})

    @override
    def committed_after(self, context: SinkCommitterContext) -> str | None:
        state = self._log(context, context.lineage.id).refresh()
        missing = j.missing(state, context.lineage)
        if missing:
            raise UsageError(
                f"sink {context.uid!r} does not hold all that the snapshot builds on: {j.described(missing)}"
                f", was taken back; begin with {_CHOICE}=take-back, which puts it back and takes back what "
                "came instead, or from another snapshot"
            )
        newer = j.newer(state, context.job, context.lineage)
        unfinished = j.unfinished_newer(state, context.job, context.lineage)
        if unfinished and not newer:
            return f"{j.described(unfinished)}, may be written"
        return j.described(newer) if newer else None

    @override
    def check_restore(
        self, context: SinkCommitterContext, committables: Sequence[StagedRows], own: bool
    ) -> None:
        if not self._staging.known:
            return  # where no job runs, no folder for staged rows is set
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
        lineage, job = context.lineage, context.job
        log = self._log(context, lineage.id)
        state = log.refresh()
        if not (j.newer(state, job, lineage) or j.unfinished_newer(state, job, lineage)) and not j.missing(
            state, lineage
        ):
            return
        # From here on no other job of the lineage writes, so that looking again sees everything.
        while not (state := log.refresh()).is_owned(job, context.generation):
            log.append(_owner(context))
        newer, missing = j.newer(state, job, lineage), j.missing(state, lineage)
        unfinished = _numbers(j.unfinished_newer(state, job, lineage))
        self._writer.take_back(lineage.id, context.uid, _numbers(newer), unfinished)
        self._writer.put_back(lineage.id, context.uid, _numbers(missing))
        for entry in (j.TakenBack(newer, unfinished), j.PutBack(missing)):
            if not log.append(entry):
                raise FencedError(f"another job continues lineage {lineage.id!r} of sink {context.uid!r}")

    @override
    def hold(self, committables: Sequence[StagedRows], savepoint: Fork) -> None:
        self._staging.hold(committables, savepoint)

    @override
    def release(self, committables: Sequence[StagedRows], savepoint: Fork) -> None:
        self._staging.release(committables, savepoint)

    @override
    def abandon(self, committed_through: Sequence[StagedRows]) -> None:
        self._staging.abandon(committed_through)

    @override
    def interrupt(self) -> None:
        if self._frames is not None:
            self._frames.cancel()

    # -- one epoch

    def _commit(self, origin: j.Origin, ready: dict[str, StagedRows]) -> None:
        todo = self._not_written(self._begun(), origin, list(ready))
        if todo:
            self._require()
            found = verified_paths(self._staging.root, [ready[name] for name in todo], origin.checkpoint)
            paths = dict(zip(todo, found, strict=True))
            while paths:
                begun = self._begin_epoch(origin, paths)
                self._write(begun, [paths.pop(name) for name in begun.files])
                self._record(begun.epoch)
        self._staging.remove(ready.values())

    def _not_written(self, context: SinkCommitterContext, origin: j.Origin, names: list[str]) -> list[str]:
        lineages = [context.lineage.id]
        if origin.job != context.job:
            lineages += [fork.job for fork in context.lineage.forks]
        for lineage in dict.fromkeys(lineages):
            names = j.not_written(self._log(context, lineage).refresh(), origin, names)
        return names

    def _begin_epoch(self, origin: j.Origin, paths: dict[str, str]) -> j.Begun:
        # The begun epoch is repeated if its files are among these; else the next one is recorded.
        context, names = self._begun(), sorted(paths)
        while True:
            state = self._require()
            begun = state.begun
            if begun is not None and begun.origin == origin and set(begun.files) <= set(names):
                return begun
            number = j.next_epoch(state, origin.checkpoint)
            columns = self._opened_frames().columns([paths[name] for name in names])
            if state.columns:
                columns = same_columns(state.columns, columns, f"epoch {number} of sink {context.uid!r}")
            begun = j.Begun(number, origin, names, columns)
            if self._own_log().append(begun):
                return begun

    def _write(self, begun: j.Begun, paths: list[str]) -> None:
        context, columns = self._begun(), self._own_log().state.columns
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
            with self._opened_frames().opened(paths, columns, epoch, self._writer) as frame:
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
            begun = self._require().begun
            if begun is None or begun.epoch != epoch:
                return

    # -- ownership

    def _require(self) -> j.State:
        """Become the lineage's owner, which alone adds epochs; return the state. FencedError if refused."""
        context, log = self._begun(), self._own_log()
        while True:
            state = log.refresh()
            why = j.why_fenced(state, context.job, context.generation, context.lineage)
            if why is not None:
                raise FencedError(
                    f"job {context.job!r} must not write epochs of sink {context.uid!r}: another one goes on "
                    f"from a snapshot that both descend from ({why}); let one of the two write elsewhere, or "
                    f"begin this one again with {_CHOICE}=new-lineage"
                )
            if state.is_owned(context.job, context.generation):
                return state
            log.append(_owner(context))

    def _begun(self) -> SinkCommitterContext:
        if self._context is None:
            raise OperatingError(f"the committer of {self._writer.describe()} is used before it has begun")
        return self._context

    def _own_log(self) -> Log:
        context = self._begun()
        return self._log(context, context.lineage.id)

    def _log(self, context: SinkCommitterContext, lineage: str) -> Log:
        if lineage not in self._logs:
            self._logs[lineage] = Log(self._staging.journal(lineage, context.uid))
        return self._logs[lineage]

    def _opened_frames(self) -> Frames:
        if self._frames is None:
            raise unprepared("to_spark")
        return self._frames


def _origin(ready: StagedRows) -> tuple[str, int, int, int]:
    return ready["job"], ready["generation"], ready["attempt"], ready["checkpoint"]


def _owner(context: SinkCommitterContext) -> j.Owner:
    forks = [(f.job, f.generation, f.attempt, f.checkpoint) for f in context.lineage.forks]
    return j.Owner(context.job, context.generation, forks)


def _numbers(runs: Sequence[j.Run]) -> list[int]:
    return [number for run in runs for number in run.epochs]
