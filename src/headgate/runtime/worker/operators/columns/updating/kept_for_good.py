"""What state without windows has in common: no window ends, and rows are of the last mark or came since."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa

from headgate.common.errors import InternalError
from headgate.runtime.worker.operators.columns.kept_windows import (
    Ended,
    Restoring,
    RestoringBy,
    WindowsView,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from headgate.records.batch import Int64s

SETTLED: Final = 0
"""Where stored rows say so, by `PANE`: they belong to the answer of the last mark."""
SINCE: Final = 1
"""They came since."""

Keep: TypeAlias = Callable[[pa.Table], "NDArray[np.bool_]"]
"""Says of each row of a table whether it is wanted."""


class KeptForGood(ABC):
    """Base of the state of operators without windows, in the place of windows that never end."""

    def __init__(self) -> None:
        self.ahead: list[tuple[int, int]] = []

    @abstractmethod
    def gather(self, rows: pa.Table) -> None:
        """Keep rows until the next mark."""

    @abstractmethod
    def restore(self, table: pa.Table) -> None:
        """Add stored rows, with the column `PANE`."""

    @abstractmethod
    def view(self) -> Callable[[], Iterator[pa.Table]]:
        """Return what makes the tables to store, as all is now; later changes do not reach it."""

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
