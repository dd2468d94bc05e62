"""What the operator of windows asks of the windows that it keeps, whatever kind they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.records.batch import Int64s

PANE = "__pane"
"""Name of the column that says, in ms since 1970, where the slice of event time of a row begins."""
ROWS = "__rows"
"""Name of the column that says how many rows are in a row of accumulators; late ones are counted by it."""


class Ended(NamedTuple):
    """Windows that have ended: a row of keys and accumulators for each, ascending by end; times in ms.

    `since`: the watermark that they are sent with, as others that have ended may follow, whatever their ends;
    None: each is sent as of its own end.
    """

    table: pa.Table
    starts: Int64s
    ends: Int64s
    since: int | None = None


class WindowsView(Protocol):
    """Windows as they were at a snapshot, for the thread that writes them."""

    def tables(self) -> Iterator[pa.Table]:
        """Yield accumulators with the column `PANE`."""

    def where(self, keep: Callable[[pa.Table], NDArray[np.bool_]]) -> WindowsView:
        """Return the rows for which `keep` says so."""

    def release(self) -> None:
        """Let the tables go; more than once does no harm."""


class Restoring(Protocol):
    """Takes restored accumulators."""

    def add(self, table: pa.Table) -> None:
        """Add accumulators with the column `PANE`, in any number of rows per key."""


class RestoringBy:
    """Gives restored accumulators to a function."""

    def __init__(self, put: Callable[[pa.Table], None]) -> None:
        self.add = put


class KeptWindows(Protocol):
    """Accumulators by key and window."""

    @property
    def ahead(self) -> list[tuple[int, int]]:
        """The key groups that are further in event time than the subtask, each with its watermark."""

    def of_group(self, group: int, mark: int) -> Restoring:
        """Return where the restored accumulators of a key group go, which stood at `mark`."""

    def add(self, rows: pa.Table, marks: Int64s) -> int:
        """Add accumulators, of which each came at its watermark of `marks`; return how many rows were late.

        `rows` have the columns `PANE` and `ROWS`.
        """

    def reached(self, mark: int) -> Iterable[Ended]:
        """Return the windows that end until the watermark `mark`; when all are taken they are forgotten."""

    def at_snapshot(self) -> list[WindowsView]:
        """Return all windows as they are now; a key may be in several of the views."""
