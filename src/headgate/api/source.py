"""What a source is: an enumerator that knows the splits, and readers that read them.

The enumerator lives once per job in the driver and hands out splits; a reader lives in every
subtask. Both are part of every checkpoint: the enumerator's state and the readers' positions form
one consistent cut, because assignments and checkpoint triggers travel on the same ordered
connection. A source that can return to a recorded position gives exactly-once state.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic

from typing_extensions import TypeVar

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T", default=Any)

Plain = Any
"""None, bool, int, float, str, bytes, and lists, tuples and string-keyed dicts of these.

What sources and sinks put into a checkpoint is limited to these, so that a checkpoint holds no code.
"""


class Boundedness(enum.Enum):
    """Whether a source ends by itself."""

    BOUNDED = "bounded"
    UNBOUNDED = "unbounded"


class PollStatus(enum.Enum):
    """What :meth:`SourceReader.poll` says when it has no records."""

    NOTHING_AVAILABLE = "nothing available"
    """Ask again a little later, or when a split was added."""
    END_OF_INPUT = "end of input"
    """All splits were read to their end and no more will come; final."""


NOTHING_AVAILABLE = PollStatus.NOTHING_AVAILABLE
END_OF_INPUT = PollStatus.END_OF_INPUT


@dataclass(frozen=True, slots=True)
class Split:
    """A part of the input that one reader reads at a time, with the position reached in it.

    Attributes:
        id: unique within the source, and the same after a restart.
        position: where to go on, as plain values; None means the beginning.
    """

    id: str
    position: Plain = None


@dataclass(frozen=True, slots=True)
class BadRecord:
    """An input record that did not decode, as it goes to the side output ``"bad-records"``.

    Attributes:
        source: the file or partition it came from.
        position: line or row number, counted from 1.
        reason: why it did not decode.
        raw: the bytes as read.
    """

    source: str
    position: int
    reason: str
    raw: bytes


@dataclass(frozen=True, slots=True)
class SourceReaderContext:
    """What a reader may know about its place.

    Attributes:
        uid: the source's uid.
        subtask: which parallel reader this is, from 0.
        parallelism: how many readers there are.
    """

    uid: str
    subtask: int
    parallelism: int


class SourceReader(ABC, Generic[T]):
    """Reads splits in one subtask.

    Every method is called from the worker's one loop thread, in this order: construction,
    :meth:`add_splits` (restored splits first), then :meth:`poll`, :meth:`add_splits`,
    :meth:`no_more_splits`, :meth:`snapshot` and :meth:`checkpoint_complete` in any order,
    finally :meth:`close` once. None of them may block for long.
    """

    bad_records: list[BadRecord]
    """Records that did not decode since the last poll; the framework takes them away. A reader
    appends here only when it was configured to send bad records to the side output."""

    skipped: int = 0
    """How many bad records were skipped so far (when configured so)."""

    @abstractmethod
    def add_splits(self, splits: Sequence[Split]) -> None:
        """Take over splits, each from its position on."""

    @abstractmethod
    def no_more_splits(self) -> None:
        """No further split will come; END_OF_INPUT may follow when the present ones are read."""

    @abstractmethod
    def poll(self, max_records: int) -> list[T] | pa.RecordBatch | PollStatus:
        """The next records, at least one and at most about `max_records`, in input order.

        A record batch of Arrow stays columnar in the dataflow. Fewer records than asked for are
        fine; an empty list is not (return NOTHING_AVAILABLE).

        Raises:
            BadRecordError: a record does not decode and `on_error` is "fail".
        """

    @abstractmethod
    def snapshot(self) -> list[Split]:
        """The splits not yet finished, with positions right after the last polled record.

        The classic mistake is a position one record early or late: a restored reader must return
        exactly the records that this reader has not returned yet.
        """

    def checkpoint_complete(self, checkpoint_id: int) -> None:
        """The records before the positions of `checkpoint_id` are never needed again."""

    def close(self) -> None:
        """Release files and connections; also called after a failure."""


@dataclass(frozen=True, slots=True)
class SourceReport:
    """How a source does that gets its input in epochs, for people.

    Attributes:
        epoch: the newest one whose records were handed out; None before the first.
        rows: in that epoch.
        rate_per_s: rows of it per second, from its planning to its staging.
        latency_ms: from planning to the checkpoint, of the newest epoch that is in one.
        waiting: what the source waits for now, in words; empty for nothing.
    """

    epoch: int | None = None
    rows: int = 0
    rate_per_s: float = 0.0
    latency_ms: float = 0.0
    waiting: str = ""


class SplitEnumerator(ABC):
    """Finds splits and hands them out; lives in the driver, one per source.

    All methods are called from one thread, and none may block for long. After a failure the enumerator is
    created anew from the restored checkpoint's state.
    """

    @abstractmethod
    def next_splits(self, subtask: int) -> list[Split] | None:
        """Splits for a reader that has none left: some, `[]` for "not now", None for "never again".

        A reader that got `[]` asks again after a pause.
        """

    @abstractmethod
    def snapshot(self) -> Plain:
        """State that does not include any split already handed out."""

    def snapshot_for(self, checkpoint_id: int) -> Plain:
        """As :meth:`snapshot`, which is all it does by default, told what for.

        Args:
            checkpoint_id: of the checkpoint or savepoint that is drawn now.
        """
        return self.snapshot()

    def ready_to_snapshot(self) -> bool:
        """Whether a checkpoint may be drawn now; asked right before :meth:`snapshot_for`.

        A source whose cut must fall between two groups of records says False until all readers are
        through with the present group. It is asked again until the checkpoint times out.
        """
        return True

    def wants_checkpoint(self) -> bool:
        """Whether the source waits for a checkpoint; one is drawn as soon as the limits allow it.

        Asked often. Without periodic checkpoints nothing follows.
        """
        return False

    def report(self) -> SourceReport | None:
        """How the source does, for the job's status; None: nothing is told."""
        return None

    def checkpoint_complete(self, checkpoint_id: int) -> None:  # noqa: B027 - optional hook
        """The checkpoint is durable; what precedes it may be committed or trimmed at the origin."""

    def checkpoint_aborted(self, checkpoint_id: int) -> None:  # noqa: B027 - optional hook
        """Nothing may be trimmed for it: it came to nothing, or it was a savepoint, which is the user's.

        A later one holds what it would have held.
        """

    def close(self) -> None:  # noqa: B027 - optional hook
        """Release connections."""


class Source(ABC, Generic[T]):
    """A description of input; picklable, holds no open resources.

    Example of a complete source: see ``headgate.connectors.generator``.
    """

    boundedness: Boundedness = Boundedness.BOUNDED

    produces_columns: bool = False
    """Whether readers give record batches; only told in `explain()`, may be set per object."""

    @abstractmethod
    def create_enumerator(self, restored: Plain | None) -> SplitEnumerator:
        """A live enumerator; `restored` is what :meth:`SplitEnumerator.snapshot` gave, or None."""

    @abstractmethod
    def create_reader(self, context: SourceReaderContext) -> SourceReader[T]:
        """A live reader without splits."""

    def check_restore(self, rest: Plain | None, splits: Sequence[Split]) -> None:
        """Check that readers can go on where a snapshot stands, before a job begins from it.

        Asked in the driver, and by ``headgate check-upgrade``, where no job runs: so it looks only.
        By default nothing is checked, and what does not fit fails when it is read.

        Args:
            rest: what :meth:`SplitEnumerator.snapshot` gave, or None.
            splits: those that readers had not finished, with the positions reached.

        Raises:
            UsageError: they cannot; in one sentence why, and how to mend it.
        """

    def validate(self) -> None:
        """Check the description before anything starts (files exist, globs match, ...).

        Raises:
            UsageError: in one sentence what is wrong and how to mend it.
        """

    def describe(self) -> str:
        """A short name for explain and logs."""
        return type(self).__name__
