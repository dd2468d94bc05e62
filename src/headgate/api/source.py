"""The source contract: an enumerator that finds the splits, and readers that read them.

The enumerator lives once per job in the driver and hands out splits; a reader lives in every subtask. Both
are part of every checkpoint: the enumerator's state and the readers' positions are one consistent snapshot,
because assignments and checkpoint triggers travel on the same ordered connection. A source that can return to
a recorded position gives exactly-once state.

Positions and states are plain values (None, numbers, text, bytes, lists, dicts): a checkpoint holds no code.
"""

from __future__ import annotations

import enum
import operator
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic

from typing_extensions import TypeVar

from headgate.common.plain_data import Plain as Plain
from headgate.relational.column_tests import ColumnTest

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T", default=Any)
P = TypeVar("P", default=Any)  # position in a split
S = TypeVar("S", default=Any)  # state of an enumerator


class Boundedness(enum.Enum):
    """Whether a source ends by itself (bounded) or would run until the job is ended (unbounded)."""

    BOUNDED = "bounded"
    UNBOUNDED = "unbounded"


class PollStatus(enum.Enum):
    """What :meth:`SourceReader.poll` returns when it has no records: none now, or none any more."""

    NOTHING_AVAILABLE = "nothing available"
    """Ask again a little later, or when a split was added."""
    END_OF_INPUT = "end of input"
    """All splits were read to their end and no more will come; final."""


NOTHING_AVAILABLE = PollStatus.NOTHING_AVAILABLE
END_OF_INPUT = PollStatus.END_OF_INPUT


@dataclass(frozen=True)  # with slots, too, ``Split[int]("0-3")`` would raise: typing sets an attribute
class Split(Generic[P]):
    """A part of the input that one reader reads at a time, with the position reached in it.

    Attributes:
        id: unique within the source, and the same after a restart.
        position: where to go on, as plain values; None means the beginning.
    """

    id: str
    position: P | None = None


@dataclass(frozen=True, slots=True)
class BadRecord:
    """An input record that did not decode, as it goes to the side output ``hg.BAD_RECORDS``.

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
    """The identity of one parallel reader of a source.

    Attributes:
        uid: the source's uid.
        subtask: which parallel reader this is, from 0.
        parallelism: how many readers there are.
    """

    uid: str
    subtask: int
    parallelism: int


@dataclass(frozen=True, slots=True)
class InputLeft:
    """How much of an input is still to be read: of a split, or of all that no reader has been given yet.

    Attributes:
        records: how many records; None: not known.
        bytes: how many bytes; None: not known.
        behind_ms: how much older the reader's position is than the input's end, in ms; None: not known.

    Numbers below 0, as of a reader that is past the end that was learned last, become 0.
    """

    records: int | None = None
    bytes: int | None = None
    behind_ms: int | None = None

    def __post_init__(self) -> None:
        for name in ("records", "bytes", "behind_ms"):
            if (value := getattr(self, name)) is not None:
                # Heartbeats hold ints of 64 bits and nothing else: no integers of NumPy, for example.
                object.__setattr__(self, name, int(max(0, min(operator.index(value), 2**63 - 1))))


class SourceReader(ABC, Generic[T, P]):
    """Reads the records of splits in one subtask of a source.

    Every method is called from the worker's one loop thread, in this order: construction, :meth:`add_splits`
    (restored splits first), then :meth:`poll`, :meth:`add_splits`, :meth:`no_more_splits`, :meth:`snapshot`
    and :meth:`checkpoint_complete` in any order, finally :meth:`close` once. None of them may block for long.

    Attributes:
        bad_records: records that did not decode since the last poll; the framework takes them away. Empty
            unless bad records go to the side output.
        skipped: how many bad records were skipped so far, where they are skipped.
        one_split_a_poll: whether each poll returns records of one split only, also where a split ends and the
            next one begins.
    """

    bad_records: list[BadRecord]
    skipped: int = 0
    one_split_a_poll: bool = False

    @abstractmethod
    def add_splits(self, splits: Sequence[Split[P]]) -> None:
        """Add splits to those of this reader, which reads each from its position on (None: the start)."""

    @abstractmethod
    def no_more_splits(self) -> None:
        """Note that no further split will come; END_OF_INPUT may follow when the present ones are read."""

    @abstractmethod
    def poll(self, max_records: int) -> list[T] | pa.RecordBatch | PollStatus:
        """Return the next records, at least one and at most about `max_records`, in input order.

        A record batch of Arrow stays columnar in the dataflow. Fewer records than asked for are fine; an
        empty list is not: return NOTHING_AVAILABLE, or END_OF_INPUT once no more can come.

        Raises:
            BadRecordError: a record does not decode, and the source is to fail then (`on_error="fail"`).
        """

    @abstractmethod
    def snapshot(self) -> list[Split[P]]:
        """Return the splits not yet finished, with positions right after the last polled record.

        The classic mistake is a position one record early or late: a restored reader must return exactly the
        records that this reader has not returned yet. Called often, not only for checkpoints.
        """

    def left_to_read(self) -> Mapping[str, InputLeft]:
        """Return how much of each unfinished split is still to be read, by id of the split, for metrics.

        Called about once a second. A source that is asked for its end over a network returns what it has
        learned last. By default nothing is known; splits of which nothing is known may be left out. Each id
        is a time series: if ever new splits come, say what is left of all of them under one name.

        Example:
            >>> from headgate.connectors.generator import generator_source
            >>> reader = generator_source(str, count=4).create_reader(SourceReaderContext("g", 0, 1))
            >>> reader.add_splits([Split("0-4")]); reader.poll(3), reader.left_to_read()
            (['0', '1', '2'], {'0-4': InputLeft(records=1, bytes=None, behind_ms=None)})
        """
        return {}

    def checkpoint_complete(self, checkpoint_id: int) -> None:
        """Note that a checkpoint is complete: the input before its positions may be dropped at its origin."""

    def close(self) -> None:
        """Release files and connections; also called after a failure."""


@dataclass(frozen=True, slots=True)
class SourceReport:
    """Progress of a source that gets its input from Spark in epochs (groups of rows), as users see it.

    Attributes:
        epoch: number of the newest epoch whose records were handed out; None before the first.
        rows: number of rows in that epoch.
        rate_per_s: rows of that epoch per second, from Spark's planning until its files are staged.
        latency_ms: from Spark's planning of an epoch to its completed checkpoint, for the newest such epoch.
        waiting: what the source waits for now, in words; empty for nothing.
    """

    epoch: int | None = None
    rows: int = 0
    rate_per_s: float = 0.0
    latency_ms: float = 0.0
    waiting: str = ""


class SplitEnumerator(ABC, Generic[P, S]):
    """Finds splits and hands them out; lives in the driver, one per source.

    All methods are called from one thread, and none may block for long. After a failure the enumerator is
    created anew from the restored checkpoint's state.
    """

    @abstractmethod
    def next_splits(self, subtask: int) -> list[Split[P]] | None:
        """Return splits for the reader of `subtask`, which has none left; None: it never gets one again.

        An empty list means that there is none now: the reader asks again after a pause.
        """

    @abstractmethod
    def snapshot(self) -> S:
        """Return the enumerator's state for a checkpoint, without the splits that were already handed out."""

    def snapshot_for(self, checkpoint_id: int) -> S:
        """Return the state for checkpoint or savepoint `checkpoint_id`; by default :meth:`snapshot`."""
        return self.snapshot()

    def ready_to_snapshot(self) -> bool:
        """Return whether a checkpoint may be taken now; asked right before :meth:`snapshot_for`.

        A source whose snapshots must fall between two groups of records returns False until all readers have
        finished the present group. It is asked again until the checkpoint times out.
        """
        return True

    def wants_checkpoint(self) -> bool:
        """Return whether the source waits for a checkpoint; True: one is taken as soon as the limits allow.

        Asked often. Without periodic checkpoints nothing follows.
        """
        return False

    def left_to_assign(self) -> InputLeft | None:
        """Return how much input is in all the splits that are not handed out yet; None: it is not known.

        Called often, also right before and after :meth:`next_splits`: by the difference is known how much
        input a reader has been given, which is how the progress of a bounded job is computed.
        """
        return None

    def report(self) -> SourceReport | None:
        """Return the source's progress, for the job's status; None: it reports none."""
        return None

    def checkpoint_complete(self, checkpoint_id: int) -> None:
        """Note that the checkpoint is durable: input that it covers may be trimmed or committed upstream."""

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Note that the checkpoint failed, or was a savepoint, which the user keeps: trim no input for it.

        A later checkpoint covers what this one would have covered.
        """

    def close(self) -> None:
        """Release connections and other resources of the enumerator."""


class Source(ABC, Generic[T, P, S]):
    """Description of an input, which makes its enumerator and readers; picklable, without open resources.

    Example of a complete source: see ``headgate.connectors.generator``. The types are those of the records,
    of positions in splits, and of the enumerator's state; `Source[int]` leaves the last two open.

    Attributes:
        boundedness: whether the source ends by itself.
        produces_columns: whether readers give record batches, for `explain()`; may be set per object.
        rereadable: whether readers of another process can go back to positions of a checkpoint.
    """

    boundedness: Boundedness = Boundedness.BOUNDED
    produces_columns: bool = False
    rereadable: bool = True

    @abstractmethod
    def create_enumerator(self, restored: S | None) -> SplitEnumerator[P, S]:
        """Return an enumerator; `restored` is its :meth:`SplitEnumerator.snapshot` to go on from, or None."""

    @abstractmethod
    def create_reader(self, context: SourceReaderContext) -> SourceReader[T, P]:
        """Return a reader for one subtask, without splits: they come by :meth:`SourceReader.add_splits`."""

    def check_restore(self, rest: S | None, splits: Sequence[Split[P]]) -> None:
        """Check that readers can resume at a snapshot's positions, before a job begins from it.

        Called in the driver, and by ``headgate check-upgrade``, where no job runs: so it changes nothing. By
        default nothing is checked, and what does not fit fails when it is read.

        Args:
            rest: the state that :meth:`SplitEnumerator.snapshot` returned; None if the snapshot has none.
            splits: the splits that readers had not finished, with the positions reached.

        Raises:
            UsageError: readers cannot resume; one sentence says why, and what to do.
        """

    def arrow_schema(self) -> pa.Schema | None:
        """Return the schema of the record batches that readers give; None: they give none, or it is unknown.

        Called when the program makes a table of the stream. May read a file; raises UsageError if it cannot.
        """
        return None

    def datasets(self) -> Sequence[str]:
        """Return the URIs of what is read, for catalogues of lineage, such as "kafka://broker:9092/orders".

        By default none. Called in the driver, in a thread of its own; nothing may be opened for long.
        """
        return ()

    def with_columns(self, names: Sequence[str]) -> Source[T, P, S]:
        """Return a source that gives record batches with at least these columns; by default itself.

        Called for a table that uses fewer columns than the source has; positions must stay the same.
        """
        return self

    def with_filters(self, tests: Sequence[ColumnTest]) -> Source[T, P, S]:
        """Return a source that may leave out records that fail one of the tests; by default itself.

        Called before the job starts, if a table's first filters drop such records in any case: so a source
        may also keep them, all or some. Splits and positions must stay the same with any tests, since a job
        may go on from a checkpoint with other filters. A record that is left out cannot fail the job, not
        even one that could not be decoded.

        Args:
            tests: conditions on columns; the table wants only records that pass all of them.

        Example:
            >>> import pyarrow as pa
            >>> import headgate as hg
            >>> class Hours(hg.Source[dict]):  # a split for each hour of a day
            ...     hours = range(24)
            ...     def with_filters(self, tests):
            ...         found, mine = Hours(), [test for test in tests if test.column == "hour"]
            ...         found.hours = [n for n in self.hours if all(test.passes(n) for test in mine)]
            ...         return found
            ...     def create_enumerator(self, restored): ...
            ...     def create_reader(self, context): ...
            >>> Hours().with_filters([hg.ColumnTest("hour", pa.int32(), ">=", (22,))]).hours
            [22, 23]
        """
        return self

    def validate(self) -> None:
        """Check the description before anything starts (files exist, globs match, ...).

        Raises:
            UsageError: one sentence says what is wrong and what to do.
        """

    def describe(self) -> str:
        """Return a short name of the input for `explain()` and logs."""
        return type(self).__name__
