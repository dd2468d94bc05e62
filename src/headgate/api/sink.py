"""What a sink is: writers that prepare, and a committer that publishes.

Two-phase commit: at a checkpoint every writer hands out *committables*, plain values that describe
what is ready but not yet visible. They become part of the checkpoint. Only when the checkpoint is
in the log of completed ones does the job master commit them, in order, and after a failure it
commits those of the restored checkpoint once more. So commit must be idempotent.

A snapshot may also be restored after more was committed than it knows of. Which output belongs to a
snapshot's history is told by its :class:`Lineage`; `docs/sinks.md` has the rules.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic

from typing_extensions import TypeVar

from headgate.api.source import Plain
from headgate.common.errors import OperatingError

T = TypeVar("T", default=Any)


@dataclass(frozen=True, slots=True)
class Fork:
    """Which snapshot, told by who drew it and when: one that another job began from, or a savepoint.

    Attributes:
        job: id of the job that drew it.
        generation: of that job's driver.
        attempt: the deployment that it was drawn in.
        checkpoint: its id.
    """

    job: str
    generation: int
    attempt: int
    checkpoint: int


@dataclass(frozen=True, slots=True)
class Lineage:
    """The line that a job's output goes on.

    Jobs that begin from each other's snapshots are of one line. What a job must not repeat is its
    history: what each job it descends from had prepared when the snapshot was drawn.

    Attributes:
        id: of the line: the id of the job that began it.
        forks: the snapshots that this job descends from, oldest first; empty for a job that began from
            nothing.
    """

    id: str
    forks: tuple[Fork, ...] = ()

    def holds(self, job: str, generation: int, attempt: int, checkpoint: int) -> bool:
        """Whether output prepared there, and committed, is history of this job.

        Args:
            job: who prepared it.
            generation: of that job's driver.
            attempt: the deployment.
            checkpoint: the first snapshot that it was part of.

        Example:
            >>> line = Lineage("a", (Fork("a", 1, 2, 7),))
            >>> line.holds("a", 1, 1, 7), line.holds("a", 1, 2, 8), line.holds("a", 1, 3, 7)
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
    """What a writer may know about its place.

    Attributes:
        uid: the sink's uid.
        subtask: which parallel writer this is, from 0.
        parallelism: how many writers there are.
        attempt: the deployment of this driver, from 1.
        job: the job's id.
        generation: of the job's driver. A driver that goes on with a job counts attempts from 1 again,
            so only generation, attempt and subtask together make a name that no other writer has.
        tell: sends bytes to the driver at once, beside all checkpoints, so that they may come again after a
            failure; None where nobody listens.
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
    """What a committer may know about its place.

    Attributes:
        uid: the sink's uid.
        job: the job's id.
        generation: of the job's driver.
        lineage: the line that the job's output goes on.
    """

    uid: str
    job: str
    generation: int
    lineage: Lineage


class SinkWriter(ABC, Generic[T]):
    """Writes records in one subtask; called from the worker's loop thread only."""

    @abstractmethod
    def write(self, records: Any) -> None:
        """Take a batch of records: a list of Python objects, or, when the writer sets
        `accepts_columns`, possibly a ``pyarrow.RecordBatch``.
        """

    @abstractmethod
    def prepare_commit(self) -> list[Plain]:
        """Make everything written so far ready to publish, durably, and describe it.

        Called at every checkpoint and once at the end. What it returned is never touched again by
        this writer.
        """

    def prepare_commit_at(self, checkpoint: int) -> list[Plain]:
        """As :meth:`prepare_commit`, which is all it does by default, told what for.

        Args:
            checkpoint: id of the checkpoint or savepoint that is drawn. What is prepared may be committed
                with a later one, if this one fails or is a savepoint.
        """
        return self.prepare_commit()

    accepts_columns: bool = False

    def snapshot(self) -> list[Plain]:
        """State of the writer besides its committables; given back after a restore."""
        return []

    def close(self) -> None:
        """Release resources; what was not prepared is discarded. Also called after a failure."""


class SinkCommitter(ABC):
    """Publishes committables; lives in the driver, called from one thread.

    Attributes:
        tells_commits: whether :meth:`committed_after` knows what was committed, also by other jobs and
            before this process began.
        takes_back: whether :meth:`take_back` can remove it.
    """

    tells_commits: bool = False
    takes_back: bool = False

    def begin(self, context: SinkCommitterContext) -> None:  # noqa: B027 - optional hook
        """The job begins; called once, before the first commit."""

    def committed_after(self, context: SinkCommitterContext) -> str | None:
        """What this sink has published of the line that is not history of the job, in words.

        Asked before :meth:`begin` of a job that begins from another job's snapshot, and whenever a job goes
        back behind newest checkpoints of its own, which are damaged or may be lost: then a fork of the
        lineage is the job's own, and what the job has committed behind that counts, too.

        Returns:
            None where there is nothing, and always where `tells_commits` is false.

        Raises:
            OperatingError: it cannot be found out now.
        """
        return None

    def check_restore(self, context: SinkCommitterContext, committables: Sequence[Plain], own: bool) -> None:  # noqa: B027 - optional hook
        """Check that what a snapshot holds can be committed, before a job begins from it.

        Asked before :meth:`begin`, and by ``headgate check-upgrade``, where no job runs: so it looks only.
        Where the user's choice is to take back, :meth:`take_back` comes before the commit.

        Args:
            context: of the job that would begin.
            committables: what the snapshot holds of this sink.
            own: whether the snapshot is of the same job, which goes on.

        Raises:
            UsageError: it cannot; in one sentence why, and how to mend it.
            OperatingError: it cannot be found out now.
        """

    def take_back(self, context: SinkCommitterContext) -> None:
        """Make what is published of the line be the history of the job, no more and no less.

        Called where the user has chosen so, when all subtasks run from the snapshot, and before anything is
        committed; a crash in between has it called again.
        Jobs of the line that still run must not be able to commit afterwards.

        Raises:
            OperatingError: not all of it could be done.
        """
        raise OperatingError(f"{type(self).__name__} cannot take back what it has committed")

    def hold(self, committables: Sequence[Plain], savepoint: Fork) -> None:  # noqa: B027 - optional hook
        """A savepoint is about to be whole that holds these; whoever restores it commits them.

        So :meth:`abandon` must leave them, whatever becomes of this job, until they are released.

        Args:
            committables: what the savepoint holds of this sink.
            savepoint: which one; several may hold the same committables.
        """

    def release(self, committables: Sequence[Plain], savepoint: Fork) -> None:  # noqa: B027 - optional hook
        """The savepoint came to nothing or was deleted: it does not hold these any more.

        What no other savepoint holds may go with the next :meth:`abandon`; until then nothing is removed,
        because a checkpoint may have it too. Again is harmless. Also called without :meth:`begin`, by
        ``headgate savepoint delete``, where no job runs.

        Args:
            committables: what :meth:`hold` was, or was about to be, called with.
            savepoint: as there.

        Raises:
            OperatingError: not all of it could be done.
        """

    @abstractmethod
    def commit(self, committables: Sequence[Plain]) -> None:
        """Publish; publishing again what is already published does nothing.

        Raises:
            OperatingError: publishing failed for now; the job restarts and commits again.
            FencedError: another job goes on this line in this place; this one must not.
        """

    def abandon(self, committed_through: Sequence[Plain]) -> None:  # noqa: B027 - optional hook
        """A restart begins: whatever was prepared but is in no completed checkpoint may be removed.

        Args:
            committed_through: what stays: the committables of the restored checkpoint, committed unless
                output has to be taken back before, and of checkpoints of other jobs of the line that can
                still be restored.
        """

    def interrupt(self) -> None:  # noqa: B027 - optional hook
        """Another driver has the job: a commit that runs is to end soon. Called from another thread."""

    def close(self) -> None:  # noqa: B027 - optional hook
        """Release connections."""


class Sink(ABC, Generic[T]):
    """A description of output; picklable, holds no open resources."""

    guarantee: str = "exactly-once"
    """What `explain()` says of this sink: "exactly-once", "effectively-once (idempotent writes)",
    or "at-least-once"."""

    accepts_columns: bool | None = None
    """Whether writers take record batches as they are, for `explain()`; None says nothing."""

    @abstractmethod
    def create_writer(self, context: SinkWriterContext, restored: Sequence[Plain]) -> SinkWriter[T]:
        """A live writer; `restored` has the writer states of the restored checkpoint, shared out
        over the writers of today.
        """

    def create_committer(self) -> SinkCommitter | None:
        """A live committer, or None when writing is all there is to it."""
        return None

    def place(self) -> str | None:
        """The local folder that the output goes to, where a second living job must not write unasked.

        Returns:
            None where no folder of this machine, or none that only one job may write to, is meant.
        """
        return None

    def validate(self) -> None:
        """Check the description before anything starts.

        Raises:
            UsageError: in one sentence what is wrong and how to mend it.
        """

    def describe(self) -> str:
        """A short name for explain and logs."""
        return type(self).__name__
