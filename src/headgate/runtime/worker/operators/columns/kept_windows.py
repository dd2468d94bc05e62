"""The interface of the windows that an operator keeps as state, made of panes, sessions or single rows."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.records.batch import Int64s
    from headgate.state.backend import PendingSnapshot
    from headgate.state.stored.native_restore import NamedStates

PANE = "__pane"
"""Name of the column that says, in ms since 1970, where the slice of event time of a row begins."""
ROWS = "__rows"
"""Name of the column that says of how many input rows a row of accumulators was made, to count late ones."""


class Ended(NamedTuple):
    """Windows that have ended: a row of keys and accumulators for each, ascending by end; times in ms.
    `since`: the watermark that all rows are sent with, as windows that ended earlier may follow; None: each
    row is sent as of its window's own end.
    """

    table: pa.Table
    starts: Int64s
    ends: Int64s
    since: int | None = None


class WindowsView(Protocol):
    """A snapshot's view of the windows, which later changes do not reach, for the thread that writes it."""

    def tables(self) -> Iterator[pa.Table]:
        """Yield tables of keys and accumulators, or of keys and kept rows, with the column `PANE`."""

    def where(self, keep: Callable[[pa.Table], NDArray[np.bool_]]) -> WindowsView:
        """Return a view of the rows for which `keep`, given a table, returns True in its mask."""

    def release(self) -> None:
        """Drop the references to the tables, which frees their memory; more than once does no harm."""


class Restoring(Protocol):
    """Receives the restored accumulators of a key group, and adds them to the windows that are kept."""

    def add(self, table: pa.Table) -> None:
        """Add accumulators with the column `PANE`, in any number of rows per key; none is late."""


class RestoringBy:
    """A `Restoring` that calls the function `put` with each table of restored accumulators."""

    def __init__(self, put: Callable[[pa.Table], None]) -> None:
        self.add = put


class KeptWindows(Protocol):
    """The windows that a subtask keeps in event time: accumulators, or rows, by key and window."""

    @property
    def ahead(self) -> list[tuple[int, int]]:
        """The key groups that are further in event time than the subtask, each with its watermark (ms)."""

    def of_group(self, group: int, mark: int) -> Restoring:
        """Return a receiver for restored accumulators of a key group that had reached watermark `mark`.
        If that is above the subtask's watermark, :attr:`ahead` lists the group from now on.
        """

    def add(self, rows: pa.Table, marks: Int64s) -> int:
        """Add accumulators, each row with its watermark in `marks`; return how many input rows were too late.
        `rows` have the column `PANE`; accumulators have `ROWS`, too: how many input rows each stands for.
        """

    def reached(self, mark: int) -> Iterable[Ended]:
        """Return the windows that the watermark `mark` ends; they are forgotten once all are iterated."""

    def at_snapshot(self) -> list[WindowsView]:
        """Return views of all windows as they are now, for a snapshot; a key may be in several views."""


class OnDisk(Protocol):
    """What a subtask keeps, of which a part, or a log, lies in chunks in RocksDB."""

    @property
    def kept(self) -> KeptWindows:
        """What is kept."""

    def measured(self) -> dict[str, int]:
        """Return the metrics of the database by name of the series; none before it is made."""

    def restore(self, states: Sequence[NamedStates]) -> None:
        """Take over the RocksDB files that earlier subtasks stored; call it before any row is added."""

    def snapshot(self, checkpoint: int, completed: int | None) -> PendingSnapshot:
        """Take a snapshot. `completed`: newest complete checkpoint, to whose files it may refer; 0: to none;
        None: a savepoint. A StorageError is raised when it is stored, so that only the checkpoint fails.
        """

    def views_of(self, key: Hashable) -> list[WindowsView]:
        """Return views of what there is of `key`, and perhaps of others; [] if it has nothing."""

    def close(self) -> None:
        """Close and remove the local database."""
