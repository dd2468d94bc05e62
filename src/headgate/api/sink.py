"""What a sink is: writers that prepare, and a committer that publishes.

Two-phase commit: at a checkpoint every writer hands out *committables*, plain values that describe
what is ready but not yet visible. They become part of the checkpoint. Only when the checkpoint is
in the log of completed ones does the job master commit them, in order, and after a failure it
commits those of the restored checkpoint once more. So commit must be idempotent.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic

from typing_extensions import TypeVar

from headgate.api.source import Plain

T = TypeVar("T", default=Any)


@dataclass(frozen=True, slots=True)
class SinkWriterContext:
    """What a writer may know about its place.

    Attributes:
        uid: the sink's uid.
        subtask: which parallel writer this is, from 0.
        parallelism: how many writers there are.
        attempt: the deployment; with the subtask it makes a name that no other writer ever uses.
        job: the job's id.
    """

    uid: str
    subtask: int
    parallelism: int
    attempt: int
    job: str


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

    accepts_columns: bool = False

    def snapshot(self) -> list[Plain]:
        """State of the writer besides its committables; given back after a restore."""
        return []

    def close(self) -> None:
        """Release resources; what was not prepared is discarded. Also called after a failure."""


class SinkCommitter(ABC):
    """Publishes committables; lives in the driver, called from one thread."""

    @abstractmethod
    def commit(self, committables: Sequence[Plain]) -> None:
        """Publish; publishing again what is already published does nothing.

        Raises:
            OperatingError: publishing failed for now; the job restarts and commits again.
        """

    def abandon(self, committed_through: Sequence[Plain]) -> None:  # noqa: B027 - optional hook
        """A restart begins: whatever was prepared but is in no completed checkpoint may be removed.

        Args:
            committed_through: the committables of the restored checkpoint, already committed.
        """

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

    def validate(self) -> None:
        """Check the description before anything starts.

        Raises:
            UsageError: in one sentence what is wrong and how to mend it.
        """

    def describe(self) -> str:
        """A short name for explain and logs."""
        return type(self).__name__
