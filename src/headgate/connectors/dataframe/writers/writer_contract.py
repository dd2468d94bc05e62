"""The contract of writers for `to_spark()`: how a writer writes an epoch, repeats it and takes it back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Generic, TypeVar

from typing_extensions import override

from headgate.common.errors import OperatingError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

R = TypeVar("R")  # result of a user's function, which is ignored

AT_LEAST_ONCE: Final = "at-least-once"
IDEMPOTENT: Final = "exactly-once (idempotent writes)"


@dataclass(frozen=True, slots=True)
class SparkEpoch:
    """Identity of one write of `to_spark()`: of the rows that the sink got between two checkpoints.

    A write is repeated with the same lineage, sink and epoch, and with the same rows, until it was recorded;
    so an idempotent write goes by these three.

    Attributes:
        lineage: id of the job's output lineage; jobs that begin from each other's snapshots share it.
        sink: the sink's uid.
        epoch: number of the epoch; it grows along a lineage, and some numbers are left out.
        job: id of the job that writes.
        generation: number of the driver that leads the job, from 1.
        checkpoint: id of the first snapshot with the rows, counted by the job that prepared them.
        token: random text of this try alone, for the names of its unpublished files and tables.

    Example:
        >>> SparkEpoch("orders-1", "out", 7, "orders-1", 1, 7, "3f").key
        'orders-1/out/7'
    """

    lineage: str
    sink: str
    epoch: int
    job: str
    generation: int
    checkpoint: int
    token: str

    @property
    def key(self) -> str:
        """Lineage, sink and epoch as one text: a key for idempotent writes, the same in every try."""
        return f"{self.lineage}/{self.sink}/{self.epoch}"


class EpochWriter(ABC):
    """Writes the epochs of `to_spark()`; a repeated write should do nothing.
    A writer lives in the driver, and is called from one thread.
    Two drivers may write the same epoch at the same time: one that was replaced may not have noticed. So the
    files of a try are separate, by its token, until one step publishes all of them, and of two such steps for
    one epoch only the first succeeds.

    Attributes:
        guarantee: how often a row of an epoch can appear, as text that `explain()` shows.
        takes_back: whether :meth:`take_back` and :meth:`put_back` do anything.
        own_session: whether frames come in a session of their own, with settings and views of its own.
    """

    guarantee: str = IDEMPOTENT
    takes_back: ClassVar[bool] = False
    own_session: ClassVar[bool] = False

    def place(self) -> str | None:
        """Return the output's local folder, where a second job is refused by default; None if it has none."""
        return None

    def check(self) -> None:  # noqa: B027 - optional hook
        """Check, before the job starts, that the output can be written; the default checks nothing.

        Raises:
            UsageError: the output cannot be written as asked for.
        """

    def begin(self, spark: SparkSession, epoch: SparkEpoch) -> None:  # noqa: B027 - optional hook
        """Prepare for the first epoch that this driver writes: remove unpublished remains of earlier tries.
        Called once, right before that epoch is written, with the session of its rows. By default do nothing.
        """

    @abstractmethod
    def write(self, frame: DataFrame, epoch: SparkEpoch) -> None:
        """Write an epoch's rows durably; return when they are visible, also if they were before.

        Raises:
            Exception: any; the job restarts, and the epoch is written again.
        """

    def take_back(self, lineage: str, sink: str, epochs: Iterable[int], unfinished: Collection[int]) -> None:
        """Make epochs invisible, because a job began from a snapshot before them.
        A late try to write one must not make it visible again; only :meth:`put_back` does. Called only if
        `takes_back` is true.

        Args:
            lineage: id of the lineage that the epochs belong to.
            sink: the sink's uid.
            epochs: numbers to take back, in any order; epochs that were never written are skipped.
            unfinished: more numbers to take back, perhaps not written yet; a late write must not show them.
        """
        raise OperatingError(f"{self.describe()} cannot take back what was written")

    def put_back(self, lineage: str, sink: str, epochs: Iterable[int]) -> None:
        """Make epochs visible that :meth:`take_back` made invisible, skip others; default: OperatingError."""
        raise OperatingError(f"{self.describe()} cannot put back what was written")

    def describe(self) -> str:
        """Return a short name of the output for `explain()` and messages."""
        return type(self).__name__


class FunctionWriter(EpochWriter, Generic[R]):
    """Passes the epochs of `to_spark()` to the user's function; an epoch may come again after a failure."""

    guarantee = AT_LEAST_ONCE

    def __init__(self, function: Callable[[DataFrame, SparkEpoch], R]) -> None:
        self.function = function

    @override
    def write(self, frame: DataFrame, epoch: SparkEpoch) -> None:
        self.function(frame, epoch)

    @override
    def describe(self) -> str:
        return getattr(self.function, "__qualname__", type(self.function).__name__)
