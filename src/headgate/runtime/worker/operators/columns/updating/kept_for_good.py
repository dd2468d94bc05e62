"""What state without windows has in common: no window ends, and rows are of the last mark or came since."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import pyarrow as pa

from headgate.common.errors import InternalError
from headgate.runtime.worker.operators.columns.kept_windows import (
    Ended,
    Restoring,
    RestoringBy,
    WindowsView,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.records.batch import Int64s

SETTLED: Final = 0
"""Where stored rows say so, by `PANE`: they belong to the answer of the last mark."""
SINCE: Final = 1
"""They came since."""
GONE: Final = 2
"""In a log: the key has no row any more."""

_ROW: Final = "__row"

Keep: TypeAlias = Callable[[pa.Table], "NDArray[np.bool_]"]
"""Says of each row of a table whether it is wanted."""


class KeptForGood(ABC):
    """Base of the state of operators without windows, in the place of windows that never end."""

    def __init__(self) -> None:
        self.ahead: list[tuple[int, int]] = []
        self._logs = False

    @property
    @abstractmethod
    def count(self) -> int:
        """How many rows of the last mark's answer there are, about."""

    @abstractmethod
    def gather(self, rows: pa.Table) -> None:
        """Keep rows until the next mark."""

    @abstractmethod
    def restore(self, table: pa.Table) -> None:
        """Add stored rows, with the column `PANE`."""

    @abstractmethod
    def settled(self) -> Callable[[], Iterator[pa.Table]]:
        """Return what makes the tables of the last mark's answer, as it is now, to be stored; later changes
        do not reach them.
        """

    @abstractmethod
    def since(self) -> list[pa.Table]:
        """Return the tables of what came since the last mark, to be stored."""

    @abstractmethod
    def take_log(self) -> list[pa.Table]:
        """Return, in the form of :meth:`settled` and oldest first, what has changed of the answer since the
        last call, or since :meth:`begin_log`.
        """

    def begin_log(self) -> None:
        """Remember from now on what changes, for :meth:`take_log`."""
        self._logs = True

    def compacted(self, log: pa.Table) -> pa.Table:
        """Return what consecutive tables of a log, put together, say; perhaps in fewer rows."""
        return log

    def view(self) -> Callable[[], Iterator[pa.Table]]:
        """Return what makes the tables to store, as all is now; later changes do not reach it."""
        settled, since = self.settled(), self.since()

        def tables() -> Iterator[pa.Table]:
            yield from settled()
            yield from since

        return tables

    def of_group(self, group: int, mark: int) -> Restoring:
        return RestoringBy(self.restore)

    def at_snapshot(self) -> list[WindowsView]:
        return [LazyView(self.view())]

    def add(self, rows: pa.Table, marks: Int64s) -> int:
        raise InternalError("rows without windows are gathered; please report this")

    def reached(self, mark: int) -> Iterable[Ended]:
        return ()


class LazyView:
    """A snapshot's view whose tables are made when it is written; `keep` says which rows it has."""

    def __init__(self, make: Callable[[], Iterator[pa.Table]], keep: Keep | None = None) -> None:
        self._make, self._keep = make, keep

    def tables(self) -> Iterator[pa.Table]:
        for table in self._make():
            yield table if self._keep is None else table.filter(pa.array(self._keep(table)))

    def where(self, keep: Keep) -> WindowsView:
        return LazyView(self._make, keep)

    def release(self) -> None:
        self._make = lambda: iter(())


def newest(log: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Return the last row of each key."""
    numbered = log.append_column(_ROW, pa.array(np.arange(log.num_rows)))
    last = numbered.group_by(list(keys), use_threads=False).aggregate([(_ROW, "max")]).column(f"{_ROW}_max")
    return log.take(last.combine_chunks())
