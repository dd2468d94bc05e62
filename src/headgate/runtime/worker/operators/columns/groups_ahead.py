"""Key groups that have got further in event time than their subtask.

After an unaligned checkpoint and a change of the parallelism a subtask takes over groups of several former
subtasks, which stood at different watermarks, and begins at the lowest. What was late for a group stays late.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headgate.common.time import WATERMARK_MIN
from headgate.runtime.worker.operators.columns.kept_windows import Restoring, RestoringBy
from headgate.runtime.worker.operators.columns.panes import groups_of_rows

if TYPE_CHECKING:
    from headgate.records.batch import Int64s


class GroupsAhead:
    """The key groups whose restored watermark is above their subtask's; `keys`: the columns of the key.
    True as a condition while there are any.
    """

    def __init__(self, keys: Sequence[str], max_parallelism: int) -> None:
        self._keys, self._max_parallelism = keys, max_parallelism
        self._groups: dict[int, int] = {}

    def __bool__(self) -> bool:
        return bool(self._groups)

    def add(self, group: int, mark: int) -> None:
        """Note that a key group was restored at watermark `mark` (ms), which is above the subtask's."""
        self._groups[group] = mark

    def listed(self) -> list[tuple[int, int]]:
        return sorted(self._groups.items())

    def reached(self, mark: int) -> None:
        """Note that the subtask's watermark is `mark`: groups restored at it or below are ahead no longer."""
        self._groups = {group: at for group, at in self._groups.items() if at > mark}

    def marks_of(self, rows: pa.Table, marks: Int64s) -> Int64s:
        """Return `marks`, each row's watermark, raised to that of the row's key group where it is ahead."""
        if not self._groups:
            return marks
        of_groups: Int64s = np.full(self._max_parallelism, WATERMARK_MIN, dtype=np.int64)
        of_groups[list(self._groups)] = list(self._groups.values())
        groups = groups_of_rows(rows, self._keys, self._max_parallelism)
        return np.asarray(np.maximum(marks, of_groups[groups]), dtype=np.int64)


class RestoredByGroup(ABC):
    """Base of windows kept by key group, of which some may be ahead of `mark`, the subtask's watermark."""

    def __init__(self, keys: Sequence[str], mark: int, max_parallelism: int) -> None:
        self._mark = mark
        self._ahead = GroupsAhead(keys, max_parallelism)

    @property
    def ahead(self) -> list[tuple[int, int]]:
        return self._ahead.listed()

    def of_group(self, group: int, mark: int) -> Restoring:
        if mark > self._mark:
            self._ahead.add(group, mark)
        return RestoringBy(lambda table: self.put(self._still_open(table, mark)))

    def _still_open(self, table: pa.Table, _mark: int) -> pa.Table:
        # Here all; sessions leave out those that have ended at the group's watermark.
        return table

    @abstractmethod
    def put(self, table: pa.Table) -> None:
        """Add rows with the column `PANE`, none of which is late."""
