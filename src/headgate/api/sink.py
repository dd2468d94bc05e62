"""The sink contract: writers prepare output, and a committer publishes it.

Two-phase commit: at a checkpoint every writer hands out *committables*, plain values (numbers, text, bytes,
lists, dicts) that describe what is ready but not yet visible. They become part of the checkpoint. Only when
this is in the log of completed checkpoints does the job master commit them, in order, and after a failure it
commits those of the restored checkpoint once more. So commit must be idempotent. `docs/sinks.md` has the
rules for a snapshot that is restored after more was committed than it knows of (:class:`Lineage`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic

from typing_extensions import TypeVar

from headgate.common.errors import OperatingError

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T", default=Any)
C = TypeVar("C", default=Any)  # a committable, of plain values
W = TypeVar("W", default=Any)  # state of a writer, of plain values


@dataclass(frozen=True, slots=True)
class Fork:
    """Identity of a snapshot from which several jobs can continue: a savepoint, or the start of another job.

    Attributes:
        job: id of the job that took the snapshot.
        generation: number of that job's driver, from 1.
        attempt: number of the deployment, by that driver, in which the snapshot was taken.
        checkpoint: id of the checkpoint or savepoint.
    """

    job: str
    generation: int
    attempt: int
    checkpoint: int


@dataclass(frozen=True, slots=True)
class Lineage:
    """The lineage of a job's output. A job that begins from another's snapshot continues that job's lineage,
    unless its user chose `new-lineage`: then it begins one of its own, and keeps its forks. Its history,
    which it must not write again, is what each job before it had prepared when the next job's snapshot was
    taken.

    Attributes:
        id: the id of the job that began the lineage.
        forks: the snapshots that this job descends from, oldest first, also of lineages that were left; empty
            for a job that began empty.
    """

    id: str
    forks: tuple[Fork, ...] = ()

    def holds(self, job: str, generation: int, attempt: int, checkpoint: int) -> bool:
        """Return whether output of that job, attempt and checkpoint, if committed, is history of this job.

        Args:
            job: id of the job that prepared the output.
            generation: number of that job's driver, from 1.
            attempt: number of the deployment by that driver, from 1.
            checkpoint: id of the first snapshot that the output was part of.

        Example:
            >>> lineage = Lineage("a", (Fork("a", 1, 2, 7),))
            >>> lineage.holds("a", 1, 1, 7), lineage.holds("a", 1, 2, 8), lineage.holds("a", 1, 3, 7)
            (True, False, False)
        """
        return any(
            fork.job == job
            and (generation, attempt) <= (fork.generation, fork.attempt)
            and checkpoint <= fork.checkpoint
            for fork in self.forks
        )


@dataclass(frozen=True, slots=True)
class SinkWriterContext:
    """The identity of one parallel writer of a sink, and its way to send bytes to the driver.

    Attributes:
        uid: the sink's uid.
        subtask: which parallel writer this is, from 0.
        parallelism: how many writers there are.
        attempt: number of the deployment by this driver, from 1; each restart or rescale is a new one.
        job: the job's id.
        generation: number of the job's driver. One that takes over counts attempts from 1 again, so only
            generation, attempt and subtask together make a name that no other writer has.
        tell: sends bytes to the driver at once, outside of all checkpoints, so that they may come again after
            a failure; None where the driver takes none.
    """

    uid: str
    subtask: int
    parallelism: int
    attempt: int
    job: str
    generation: int = 1
    tell: Callable[[bytes], None] | None = None


@dataclass(frozen=True, slots=True)
class SinkCommitterContext:
    """The job and sink for which a committer publishes, with the lineage of the job's output.

    Attributes:
        uid: the sink's uid.
        job: the job's id.
        generation: number of the job's driver, from 1.
        lineage: of the job's output.
    """

    uid: str
    job: str
    generation: int
    lineage: Lineage


class SinkWriter(ABC, Generic[T, C, W]):
    """Writes the records of one subtask of a sink; called from the worker's loop thread only.

    Attributes:
        accepts_columns: whether :meth:`write` takes record batches of Arrow as they are.
    """

    accepts_columns: bool = False

    @abstractmethod
    def write(self, records: Any) -> None:
        """Take a batch of records: a list; with `accepts_columns` also a ``pyarrow.RecordBatch``."""

    @abstractmethod
    def prepare_commit(self) -> list[C]:
        """Make all that was written durable and ready to publish; return the committables that describe it.

        Called at every checkpoint and savepoint, and once at the end. What it returned is never touched again
        by this writer.
        """

    def prepare_commit_at(self, checkpoint: int) -> list[C]:
        """Prepare output for the checkpoint or savepoint `checkpoint`; by default :meth:`prepare_commit`.

        The committables may be committed with a later one, if this one fails or is a savepoint.
        """
        return self.prepare_commit()

    def mark(self, rows: Mapping[tuple[str, str], int]) -> None:
        """Note that what was written so far are whole corrections, which lead to an exact answer.

        Called in jobs with tables whose rows are corrected, as often as ``execution.mark-interval`` says and
        before each checkpoint that waits for all records ahead of it. Corrections in between are not written.

        Args:
            rows: (uid of a source, id of its split) -> how many of its rows the answer is of, for the splits
                that have moved since the last call; the counts of others stay.
        """

    def snapshot(self) -> list[W]:
        """Return the writer's state besides committables; a restore deals its elements out to all writers."""
        return []

    def close(self) -> None:
        """Release resources; what was not prepared is discarded. Also called after a failure."""


class SinkCommitter(ABC, Generic[C]):
    """Publishes the committables of a sink's writers; lives in the driver, called from one thread.

    Attributes:
        tells_commits: whether :meth:`committed_after` knows what was committed, also by other jobs and before
            this process began.
        takes_back: whether :meth:`take_back` can remove committed output.
    """

    tells_commits: bool = False
    takes_back: bool = False

    def begin(self, context: SinkCommitterContext) -> None:
        """Get ready to commit output of a job; called once in each driver of the job, before it commits."""

    def committed_after(self, context: SinkCommitterContext) -> str | None:
        """Return, in words, the output that was published of the lineage and is not of this job's history.

        Jobs of the lineage committed it after the snapshots that this job descends from. Called before
        :meth:`begin` of a job that begins from another job's snapshot, and whenever a job falls back to a
        snapshot before its newest ones, which are damaged or may be lost: then a fork of the lineage is the
        job's own, and what the job has committed after it counts, too.

        Returns:
            None where there is nothing, and always where `tells_commits` is false.

        Raises:
            OperatingError: it cannot be found out now.
        """
        return None

    def check_restore(self, context: SinkCommitterContext, committables: Sequence[C], own: bool) -> None:
        """Check that a snapshot's committables can be committed, before a job begins from it.

        Called before :meth:`begin`, and by ``headgate check-upgrade``, where no job runs: so it changes
        nothing. Where the user's choice is to take back, :meth:`take_back` comes before the commit.

        Args:
            context: of the job that would begin.
            committables: what the snapshot holds of this sink.
            own: whether the snapshot was taken by the same job.

        Raises:
            UsageError: they cannot be committed; one sentence says why, and what to do.
            OperatingError: it cannot be found out now.
        """

    def take_back(self, context: SinkCommitterContext) -> None:
        """Make the published output of the lineage exactly the job's history: take back later output.

        Called where the user has chosen so, when all subtasks run from the snapshot, and before anything is
        committed; again after a crash. Jobs of the lineage that still run must not be able to commit
        afterwards.

        Raises:
            OperatingError: not all was taken back, or this sink cannot take back (the default).
        """
        raise OperatingError(f"{type(self).__name__} cannot take back what it has committed")

    def hold(self, committables: Sequence[C], savepoint: Fork) -> None:
        """Keep committables for a savepoint that is about to complete; the job that restores it commits them.

        So :meth:`abandon` must leave them, whatever becomes of this job, until they are released.

        Args:
            committables: what the savepoint holds of this sink.
            savepoint: the savepoint; several may hold the same committables.
        """

    def release(self, committables: Sequence[C], savepoint: Fork) -> None:
        """Stop holding committables for a savepoint that failed or was deleted.

        What no other savepoint holds may be removed by the next :meth:`abandon`; until then nothing is
        removed, because a checkpoint may have it too. May be repeated. Also called without :meth:`begin`, by
        ``headgate savepoint delete``, where no job runs.

        Args:
            committables: what :meth:`hold` was, or was about to be, called with.
            savepoint: the savepoint that :meth:`hold` was called with.

        Raises:
            OperatingError: not all of them could be released.
        """

    @abstractmethod
    def commit(self, committables: Sequence[C]) -> None:
        """Publish the output of `committables`; output that is already published stays as it is.

        Raises:
            OperatingError: publishing failed for now; the job restarts and commits again.
            FencedError: another job continues this lineage in this place; this one must not.
        """

    def finish(self) -> None:
        """Note that the job has read all its input, and that all its output is published.

        Called after the last commit; not where a job is stopped, cancelled, or fails. May be repeated.

        Raises:
            OperatingError: it could not be noted now; the job restarts, commits, and calls this again.
        """

    def abandon(self, committed_through: Sequence[C]) -> None:
        """Remove prepared output neither in `committed_through` nor held; called when an attempt begins.

        Args:
            committed_through: committables to keep: those of the restored checkpoint (committed by now,
                unless output is to be taken back first), and of checkpoints of the lineage's other jobs that
                can still be restored.
        """

    def interrupt(self) -> None:
        """Make a running commit end soon, as another driver now leads the job; called from another thread."""

    def close(self) -> None:
        """Release connections and other resources of the committer."""


class Sink(ABC, Generic[T, C, W]):
    """Description of an output, which makes its writers and committer; picklable, without open resources.

    The types are those of the records, of committables, and of writers' states; `Sink[int]` leaves the last
    two open.

    Attributes:
        guarantee: shown by `explain()`: "exactly-once", "effectively-once (idempotent writes)", or
            "at-least-once".
        accepts_columns: whether writers take record batches as they are, for `explain()`; None: unknown.
    """

    guarantee: str = "exactly-once"
    accepts_columns: bool | None = None

    @abstractmethod
    def create_writer(self, context: SinkWriterContext, restored: Sequence[W]) -> SinkWriter[T, C, W]:
        """Return the writer of one subtask; called in its worker at each deployment. `restored` is the
        writer's share of the elements that `snapshot` of all writers returned; empty if nothing is restored.
        """

    def create_committer(self) -> SinkCommitter[C] | None:
        """Return a new committer; None for a sink whose output is visible as soon as it is written."""
        return None

    def place(self) -> str | None:
        """Return the local output folder, which a second job may not use by default; None: no such folder."""
        return None

    def datasets(self) -> Sequence[str]:
        """Return the URIs of what is written, for catalogues of lineage, as "kafka://broker:9092/orders".

        By default the path of :meth:`place`. Called in the driver, in a thread of its own.
        """
        place = self.place()
        return () if place is None else (place,)

    def arrow_schema(self) -> pa.Schema | None:
        """Return the columns that are written, for catalogues of lineage; None: they are not known before."""
        return None

    def validate(self) -> None:
        """Check the description before anything starts.

        Raises:
            UsageError: one sentence says what is wrong and what to do.
        """

    def describe(self) -> str:
        """Return a short name of the output for `explain()` and logs."""
        return type(self).__name__
